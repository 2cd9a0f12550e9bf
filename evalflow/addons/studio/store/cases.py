"""The cases of a dataset, paged by their position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Text, bindparam, cast, delete, func, insert, or_, select, update

from evalflow.addons.studio.store.rows import Hidden, Query, Row, change, chunks, every_as, now, one_as, storable
from evalflow.addons.studio.store.tables import answers, case_checks, case_tags, cases, datasets, runs
from evalflow.datasets import tag_name
from evalflow.metrics.case_checks import named_checks

_AT_ONCE = 500
_LATEST = 5


@dataclass(frozen=True, slots=True)
class StoredCase:
    """A case in the database.

    Attributes:
        id: The row id; `key` is the case's own id, which is in `body` too.
        question: The last user message, for lists.
        body: The case by field names, like a row of JSON lines: id, messages, answer, reference, ...
        is_draft: Whether runs leave it out.
    """

    id: int
    dataset_id: Hidden[int]
    position: Hidden[int]
    key: Hidden[str]
    question: str
    body: dict[str, Any]
    version: int
    is_draft: bool
    updated_at: Hidden[str]


def append(connection: Connection, dataset: int, rows: Iterable[Row]) -> int:
    """Append cases to a dataset; returns their number.

    `rows`: key, question and body of each, with all levels of its tags under `tags`; drafts have `is_draft`.
    """
    last = connection.scalar(select(func.max(cases.c.position)).where(cases.c.dataset_id == dataset))
    position, moment = (-1 if last is None else last), now()
    for chunk in chunks(rows, _AT_ONCE):
        same = {"dataset_id": dataset, "is_draft": False, "version": 1, "updated_at": moment}
        own = ({key: value for key, value in row.items() if key != "tags"} for row in chunk)
        positions = range(position + 1, position + 1 + len(chunk))
        values = [
            {**same, **row, "position": place, "has_example": has_example(row["body"])}
            for place, row in zip(positions, own, strict=True)
        ]
        connection.execute(insert(cases), values)
        position += len(chunk)
        _relate_by_key(connection, dataset, chunk)
    return position + 1 if last is None else position - last


@dataclass(frozen=True, slots=True)
class CaseQuery:
    """A filter of a dataset's cases. `text`: part of the question or the id, ignoring the case of ASCII letters.

    `draft`: only drafts, or only active cases.
    """

    connection: Connection
    dataset: int
    tag: str | None = None
    text: str | None = None
    draft: bool | None = None

    def page(self, after: int | None, limit: int) -> list[StoredCase]:
        """The first cases after a position; None starts at the beginning."""
        query = self._select(cases).order_by(cases.c.position).limit(limit)
        return every_as(StoredCase, self.connection, query if after is None else query.where(cases.c.position > after))

    def page_at(self, first: int, limit: int) -> list[StoredCase]:
        """A page of cases, skipping the first `first`."""
        return every_as(
            StoredCase, self.connection, self._select(cases).order_by(cases.c.position).offset(first).limit(limit)
        )

    def around(self, position: int) -> tuple[int, int | None, int | None]:
        """The number of cases before a position, and the row ids of the previous and the next case."""
        before, after = cases.c.position < position, cases.c.position > position
        count = self.connection.scalar(self._select(func.count()).where(before))
        ids = self._select(cases.c.id).limit(1)
        previous = self.connection.scalar(ids.where(before).order_by(cases.c.position.desc()))
        return count or 0, previous, self.connection.scalar(ids.where(after).order_by(cases.c.position))

    def count(self) -> int:
        """The number of matching cases."""
        return self.connection.scalar(self._select(func.count())) or 0

    def ids(self) -> list[int]:
        """The row ids of the cases."""
        return list(self.connection.scalars(self._select(cases.c.id).order_by(cases.c.position)))

    def _select(self, *columns: Any) -> Query:
        query = select(*columns).select_from(cases).where(cases.c.dataset_id == self.dataset)
        if self.tag:
            tagged = select(case_tags.c.case_id).where(case_tags.c.tag == tag_name(self.tag))
            query = query.where(cases.c.id.in_(tagged))
        if self.draft is not None:
            query = query.where(cases.c.is_draft.is_(self.draft))
        if self.text:
            text = self.text.lower()
            has = (func.lower(column).contains(text, autoescape=True) for column in (cases.c.question, cases.c.key))
            query = query.where(or_(*has))
        return query


def bodies(connection: Connection, dataset: int, *, draft: bool) -> Iterator[dict[str, Any]]:
    """All drafts, or all active cases, of a dataset as rows of JSON lines, streamed."""
    return _streamed(connection, cases.c.body, dataset, draft=draft)


def texts(connection: Connection, dataset: int) -> Iterator[str]:
    """All active cases of a dataset as the JSON texts that are stored, streamed."""
    return _streamed(connection, cast(cases.c.body, Text), dataset, draft=False)


def _streamed(connection: Connection, column: Any, dataset: int, *, draft: bool) -> Iterator[Any]:
    chosen = cases.c.dataset_id == dataset, cases.c.is_draft.is_(draft)
    query = select(column).where(*chosen).order_by(cases.c.position)
    with connection.execution_options(yield_per=_AT_ONCE).execute(query) as result:  # closed even if read in part
        yield from result.scalars()


def state(connection: Connection, dataset: int) -> tuple[object, ...]:
    """A fingerprint of a dataset's cases that changes when they change; it reads no bodies."""
    of = cases.c
    versions = func.count(), func.max(of.id), func.sum(of.version), func.max(of.updated_at)
    return dataset, *connection.execute(select(*versions).where(of.dataset_id == dataset)).one()


