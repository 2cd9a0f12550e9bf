"""Databases for tests: SQLite, and a PostgreSQL of the tests' own behind a socket in a folder, gone with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.memory import memory


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, the newest first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if found:
        return found[0].parent
    there = shutil.which("initdb")
    return Path(there).parent if there else None


ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For tests that take long and send PostgreSQL no statement that it does not get from the others of the store and of
work: they run on SQLite alone. What depends on transactions, locks, orders or concurrency runs on both."""


@dataclass(frozen=True)
class Cluster:
    """A PostgreSQL in a folder of its own."""

    programs: Path
    folder: Path

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def make(self) -> None:
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off -c full_page_writes=off"
        options += " -c autovacuum=off"  # no database lives long enough to gain from it
        self._run("pg_ctl", "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []  # it refuses to be run by root
        command = [*as_user, str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder)


@contextmanager
def cluster() -> Generator[Cluster]:
    """A running cluster; skips the test, saying so, where there is no PostgreSQL."""
    bin_dir = programs()
    if bin_dir is None:
        pytest.skip("NO POSTGRESQL: what is tested on it is left out; apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="evalflow-postgres-", dir=memory()))
    made = Cluster(bin_dir, folder)
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        made.make()
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    """The URL of a PostgreSQL; skips, saying so, where there is none."""
    with cluster() as running:
        yield running.url


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """The URL of an empty PostgreSQL database."""
    name = f"t{uuid4().hex}"  # a schema of its own, which is made sooner than a database
    _execute(postgres, f"CREATE SCHEMA {name}")
    return f"{postgres}&options=-csearch_path%3D{name}"


def _execute(url: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres_template(postgres: str) -> str:
    """The name of a PostgreSQL database with all tables, to be copied."""
    from evalflow.addons.studio.store import open_database

    name = "template_evalflow"
    _execute(postgres, f"CREATE DATABASE {name}")
    open_database(_renamed(postgres, name)).close()
    return name


@pytest.fixture
def postgres_copy(postgres: str, postgres_template: str) -> Generator[str]:
    """The URL of a PostgreSQL database with all tables: a copy takes half of the time that making them takes."""
    name = f"t{uuid4().hex}"
    _execute(
        postgres, f"CREATE DATABASE {name} TEMPLATE {postgres_template} STRATEGY file_copy"
    )  # half of the CPU; from PostgreSQL 15 on
    yield _renamed(postgres, name)
    _execute(postgres, f"DROP DATABASE {name} WITH (FORCE)")


def _renamed(url: str, name: str) -> str:
    return url.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all tables, to be copied."""
    from evalflow.addons.studio.store import open_database

    file = tmp_path_factory.mktemp("template") / "evalflow.db"
    open_database(f"sqlite:///{file}").close()
    return file


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with all tables, once of each kind; for tests that are ON_SQLITE of that kind alone."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_copy")
    file = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "evalflow.db")
    return f"sqlite:///{file}"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, once of each kind."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'evalflow.db'}"
