"""The schema is brought forward on start, with a copy of the file first, and never back."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    create_engine,
    inspect,
    select,
    text,
)

from evalflow.addons.studio.store import Database, definitions, open_database, tables
from evalflow.addons.studio.store import database as database_module
from evalflow.addons.studio.store.database import FOLDER, KEPT
from evalflow.addons.studio.store.schema import metadata
from evalflow.errors import InfrastructureError, UserError
from tests.addons.studio.store import first_tables

HEAD = ScriptDirectory(str(FOLDER)).get_current_head()
BOT = {"project_id": 1, "name": "b", "title": "b", "description": "", "config": {"kind": "recorded"}}


def test_a_new_database_has_the_tables(database: Database) -> None:
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_what_is_there_stays_when_it_is_opened_again(database_url: str) -> None:
    first = open_database(database_url)
    with first.writing() as connection:
        definitions.add(connection, "bot", BOT)
    first.close()
    again = open_database(database_url)
    with again.reading() as connection:
        assert [row["name"] for row in definitions.listed(connection, "bot", 1)] == ["b"]
    assert (again.made, again.backup) == (None, None)
    again.close()


def test_a_newer_schema_is_refused(database_url: str) -> None:
    database = open_database(database_url)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(UserError, match=r"newer version of evalflow.*9999"):
        open_database(database_url)


def test_an_older_file_is_copied_and_then_brought_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'e.db'}"
    database = open_database(url)
    with database.writing() as connection:
        definitions.add(connection, "bot", BOT)
    database.close()
    scripts = tmp_path / "migrations"
    _with_one_more(scripts)
    monkeypatch.setattr("evalflow.addons.studio.store.database.FOLDER", scripts)
    newer = open_database(url)
    with newer.reading() as connection:
        assert "later" in {column["name"] for column in inspect(connection).get_columns("labels")}
        assert definitions.named(connection, "bot", "b", 1)
    newer.close()
    assert newer.backup is not None
    with sqlite3.connect(newer.backup) as copy:
        assert copy.execute("SELECT name FROM bots").fetchall() == [("b",)]
        assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
    copy.close()


def test_copies_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "e [1].db"
    strange = tmp_path / "e [1].db.my.copy.backup"
    strange.write_text("another's", encoding="utf-8")
    open_database(f"sqlite:///{file}").close()
    scripts = tmp_path / "migrations"
    _with_one_more(scripts)
    made: list[Path] = []
    for _ in range(KEPT + 2):
        with monkeypatch.context() as patch:
            patch.setattr("evalflow.addons.studio.store.database.FOLDER", scripts)
            newer = open_database(f"sqlite:///{file}")
        newer.close()
        assert newer.backup is not None
        made.append(newer.backup)
        with sqlite3.connect(file) as back:
            back.execute("ALTER TABLE labels DROP COLUMN later")
            back.execute("UPDATE alembic_version SET version_num = ?", (HEAD,))
        back.close()
    assert sorted(tmp_path.glob("e*.backup")) == sorted([*made[-KEPT:], strange])


def first_database(url: str, *, fill: bool = True) -> tuple[Engine, dict[str, dict[str, Any]]]:
    """A database of the first revision, and the row that it has in each table."""
    engine = create_engine(url)
    with engine.begin() as connection:
        context = MigrationContext.configure(connection)
        with Operations.context(context):
            first_tables.upgrade()
        context.stamp(ScriptDirectory(str(FOLDER)), "0001")
        return engine, _fill(connection) if fill else {}


def migrate(url: str, revision: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring a database up to a revision, as the version that had it as its last one does."""
    known = tmp_path / "migrations"
    shutil.copytree(FOLDER, known, ignore=shutil.ignore_patterns("__pycache__", *_later(revision)), dirs_exist_ok=True)
    with monkeypatch.context() as patch:
        patch.setattr("evalflow.addons.studio.store.database.FOLDER", known)
        open_database(url).close()


