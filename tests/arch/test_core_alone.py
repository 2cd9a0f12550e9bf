"""The tests of the core need no addon: without one of them, all that fails is what tests it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
OF_THE_WHOLE = {"addons", "arch", "docs", "packaging"}
"""What tests an addon, or the repository with its addons."""
SHARED_BY_ADDONS = {"finishing.py", "forked.py", "off_loop.py", "postgres.py"}
"""Fixtures of the addons' tests, which nothing else imports but those of the same name."""


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_the_tests_of_the_core_import_no_addon() -> None:
    files = [path for path in TESTS.rglob("*.py") if path.relative_to(TESTS).parts[0] not in OF_THE_WHOLE]
    assert len(files) > 100
    used = {
        path.relative_to(TESTS).as_posix(): sorted(addons)
        for path in files
        if path.name not in SHARED_BY_ADDONS
        and (addons := {name for name in imported(path) if name.startswith(("evalflow.addons", "tests.addons"))})
    }
    assert used == {}
