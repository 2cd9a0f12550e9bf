"""The schema is brought forward on start, with a copy of the file first, and never back."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DataError

from evalflow.addons.studio.store import Database, cases, definitions, open_database, runs
from evalflow.addons.studio.store import database as database_module
from evalflow.addons.studio.store.database import FOLDER, KEPT
from evalflow.addons.studio.store.schema import metadata
from evalflow.errors import InfrastructureError, UserError

HEAD = ScriptDirectory(str(FOLDER)).get_current_head()
BOT = {"project_id": 1, "name": "b", "title": "b", "description": "", "config": {"kind": "recorded"}}


def test_a_new_database_has_the_tables(empty_url: str) -> None:
    with closing(open_database(empty_url)) as database, database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_what_is_there_stays_when_it_is_opened_again(empty_url: str) -> None:
    first = open_database(empty_url)
    with first.writing() as connection:
        definitions.add(connection, "bot", BOT)
    first.close()
    again = open_database(empty_url)
    with again.reading() as connection:
        assert [row["name"] for row in definitions.listed(connection, "bot", 1)] == ["b"]
    assert (again.made, again.backup) == (None, None)
    again.close()


@pytest.mark.parametrize("name", ["\0", "\ud800"])
def test_a_text_that_cannot_be_asked_for_is_no_fault(name: str, empty_url: str) -> None:
    """SQLite finds nothing of a name with NUL, PostgreSQL takes none, and neither half of a surrogate pair."""
    with closing(open_database(empty_url)) as database:
        is_refused = name != "\0" or "postgres" in empty_url
        with pytest.raises(UserError, match="no database can store") if is_refused else nullcontext():
            with database.reading() as connection:
                assert runs.get(connection, name) is None


@pytest.mark.parametrize("number", [2**31, 2**63 - 1, 2**63, 10**30])
def test_a_number_that_cannot_be_asked_for_is_no_fault(number: int, empty_url: str) -> None:
    """SQLite compares with eight bytes, and PostgreSQL fails for more than the column's four."""
    with closing(open_database(empty_url)) as database:
        is_refused = number >= 2**63 or "postgres" in empty_url
        with pytest.raises(UserError, match="a number is larger") if is_refused else nullcontext():
            with database.reading() as connection:
                assert cases.get(connection, 1, number) is None


def test_another_number_that_is_too_large_in_a_block_stays_a_bug(empty_url: str) -> None:
    with closing(open_database(empty_url)) as database, pytest.raises(OverflowError):
        with database.reading():
            float(10**400)


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT date '2026-01-01' + 2147483647",  # "date out of range"
        "SELECT CAST(1e9 AS numeric(3))",  # "numeric field overflow"
        "SELECT 10.0::numeric ^ 1000000",  # "value overflows numeric format"
        "SELECT to_timestamp(1e300)",  # "timestamp out of range"
    ],
)
def test_other_values_out_of_range_stay_a_bug(asked: str, empty_url: str) -> None:
    if "postgres" not in empty_url:
        pytest.skip("SQLite has no such types")
    with closing(open_database(empty_url)) as database, pytest.raises(DataError), database.reading() as connection:
        connection.execute(text(asked))


@pytest.mark.parametrize("encoding", ["ascii", "utf-16"])
def test_another_text_that_cannot_be_encoded_in_a_block_stays_a_bug(encoding: str, empty_url: str) -> None:
    with closing(open_database(empty_url)) as database, pytest.raises(UnicodeEncodeError):
        with database.reading():
            "\ud800".encode(encoding)


def test_a_database_of_the_first_revision_gets_the_number_of_filled_examples(empty_url: str) -> None:
    database = open_database(empty_url)
    with database.writing() as connection:
        connection.execute(text("ALTER TABLE runs DROP COLUMN filled_examples"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'first'"))
        definitions.add(connection, "bot", BOT)
    database.close()
    with closing(open_database(empty_url)) as newer, newer.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert definitions.named(connection, "bot", "b", 1)
        assert runs.get(connection, "none") is None
    assert newer.path is None or newer.backup is not None
    if newer.backup is not None:
        with closing(sqlite3.connect(newer.backup)) as copy:
            assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [("first",)]
            assert "filled_examples" not in {row[1] for row in copy.execute("PRAGMA table_info(runs)")}


def test_the_schema_of_another_version_is_refused(empty_url: str) -> None:
    database = open_database(empty_url)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(UserError, match=r"another version of evalflow.*9999"):
        open_database(empty_url)


def test_an_older_file_is_copied_and_then_brought_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'e.db'}"
    database = open_database(url)
    with database.writing() as connection:
        definitions.add(connection, "bot", BOT)
    database.close()
    scripts = tmp_path / "migrations"
    with_one_more(scripts)
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
    with_one_more(scripts)
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


def test_a_failed_migration_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'e.db'}"
    open_database(url).close()
    scripts = tmp_path / "migrations"
    with_one_more(scripts, then="    raise ZeroDivisionError\n")
    with monkeypatch.context() as patch:
        patch.setattr("evalflow.addons.studio.store.database.FOLDER", scripts)
        with pytest.raises(ZeroDivisionError):
            open_database(url)
    database = open_database(url)
    with database.reading() as connection:
        assert "later" not in {column["name"] for column in inspect(connection).get_columns("labels")}
    database.close()


def test_two_that_start_together_migrate_once(empty_url: str) -> None:
    opened: list[Database] = []
    threads = [threading.Thread(target=lambda: opened.append(open_database(empty_url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for database in opened:
        database.close()


def test_tables_that_another_process_makes_between_two_questions_are_our_own(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_another(connection: Connection) -> object:
        monkeypatch.setattr(database_module, "inspect", inspect)
        open_database(empty_url).close()
        return inspect(connection)

    monkeypatch.setattr(database_module, "inspect", after_another)
    with closing(open_database(empty_url)) as database, database.reading() as connection:
        assert MigrationContext.configure(connection).get_current_revision() is not None


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
        ("nonsense", "not a database URL"),
        ("mysql://x/y", "not supported"),
        ("sqlite://", "in memory"),
        ("postgresql://nobody@127.0.0.1:9/none", "cannot be opened"),
    ],
)
def test_what_is_no_database_is_refused(url: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_database(url)


def with_one_more(folder: Path, then: str = "") -> None:
    """The migrations of this version, and one to come."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "9998_later.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n\n"
        f"revision = '9998'\ndown_revision = '{HEAD}'\nbranch_labels = None\ndepends_on = None\n\n\n"
        "def upgrade() -> None:\n    op.add_column('labels', sa.Column('later', sa.Text(), nullable=True))\n" + then,
        encoding="utf-8",
    )


def test_who_waits_too_long_for_other_writers_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'e.db'}")) as opened:
        with opened.writing(), monkeypatch.context() as patch:
            patch.setattr(database_module, "BUSY_S", 0.01)
            with pytest.raises(InfrastructureError, match="that no other program locks the file"), opened.writing():
                pass
        assert "other writers have held it" in caplog.text
        with opened.writing():  # the one who failed has left nothing behind
            pass
