"""Cases that pass everything, on the command line: the head, the figure, gates, JUnit and comparisons."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

FRANCS = {"identifier": "string_matching", "params": {"keyword": "francs"}}
NUMBER = {"identifier": "regex_matching", "params": {"pattern": "[0-9]"}}
ANSWERS = {"right": "It costs 5 francs.", "no number": "It costs some francs.", "no unit": "It costs 5."}


def desk(program: Program, **others: str) -> tuple[str, ...]:
    """Three cases with two checks each, one of which passes both; gives the words of a run."""
    rows: list[dict[str, Any]] = [
        {"id": name, "question": "What is the fee?", "answer": answer, "checks": [FRANCS, NUMBER], "tags": ["fees"]}
        for name, answer in {**ANSWERS, **others}.items()
    ]
    program.write("desk.jsonl", *rows)
    (program.folder / "conf/dataset").mkdir(parents=True, exist_ok=True)
    (program.folder / "conf/dataset/desk.yaml").write_text("# @package dataset.desk\npath: desk.jsonl\n")
    return "dataset=desk", "metric=checks"


def rows_of(program: Program) -> list[dict[str, Any]]:
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    return [row for row in summary["rows"] if row["metric"] == "cases"]


def test_a_run_is_headed_by_them_and_has_their_figure(program: Program) -> None:
    done = program(*desk(program))
    assert done.returncode == 0, done.stderr
    said = "33 % of 3 cases pass everything (6 to 79 %)"
    assert said in done.stdout
    assert f"**{said}**" in (program.latest / "summary.md").read_text(encoding="utf-8")
    assert said in (program.latest / "report.html").read_text(encoding="utf-8")
    found = [(row["statistic"], row["tag"], row["n"], row["value"]) for row in rows_of(program)]
    assert found == [("pass_rate", None, 3, pytest.approx(1 / 3)), ("pass_rate", "fees", 3, pytest.approx(1 / 3))]


@pytest.mark.parametrize(
    ("gate", "code", "said"),
    [
        ('{cases: {pass_rate: ">= 0.9"}}', 1, "gate FAILED  cases pass_rate >= 0.9: 0.3333 [0.06149, 0.7923]"),
        ('{cases: {pass_rate: ">= 0.3", point: true}}', 0, "gate passed  cases pass_rate >= 0.3: 0.3333"),
        ('{cases@fees: {n_scored: ">= 3"}}', 0, "gate passed  cases@fees n_scored >= 3: 3"),
        ('{cases: {mean: ">= 0.9"}}', 2, "the cases as a whole have no statistic 'mean'"),
        ('{cases: {pass_rate: ">= 0.9", looks: anytime}}', 2, "whether cases pass everything is only known at the end"),
        ('{case: {pass_rate: ">= 0.9"}}', 2, "did you mean 'cases'?"),
    ],
)
def test_they_can_be_gated(program: Program, gate: str, code: int, said: str) -> None:
    done = program(*desk(program), f"gate={gate}")
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def test_junit_fails_what_made_their_gate_fail(program: Program) -> None:
    program(*desk(program), 'gate={cases: {pass_rate: ">= 0.9"}}')
    junit = (program.latest / "junit.xml").read_text(encoding="utf-8")
    assert junit.count("<failure") == 3  # the gate, and each check that fails


def test_one_metric_alone_has_no_such_figure(program: Program) -> None:
    words = ("dataset=rag", "metric=exact_match", "limit=2")
    done = program(*words, 'gate={cases: {pass_rate: ">= 0.9"}}')
    assert done.returncode == 2
    assert "only exact_match has pass and fail" in done.stderr
    assert "gate this metric: 'gate={exact_match: {pass_rate: \">= 0.9\"}}'" in done.stderr
    assert program(*words).returncode == 0
    assert rows_of(program) == []


def test_no_metric_can_take_their_name(program: Program) -> None:
    done = program("dataset=rag", "metric=exact_match", "+metric.exact_match.name=cases")
    assert done.returncode == 2
    assert "no metric can be called 'cases'" in done.stderr


@pytest.mark.parametrize("how", [(), ("--unpaired",)])
def test_two_runs_are_compared_by_them(program: Program, how: tuple[str, ...]) -> None:
    program(*desk(program), "hydra.run.dir=before")
    program(*desk(program, **{"no unit": "It costs 5 francs."}), "hydra.run.dir=after")
    rows = json.loads(program("compare", "before", "after", "--json", *how).stdout)["rows"]
    [own] = [row for row in rows if row["metric"] == "cases"]
    assert (own["statistic"], own["n"]) == ("pass_rate", 6 if how else 3)
    assert (own["value_a"], own["value_b"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    metric = {"dataset": "desk", "checks": [FRANCS]}
    program.write("desk.jsonl", {"id": "right", "question": "What is the fee?", "answer": "5 francs", **metric})
    program("dataset=desk", "metric=checks", "hydra.run.dir=other")
    rows = json.loads(program("compare", "before", "other", "--json", *how).stdout)["rows"]
    assert [row["metric"] for row in rows] == ["string_matching"]  # the cases had other metrics to pass


def test_a_baseline_holds_for_them_too(program: Program) -> None:
    program(*desk(program), "hydra.run.dir=before")
    done = program(*desk(program), "baseline=before", "gate={cases: {pass_rate: {not_worse_by: 0.7}}}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gate passed  cases pass_rate not worse than the baseline by 0.7" in done.stdout
