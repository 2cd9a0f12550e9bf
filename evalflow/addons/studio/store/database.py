"""The database: engine, transactions, and schema migration."""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, func, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from evalflow.addons.studio.store.rows import now
from evalflow.addons.studio.store.server_tables import metadata  # here, not in `schema`, it has all tables
from evalflow.addons.studio.store.tables import projects
from evalflow.errors import ConflictError, InfrastructureError, Problem, UserError
from evalflow.extras import install_command
from evalflow.paths import private_database

log = logging.getLogger("evalflow")
FOLDER = Path(__file__).with_name("migrations")
KEPT = 3
"""How many backups from schema changes are kept."""
DEFAULT_PROJECT = "default"
"""The project of a new database."""
_LOCK = 0x65766664  # an arbitrary constant
"""PostgreSQL's advisory lock that serializes migrations of processes that start together."""


def bring_up_to_date(engine: Engine, file: Path | None) -> Path | None:
    """Create the tables of an empty database, or run the pending migrations, in one transaction.

    A database file is backed up before a migration. Returns the backup, if one was made.
    """
    scripts = ScriptDirectory(str(FOLDER))
    newest = scripts.get_current_head()
    with engine.connect() as connection:
        if current_revision(connection) == newest:
            return None
    with (
        engine.connect().execution_options(writes=True) as connection,
        _without_foreign_keys(connection),
        connection.begin(),
    ):
        if _is_postgres(engine):
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        revision = current_revision(connection)  # another process may have migrated it meanwhile
        if revision == newest:
            return None
        if revision is None:
            metadata.create_all(connection)
            first: dict[str, Any] = {"name": DEFAULT_PROJECT, "title": DEFAULT_PROJECT, "description": "", "budget": {}}
            connection.execute(insert(projects).values(**first, version=1, created_at=now(), updated_at=now()))
            MigrationContext.configure(connection).stamp(scripts, "head")
            return None
        backup = None if file is None else _back_up(file, revision)
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(scripts.dir).replace("%", "%%"))
        command.upgrade(config, "head")
        if not _is_postgres(engine) and (lost := connection.exec_driver_sql("PRAGMA foreign_key_check").first()):
            raise InfrastructureError(f"a row of {lost[0]} refers to a missing row of {lost[2]}")
        return backup


@contextmanager
def _without_foreign_keys(connection: Connection) -> Generator[None]:
    """Turn SQLite's foreign keys off: Alembic drops and recreates a changed table, and the drop would cascade."""
    if _is_postgres(connection.engine):
        yield
        return
    file: Any = connection.connection.driver_connection
    file.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        file.execute("PRAGMA foreign_keys = ON")


def _is_postgres(engine: Engine) -> bool:
    return engine.dialect.name == "postgresql"


def current_revision(connection: Connection) -> str | None:
    """The revision of a database's schema; None if it is empty.

    Raises:
        UserError: It belongs to another program, or another version made it.
    """
    revision = MigrationContext.configure(connection).get_current_revision()
    where = connection.engine.url.render_as_string(hide_password=True)
    if revision is None and inspect(connection).has_table("runs"):
        # Another process may have made the tables between the two questions.
        revision = MigrationContext.configure(connection).get_current_revision()
        if revision is None:
            raise UserError(
                Problem("this database belongs to another program", where, "name another one: --database-url URL")
            )
    if revision is not None and revision not in known_revisions():
        what = f"this database was made by another version of evalflow (schema {revision})"
        raise UserError(Problem(what, where, "install that version, or name another database: --database-url URL"))
    return revision


def known_revisions() -> frozenset[str]:
    """The revisions of the schema that this version can read or migrate."""
    return frozenset(script.revision for script in ScriptDirectory(str(FOLDER)).walk_revisions())


def _back_up(file: Path, revision: str) -> Path:
    """Back up a database file beside the original, and delete the oldest backups."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    copy = file.with_name(f"{file.name}.{revision}.{stamp}.backup")
    draft = copy.with_suffix(".draft")  # so that an incomplete copy is never used as a backup
    copy_sqlite(file, draft)
    draft.replace(copy)
    named = re.compile(re.escape(file.name) + r"\.\w+\.(\d{8}T\d{12})\.backup")
    made = sorted((match[1], path) for path in file.parent.iterdir() if (match := named.fullmatch(path.name)))
    for _, old in made[:-KEPT]:
        old.unlink(missing_ok=True)
    return copy


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database consistently while others write to it.

    Raises:
        InfrastructureError: It cannot be read, or the copy cannot be written (e.g. the disk is full).
    """
    private_database(target)
    try:
        with closing(sqlite3.connect(source)) as reader, closing(sqlite3.connect(target)) as writer:
            reader.backup(writer)
    except sqlite3.Error as error:
        raise InfrastructureError(f"cannot copy {source} to {target}: {error}") from None


