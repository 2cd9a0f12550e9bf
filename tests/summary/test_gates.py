"""Gates: the grammar, names that are not known, and rows that pass, fail or cannot decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from evalflow.errors import UserError
from evalflow.records import FigureSpec, ScoreRecord
from evalflow.summary import evaluate_gates, parse_condition, parse_gates, summarise

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]
Declare = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        (">= 0.8", 0.8, True), (">=0.8", 0.79, False), ("<= .1", 0.1, True), ("> 0.8", 0.8, False),
        ("< 1e-2", 0.0, True), ("== 1", 1.0, True), (" <  -0.5 ", -1.0, True),
    ],
)  # fmt: skip
def test_conditions(text: str, value: float, holds: bool):
    assert parse_condition(text, "gate").holds(value) is holds


@pytest.mark.parametrize("text", ["0.8", "=> 0.8", ">= ", ">= high", ">= 0.8 and <= 0.9", "!= 1", ">= nan"])
def test_what_is_no_condition_is_refused(text: str):
    with pytest.raises(UserError, match=r"gate\.m\.mean: .* is no condition"):
        parse_condition(text, "gate.m.mean")


def test_all_faults_are_found_at_once_and_the_nearest_name_is_given(declare: Declare):
    metrics = {"faithfulness": declare("faithfulness")}
    gates = {"faithfulnes": {"mean": ">= 1"}, "faithfulness": {"pass_rat": ">= 1", "recall": ">= 1", "mean": "high"}}
    with pytest.raises(UserError) as caught:
        parse_gates(gates, metrics)
    messages = [str(problem) for problem in caught.value.problems]
    assert len(messages) == 4
    text = "\n".join(messages)
    assert "gate.faithfulnes.mean: no metric 'faithfulnes' in this run\n  hint: did you mean 'faithfulness'?" in text
    assert "did you mean 'pass_rate'?" in text
    assert "metric 'faithfulness' has no statistic 'recall'" in text
    assert "gate.faithfulness.mean: 'high' is no condition" in text


@pytest.mark.parametrize("statistic", ["mean", "median", "worst", "ci_low", "pass_rate", "recall"])
@pytest.mark.parametrize("condition", [">= 5", "<= 80", ">= -1"])
def test_a_limit_that_a_share_can_never_meet_is_refused(declare: Declare, statistic: str, condition: str):
    metrics = {"m": declare(figures=FigureSpec("classification", True))}
    with pytest.raises(UserError, match=rf"gate\.m\.{statistic}: {statistic} is compared with [^\n]*\n.* in 0\.\.1"):
        parse_gates({"m": {statistic: condition}}, metrics)


def test_a_limit_on_another_scale_is_fine(declare: Declare):
    counted = {"m": declare()}
    assert len(parse_gates({"m": {"n_error": "<= 5", "cost_usd": "< 2.5", "latency_p95": "<= 30"}}, counted)) == 3
    stars = {"m": declare(bounded=False)}
    assert len(parse_gates({"m": {"mean": ">= 3.5", "ci_low": "> 3"}}, stars)) == 2
    with pytest.raises(UserError, match="pass_rate is compared with 80"):
        parse_gates({"m": {"pass_rate": ">= 80"}}, stars)


def test_figures_can_be_gated_by_name(declare: Declare):
    binary = {"m": declare(figures=FigureSpec("classification", True))}
    several = {"m": declare(figures=FigureSpec("classification"))}
    assert parse_gates({"m": {"recall": ">= 1"}}, binary)[0].statistic == "recall"
    assert len(parse_gates({"m": {"macro_recall": ">= 1", "recall[tax > vat]": ">= 1"}}, several)) == 2
    with pytest.raises(UserError, match="no statistic 'recall'"):
        parse_gates({"m": {"recall": ">= 1"}}, several)


def test_a_gate_of_the_run_takes_the_place_of_the_metrics_own(declare: Declare):
    metrics = {"m": declare(gate={"mean": ">= 0.5", "median": ">= 0.1"}), "other": declare("other")}
    gates = parse_gates({"other": {"mean": "> 0"}, "m": {"mean": ">= 0.9"}}, metrics)
    assert [(g.metric, g.statistic, str(g.condition)) for g in gates] == [
        ("m", "mean", ">= 0.9"), ("m", "median", ">= 0.1"), ("other", "mean", "> 0"),
    ]  # fmt: skip
    assert parse_gates(None, {"m": declare()}) == []


def results(scores: pl.LazyFrame, gates: dict[str, str], metric: Any) -> list[bool | None]:
    metrics = {"m": metric}
    frame = summarise(scores, metrics).frame
    return [result.passed for result in evaluate_gates(parse_gates({"m": gates}, metrics), frame)]


def test_gates_pass_and_fail_by_the_point_estimate(record: Make, table: Table, declare: Declare):
    scores = table([record(0.5, 0), record(1.0, 1)], 0.6)
    gates = {"mean": ">= 0.75", "pass_rate": "> 0.5", "median": "< 0.8", "n_error": "== 0", "std": "<= 0.1"}
    assert results(scores, gates, declare()) == [True, False, True, True, False]


def test_every_row_must_hold(record: Make, table: Table, declare: Declare):
    scores = table([record(1.0, judge="a"), record(0.5, judge="b")])
    assert results(scores, {"mean": ">= 0.9", "median": ">= 0.5"}, declare()) == [False, True]


def test_rows_of_tags_do_not_decide(record: Make, table: Table, declare: Declare):
    scores = table([record(1.0, 0), record(0.0, 1, tags=("x",))])
    assert results(scores, {"mean": ">= 0.5"}, declare()) == [True]


def test_without_a_value_a_gate_is_undecided_unless_another_row_fails_it(record: Make, table: Table, declare: Declare):
    nothing = record(None, judge="a", status="error")
    assert results(table([nothing]), {"mean": ">= 0.5"}, declare()) == [None]
    assert results(table([nothing, record(0.9, judge="b")]), {"mean": ">= 0.5"}, declare()) == [None]
    assert results(table([nothing, record(0.1, judge="b")]), {"mean": ">= 0.5"}, declare()) == [False]
    assert results(table([record()]), {"pass_rate": ">= 0.5"}, declare()) == [None]
    assert results(table([]), {"mean": ">= 0.5"}, declare()) == [None]


def test_figures_are_gated_by_their_own_rows(record: Make, table: Table, declare: Declare):
    metric = declare(figures=FigureSpec("classification", True))
    pairs = [(True, True), (True, False), (False, False)]
    cells = [record(float(t == p), i, value={"truth": t, "prediction": p}) for i, (t, p) in enumerate(pairs)]
    gates = {"recall": ">= 0.5", "precision": "== 1", "accuracy": "> 0.7"}
    assert results(table(cells), gates, metric) == [True, True, False]
    assert results(table(cells[2:]), gates, metric) == [None, None, True]
