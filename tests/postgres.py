"""Databases for tests: SQLite, and a PostgreSQL of the tests' own behind a socket in a folder, gone with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, the newest first."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if found:
        return found[0].parent
    there = shutil.which("initdb")
    return Path(there).parent if there else None


@contextmanager
def cluster(bin_dir: Path) -> Generator[str]:
    """A running cluster; gives its URL."""
    folder = Path(tempfile.mkdtemp(prefix="evalflow-postgres-"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    data = folder / "data"

    def run(program: str, *arguments: str) -> None:
        command = [*as_user, str(bin_dir / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)

    try:
        run("initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-w", "-o", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    """The URL of a PostgreSQL; skips, saying so, where there is none."""
    bin_dir = programs()
    if bin_dir is None:
        pytest.skip("NO POSTGRESQL: what is tested on it is left out; apt-get install postgresql")
    with cluster(bin_dir) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'evalflow.db'}"
    from sqlalchemy import create_engine, text

    url: str = request.getfixturevalue("postgres")
    name = f"t{uuid4().hex}"  # a schema of its own, which is made and dropped sooner than a database
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return f"{url}&options=-csearch_path%3D{name}"
