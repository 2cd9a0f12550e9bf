"""The kind `sql`: whether two queries give the same rows, by running both against databases that are made for it.

Queries that differ in their text may mean the same, and queries that agree on one database may differ on the next; so
both are run, on each of the fillings of the tables (test-suite accuracy: Zhong, Yu and Klein, 2020). Their result sets
are compared as multisets or in order, with a tolerance for numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from evalflow.config.schema import Word
from evalflow.errors import Problem, UserError
from evalflow.extras import install_command
from evalflow.limited import LimitExceeded, Work, in_thread
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, expect_declared, read_field, scored
from evalflow.metrics.reasons import one_line
from evalflow.metrics.references import best_outcome, references_at
from evalflow.metrics.result_sets import ResultSet, difference
from evalflow.prompts import Prompts
from evalflow.records import Outcome
from evalflow.values.cells import list_in
from evalflow.values.jsonvalues import as_list, is_list, kind, look_up, objects_at, text_at, texts_at, written

MEMORY = 256 * 1024**2
"""Memory of a database, in bytes."""
LONGEST = 20_000
"""Maximum characters of a query."""
MOST_FILLINGS = 20
_LARGEST_SCRIPT = 8_000_000
_SQLITE = Work("evalflow.limited.sql:run", memory=2 * 1024**3)
_DUCKDB = Work("evalflow.limited.sql:run", imports=("duckdb", "pytz"), memory=2 * 1024**3, files=16, threads=True)
_AT_ONCE = 4
"""Maximum concurrent processes of one metric."""
_TOLD = 400
_FENCE = re.compile(r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_QUIET = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*+(?:\]|\Z)", re.DOTALL
)
_ORDER = re.compile(r"[()]|\border\s+by\b", re.IGNORECASE)


class SqlMetricConfig(UnitMetricConfig):
    """Two queries, and the tables that they are run on.

    `setup` makes the tables, then the script in `setup_field`. Each filling adds rows to its own database; without
    fillings there is one database, as the set-up leaves it.

    Attributes:
        field: The query: a case field, or a dotted path into metadata or vars; it may stand in a Markdown fence.
        against: The right query, or a list of them; matching one is enough.
        dialect: The database: sqlite, or duckdb with the extra `sql`.
        setup: SQL that makes tables, and rows if there are no fillings; or the path of a file, NAME.sql.
        setup_field: A case field with such a script, run after `setup`.
        fillings: SQL that fills the tables, one script or file for each database.
        fillings_field: A case field with more of them: a text, or a list of texts.
        columns: position: the order of columns matters, their names do not; name: the reverse.
        order: by_reference: the order of rows counts if `against` has an ORDER BY; or always, or never.
        tolerance: How far two numbers may differ, absolutely or as a share of the larger; whole numbers must be equal.
        max_rows: Maximum rows of a result.
        timeout_s: Time limit in seconds for each query and script.
    """

    kind: Literal["sql"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word = "answer"
    against: Word = "reference"
    dialect: Literal["sqlite", "duckdb"] = "sqlite"
    setup: Word | None = None
    setup_field: Word | None = None
    fillings: list[Word] | None = Field(default=None, min_length=1, max_length=MOST_FILLINGS)
    fillings_field: Word | None = None
    columns: Literal["position", "name"] = "position"
    order: Literal["by_reference", "always", "never"] = "by_reference"
    tolerance: float = Field(default=1e-6, ge=0, lt=1)
    max_rows: int = Field(default=10_000, ge=1, le=100_000)
    timeout_s: float = Field(default=10.0, gt=0, le=600)

    @model_validator(mode="after")
    def _expect_tables(self) -> Self:
        if self.setup is None and self.setup_field is None:
            raise ValueError("the tables are missing: give `setup`, or `setup_field` for a script in each case")
        return self

    @property
    def files(self) -> Sequence[str]:
        return [one.strip() for one in _declared(self) if _is_file(one)]


class SqlMetric(FieldMetric[SqlMetricConfig]):
    """1 if both queries give the same rows in every database, else 0. A query that fails scores 0."""

    Config = SqlMetricConfig

    def __init__(self, name: str, config: SqlMetricConfig, setup: Sequence[str], fillings: Sequence[str]) -> None:
        super().__init__(name, config)
        self._setup = setup
        self._fillings = fillings
        if [*setup, *fillings] != _declared(config):
            self.files_sha256 = hashlib.sha256(json.dumps([setup, fillings]).encode()).hexdigest()
        self._places = asyncio.Semaphore(_AT_ONCE)

    @classmethod
    def build(cls, name: str, config: SqlMetricConfig, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        expect_declared(name, config.needs, cls.fields_read(config))
        missing = [package for package in _DUCKDB.imports if find_spec(package) is None]
        if config.dialect == "duckdb" and missing:
            what = f"the dialect duckdb needs the package {missing[0]}, which is not installed"
            raise UserError(Problem(what, f"metric.{name}.dialect", install_command("sql")))
        where = f"metric.{name}"
        setup = [] if config.setup is None else [_script(config.setup, f"{where}.setup")]
        fillings = [_script(one, f"{where}.fillings[{place}]") for place, one in enumerate(config.fillings or ())]
        return cls(name, config, setup, fillings)

    @classmethod
    def fields_read(cls, config: SqlMetricConfig) -> Mapping[str, str]:
        named = {"field": config.field, "against": config.against}
        return named if config.setup is not None else named | {"setup_field": str(config.setup_field)}

    async def compare(self, fields: dict[str, object]) -> Outcome:
        config = self.config
        wanted = _queries(config.against, fields)
        if not wanted:
            return Outcome(status="undefined", reason=f"nothing to compare with: the {config.against} is blank")
        try:
            given = read_field(config.field, fields, _query)
        except ValueError as error:
            return scored(0.0, False, str(error))
        databases = self._databases(fields)
        outcomes: list[Outcome] = []
        for query in wanted:
            outcomes.append(await self._compared(databases, query, given))
            if outcomes[-1].score:
                break
        return best_outcome(outcomes, wanted, "higher_is_better")

    async def _compared(self, databases: Sequence[Sequence[str]], wanted: str, given: str) -> Outcome:
        config = self.config
        ordered = config.order == "always" or (config.order == "by_reference" and is_ordered(wanted))
        counts: list[int] = []
        for place, scripts in enumerate(databases, 1):
            of = f"database {place} of {len(databases)}: " if len(databases) > 1 else ""
            expected, actual = await self._results(scripts, wanted, given, of)
            fault = actual if isinstance(actual, str) else self._difference(expected, actual, ordered=ordered)
            if fault is not None:
                return scored(0.0, False, of + fault)
            counts.append(len(expected.rows))
        if not any(counts):
            what = "neither query returns a row, so nothing is compared: add rows that the reference finds"
            return Outcome(status="undefined", reason=what)
        where = f" in {len(databases)} databases" if len(databases) > 1 else ""
        order_note = " in the same order" if ordered else ""
        return scored(1.0, True, f"the same {sum(counts):,} row{'' if sum(counts) == 1 else 's'}{order_note}{where}")

    def _databases(self, fields: Mapping[str, object]) -> Sequence[Sequence[str]]:
        config = self.config
        own = look_up(config.setup_field, fields) if config.setup_field else None
        setup = [*self._setup, *([_text(config.setup_field, own)] if own is not None else [])]
        more = look_up(config.fillings_field, fields) if config.fillings_field else None
        more = list_in(more) or [more] if isinstance(more, str) else more
        listed = more if is_list(more) else [] if more is None else [more]
        fillings = [*self._fillings, *(_text(config.fillings_field, one) for one in listed)]
        if len(fillings) > MOST_FILLINGS:
            raise ValueError(
                f"{config.fillings_field}: there are {len(fillings)} fillings; the most is {MOST_FILLINGS}"
            )
        return [[*setup, filling] for filling in fillings] or [setup]

    async def _results(
        self, scripts: Sequence[str], reference: str, answer: str, of: str
    ) -> tuple[ResultSet, ResultSet | str]:
        """The results of both queries, or the fault of the answer's query; ValueError if anything else fails."""
        reply = await self._run(scripts, [reference, answer])
        blamed: str | None = None
        if isinstance(reply, str):  # the process was ended: find out which query did it
            blamed, reply = reply, await self._run(scripts, [reference])
        if isinstance(reply, str):
            raise ValueError(f"{of}the set-up or the {self.config.against}: {reply}")
        if fault := _fault(reply):
            raise ValueError(f"{of}the set-up cannot be run: {fault}")
        results = objects_at(reply, "results")
        expected = results[0]
        if fault := _fault(expected):
            raise ValueError(f"{of}the {self.config.against} cannot be run: {fault}")
        actual = {"fault": blamed} if blamed else results[1]
        if fault := _fault(actual):
            return _result_set(expected), f"the {self.config.field} cannot be run: {fault}"
        return _result_set(expected), _result_set(actual)

    async def _run(self, scripts: Sequence[str], queries: Sequence[str]) -> dict[str, object] | str:
        """The result of `limited.sql`; a text names the limit that ended it."""
        config = self.config
        task = {
            "dialect": config.dialect,
            "setup": scripts,
            "queries": queries,
            "seconds": config.timeout_s,
            "max_rows": config.max_rows,
            "memory": MEMORY,
        }
        seconds = config.timeout_s * (len(scripts) + len(queries)) + 5
        work = _DUCKDB if config.dialect == "duckdb" else _SQLITE
        async with self._places:
            try:
                return await in_thread(partial(work.call, task, seconds, "it"))
            except LimitExceeded as error:
                return f"it took more than {config.timeout_s:g} s" if error.limit == "time" else str(error)

    def _difference(self, expected: ResultSet, actual: ResultSet, *, ordered: bool) -> str | None:
        if self.config.columns == "name":
            arranged = actual.arranged_as(expected.columns)
            if arranged is None:
                return f"columns {_names(actual)} instead of {_names(expected)}"
            actual = arranged
        elif len(actual.columns) != len(expected.columns):
            return f"{len(actual.columns)} columns instead of {len(expected.columns)}: {_names(actual)}"
        return difference(expected.rows, actual.rows, ordered=ordered, tolerance=self.config.tolerance)


