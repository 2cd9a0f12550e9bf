"""What gates say, of every kind, with and without labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evalflow.report.gate_sentences import (
    AboutGates,
    beside_value,
    gates_once,
    of_exit,
    of_gate,
    of_gates,
    without_value,
)
from evalflow.summary.gates import Gate, GateRow
from evalflow.summary.rows import GateOutcome
from evalflow.summary.verdicts import Condition
from tests.report.outcomes import gate_outcome

AGAIN = "ask them again: python -m evalflow resume outputs/x --retry-errors"
ABOUT = AboutGates([], (), AGAIN)
AT_LEAST = Condition(">=", 0.8)
ROW = GateRow("desk", "bot", "tone", "j", 0.75, 0.7, 0.79, False, n=100, n_scored=100)
OPEN = replace(ROW, high=0.82, passed=None, cases_needed=300)


def said(gate: Gate, row: GateRow, about: AboutGates = ABOUT) -> str:
    return of_gate(gate, row, about).message


@pytest.mark.parametrize(
    ("metric", "statistic", "tag", "name"),
    [
        ("tone", "mean", None, "tone mean >= 0.8"),
        ("tone", "pass_rate", "fees", "tone@fees pass_rate >= 0.8"),
        ("cases", "pass_rate", None, "cases pass_rate >= 0.8"),
        ("tone", "median", None, "tone median >= 0.8"),
        ("tone", "latency_p95", None, "tone latency_p95 >= 0.8"),
        (None, "mean", "fees", "tag:fees mean >= 0.8"),
        ("tone", "recall[yes]", None, "tone recall[yes] >= 0.8"),
    ],
)
def test_a_gate_of_any_kind(metric: str | None, statistic: str, tag: str | None, name: str) -> None:
    row = replace(ROW, metric=metric or "tone")
    of = "desk · bot · j" if metric else "tone · desk · bot · j"
    cases = "cases" if metric == "cases" else "scores"
    expected = f"{name}: 0.75 [0.7, 0.79] ({of}); rests on 100 of 100 {cases}"
    assert said(Gate(metric, statistic, AT_LEAST, tag), row) == expected
    more = "about 300 cases would decide if the result stays the same"
    assert said(Gate(metric, statistic, AT_LEAST, tag), replace(row, passed=None, cases_needed=300)).endswith(more)


GATE = Gate("tone", "mean", AT_LEAST)
JUDGED = replace(ROW, value=0.9, low=0.85, high=0.95, passed=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"judged": JUDGED},
            "corrected by labels of 40 answers; by the judge alone it passes: 0.9 [0.85, 0.95",
        ),
        (
            {"judged": JUDGED, "compared": 90},
            "corrected by labels of 40 cases in each run; by the judge alone",
        ),
        ({"judged": JUDGED, "judge": None}, "by the metric alone it passes: 0.9"),
        (
            {"uncorrected": "the labelled answers can hardly have been drawn at random"},
            "the judge alone decides, despite labels of 40 answers (the labelled answers can hardly",
        ),
        ({"labelled": 5, "uncorrected": "fewer than 15"}, "labels of 5 answers; 15 would do to correct it"),
        (
            {"metric": "cases", "judge": None, "uncorrected": "why"},
            "); labels of 40 answers correct nothing (why); rests",
        ),
    ],
)
def test_labels(changes: dict[str, Any], expected: str) -> None:
    assert expected in said(GATE, replace(ROW, **{"labelled": 40, **changes}))


@pytest.mark.parametrize(
    ("row", "note"),
    [
        (ROW, ""),
        (OPEN, "about 300 cases would decide if the result stays the same"),
        (replace(OPEN, cases_needed=None), "it lies on the limit, which no number of cases decides"),
        (replace(OPEN, low=None, high=None), "it has no interval, and so decides nothing: more cases, or point: true"),
        (
            replace(OPEN, low=None, high=None, method="none: too skewed for 60 cases"),
            "it has no interval (too skewed for 60 cases), and so decides nothing: more cases, a gate on the pass rate "
            "of a threshold, or point: true",
        ),
        (replace(OPEN, looked="look 1 of 5"), "more cases may decide it"),
        (replace(OPEN, looked="look 1 of 5", in_error=7), f"7 cases in error could turn it; {AGAIN}"),
        (replace(OPEN, undefined_in="this run"), "more scores of this run are undefined than max_undefined_rate: 0.1 "),
        (replace(OPEN, value=None, n_scored=0, n_undefined=100), "nothing is scored, and so it decides nothing"),
        (replace(OPEN, value=None, n_scored=0), f"nothing is scored, and so it decides nothing; {AGAIN}"),
        (replace(OPEN, low=None, method="none: stopped by looks"), "it decides nothing: run all cases, without a stop"),
        (replace(OPEN, judged=JUDGED), "about 300 labels of these answers would decide if the result stays the same"),
        (replace(OPEN, judged=JUDGED, cases_needed=None), "labels of all these answers would not decide"),
        (
            replace(OPEN, judged=JUDGED, cases_needed=None, compared=90),
            "more cases with labels in both runs may decide it",
        ),
    ],
)
def test_an_undecided_gate_says_what_would_decide_it(row: GateRow, note: str) -> None:
    found = of_gate(GATE, row, ABOUT)
    assert found.note.startswith(note) if note else not found.note
    assert found.message.endswith(found.note)


def test_what_is_known_of_no_score_is_not_said_to_lack_scores() -> None:
    unknown = replace(OPEN, value=None, low=None, high=None, n=0, n_scored=0)
    found = of_gate(replace(GATE, statistic="latency_p95"), unknown, ABOUT)
    assert found.note == "latency_p95 is known of no score, and so it decides nothing"


def test_a_baseline_that_ended_early_is_named() -> None:
    gate = Gate("tone", "mean", Condition(">=", -0.02), baseline=True)
    early = "the baseline ended early (interrupted); only its finished part is compared"
    row = replace(ROW, compared=90)
    expected = "tone mean not worse than the baseline by 0.02: 0.75 [0.7, 0.79] (desk · bot · j); rests on 90 cases of"
    assert said(gate, row, replace(ABOUT, of_baseline=[early])).startswith(expected)
    missed = "if 5 % of all cases went from best to worst, it would be worse by that much, and 20 cases may show none"
    assert missed in said(gate, replace(ROW, compared=20, unseen_share=0.05))
    assert early in said(gate, row, replace(ABOUT, of_baseline=[early]))
    assert early not in said(GATE, row, replace(ABOUT, of_baseline=[early]))
    assert without_value(gate, "").note == "no scored case in common with the baseline"
    assert without_value(gate, "the baseline is gone").note == "the baseline is gone"


def test_gates_in_words() -> None:
    def gate(name: str, passed: bool | None) -> GateOutcome:
        return gate_outcome(name=name, passed=passed)

    assert of_gates([]) == ""
    assert of_gates([gate("a", True)]) == "The gate passed."
    assert of_gates([gate("a", True), gate("b", True)]) == "All 2 gates passed."
    several = [gate("a", False), gate("b", None), gate("c", True)]
    assert of_gates(several) == "1 of 3 gates failed: a. 1 of 3 gates undecided: b."


def test_labels_of_equal_answers_in_another_run_are_said_to_be_from_there() -> None:
    about = replace(
        ABOUT, followed=[{"dataset": "desk", "metric": name, "run": f"run-{name}"} for name in ("tone", "x")]
    )
    text = of_gate(GATE, replace(ROW, labelled=40, judged=JUDGED), about).message
    assert "corrected by labels of 40 answers in run run-tone, of equal answers; by the judge alone" in text


def test_a_list_of_gates_says_once_why_labels_correct_nothing() -> None:
    few = replace(ROW, labelled=5, uncorrected="fewer than 15")
    gates = [
        gate_outcome(**of_gate(GATE, row, ABOUT).document(), name=str(GATE), passed=row.passed)
        for row in (few, replace(few, metric="tone"), replace(few, labelled=6), replace(ROW, labelled=None))
    ]
    messages = [gate["message"] for gate in gates_once(gates)]
    assert [message.count("despite labels") for message in messages] == [1, 0, 1, 0]
    assert "; the judge alone decides;" in f"{messages[1]};"
    assert gates[1]["in_spite"] in gates[1]["message"]
    assert beside_value(gates[3]) == "; ".join(part for part in (gates[3]["basis"], gates[3]["note"]) if part)


def test_why_a_run_is_inconclusive() -> None:
    gates = [gate_outcome(name="tone mean >= 0.8", passed=None), gate_outcome(name="other", passed=True)]
    states = {"scored": 98, "error": 2}
    assert of_exit(3, states, gates, 0.01).startswith("inconclusive: 2 of 100 scores could not be made, and max_error")
    assert of_exit(3, states, gates, 0.02) == "inconclusive: the scores cannot decide tone mean >= 0.8 (exit code 3)"
    assert of_exit(1, states, gates, 0.02) == "a gate failed (exit code 1)"
