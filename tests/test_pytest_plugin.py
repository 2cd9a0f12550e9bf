"""The plugin for pytest: the gates of a run are tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
from evalflow.pytest_plugin import evalflow_run

test_guardrails = evalflow_run("experiment=guardrail_gate")
test_strict = evalflow_run("dataset=rag", "metric=exact_match", 'gate={exact_match: {mean: ">= 0.8"}}')
test_unsure = evalflow_run("dataset=rag", "metric=exact_match", 'gate={exact_match: {mean: ">= 0.1"}}')
test_neutral = evalflow_run(
    "dataset=rag", "metric=exact_match", 'gate={exact_match: {mean: ">= 0.1"}}', undecided="skip"
)
test_wrong = evalflow_run("dataset=rga", "metric=exact_match")
test_toothless = evalflow_run("dataset=rag", "metric=exact_match")
not_a_test = evalflow_run("dataset=rga", "metric=exact_match")
"""


def ended(folder: Path, *options: str) -> str:
    (folder / "conftest.py").write_text('pytest_plugins = ["evalflow.pytest_plugin"]\n', encoding="utf-8")
    (folder / "test_bot.py").write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--continue-on-collection-errors", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert "Traceback" not in done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_each_gate_is_a_test_of_one_run(options: tuple[str, ...], tmp_path: Path) -> None:
    said = ended(tmp_path, *options)
    assert re.search(r"2 failed, 2 passed, 1 skipped, 2 errors in ", said), said
    for name in ("recall >= 0.65", "precision >= 0.55"):
        assert f"PASSED test_bot.py::test_guardrails::jailbreak_guardrails {name}" in said
    assert "\nexact_match mean >= 0.8: 0 [0, 0.118] (rag · recorded); rests on 60 of 60 scores" in said
    assert "\nundecided: exact_match mean >= 0.1: " in said
    assert "did you mean 'rag'?" in said
    assert "this run has no gate, so that it could not fail" in said
    assert len(list(tmp_path.glob("outputs/runs/*/run.json"))) == 4


@pytest.mark.slow
def test_an_error_of_the_run_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["evalflow.pytest_plugin"]\n', encoding="utf-8")
    words = "'dataset=rag', 'metric=coherence', 'judge=vllm', 'judge.model=m', 'judge.base_url=http://127.0.0.1:9/v1'"
    text = f"""
from evalflow.pytest_plugin import evalflow_run

test_it = evalflow_run({words}, 'judge.attempts=1', 'gate={{coherence: {{mean: ">= 0.8"}}}}')
"""
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "1 failed" in done.stdout
    assert "http://127.0.0.1:9/v1" in done.stdout
    assert "Traceback" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout.partition("short test summary")[0]
