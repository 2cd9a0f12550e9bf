"""A workspace in a folder of the test's own, on each kind of database."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from evalflow.addons.studio.work.space import Workspace, open_workspace


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with all tables, once of each kind; for tests that are ON_SQLITE of that kind alone."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_copy")
    file = shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "evalflow.db")
    return f"sqlite:///{file}"


@pytest.fixture
def space(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Workspace]:
    monkeypatch.chdir(tmp_path)
    opened = open_workspace(database_url)
    yield opened
    opened.close()