def is_ordered(query: str) -> bool:
    """Whether a query has ORDER BY at its outermost level: outside of parentheses, texts, names and comments."""
    depth = 0
    for token in _ORDER.finditer(_QUIET.sub(" ", query)):
        match token.group():
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case _ if depth == 0:
                return True
            case _:
                pass
    return False


def _queries(path: str, fields: Mapping[str, object]) -> Sequence[str]:
    """The right queries, without duplicates."""
    try:
        queries = [_query(one) for one in references_at(path, fields)]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return list(dict.fromkeys(query for query in queries if query.strip()))


def _query(value: object) -> str:
    """The query in an answer: its only fenced block, or the whole text; ValueError if that is not one query."""
    text = written(value)
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters; the maximum for a query is {LONGEST:,}")
    blocks = _FENCE.findall(text)
    named = [body for language, body in blocks if language.lower() in ("sql", "sqlite", "duckdb")]
    queries = named or [body for _, body in blocks]
    if len(queries) > 1:
        raise ValueError(f"there are {len(queries)} fenced queries; expected one")
    return queries[0] if queries else text


def _text(field: str | None, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{field}: {kind(value)} is not SQL")
    return value


def _declared(config: SqlMetricConfig) -> list[str]:
    """The scripts as declared; some may be file names."""
    return [*([] if config.setup is None else [config.setup]), *(config.fillings or ())]


def _is_file(declared: str) -> bool:
    return Path(declared.strip()).suffix == ".sql" and "\n" not in declared.strip()


def _script(declared: str, where: str) -> str:
    """The SQL itself, or that of a file below the working directory or its data/."""
    path = Path(declared.strip())
    if not _is_file(declared):
        return declared
    if path.is_absolute() or ".." in path.parts:
        raise UserError(Problem(f"{path} is not below the working directory", where, "give a path within it"))
    file = next((place for place in (path, "data" / path) if place.is_file()), None)
    if file is None:
        raise UserError(Problem(f"no such file: {path}", where, "a text that ends in .sql is read as a file name"))
    if file.stat().st_size > _LARGEST_SCRIPT:
        what = f"{file} has {file.stat().st_size:,} bytes; the most is {_LARGEST_SCRIPT:,}"
        raise UserError(Problem(what, where, "a few rows that distinguish right from wrong queries are enough"))
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(Problem(f"{file} cannot be read: {error}", where)) from None


def _fault(reply: Mapping[str, object]) -> str:
    """The database's error message; "" if there was none."""
    return one_line(text_at(reply, "fault"), _TOLD) if "fault" in reply else ""


def _result_set(result: Mapping[str, object]) -> ResultSet:
    return ResultSet(texts_at(result, "columns"), [tuple(as_list(row)) for row in as_list(result["rows"])])


def _names(result: ResultSet) -> str:
    return one_line(", ".join(result.columns), 100)
