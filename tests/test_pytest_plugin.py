"""The plugin for pytest: the gates of a run are tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import pytest

from tests.forked import Forked

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
"""
HEAD = """
import pytest
from evalflow.pytest_plugin import evalflow_run

PASSING = ("dataset=rag", "metric=exact_match", "limit=2", 'gate={exact_match: {n: ">= 2"}}')
FAILING = ("dataset=rag", "metric=exact_match", "limit=2", 'gate={exact_match: {n: ">= 3"}}')
"""


LEAN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,evalflow.pytest_plugin"}
"""Without the other plugins that are installed here: each session, and each of its workers, would import them."""


WITHOUT = ("-p", "no:evalflow.pytest_plugin")


class Session(NamedTuple):
    code: int
    stdout: str


def be_pytest(*options: str) -> None:
    """Be `python -m pytest`; that evalflow has loaded a plugin's package before is a matter of the tests."""
    sys.exit(pytest.main(["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning", *options]))


def pytest_in(folder: Path, *options: str, **env: str) -> Session:
    """A session in a process of its own, from whose modules this one's are kept apart."""
    with TemporaryFile("w+b") as said:
        code = Forked(options, folder, said.fileno(), env={**os.environ, **LEAN, **env}, does=be_pytest).wait()
        said.seek(0)
        return Session(code, said.read().decode())


def ended(folder: Path, *options: str) -> str:
    (folder / "test_bot.py").write_text(TESTS, encoding="utf-8")
    said = pytest_in(folder, "-q", "-rA", "--continue-on-collection-errors", *options).stdout
    assert "Traceback" not in said
    return said


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "workers"])
def test_each_gate_is_a_test_of_one_run(options: tuple[str, ...], tmp_path: Path) -> None:
    said = ended(tmp_path, *options)
    assert re.search(r"2 failed, 2 passed, 1 skipped, 2 errors in ", said), said
    for name in ("recall", "precision"):
        assert f"PASSED test_bot.py::test_guardrails::jailbreak_guardrails {name}" in said
    assert "\nexact_match mean >= 0.8: 0 [0, 0.1252] (rag · recorded); rests on 60 of 60 scores" in said
    assert "\nundecided: exact_match mean >= 0.1: " in said
    assert "did you mean 'rag'?" in said
    assert "this run has no gate, so that it could not fail" in said
    assert len(list(tmp_path.glob("outputs/runs/*/run.json"))) == 4


