"""Runs queries against a database in memory: two of them, written by a model and by the person who brings the data."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from decimal import Decimal
from typing import Any, Protocol

from evalflow.limited.process import forbid_files
from evalflow.limited.sql_functions import OF_DUCKDB, OF_SQLITE

# The functions that queries of strangers may call. All others are refused, also those that later versions add.


LARGEST = 600_000
"""Maximum size of the rows of one result, in characters."""
_OF_CELL = 8  # characters that each cell counts for, beside those of a text
_ROWS_AT_ONCE = 100
_LARGEST_INTEGER = 10**300  # larger ones are not floats, and compared as text
_STEPS = 10_000  # steps of SQLite's virtual machine between two checks of the clock
_READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
_REFUSED_IN_SETUP = frozenset((sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_CREATE_VTABLE))
_OF_ALTER = ("sqlite_rename_", "sqlite_drop_", "sqlite_add_", "sqlite_find_", "sqlite_fail")
_TABLES = frozenset(("json_each", "json_tree"))  # of modules, for everybody
_FORBIDDEN = (
    "it does what is not allowed, such as to write in a query, to open files, settings or extensions, or to call a "
    "function that tells about the database program"
)
_HARMLESS_PRAGMAS = frozenset(("foreign_keys", "encoding"))  # which dumps begin with
_STATEMENTS = "SELECT INSERT UPDATE DELETE MERGE_INTO CREATE CREATE_FUNC ALTER DROP TRANSACTION ANALYZE VACUUM"
_IN_SETUP = frozenset(_STATEMENTS.split())
"""What a script of DuckDB may do."""


class QueryRefused(Exception):
    """A script or a query was stopped or not run; the message says why."""


class _Database(Protocol):
    def close(self) -> None: ...
    def set_up(self, script: str) -> None: ...
    def close_writes(self) -> None: ...
    def query(self, query: str) -> tuple[list[str], Callable[[int], Sequence[Sequence[Any]]]]: ...


class _Sqlite:
    """Memory is limited by SQLite itself, and what a statement may do by its authorizer."""

    def __init__(self, seconds: float, memory: int) -> None:
        self._seconds = seconds
        self._deadline = 0.0
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._connection.text_factory = _decoded
        self._connection.execute(f"PRAGMA hard_heap_limit={memory}")
        self._connection.execute("PRAGMA temp_store=MEMORY")
        # SQLite declares these tables when they are first read, which the authorizer refuses. Some builds lack them.
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
        modules = {str(name) for (name,) in self._connection.execute("SELECT name FROM pragma_module_list")}
        self._hidden = modules - _TABLES
        self._connection.set_authorizer(self._in_setup)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS)

    def set_up(self, script: str) -> None:
        with self._limited():
            self._connection.executescript(script)

    def close_writes(self) -> None:
        self._connection.set_authorizer(None)
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")
        self._connection.execute("PRAGMA query_only=ON")
        self._connection.set_authorizer(self._in_query)

    def close(self) -> None:
        self._connection.close()

    def _in_setup(self, action: int, one: str | None, two: str | None, *_: Any) -> int:
        is_refused = action in _REFUSED_IN_SETUP or (
            action == sqlite3.SQLITE_PRAGMA and str(one).lower() not in _HARMLESS_PRAGMAS
        )
        is_own = action == sqlite3.SQLITE_FUNCTION and str(two).startswith(_OF_ALTER)  # only SQLite itself can call it
        is_hidden = not is_own and self._is_hidden(action, one, two)
        return sqlite3.SQLITE_DENY if is_refused or is_hidden else sqlite3.SQLITE_OK

    def _in_query(self, action: int, one: str | None, two: str | None, *_: Any) -> int:
        is_allowed = action in _READS and not self._is_hidden(action, one, two)
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    def _is_hidden(self, action: int, one: str | None, two: str | None) -> bool:
        """Whether it is a function that nobody may call, or a table of a module that tells about SQLite."""
        if action == sqlite3.SQLITE_FUNCTION:
            return str(two).lower() not in OF_SQLITE
        return action == sqlite3.SQLITE_READ and str(one).lower() in self._hidden

    def query(self, query: str) -> tuple[list[str], Callable[[int], Sequence[Sequence[Any]]]]:
        with self._limited():
            cursor = self._connection.execute(query)
        if cursor.description is None:
            raise QueryRefused("it is not a query that gives rows")

        def more(size: int) -> Sequence[Sequence[Any]]:
            with self._limited(restart=False):
                return cursor.fetchmany(size)

        return [column[0] for column in cursor.description], more

    @contextlib.contextmanager
    def _limited(self, *, restart: bool = True) -> Generator[None]:
        if restart:
            self._deadline = time.monotonic() + self._seconds
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            message = str(error)
            if message == "interrupted":
                raise _too_slow(self._seconds) from None
            if "authoriz" in message or "prohibited" in message or "readonly database" in message:
                raise QueryRefused(_FORBIDDEN) from None
            if "one statement" in message:
                raise QueryRefused("it is more than one statement") from None
            raise QueryRefused(message) from None


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


class _Duckdb:
    """Files and extensions are switched off for good; queries run in transactions that can only read.

    DuckDB asks nobody before it calls a function, so each name before a parenthesis is looked up.
    """

    def __init__(self, seconds: float, memory: int) -> None:
        import duckdb

        self._duckdb = duckdb
        self._seconds = seconds
        off = (
            "enable_external_access",
            "autoinstall_known_extensions",
            "autoload_known_extensions",
            "allow_community_extensions",
        )
        limits = {"memory_limit": f"{memory}B", "threads": "1", "temp_directory": ""}
        self._connection = duckdb.connect(":memory:", config={**dict.fromkeys(off, "false"), **limits})
        self._connection.execute("SET TimeZone='UTC'")  # on every machine the same; pytz reads a file for any other
        self._connection.execute("SET lock_configuration=true")
        named = self._connection.execute("SELECT DISTINCT lower(function_name) FROM duckdb_functions()").fetchall()
        self._refused = {name for (name,) in named} - OF_DUCKDB
        forbid_files()  # DuckDB reads about the system when it connects

    def set_up(self, script: str) -> None:
        with self._limited():
            script.encode()
            self._expect_allowed(script)
            for statement in self._connection.extract_statements(script):
                if statement.type.name not in _IN_SETUP:
                    raise QueryRefused(_FORBIDDEN)
            self._connection.execute(script)

    def _expect_allowed(self, script: str) -> None:
        """Check that no function is called that is not allowed, in any way in which its name can be written."""
        data = script.encode()
        tokens = [(start, kind.name) for start, kind in self._duckdb.tokenize(script) if kind.name != "comment"]
        ends = [start for start, _ in tokens[1:]]
        for (start, kind), end in zip(tokens, ends, strict=False):
            is_called = data[end : end + 1] == b"("
            name = data[start:end].decode("utf-8", "replace")
            if is_called and kind in ("identifier", "keyword") and _bare(name) in self._refused:
                raise QueryRefused(_FORBIDDEN)

    def close_writes(self) -> None:
        with contextlib.suppress(self._duckdb.Error):
            self._connection.execute("COMMIT")  # where a script left a transaction open

    def close(self) -> None:
        self._connection.close()

    def query(self, query: str) -> tuple[list[str], Callable[[int], Sequence[Sequence[Any]]]]:
        with self._limited():
            query.encode()  # half of a surrogate pair is not text for DuckDB
            self._expect_allowed(query)
            statements = self._connection.extract_statements(query)
            if len(statements) != 1:
                raise QueryRefused(
                    "it is more than one statement" if statements else "it is not a query that gives rows"
                )
            if statements[0].type != self._duckdb.StatementType.SELECT:
                raise QueryRefused(_FORBIDDEN)
            with contextlib.suppress(self._duckdb.Error):
                self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN TRANSACTION READ ONLY")
            self._connection.execute(statements[0])

        def more(size: int) -> Sequence[Sequence[Any]]:
            with self._limited():
                return self._connection.fetchmany(size)

        return [column[0] for column in self._connection.description or ()], more

    @contextlib.contextmanager
    def _limited(self) -> Generator[None]:
        timer = threading.Timer(self._seconds, self._connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        except self._duckdb.InterruptException:
            raise _too_slow(self._seconds) from None
        except self._duckdb.OutOfMemoryException:
            raise MemoryError from None
        except self._duckdb.PermissionException:
            raise QueryRefused(_FORBIDDEN) from None
        except (self._duckdb.Error, ValueError, OverflowError) as error:  # an interval may be too long for Python
            raise QueryRefused(str(error)) from None
        finally:
            timer.cancel()


def _bare(name: str) -> str:
    """A name as DuckDB compares it, without its quotes and what follows it before the next token."""
    text = name.strip()
    if text.startswith('"'):
        return text[1:].partition('"')[0].lower()
    return re.split(r"[\s/-]", text, maxsplit=1)[0].lower()


def _too_slow(seconds: float) -> QueryRefused:
    return QueryRefused(f"it takes more than {seconds:g} s")


def _result(database: _Database, query: str, max_rows: int) -> dict[str, Any]:
    columns, more = database.query(query)
    rows: list[list[Any]] = []
    size = 0
    while batch := more(_ROWS_AT_ONCE):
        for row in batch:
            if len(rows) == max_rows:
                raise QueryRefused(f"it gives more than {max_rows:,} rows")
            rows.append([_cell(value) for value in row])
            size += sum(_OF_CELL + (len(cell) if isinstance(cell, str) else 0) for cell in rows[-1])
            if size > LARGEST:
                raise QueryRefused(f"its rows are larger than {LARGEST:,} characters")
    return {"columns": columns, "rows": rows}


def _cell(value: Any) -> Any:
    """A value as JSON has it: decimals are numbers, blobs and dates are texts."""
    match value:
        case None | float() | str():
            return value
        case int() if abs(value) < _LARGEST_INTEGER:
            return value
        case Decimal() if value.is_finite():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return f"x'{value.hex()}'"
        case dt.date() | dt.time():
            return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
        case _:
            return str(value)


def _attempted(work: Callable[[], dict[str, Any]], memory: int) -> dict[str, Any]:
    try:
        return work()
    except QueryRefused as error:
        return {"fault": str(error)}
    except MemoryError:
        return {"fault": f"it needs more than {memory >> 20:,} MB of memory"}


def run(
    dialect: str, setup: Sequence[str], queries: Sequence[str], seconds: float, max_rows: int, memory: int
) -> dict[str, Any]:
    """Make the tables by scripts, and run queries, which may only read.

    `seconds` is the limit of each, `memory` that of the database in bytes. Returns `fault`, what is wrong with the
    set-up, or `results`: `columns` and `rows` or a `fault` for each query.
    """
    made: type[_Sqlite] | type[_Duckdb] = _Duckdb if dialect == "duckdb" else _Sqlite
    database = made(seconds, memory)

    def set_up() -> dict[str, Any]:
        for script in setup:
            database.set_up(script)
        database.close_writes()
        return {}

    try:
        return _attempted(set_up, memory) or {
            "results": [_attempted(lambda q=q: _result(database, q, max_rows), memory) for q in queries]
        }
    finally:
        database.close()
