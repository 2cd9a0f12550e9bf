"""Files and functions stay small: the tail of a code base is guarded by a test, not by hope."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import evalflow

PACKAGE = Path(evalflow.__file__).parent
FILE_LINES = 300
FUNCTION_LINES = 60

MODULES = sorted(PACKAGE.rglob("*.py"))


def test_there_is_something_to_measure() -> None:
    assert len(MODULES) > 50


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_size(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= FILE_LINES
    assert too_long(text) == []


def test_a_long_function_is_found() -> None:
    body = "        pass\n" * FUNCTION_LINES
    assert too_long(f"class A:\n    async def f(self):\n{body}") == [("f", FUNCTION_LINES + 1)]


def too_long(text: str) -> list[tuple[str, int]]:
    """Functions with more lines than allowed, decorators not counted."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    sizes = [(node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    return [(name, lines) for name, lines in sizes if lines > FUNCTION_LINES]
