"""The tests lie where what they test lies."""

from __future__ import annotations

from pathlib import Path

import evalflow

PACKAGE = Path(evalflow.__file__).parent
TESTS = Path(__file__).parents[1]
OF_ALL = {"arch", "data", "docs", "packaging"}
"""What tests the repository, or several packages together."""


def test_every_folder_of_tests_is_one_of_the_package() -> None:
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert len(folders) > 20
    assert [folder for folder in folders - OF_ALL if not (PACKAGE / folder).is_dir()] == []