def get(connection: Connection, dataset: int, case: int) -> StoredCase | None:
    """One case by its row's id."""
    return one_as(StoredCase, connection, select(cases).where(cases.c.dataset_id == dataset, cases.c.id == case))


def by_key(connection: Connection, dataset: int, key: str) -> StoredCase:
    """The case of that id, which must exist."""
    (stored,) = every_as(StoredCase, connection, select(cases).where(cases.c.dataset_id == dataset, cases.c.key == key))
    return stored


def is_stored(connection: Connection, project: int, dataset: str, key: str) -> bool:
    """Whether a project has a dataset of that name with a case of that id."""
    query = select(cases.c.id).join(datasets, datasets.c.id == cases.c.dataset_id)
    here = datasets.c.project_id == project, datasets.c.name == dataset, cases.c.key == key
    return connection.execute(query.where(*here)).first() is not None


def by_ids(connection: Connection, dataset: int, rows: Sequence[int]) -> Iterator[StoredCase]:
    """The existing cases with these row ids. Within `Database.writing`, nobody else changes them."""
    for chunk in chunks(rows, _AT_ONCE):
        query = select(cases).where(cases.c.dataset_id == dataset, cases.c.id.in_(chunk))
        yield from every_as(StoredCase, connection, query.order_by(cases.c.position))


def known_keys(connection: Connection, dataset: int, keys: Sequence[str]) -> set[str]:
    """The case ids among `keys` that the dataset contains."""
    known: set[str] = set()
    for chunk in chunks(keys, _AT_ONCE):
        query = select(cases.c.key).where(cases.c.dataset_id == dataset, cases.c.key.in_(chunk))
        known.update(connection.scalars(query))
    return known


def keys_of(connection: Connection, dataset: int, rows: Sequence[int]) -> list[str]:
    """The case ids of the existing cases with these row ids, in order."""
    pairs: list[tuple[int, str]] = []
    for chunk in chunks(rows, _AT_ONCE):
        query = select(cases.c.position, cases.c.key).where(cases.c.dataset_id == dataset, cases.c.id.in_(chunk))
        pairs += ((position, key) for position, key in connection.execute(query))
    return [key for _, key in sorted(pairs)]


def replace(connection: Connection, case: int, expected: int, row: Row) -> bool:
    """Change a case if it still has the expected version; returns whether it had. `is_draft` may be left out."""
    values = {key: row[key] for key in ("key", "question", "body", "is_draft") if key in row}
    values |= {"has_example": has_example(row["body"]), "updated_at": now()}
    if not change(connection, cases, cases.c.id == case, expected, values):
        return False
    _replace_relations(connection, {case: row})
    return True


