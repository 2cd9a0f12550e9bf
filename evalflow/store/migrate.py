"""Bringing a database's schema forward to that of this version; never back."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, func, inspect, select

from evalflow.errors import Problem, UserError
from evalflow.paths import private_database

FOLDER = Path(__file__).with_name("migrations")
KEPT = 3
"""Copies of a file that stay, of the last changes of its schema."""
_LOCK = 0x65766664  # any number, the same for all
"""PostgreSQL's advisory lock that two processes which start together take in turn."""


def bring_up_to_date(engine: Engine, file: Path | None) -> Path | None:
    """Run the migrations that a database lacks, all in one transaction.

    Args:
        engine: Its connections.
        file: The database's file, if it is one; it is copied before it is changed.

    Returns:
        The copy, where there is one.

    Raises:
        UserError: A newer version has made it, or another program.
    """
    scripts = ScriptDirectory(str(FOLDER))
    newest = scripts.get_current_head()
    with engine.connect() as connection:
        if _revision(connection, scripts) == newest:
            return None
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        revision = _revision(connection, scripts)  # another process may have been quicker
        if revision == newest:
            return None
        backup = _copied(file, revision) if file is not None and revision is not None else None
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(scripts.dir).replace("%", "%%"))
        command.upgrade(config, "head")
        return backup


def _revision(connection: Connection, scripts: ScriptDirectory) -> str | None:
    """The database's revision; None for an empty one."""
    revision = MigrationContext.configure(connection).get_current_revision()
    where = connection.engine.url.render_as_string(hide_password=True)
    if revision is None and inspect(connection).has_table("runs"):
        raise UserError(Problem("this database is another program's", where, "name another one: --database-url URL"))
    known = {script.revision for script in scripts.walk_revisions()}
    if revision is not None and revision not in known:
        what = f"this database was made by a newer version of evalflow (schema {revision})"
        raise UserError(Problem(what, where, "install that version, or name another database: --database-url URL"))
    return revision


def _copied(file: Path, revision: str) -> Path:
    """A copy of a database of that revision, beside it; of earlier copies the last ones stay."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    copy = file.with_name(f"{file.name}.{revision}.{stamp}.backup")
    draft = copy.with_suffix(".draft")  # so that no half of a copy is taken for one
    private_database(draft)
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(draft)) as target:
        source.backup(target)
    draft.replace(copy)
    named = re.compile(re.escape(file.name) + r"\.\w+\.(\d{8}T\d{12})\.backup")
    made = sorted((found[1], path) for path in file.parent.iterdir() if (found := named.fullmatch(path.name)))
    for _, old in made[:-KEPT]:
        old.unlink(missing_ok=True)
    return copy
