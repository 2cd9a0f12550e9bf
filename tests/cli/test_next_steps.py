"""What each verb prints as a next step, a hint or a correction runs in the folder in which it was printed."""

from __future__ import annotations

import re
import shlex
import shutil
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path

import polars as pl
import pytest

from evalflow.cli import run_command
from evalflow.cli.verbs import VERBS
from evalflow.stats import simulation

pytestmark = pytest.mark.slow

Said = Callable[[Sequence[str]], tuple[int, str]]
RUN = ("dataset=rag", "metric=relevance", "limit=20")
A, B = "outputs/runs/a", "outputs/runs/b"
LINES: Mapping[str, Sequence[Sequence[str]]] = {
    "run": [RUN, ("-m", *RUN, "seed=1,2"), ("datset=rag",), ()],
    "check": [("check", *RUN), ("check", "dataset=rag")],
    "resume": [("resume", A), ("resume", A, "limit=5"), ("resume", "outputs/runs/c")],
    "cases": [("cases", A), ("cases", A, "--failed"), ("cases", A, "--metric", "relevence")],
    "report": [("report", A), ("report", A, "metric.relevence.threshold=1")],
    "open": [("open", A), ("open", "outputs/runs/c")],
    "compare": [("compare", A, B), ("compare", A)],
    "rank": [("rank", A, B), ("rank", A), ("rank", A, B, "--metric", "relevence")],
    "race": [("race",), ("race", *RUN)],
    "prove": [("prove",), ("prove", "relevence")],
    "calibrate": [("calibrate", A), ("calibrate", A, "--sample", "18", "--out", "labels.csv")],
    "align": [("align", "relevance", A), ("align", "relevence", A)],
    "plan": [("plan", "--from", A, "--width", "0.2"), ("plan",)],
    "list": [("list",), ("list", "metrics")],
    "show": [("show", "relevance"), ("show", "relevence")],
    "new": [
        ("new", "metric", "mine"),
        ("new", "dataset", "few", "--path", "few.jsonl"),
        ("new", "experiment", "mine", *RUN),
    ],
    "completion": [("completion", "bash"), ("completion", "bsh")],
    "schema": [("schema", "metric"), ("schema", "metrics")],
    "cache": [("cache", "stats"), ("cache", "prune"), ("cache", "stat")],
    "tiamat": [("tiamat", "none.json"), ("-m", "tiamat", "none.json")],
    "import": [("import", "promptfo", "none.yaml"), ("import", "promptfoo", "none.yaml")],
    "export": [("export", "otl", A), ("export", "otel", A)],
    "users": [("users", "list"), ("users", "lst")],
    "connections": [("connections", "list"), ("connections", "lst")],
    "backup": [("backup", "copy.tar.gz"), ("backup",)],
    "restore": [("restore", "none.tar.gz"), ("restore",)],
    "serve": [("serve", "--prt", "1")],  # what serves does not end by itself
    "worker": [("worker", "--onc")],
    "mcp": [("mcp", "--hst", "x")],
}
"""Command lines of each verb, right ones and mistaken ones."""
_FORM = re.compile(r"\.\.\.|\b[A-Z]{3,}\b|target=openai|127\.0\.0\.1")
ENDLESS = frozenset({"serve", "worker", "mcp"})


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs and a file of cases, to be copied."""
    folder = tmp_path_factory.mktemp("two_runs")
    with chdir(folder):
        case = '{"question": "Q?", "answer": "A.", "reference": "A."}\n'
        Path("few.jsonl").write_text(case, encoding="utf-8")
        for run in (A, B):
            assert run_command([*RUN, f"hydra.run.dir={run}"]) == 0
    return folder


@pytest.fixture
def said(two_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command line in a copy of the folder with two runs; returns its exit code and what it prints."""
    shutil.copytree(two_runs, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda *_: True)
    monkeypatch.setattr(simulation, "RUNS", 40)  # nobody reads the numbers of a plan here

    def run(words: Sequence[str]) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command(list(words))
        return code, "".join(capsys.readouterr())

    return run


def commands(text: str) -> list[list[str]]:
    """The command lines in a text, without remarks in brackets behind them.

    Left out are forms, which have dots or a word in capitals, and what needs a service.
    """
    found = re.findall(r"python -m evalflow (.*?)(?:   \(.*\))?$", text, re.MULTILINE)
    return [shlex.split(line) for line in dict.fromkeys(found) if not _FORM.search(line)]


def _fill_sheet() -> None:
    """Label the answers of a sheet, as people do before they go on."""
    if (sheet := Path("labels.csv")).is_file():
        values = {"value": pl.lit("1"), "by": pl.lit("anna")}
        pl.read_csv(sheet, infer_schema=False).with_columns(**values).write_csv(sheet)


def test_each_verb_has_its_lines() -> None:
    assert set(LINES) == {name for name in VERBS.names() if VERBS.ships(name)}


@pytest.mark.parametrize("verb", LINES)
def test_what_a_verb_prints_to_be_typed_runs(verb: str, said: Said) -> None:
    for words in LINES[verb]:
        code, text = said(words)
        assert code in (0, 2), text
        assert "Traceback" not in text
        for line in commands(text):
            _fill_sheet()
            if not ENDLESS.intersection(line[:1]) or "--help" in line:
                after, told = said(line)
                assert after == 0, f"{shlex.join(words)} printed {shlex.join(line)}, which ended with {after}:\n{told}"