def rewrite(connection: Connection, changed: Mapping[int, Row]) -> None:
    """Replace the bodies and tags of cases read in the same transaction; ids and questions must be unchanged.

    `changed`: rows as for `append`, by row id.
    """
    statement = (
        update(cases)
        .where(cases.c.id == bindparam("row"))
        .values(
            body=bindparam("content"), has_example=bindparam("shown"), version=cases.c.version + 1, updated_at=now()
        )
    )
    for chunk in chunks(changed.items(), _AT_ONCE):
        new = [{"row": row, "content": one["body"], "shown": has_example(one["body"])} for row, one in chunk]
        connection.execute(statement, new)
        _replace_relations(connection, dict(chunk))


def set_draft(connection: Connection, dataset: int, rows: Sequence[int], *, draft: bool) -> int:
    """Make cases drafts or active; returns how many changed."""
    done = 0
    for chunk in chunks(rows, _AT_ONCE):
        chosen = cases.c.dataset_id == dataset, cases.c.id.in_(chunk), cases.c.is_draft.is_(not draft)
        values = {"is_draft": draft, "version": cases.c.version + 1, "updated_at": now()}
        done += connection.execute(update(cases).where(*chosen).values(values)).rowcount
    return done


def remove(connection: Connection, dataset: int, rows: Sequence[int]) -> int:
    """Delete cases; returns how many existed."""
    statements = (
        delete(cases).where(cases.c.dataset_id == dataset, cases.c.id.in_(chunk)) for chunk in chunks(rows, _AT_ONCE)
    )
    return sum(connection.execute(statement).rowcount for statement in statements)


def tag_counts(connection: Connection, dataset: int) -> list[tuple[str, int]]:
    """Every tag with the number of cases that have it or a sub-tag."""
    query = (
        select(case_tags.c.tag, func.count())
        .join(cases, cases.c.id == case_tags.c.case_id)
        .where(cases.c.dataset_id == dataset)
        .group_by(case_tags.c.tag)
        .order_by(case_tags.c.tag)
    )
    return [(tag, number) for tag, number in connection.execute(query)]


def project_tag_counts(connection: Connection, project: int) -> list[tuple[str, str, int]]:
    """Every tag of a project's cases, by dataset, with the number of cases that have it or a sub-tag."""
    query = (
        select(case_tags.c.tag, datasets.c.name, func.count())
        .join(cases, cases.c.id == case_tags.c.case_id)
        .join(datasets, datasets.c.id == cases.c.dataset_id)
        .where(datasets.c.project_id == project)
        .group_by(case_tags.c.tag, datasets.c.name)
        .order_by(case_tags.c.tag, datasets.c.name)
    )
    return [(tag, dataset, number) for tag, dataset, number in connection.execute(query)]


def tagged(connection: Connection, project: int, tag: str) -> Iterator[list[StoredCase]]:
    """Stream a project's cases with a tag or a sub-tag. Cases may be changed meanwhile."""
    query = (
        select(cases.c.id)
        .join(case_tags, case_tags.c.case_id == cases.c.id)
        .join(datasets, datasets.c.id == cases.c.dataset_id)
        .where(datasets.c.project_id == project, case_tags.c.tag == tag)
        .order_by(cases.c.id)
    )
    for chunk in chunks(list(connection.scalars(query)), _AT_ONCE):
        yield every_as(StoredCase, connection, select(cases).where(cases.c.id.in_(chunk)))


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """A run's answer to a case, without metadata."""

    run_id: str
    title: str
    bot: str
    created_at: str
    answer: str


def answers_to(connection: Connection, project: int, dataset: str, key: str) -> list[RunAnswer]:
    """The first answer to a case in each of the 20 latest runs, with its run."""
    chosen = answers.c.dataset == dataset, answers.c.case_id == key, answers.c.answer.is_not(None)
    return every_as(RunAnswer, connection, _with_run(project).where(*chosen).limit(20))