def test_what_is_in_the_first_tables_is_there_in_all_later_ones(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, filled = first_database(database_url)
    old.dispose()
    assert len(filled) >= 10
    for revision in range(2, int(HEAD or "0") + 1):  # by one, as if each version had been run for a while
        migrate(database_url, revision, tmp_path, monkeypatch)
    new = open_database(database_url)
    with new.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        for table, row in filled.items():
            found = connection.execute(select(metadata.tables[table])).mappings().one()
            assert {name: found[name] for name in row} == row, table
    new.close()


def test_the_checks_and_examples_of_older_cases_are_known(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = first_database(database_url)
    migrate(database_url, 5, tmp_path, monkeypatch)
    twice = [{"identifier": "greets", "enabled": on} for on in (False, True)]
    bodies: list[dict[str, Any]] = [{}, {"demo_answer": {"content": "Hi"}, "checks": [*twice, {"identifier": "plain"}]}]
    bodies.append({"demo_answer": None, "checks": [twice[0]]})
    with old.begin() as connection:
        there = MetaData()
        there.reflect(connection, only=["cases"])
        case = dict(connection.execute(select(there.tables["cases"])).mappings().one())
        for number, body in enumerate(bodies, 2):
            row = {"id": number, "position": number, "key": str(number), "body": body}
            connection.execute(there.tables["cases"].insert().values({**case, **row}))
    old.dispose()
    new = open_database(database_url)
    with new.reading() as connection:
        query = select(tables.cases.c.id).where(tables.cases.c.has_example.is_(True))
        assert list(connection.scalars(query)) == [3]
        named = connection.execute(select(tables.case_checks).order_by("case_id", "name")).all()
        assert [tuple(one) for one in named] == [(3, "greets", True), (3, "plain", True), (4, "greets", False)]
    new.close()


def test_what_there_was_has_its_name_as_its_title(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = first_database(database_url, fill=False)
    migrate(database_url, 6, tmp_path, monkeypatch)
    times = {"version": 1, "created_at": "then", "updated_at": "then"}
    metric = {"id": 1, "bot_id": 1, "name": "polite", "definition": {}, "prompts": {}, **times}
    bot = {"id": 1, **{key: value for key, value in BOT.items() if key != "title"}, **times}
    deleted = {"row": {**bot, "name": "gone"}, "metrics": [metric], "runs": []}
    with old.begin() as connection:
        there = MetaData()
        there.reflect(connection)
        connection.execute(there.tables["bots"].insert().values(bot))
        connection.execute(there.tables["metrics"].insert().values(metric))
        kept = {"project_id": 1, "kind": "bot", "by": "ann", "at": "2026-01-01"}
        for name, content in (("gone", deleted), ("back", {})):
            connection.execute(there.tables["trash"].insert().values(**kept, name=name, content=content))
    old.dispose()
    new = open_database(database_url)
    with new.reading() as connection:
        assert [row["title"] for row in definitions.listed(connection, "bot", 1)] == ["b"]
        assert [row["title"] for row in definitions.listed(connection, "metric", 1)] == ["polite"]
        assert [row["title"] for row in definitions.listed(connection, "project")] == ["default"]
        gone, back = connection.scalars(select(tables.trash.c.content).order_by("id"))
        assert (gone["row"]["title"], gone["metrics"][0]["title"], back) == ("gone", "polite", {})
    new.close()


def _later(revision: int) -> list[str]:
    return [f"{number:04}_*" for number in range(revision + 1, 100)]


def _fill(connection: Connection) -> dict[str, dict[str, Any]]:
    """One row in each table, of whatever its columns take, each referring to those of the others."""
    there = MetaData()
    there.reflect(connection)
    filled: dict[str, dict[str, Any]] = {}
    for table in there.sorted_tables:
        if table.name != "alembic_version":
            row = {column.name: _anything(column) for column in table.columns}
            connection.execute(table.insert().values(row))
            filled[table.name] = row
    return filled


def _anything(column: Column[Any]) -> Any:
    kinds: list[tuple[type, Any]] = [(Boolean, True), (JSON, {"a": ["b", None]}), (LargeBinary, b"bytes")]
    kinds += [(Float, 0.5), (Integer, 1)]
    return next((value for kind, value in kinds if isinstance(column.type, kind)), "a text")


def test_a_failed_migration_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'e.db'}"
    open_database(url).close()
    scripts = tmp_path / "migrations"
    _with_one_more(scripts, then="    raise ZeroDivisionError\n")
    with monkeypatch.context() as patch:
        patch.setattr("evalflow.addons.studio.store.database.FOLDER", scripts)
        with pytest.raises(ZeroDivisionError):
            open_database(url)
    database = open_database(url)
    with database.reading() as connection:
        assert "later" not in {column["name"] for column in inspect(connection).get_columns("labels")}
    database.close()


def test_two_that_start_together_migrate_once(database_url: str) -> None:
    opened: list[Database] = []
    threads = [threading.Thread(target=lambda: opened.append(open_database(database_url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for database in opened:
        database.close()


def test_another_programs_file_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as other:
        other.execute("CREATE TABLE runs (a)")
    other.close()
    with pytest.raises(UserError, match="another program"):
        open_database(f"sqlite:///{tmp_path / 'x.db'}")
    (tmp_path / "y.db").write_text("not a database, but long enough to be read as one" * 20, encoding="utf-8")
    with pytest.raises(UserError, match="not a database"):
        open_database(f"sqlite:///{tmp_path / 'y.db'}")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "no database URL"),
        ("mysql://x/y", "not supported"),
        ("sqlite://", "in memory"),
        ("postgresql://nobody@127.0.0.1:9/none", "cannot be opened"),
    ],
)
def test_what_is_no_database_is_refused(url: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_database(url)


def _with_one_more(folder: Path, then: str = "") -> None:
    """The migrations of this version, and one to come."""
    from evalflow.addons.studio.store import database

    shutil.copytree(database.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "9998_later.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n\n"
        f"revision = '9998'\ndown_revision = '{HEAD}'\nbranch_labels = None\ndepends_on = None\n\n\n"
        "def upgrade() -> None:\n    op.add_column('labels', sa.Column('later', sa.Text(), nullable=True))\n" + then,
        encoding="utf-8",
    )


def test_who_waits_too_long_for_other_writers_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'e.db'}")) as opened:
        with opened.writing(), monkeypatch.context() as patch:
            patch.setattr(database_module, "BUSY_S", 0.01)
            with pytest.raises(InfrastructureError, match="others have been writing"), opened.writing():
                pass
        with opened.writing():  # the one who failed has left nothing behind
            pass