CACHE_KB = 64 * 1024
"""Page cache of a connection to a file: large enough for the indexes of a large run."""
BUSY_S = 30.0
"""How long a writer waits for the write lock."""
POOL_S = 10.0
"""How long a thread waits for a free connection of the pool."""
_LIMITS = {
    **{"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
    "tcp_user_timeout": 20_000,
}
"""libpq's limits in seconds, the last one in milliseconds. Without them a vanished server blocks a thread for
minutes."""
REPEATED_S = 60.0
"""How often a fault that lasts is logged: every request, and each look at the database, meets it."""
_OUT_OF_RANGE = "22003"
"""PostgreSQL's SQLSTATE numeric_value_out_of_range."""
_WRITERS = 0x65766C77  # an arbitrary constant
"""PostgreSQL's advisory lock that serializes transactions that read before they write."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database with the schema of this version.

    Attributes:
        engine: Its connections; safe to use from several threads.
        identity: Identifies the file, to detect a replacement; None without a file.
        made: The file, if opening created it; else None.
        backup: The backup of the file from before a schema change, or None.
        writer: The lock of this process's threads that write to SQLite. Waiting for SQLite's own lock is slower: it
            polls every 100 ms.
        logged: When each fault was last logged, by its text.
    """

    engine: Engine
    identity: tuple[int, int] | None = None
    made: Path | None = None
    backup: Path | None = None
    writer: Lock = field(default_factory=Lock, repr=False, compare=False)
    logged: dict[str, float] = field(default_factory=dict[str, float], repr=False, compare=False)

    @property
    def path(self) -> Path | None:
        """The SQLite file."""
        return sqlite_file(self.engine.url)

    @property
    def shown_url(self) -> str:
        """The URL without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    def check(self) -> None:
        """Raise InfrastructureError if the database does not answer."""
        with self.reading() as connection:
            connection.execute(select(1))

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Open a read transaction: the block sees one snapshot of the database."""
        with self._transaction(
            {"isolation_level": "REPEATABLE READ"} if _is_postgres(self.engine) else {}
        ) as connection:
            yield connection

    @contextmanager
    def writing(self, *, in_turn: bool = True) -> Generator[Connection]:
        """Open a write transaction: commit the block, or roll it back on any error.

        `in_turn` runs such transactions one at a time, so that what the block reads stays valid until it writes.
        Workers do without: each of their statements checks its own conditions. SQLite has a single writer anyway.

        Raises:
            ConflictError: A referenced row was deleted meanwhile, or the key already exists.
            InfrastructureError: The database does not answer, is read-only, or was replaced.
        """
        with self._turn(), self._transaction({"writes": True}) as connection:
            if in_turn and _is_postgres(self.engine):
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_S:g}s'")
                connection.execute(select(func.pg_advisory_xact_lock(_WRITERS)))
            yield connection
        self._expect_in_place()  # otherwise the changes would go to a deleted file

    @contextmanager
    def _turn(self) -> Generator[None]:
        if _is_postgres(self.engine):
            yield
            return
        if not self.writer.acquire(timeout=BUSY_S):
            raise self._no_answer(f"other writers have held it for {BUSY_S:g} s")
        try:
            yield
        finally:
            self.writer.release()

    @contextmanager
    def _transaction(self, options: Mapping[str, Any]) -> Generator[Connection]:
        self._expect_in_place()
        try:
            with self.engine.connect().execution_options(**options) as connection, connection.begin():
                yield connection
        except IntegrityError as error:
            what = f"this conflicts with a change that somebody else has made meanwhile: {first_line(error)}"
            raise ConflictError(Problem(what, "", "reload to see the current state, and try again")) from error
        except (UnicodeEncodeError, DataError, OverflowError) as error:
            problem = _unstorable(error)
            if problem is None:
                raise  # a bug in evalflow
            raise UserError(problem) from error
        except PoolTimeoutError:
            raise self._no_answer(f"all connections have been busy for {POOL_S:g} s") from None
        except DBAPIError as error:
            # InternalError: the server became read-only, such as after a failover.
            is_outage = isinstance(error, OperationalError | InterfaceError | InternalError)
            if not is_outage and type(error) is not DatabaseError:
                raise  # a bug in evalflow
            raise self._no_answer(first_line(error)) from None

    def _no_answer(self, why: str) -> InfrastructureError:
        """The error for a client; which database it is, and why, is in the log alone."""
        self.log_fault(f"the database {self.shown_url} does not answer: {why}")
        hint = "check that the disk has free space and that no other program locks the file"
        if _is_postgres(self.engine):
            hint = "check that the server is running; evalflow then reconnects"
        return InfrastructureError("the database does not answer", hint)

    def _expect_in_place(self) -> None:
        """Raise InfrastructureError if the file was deleted or replaced since it was opened."""
        if self.path is None or _identity(self.path) == self.identity:
            return
        what = "was replaced by another file" if self.path.exists() else "was deleted"
        self.log_fault(f"the database {self.path} {what} while it was open")
        hint = "put the file back, or restart evalflow to open the current one"
        raise InfrastructureError(f"the database {what} while it was open; nothing is read or written", hint)

    def log_fault(self, fault: str, level: int = logging.ERROR) -> None:
        """Log a fault, unless that was done less than `REPEATED_S` ago."""
        at = time.monotonic()
        for other, logged in list(self.logged.items()):
            if at - logged >= REPEATED_S:
                self.logged.pop(other, None)
        if fault in self.logged:
            return
        self.logged[fault] = at
        log.log(level, "%s", fault)

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def _unstorable(error: UnicodeEncodeError | DataError | OverflowError) -> Problem | None:
    """The problem with a value that no database can store; None if the error is about something else."""
    message = first_line(error) if isinstance(error, DataError) else str(error)
    if _is_too_large(error, message):
        return Problem("a number is larger than any that is stored", "", "take a number that the server has given")
    if isinstance(error, UnicodeEncodeError):
        is_text = error.encoding == "utf-8" and error.reason == "surrogates not allowed"
    else:
        is_text = "NUL" in message
    what = "a text has a character that no database can store: NUL, or half of a surrogate pair"
    return Problem(what, "", "remove the character") if is_text else None


