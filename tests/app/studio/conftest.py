"""A workspace in a folder of the test's own, on each kind of database."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from evalflow.app.studio.space import Workspace, open_workspace

from ...passwords import hash_cheaply


@pytest.fixture(scope="module", autouse=True)
def _cheap_passwords() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        hash_cheaply(patch.setattr)
        yield


@pytest.fixture
def space(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Workspace]:
    monkeypatch.chdir(tmp_path)
    opened = open_workspace(database_url)
    yield opened
    opened.close()
