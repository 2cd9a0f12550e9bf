"""The trash: deleted things and their dependent rows, so that they can be restored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, select, update

from evalflow.addons.studio.store.cases import has_example, relate, rewrite
from evalflow.addons.studio.store.definitions import OWNERS, Kind, table_of
from evalflow.addons.studio.store.rows import Row, add, chunks, every, now, one_as
from evalflow.addons.studio.store.tables import bots, case_tags, cases, judges, metrics, runs, trash

KEPT = timedelta(days=30)
RESTORABLE: Sequence[Kind] = ("bot", "metric", "dataset", "judge", "check")
"""The kinds of definitions that are kept."""
_AT_ONCE = 500


def keep(connection: Connection, project: int, kind: str, name: str, content: Row, by: str) -> int:
    """Add something to the trash before its deletion; returns its id. Drops what has been there longer than `KEPT`."""
    values = {"project_id": project, "kind": kind, "name": name, "content": content, "by": by, "at": now()}
    row = add(connection, trash, values)
    connection.execute(delete(trash).where(trash.c.at < now(-KEPT)))  # afterwards, because SQLite would reuse their ids
    return row


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """A deleted definition, cases of a dataset, or uses of a check; `content` is empty once it is restored."""

    kind: Kind | Literal["cases", "use"]
    name: str
    content: Mapping[str, Any]


def kept(connection: Connection, project: int, row: int) -> TrashEntry | None:
    """A deleted thing of a project."""
    return one_as(TrashEntry, connection, select(trash).where(trash.c.id == row, trash.c.project_id == project))


def empty(connection: Connection, row: int) -> None:
    """Remove the content of a restored thing. The row stays, so that its id is not reused."""
    connection.execute(update(trash).where(trash.c.id == row).values(content={}))


def clear(connection: Connection, project: int) -> None:
    """Remove a project's trash and judges before the project is deleted."""
    for table in (trash, judges):
        connection.execute(delete(table).where(table.c.project_id == project))


def content_of(connection: Connection, kind: Kind, row: Row) -> Row:
    """A definition with its dependents: the metrics of a bot and the ids of its runs, the cases of a dataset."""
    own, content = row["id"], Row(row=row)
    if kind == "bot":
        content["metrics"] = every(connection, select(metrics).where(metrics.c.bot_id == own))
        content["runs"] = list(connection.scalars(select(runs.c.id).where(runs.c.bot_id == own)))
    elif kind == "dataset":
        content["cases"] = content_of_cases(connection, own)
    elif kind == "metric":
        content["bot"] = connection.scalar(select(bots.c.name).where(bots.c.id == row["bot_id"]))
    return content


def content_of_cases(connection: Connection, dataset: int, ids: Sequence[int] | None = None) -> list[Row]:
    """Cases of a dataset with their tags; all of them without `ids`."""
    query = select(cases).where(cases.c.dataset_id == dataset)
    parts = [query] if ids is None else [query.where(cases.c.id.in_(chunk)) for chunk in chunks(ids, _AT_ONCE)]
    rows = {row["id"]: {**row, "tags": list[str]()} for part in parts for row in every(connection, part)}
    for chunk in chunks(rows, _AT_ONCE):
        for case, tag in connection.execute(select(case_tags).where(case_tags.c.case_id.in_(chunk))):
            rows[case]["tags"].append(tag)
    return list(rows.values())


def bring_back(connection: Connection, kind: Kind, content: Mapping[str, Any], owner: int) -> None:
    """Restore a definition and its dependents unchanged, with new row ids."""
    made = add(connection, table_of(kind), {**_without_id(content["row"]), OWNERS[kind]: owner})
    for metric in content.get("metrics", []):
        connection.execute(insert(metrics).values(**_without_id(metric) | {"bot_id": made}))
    for chunk in chunks(content.get("runs", []), _AT_ONCE):
        connection.execute(update(runs).where(runs.c.id.in_(chunk), runs.c.bot_id.is_(None)).values(bot_id=made))
    bring_back_cases(connection, made, content.get("cases", []))


def bring_back_cases(connection: Connection, dataset: int, rows: Sequence[Row]) -> None:
    """Restore cases of a dataset. They have changed now, since the dataset did not have them before: see `state`."""
    ours = cases.c.dataset_id == dataset
    last = connection.scalar(select(func.max(cases.c.position)).where(ours))
    taken = set(connection.scalars(select(cases.c.position).where(ours)))
    after, moment = -1 if last is None else last, now()
    for row in rows:
        values = {key: value for key, value in row.items() if key not in ("id", "tags")}
        if row["position"] in taken:  # a case was added meanwhile
            values["position"] = after = max(after, *(one["position"] for one in rows)) + 1
        values |= {"dataset_id": dataset, "has_example": has_example(row["body"]), "updated_at": moment}
        relate(connection, {add(connection, cases, values): row})


def bring_back_checks(connection: Connection, dataset: int, removed: Mapping[str, Sequence[tuple[int, Row]]]) -> int:
    """Restore checks of a dataset's cases at their former places; returns the number of cases.

    Cases that are gone or name the check again are skipped. `removed`: places and checks by case id.
    """
    ids = [
        case
        for chunk in chunks(removed, _AT_ONCE)
        for case in connection.scalars(select(cases.c.id).where(cases.c.dataset_id == dataset, cases.c.key.in_(chunk)))
    ]
    changed: dict[int, Row] = {}
    for row in content_of_cases(connection, dataset, ids):
        checks: list[Row] = list(row["body"].get("checks") or ())
        gone = removed[row["key"]]
        if {check["identifier"] for check in checks}.isdisjoint(check["identifier"] for _, check in gone):
            for place, check in gone:
                checks[place:place] = [check]
            changed[row["id"]] = {**row, "body": {**row["body"], "checks": checks}}
    rewrite(connection, changed)
    return len(changed)


def _without_id(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "id"}
