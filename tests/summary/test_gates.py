"""Gates: the grammar, names that are not known, and rows that pass, fail or cannot decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from evalflow.config.schema import NotWorse
from evalflow.errors import UserError
from evalflow.records import FigureSpec, ScoreRecord
from evalflow.summary.compare import compare_cases
from evalflow.summary.gate_config import parse_gates
from evalflow.summary.gates import GateResult, evaluate_gates, parse_condition
from evalflow.summary.pairing import Traits, pair_scores
from evalflow.summary.summarise import summarise

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]
Declare = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        (">= 0.8", 0.8, True),
        (">=0.8", 0.79, False),
        ("<= .1", 0.1, True),
        ("> 0.8", 0.8, False),
        ("< 1e-2", 0.0, True),
        ("== 1", 1.0, True),
        (" <  -0.5 ", -1.0, True),
        ("<= 0.3", 0.1 + 0.2, True),
        ("> 0.3", 0.1 + 0.2, False),
        ("== 0.3", 0.1 + 0.2, True),
        (">= 0.7", 0.7 - 2e-16, True),
        ("< 0.7", 0.7 - 2e-16, False),
    ],
)
def test_conditions(text: str, value: float, holds: bool):
    assert parse_condition(text, "gate").holds(value) is holds


@pytest.mark.parametrize("text", ["0.8", "=> 0.8", ">= ", ">= high", ">= 0.8 and <= 0.9", "!= 1", ">= nan"])
def test_what_is_no_condition_is_refused(text: str):
    with pytest.raises(UserError, match=r"gate\.m\.mean: .* is not a condition"):
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
    assert "gate.faithfulness.mean: 'high' is not a condition" in text


@pytest.mark.parametrize("statistic", ["mean", "median", "bound_low", "ci_low", "pass_rate", "recall"])
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
    assert parse_gates({"m": {"recall": ">= 0.9"}}, binary)[0].statistic == "recall"
    assert len(parse_gates({"m": {"macro_recall": ">= 0.9", "recall[tax > vat]": ">= 0.9"}}, several)) == 2
    with pytest.raises(UserError, match="no statistic 'recall'"):
        parse_gates({"m": {"recall": ">= 1"}}, several)


def test_a_gate_of_the_run_takes_the_place_of_the_metrics_own(declare: Declare):
    metrics = {"m": declare(gate={"mean": ">= 0.5", "median": ">= 0.1"}), "other": declare("other")}
    gates = parse_gates({"other": {"mean": "> 0"}, "m": {"mean": ">= 0.9"}}, metrics)
    assert [(g.metric, g.statistic, str(g.condition)) for g in gates] == [
        ("m", "mean", ">= 0.9"),
        ("m", "median", ">= 0.1"),
        ("other", "mean", "> 0"),
    ]
    assert parse_gates(None, {"m": declare()}) == []


def held(scores: pl.LazyFrame, gates: dict[str, dict[str, Any]], metric: Any) -> list[GateResult]:
    metrics = {"m": metric}
    return evaluate_gates(parse_gates(gates, metrics), summarise(scores, metrics).frame)


def results(scores: pl.LazyFrame, gates: dict[str, Any], metric: Any, *, point: bool = True) -> list[bool | None]:
    return [result.passed for result in held(scores, {"m": {**gates, "point": point}}, metric)]


def test_an_interval_passes_by_its_worse_bound_and_fails_by_its_better_one(
    record: Make, table: Table, declare: Declare
):
    scores = table([record(float(i % 10 < 8), i) for i in range(100)], 0.5)  # Wilson: 0.711 to 0.867
    gates = {"mean": ">= 0.7", "pass_rate": ">= 0.75", "ci_low": ">= 0.75"}
    assert results(scores, gates, declare(), point=False) == [True, None, False]
    assert results(scores, {"mean": ">= 0.9", "pass_rate": "< 0.75"}, declare(), point=False) == [False, None]
    assert results(scores, {"mean": "<= 0.9", "pass_rate": "<= 0.7"}, declare(), point=False) == [True, False]
    assert results(scores, gates, declare()) == [True, True, False]


def test_an_undecided_gate_says_how_many_cases_would_decide(record: Make, table: Table, declare: Declare):
    scores = table([record(float(i % 10 < 8), i) for i in range(100)])
    [result] = held(scores, {"m": {"mean": ">= 0.75"}}, declare())
    [row] = result.rows
    assert row.cases_needed is not None
    more = table([record(float(i % 10 < 8), i) for i in range(row.cases_needed // 10 * 10 + 10)])
    assert results(more, {"mean": ">= 0.75"}, declare(), point=False) == [True]
    [on_the_limit] = held(scores, {"m": {"mean": ">= 0.8"}}, declare())
    assert (on_the_limit.passed, on_the_limit.rows[0].cases_needed) == (None, None)


def test_without_an_interval_only_the_estimate_can_decide(record: Make, table: Table, declare: Declare):
    scores = table([record(0.5, 0), record(0.5, 1)])
    assert results(scores, {"mean": ">= 0.4", "median": ">= 0.4"}, declare(), point=False) == [None, True]
    assert results(scores, {"mean": ">= 0.4"}, declare()) == [True]


def test_a_limit_that_no_interval_reaches_is_refused_unless_the_estimate_decides(declare: Declare):
    for condition in (">= 1", "<= 0"):
        with pytest.raises(UserError, match=r"no number of cases can show .*\n.* point: true"):
            parse_gates({"m": {"mean": condition}}, {"m": declare()})
        assert len(parse_gates({"m": {"mean": condition, "point": True}}, {"m": declare()})) == 1
    with pytest.raises(UserError, match="is not true or false"):
        parse_gates({"m": {"mean": "> 0.5", "point": "yes"}}, {"m": declare()})
    with pytest.raises(UserError, match="it needs a condition"):
        parse_gates({"m": {"point": True}}, {"m": declare()})


def test_tags_are_gated_for_one_metric_or_for_all(record: Make, table: Table, declare: Declare):
    tags = [("Safety > Jailbreak",), ("Safety",), (), ()]
    scores = table([record(s, i, tags=tags[i]) for i, s in enumerate([0.9, 0.8, 0.1, 0.2])], 0.5)
    gates = {
        "tag:Safety": {"pass_rate": ">= 0.9", "point": True},
        "m@Safety > Jailbreak": {"mean": ">= 0.9", "point": True},
        "m@Other": {"mean": ">= 0.1"},
        "m": {"pass_rate": "<= 0.5", "point": True},
    }
    found = {gate.gate.about: gate.passed for gate in held(scores, gates, declare())}
    assert found == {"tag:Safety": True, "m@Safety > Jailbreak": True, "m@Other": None, "m": True}
    with pytest.raises(UserError, match="no metric of this run has a statistic 'recall'"):
        parse_gates({"tag:Safety": {"recall": ">= 0.5"}}, {"m": declare()})
    with pytest.raises(UserError, match="no metric 'n' in this run"):
        parse_gates({"n@Safety": {"mean": ">= 0.5"}}, {"m": declare()})


def test_a_difference_to_the_baseline_is_turned_so_that_more_is_better(record: Make, table: Table, declare: Declare):
    def gate(direction: str, margin: float) -> bool | None:
        metrics = {"m": declare(direction=direction)}
        gates = parse_gates({"m": {"mean": NotWorse(not_worse_by=margin)}}, metrics, "runs/x")
        sides = [table([record(base + 0.01 * (i % 5), i) for i in range(40)]).collect().lazy() for base in (0.5, 0.45)]
        sides[1] = sides[1].with_columns(score=pl.col("score") + 0.01 * (pl.int_range(pl.len()) % 2))
        rows = compare_cases(
            pair_scores(sides[0], sides[1]), ("a", "b"), {"m": Traits(direction == "higher_is_better")}
        )
        return evaluate_gates(gates, summarise(sides[1], metrics).frame, rows)[0].passed

    assert [gate("higher_is_better", margin) for margin in (0.1, 0.045, 0.01)] == [True, None, False]
    assert gate("lower_is_better", 0.0) is True
    with pytest.raises(UserError, match=r"no baseline to compare with\n.*baseline="):
        parse_gates({"m": {"mean": NotWorse(not_worse_by=0.1)}}, {"m": declare()})
    with pytest.raises(UserError, match="median cannot be compared with a baseline"):
        parse_gates({"m": {"median": NotWorse(not_worse_by=0.1)}}, {"m": declare()}, "runs/x")


def test_gates_pass_and_fail_by_the_point_estimate_where_they_say_so(record: Make, table: Table, declare: Declare):
    scores = table([record(0.5, 0), record(1.0, 1)], 0.6)
    gates = {"mean": ">= 0.75", "pass_rate": "> 0.5", "median": "< 0.8", "n_error": "== 0", "std": "<= 0.1"}
    assert results(scores, gates, declare()) == [True, False, True, True, False]


def test_too_many_undefined_scores_leave_a_gate_undecided(record: Make, table: Table, declare: Declare):
    """A figure and a pass rate leave them out as the mean does; counts, and the bounds that count them in, do not."""
    cells = [*(record(0.9, i) for i in range(50)), *(record(None, 50 + i, status="undefined") for i in range(5))]
    skipped = [record(None, 60 + i, status="skipped") for i in range(100)]
    gates = {"mean": ">= 0.5", "pass_rate": ">= 0.5", "bound_low": ">= 0.5", "n_undefined": "<= 9"}
    few = table([*cells, *skipped], 0.6)
    assert results(few, gates | {"point": True}, declare()) == [True] * 4
    many = table([*cells, record(None, 55, status="undefined"), *skipped], 0.6)
    assert results(many, gates | {"point": True}, declare()) == [None, None, True, True]
    assert results(many, {"mean": ">= 0.99", "point": True}, declare()) == [None]
    assert results(many, gates | {"point": True, "max_undefined_rate": 0.2}, declare()) == [True] * 4
    [row] = evaluate_gates(
        parse_gates({"m": {"mean": ">= 0.5"}}, {"m": declare()}), summarise(many, {"m": declare()}).frame
    )[0].rows
    assert (row.n, row.n_scored, row.n_undefined, row.n_skipped) == (156, 50, 6, 100)
    with pytest.raises(UserError, match=r"'0.2' is not a share in 0..1"):
        parse_gates({"m": {"mean": ">= 0.5", "max_undefined_rate": "0.2"}}, {"m": declare()})
    with pytest.raises(UserError, match="it needs a condition"):
        parse_gates({"m": {"max_undefined_rate": 0.2}}, {"m": declare()})


def test_a_difference_rests_on_the_scores_of_both_runs(record: Make, table: Table, declare: Declare):
    whole = [record(0.5 + 0.01 * (i % 5), i) for i in range(40)]
    half = [*whole[:20], *(record(None, i, status="undefined") for i in range(20, 40))]
    metrics = {"m": declare()}
    gates = parse_gates({"m": {"mean": NotWorse(not_worse_by=0.5)}}, metrics, "runs/x")

    def held(before: list[ScoreRecord], now: list[ScoreRecord]) -> tuple[bool | None, str, int | None]:
        sides = [table(records).collect().lazy() for records in (before, now)]
        rows = compare_cases(pair_scores(sides[0], sides[1]), ("a", "b"), {"m": Traits(bounded=True)})
        baseline, this = (summarise(side, metrics).frame for side in sides)
        [row] = evaluate_gates(gates, this, rows, baseline)[0].rows
        return row.passed, row.undefined_in, row.compared

    assert held(whole, whole) == (True, "", 40)
    assert held(whole, half) == (None, "this run", 20)
    assert held(half, whole) == (None, "the baseline", 20)


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


@pytest.mark.parametrize(
    ("subject", "gate", "what"),
    [
        (
            "m",
            {"mean": ">= 0.9", "looks": "often"},
            r"gate\.m\.looks: 'often' is not a number of looks\n.*anytime, .*2 to 20",
        ),
        ("m", {"mean": ">= 0.9", "looks": 1.0}, "1 is not a number of looks"),
        ("m", {"mean": ">= 0.9", "looks": 21.0}, "21 is not a number of looks"),
        ("m", {"mean": ">= 0.9", "looks": 2.5}, "2.5 is not a number of looks"),
        ("m", {"mean": ">= 0.9", "looks": True}, "True is not a number of looks"),
        ("m", {"looks": "anytime"}, "it needs a condition"),
        ("m", {"mean": ">= 9", "looks": 5.0}, "mean is compared with 9"),
        (
            "m",
            {"median": ">= 0.9", "looks": 5.0},
            "median cannot be looked at before the end\n.* mean and pass_rate can",
        ),
        ("m", {"mean": ">= 0.9", "looks": 5.0, "point": True}, "with point the estimate decides"),
        ("m", {"mean": "== 0.9", "looks": 5.0}, "no interval can decide =="),
        ("m", {"mean": NotWorse(not_worse_by=0.1), "looks": 5.0}, "difference from the baseline .*\n.* race"),
        ("stars", {"mean": ">= 0.9", "looks": 5.0}, "the scores of stars are not in 0..1\n.* its pass_rate"),
        ("tag:A", {"mean": ">= 0.9", "looks": 5.0}, "this gate is about all\n.*METRIC@TAG"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(declare: Declare, subject: str, gate: dict[str, Any], what: str):
    metrics = {"m": declare(), "stars": declare("stars", bounded=False)}
    with pytest.raises(UserError, match=what):
        parse_gates({subject: gate}, metrics, "runs/x")


def test_looks_are_part_of_a_gate(declare: Declare):
    gates = {"m": {"mean": ">= 0.9", "pass_rate": "< 0.5", "looks": 5.0}, "m@A": {"mean": "> 0", "looks": "anytime"}}
    found = parse_gates(gates, {"m": declare()})
    assert [gate.looks for gate in found] == [5, 5, "anytime"]
