"""A workspace in a folder of the test's own, on each kind of database."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from evalflow.addons.studio.work.space import Workspace, open_workspace


@pytest.fixture
def space(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Workspace]:
    monkeypatch.chdir(tmp_path)
    opened = open_workspace(database_url)
    yield opened
    opened.close()