@pytest.mark.slow
def test_an_error_of_the_run_is_told_without_a_traceback(tmp_path: Path) -> None:
    words = "'dataset=rag', 'metric=coherence', 'judge=vllm', 'judge.model=m', 'judge.base_url=http://127.0.0.1:9/v1'"
    text = f"""
from evalflow.pytest_plugin import evalflow_run

test_it = evalflow_run({words}, 'judge.attempts=1', 'gate={{coherence: {{mean: ">= 0.8"}}}}')
"""
    (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
    said = pytest_in(tmp_path, "-q").stdout
    assert "1 failed" in said
    assert "http://127.0.0.1:9/v1" in said
    assert "Traceback" not in said
    assert "pytest_plugin.py" not in said.partition("short test summary")[0]


def session_of(folder: Path, text: str, *options: str) -> Session:
    (folder / "test_it.py").write_text(HEAD + text, encoding="utf-8")
    done = pytest_in(folder, "-q", "-rA", "-p", "no:cacheprovider", *options)
    assert "INTERNALERROR" not in done.stdout
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("test_it = evalflow_run(*PASSING)", WITHOUT, "no plugin collects this evalflow_run"),
        ("class TestIt:\n    test_it = evalflow_run(*PASSING)", WITHOUT, "no plugin collects this evalflow_run"),
        ("guardrails = evalflow_run(*PASSING)", (), "evalflow_run at test_it.py:7"),
        ("RUNS = [evalflow_run(*PASSING) for _ in range(2)]", (), "pytest does not collect this run"),
        ("class Bot:\n    test_it = evalflow_run(*PASSING)", (), "pytest does not collect this run"),
        ("class TestIt:\n    gates = evalflow_run(*PASSING)", (), "pytest does not collect this run"),
        ("guardrails = evalflow_run(*PASSING)", ("-n", "2"), "pytest does not collect this run"),
        ("guardrails = evalflow_run(*PASSING)", ("-k", "test_other"), "pytest does not collect this run"),
        ("def test_it():\n    evalflow_run(*PASSING)", (), "an evalflow_run within a test tests nothing"),
        ("def test_it():\n    evalflow_run(*PASSING)", WITHOUT, "an evalflow_run within a test tests nothing"),
        (
            "@pytest.fixture\ndef it():\n    return evalflow_run(*PASSING)\n\ndef test_it(it): ...",
            (),
            "an evalflow_run within a test tests nothing",
        ),
        (
            "test_it = pytest.mark.parametrize('judge', ['a', 'b'])(evalflow_run(*PASSING))",
            (),
            "parametrize would change nothing about an evalflow_run",
        ),
        (
            "pytestmark = pytest.mark.usefixtures('tmp_path')\ntest_it = evalflow_run(*PASSING)",
            (),
            "usefixtures would change nothing about an evalflow_run",
        ),
    ],
)
def test_a_run_that_is_not_collected_fails(text: str, options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = session_of(tmp_path, f"{text}\n\ndef test_other(): ...\n", *options)
    assert done.code in (1, 2), done.stdout
    assert said in done.stdout


@pytest.mark.slow
def test_marks_hold_for_gates(tmp_path: Path) -> None:
    text = """
test_left_out = pytest.mark.skip("not today")(evalflow_run(*FAILING))
test_unless = pytest.mark.skipif("1 + 1 == 2", reason="as always")(evalflow_run(*FAILING))
test_known = pytest.mark.xfail(reason="known")(evalflow_run(*FAILING))
test_strict = pytest.mark.xfail(strict=True)(evalflow_run(*PASSING))
test_slow = pytest.mark.slow(evalflow_run(*PASSING))

@pytest.mark.skip("all of it")
class TestSkipped:
    test_it = evalflow_run(*FAILING)

class TestIt:
    test_it = evalflow_run(*PASSING)
"""
    done = session_of(tmp_path, text, "-W", "ignore::pytest.PytestUnknownMarkWarning")
    assert "1 failed, 2 passed, 3 skipped, 1 xfailed" in done.stdout, done.stdout
    for reason in ("not today", "as always", "all of it"):
        assert f"SKIPPED [1] test_it.py:{{}}: {reason}".partition("{}")[2] in done.stdout
    only = session_of(tmp_path, text, "-m", "slow", "-W", "ignore::pytest.PytestUnknownMarkWarning")
    assert "1 passed, 6 deselected" in only.stdout, only.stdout
    one = session_of(tmp_path, text, "test_it.py::TestIt", "-W", "ignore::pytest.PytestUnknownMarkWarning")
    assert one.stdout.strip().splitlines()[-1].startswith("1 passed in "), one.stdout


@pytest.mark.slow
def test_a_module_that_is_skipped_skips_its_gates(tmp_path: Path) -> None:
    skip, made = "pytest.skip('no bot here', allow_module_level=True)\n", "test_it = evalflow_run(*FAILING)\n"
    for text in (skip + made, made + skip):
        done = session_of(tmp_path, text)
        assert done.stdout.strip().splitlines()[-1].startswith("1 skipped in "), done.stdout


@pytest.mark.slow
def test_each_case_may_be_a_test_that_says_why_it_fails(tmp_path: Path) -> None:
    text = """
CASES = [
    {"id": "loan", "question": "How long?", "answer": "28 days.", "reference": "28 days."},
    {"id": "late", "question": "How much?", "answer": "Nothing.", "reference": "20 cents."},
    {"id": "none", "question": "Why?", "answer": "So."},
]
test_bot = evalflow_run(
    "metric=exact_match", 'gate={exact_match: {n: ">= 2"}}', cases=CASES, target=lambda case: "28 days.",
    metrics={"short": lambda case, answer: len(answer.answer) < 20}, each_case=True,
)
test_again = evalflow_run("metric=answer_words", cases=CASES, each_case=True)
"""
    said = session_of(tmp_path, text).stdout
    for passed in ("::exact_match n", "::loan"):
        assert f"PASSED test_it.py::test_bot{passed}" in said, said
    assert "exact_match: scored 0: the answer does not equal the reference" in said
    assert "exact_match: skipped: the case has no reference" in said
    failures = said.partition("short test summary")[0]  # which repeats whole messages where CI is set, parts elsewhere
    assert failures.count("none of the run's metrics has a threshold, so that it could not fail") == 3
    one = session_of(tmp_path, text, "test_it.py::test_bot::late").stdout
    assert "1 failed in" in one


@pytest.mark.slow
def test_parameters_and_fixtures_are_those_of_a_test_of_yours(tmp_path: Path) -> None:
    text = """
import evalflow

@pytest.fixture
def cases():
    return [{"id": "a", "question": "How long?", "answer": "28 days.", "reference": "28 days."}]

@pytest.mark.parametrize("least", [1, 2])
def test_it(cases, least):
    run = evalflow.run("metric=exact_match", f'gate={{exact_match: {{n: ">= {least}"}}}}', cases=cases)
    assert run.passed, run.sentence
"""
    said = session_of(tmp_path, text).stdout
    assert "1 failed, 1 passed" in said, said
    assert "AssertionError: gate fails: exact_match n >= 2: 1" in said


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    [point] = entry_points(group="pytest11", name="evalflow.pytest_plugin")
    assert point.load().evalflow_run


def test_a_session_without_a_run_loads_little_of_evalflow() -> None:
    code = "import evalflow.pytest_plugin, sys; print(*(m for m in sys.modules if m.startswith('evalflow')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(found) == ["evalflow", "evalflow.errors", "evalflow.pytest_plugin", "evalflow.version"]