def latest_answer(connection: Connection, project: int, dataset: str, row: int) -> RunAnswer | None:
    """The latest answer to any case of a dataset, with its row id, that has no answer example.

    Only the last `_LATEST` finished runs of the dataset are searched.
    """
    of_dataset = runs.c.facts[("datasets", dataset)].as_integer()
    latest = select(runs.c.id).where(runs.c.project_id == project, runs.c.state == "done", of_dataset.is_not(None))
    lacking = cases.c.dataset_id == row, cases.c.has_example.is_(False), cases.c.key == answers.c.case_id
    wanted = (
        answers.c.dataset == dataset,
        answers.c.answer.is_not(None),
        select(cases.c.id).where(*lacking).exists(),
    )
    for run in connection.scalars(latest.order_by(runs.c.id.desc()).limit(_LATEST)).all():
        run_answer = one_as(RunAnswer, connection, _with_run(project).where(runs.c.id == run, *wanted))
        if run_answer is not None:
            return run_answer
    return None


def _with_run(project: int) -> Query:
    columns = runs.c.run_id, runs.c.title, runs.c.bot, runs.c.created_at, answers.c.answer
    query = select(*columns).join(answers, answers.c.run == runs.c.id)
    query = query.where(runs.c.project_id == project, runs.c.state == "done", answers.c.target_repeat == 0)
    return query.order_by(runs.c.id.desc())


def lacking(connection: Connection, dataset: int) -> int:
    """The number of cases of a dataset without an answer example."""
    query = select(func.count()).where(cases.c.dataset_id == dataset, cases.c.has_example.is_(False))
    return connection.scalar(query) or 0


def keys_without_example(connection: Connection, dataset: int) -> list[str]:
    """The ids of the cases of a dataset without an answer example."""
    chosen = cases.c.dataset_id == dataset, cases.c.has_example.is_(False)
    return list(connection.scalars(select(cases.c.key).where(*chosen)))


def without_example(connection: Connection, dataset: int, keys: Sequence[str]) -> Iterator[StoredCase]:
    """Those of a dataset's cases with these ids that have no answer example."""
    for chunk in chunks(keys, _AT_ONCE):
        chosen = cases.c.dataset_id == dataset, cases.c.has_example.is_(False), cases.c.key.in_(chunk)
        yield from every_as(StoredCase, connection, select(cases).where(*chosen))


def has_example(body: Mapping[str, Any]) -> bool:
    """Whether a case has an answer example; the value of its column."""
    return body.get("demo_answer") is not None


def relate(connection: Connection, rows: Mapping[int, Row]) -> None:
    """Insert the tags and the checks of cases (by row id) into their tables."""
    tags = [{"case_id": case, "tag": tag} for case, row in rows.items() for tag in dict.fromkeys(row["tags"])]
    checks = [
        {"case_id": case, "name": name, "is_enabled": is_enabled}
        for case, row in rows.items()
        for name, is_enabled in _checks_of(row["body"]).items()
    ]
    for table, values in ((case_tags, tags), (case_checks, checks)):
        if values:
            connection.execute(insert(table), values)


def _checks_of(body: Mapping[str, Any]) -> dict[str, bool]:
    checks: dict[str, bool] = {}
    for name, is_enabled in named_checks(body):
        key = storable(name)
        checks[key] = checks.get(key, False) or is_enabled
    return checks


def _relate_by_key(connection: Connection, dataset: int, rows: Sequence[Row]) -> None:
    known = {row["key"]: row for row in rows if row["tags"] or row["body"].get("checks")}
    if known:
        query = select(cases.c.key, cases.c.id).where(cases.c.dataset_id == dataset, cases.c.key.in_(list(known)))
        relate(connection, {case: known[key] for key, case in connection.execute(query)})


def _replace_relations(connection: Connection, rows: Mapping[int, Row]) -> None:
    for table in (case_tags, case_checks):
        connection.execute(delete(table).where(table.c.case_id.in_(rows)))
    relate(connection, rows)
