"""The names for extensions: each has an example, which runs."""

from __future__ import annotations

import doctest
import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from evalflow import extend
from evalflow.cli import run_command

NAMES = [name for name in extend.__all__ if name != "Work"]  # an alias, which has no docstring


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, as examples of runs find it."""
    made = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(made)
        assert run_command(["dataset=rag", "metric=exact_match", "limit=1"]) == 0
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_each_name_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names = {"replace": replace, **{other: getattr(extend, other) for other in extend.__all__}}
    found = doctest.DocTestFinder(recurse=False).find(inspect.unwrap(getattr(extend, name)), name, globs=names)
    examples = [test for test in found if test.examples]
    assert examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for test in examples:
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
