"""Consistent snapshots of a database in use: SQLite's backup API, or pg_dump and pg_restore."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, inspect, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from evalflow.addons.studio.store.database import (
    Database,
    copy_sqlite,
    current_revision,
    engine_of,
    first_line,
    known_revisions,
    parse_url,
    sqlite_file,
)
from evalflow.addons.studio.store.schema import metadata
from evalflow.addons.studio.store.tables import runs
from evalflow.errors import InfrastructureError, Problem, UserError

Kind = Literal["sqlite", "postgresql"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot's kind of database and schema revision."""

    kind: Kind
    revision: str


def take_snapshot(url: str, target: Path) -> Snapshot:
    """Write a snapshot of a database to a file, without migrating it.

    Raises:
        UserError: The database is missing or empty, or another version made it.
        InfrastructureError: pg_dump is missing or failed.
    """
    parsed, file = _location(url)
    if file is not None and not file.is_file():
        raise UserError(Problem("there is no database", str(file), "name one: --database-url URL"))
    with _opened(parsed) as connection:
        revision = current_revision(connection)
    if revision is None:
        shown = parsed.render_as_string(hide_password=True)
        raise UserError(Problem("this database is empty", shown, "name another one: --database-url URL"))
    if file is not None:
        copy_sqlite(file, target)
        return Snapshot("sqlite", revision)
    tables = [*(table.name for table in metadata.sorted_tables), "alembic_version"]
    _run_client("pg_dump", parsed, ["--format=custom", f"--file={target}", *(f"--table={name}" for name in tables)])
    return Snapshot("postgresql", revision)


def expect_place(url: str, snapshot: Snapshot) -> None:
    """Check that a snapshot can be loaded into this database.

    Raises:
        UserError: It is of another kind or not empty, or another version made the snapshot.
        InfrastructureError: The database does not answer.
    """
    parsed, file = _location(url)
    shown = parsed.render_as_string(hide_password=True)
    if snapshot.revision not in known_revisions():
        what = f"this backup was made by another version of evalflow (schema {snapshot.revision})"
        raise UserError(Problem(what, hint="install that version"))
    if parsed.get_backend_name() != snapshot.kind:
        what = f"this backup is of a {snapshot.kind} database"
        raise UserError(Problem(what, "--database-url", f"name an empty one of that kind, not {shown}"))
    if file is not None:
        is_empty = not file.exists()
    else:
        with _opened(parsed) as connection:
            is_empty = not inspect(connection).get_table_names()
    if not is_empty:
        raise UserError(Problem("a backup can only be restored into an empty database", shown, "name an empty one"))


@contextmanager
def _opened(url: URL) -> Generator[Connection]:
    engine = engine_of(url)
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise InfrastructureError(f"the database cannot be read: {first_line(error)}") from None
    finally:
        engine.dispose()


def load_snapshot(url: str, source: Path) -> None:
    """Load a snapshot into an empty database."""
    parsed, file = _location(url)
    if file is not None:
        copy_sqlite(source, file)
        return
    _run_client("pg_restore", parsed, ["--single-transaction", "--exit-on-error", str(source)])


def settle(database: Database) -> None:
    """After a restore, queue the runs that were in progress."""
    with database.writing() as connection:
        values = {"state": "queued", "worker": None, "pid": None}
        connection.execute(update(runs).where(runs.c.state == "running").values(**values))


def _location(url: str) -> tuple[URL, Path | None]:
    parsed = parse_url(url)
    return parsed, sqlite_file(parsed)


def _run_client(program: str, url: URL, arguments: Sequence[str]) -> None:
    """Run a PostgreSQL client program. The password is in its environment, which other accounts cannot read."""
    executable = shutil.which(program)
    if executable is None:
        hint = "install PostgreSQL's client programs, of the server's version or newer"
        raise InfrastructureError(f"{program} is not installed", hint)
    environment = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password is not None else {})}
    shown = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    command = [executable, "--no-owner", "--no-privileges", "--no-password", f"--dbname={shown}", *arguments]
    done = subprocess.run(  # noqa: S603 - no shell
        command, env=environment, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode != 0:
        raise InfrastructureError(f"{program} failed: {done.stderr.strip()}")
