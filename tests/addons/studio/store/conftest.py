"""A database of each kind, with all tables."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from evalflow.addons.studio.store import Database, open_database


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    opened = open_database(database_url)
    yield opened
    opened.close()