def _is_too_large(error: UnicodeEncodeError | DataError | OverflowError, said: str) -> bool:
    """Whether an integer is larger than its column; other values that are out of range, e.g. dates, are bugs."""
    if isinstance(error, DataError):
        is_of_range = getattr(error.orig, "sqlstate", None) == _OUT_OF_RANGE
        return is_of_range and re.search(r"\b(?:integer|bigint|smallint) out of range", said) is not None
    return isinstance(error, OverflowError) and "too large to convert to SQLite" in said


def open_database(url: str) -> Database:
    """Open a database: create a missing file, and migrate the schema.

    The URL is SQLAlchemy's: sqlite:///PATH, or postgresql://USER@HOST/NAME (with the driver psycopg).
    """
    parsed = parse_url(url)
    file = sqlite_file(parsed)
    made = file if file is not None and not file.exists() else None
    engine = engine_of(parsed)
    shown = parsed.render_as_string(hide_password=True)
    try:
        backup = bring_up_to_date(engine, file)
    except DBAPIError as error:
        engine.dispose()
        raise UserError(Problem(f"the database cannot be opened: {first_line(error)}", shown, _FORMS)) from None
    except BaseException:
        engine.dispose()
        raise
    return Database(engine, _identity(file), made, backup)


def parse_url(url: str) -> URL:
    """Parse the URL of a database and add its driver; UserError if it is malformed or of an unsupported kind."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise UserError(Problem(f"{url!r} is not a database URL", "--database-url", _FORMS)) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise UserError(Problem(f"{parsed.drivername} is not supported", "--database-url", _FORMS))
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


_FORMS = "such as sqlite:///FILE or postgresql://USER@HOST/NAME"


def engine_of(url: URL) -> Engine:
    """Create the engine of a database. A missing file is created, empty."""
    file = sqlite_file(url)
    if file is None and url.get_backend_name() == "sqlite":
        raise UserError(Problem("a database in memory is lost when evalflow ends", "--database-url", "name a file"))
    try:
        if file is not None:
            private_database(file)
            engine = create_engine(url, connect_args={"timeout": BUSY_S}, pool_timeout=POOL_S)
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        limits = {name: value for name, value in _LIMITS.items() if name not in url.query}
        return create_engine(url, pool_pre_ping=True, pool_timeout=POOL_S, connect_args=limits)
    except ModuleNotFoundError as error:
        hint = install_command("postgres")
        raise UserError(Problem(f"{error.name} is not installed", "--database-url", hint)) from None
    except OSError as error:
        raise UserError(Problem(f"cannot be made: {error.strerror}", str(file), "name another file")) from None


def _set_up_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    """Set WAL mode (readers do not block the writer), foreign keys, and explicit transactions."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def sqlite_file(url: URL) -> Path | None:
    """The file of an SQLite database."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(url.database).absolute()


def _identity(file: Path | None) -> tuple[int, int] | None:
    try:
        stat_result = None if file is None else file.stat()
    except OSError:
        return None
    return None if stat_result is None else (stat_result.st_dev, stat_result.st_ino)


def first_line(error: DBAPIError) -> str:
    """The first line of a driver's error message."""
    return str(error.orig).strip().split("\n")[0]
