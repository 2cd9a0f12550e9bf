"""Files and functions stay small: the tail of a code base is guarded by a test, not by hope."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import evalflow

pytestmark = pytest.mark.slow

PACKAGE = Path(evalflow.__file__).parent
FILE_LINES = 500
FUNCTION_LINES = 60

MODULES = sorted(PACKAGE.rglob("*.py"))


def test_there_is_something_to_measure() -> None:
    assert len(MODULES) > 50


def test_no_file_is_too_long() -> None:
    assert {path.name: lines for path in MODULES if (lines := len(text_of(path).splitlines())) > FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    assert {path.name: found for path in MODULES if (found := too_long(text_of(path)))} == {}


def test_a_long_function_is_found() -> None:
    body = "        pass\n" * FUNCTION_LINES
    assert too_long(f"class A:\n    async def f(self):\n{body}") == [("f", FUNCTION_LINES + 1)]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def too_long(text: str) -> list[tuple[str, int]]:
    """Functions with more lines than allowed, decorators not counted."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    sizes = [(node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions]
    return [(name, lines) for name, lines in sizes if lines > FUNCTION_LINES]
