"""The summary: counts by state, means over cases, intervals, bounds, tags, costs, figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.records import FigureSpec, ScoreRecord
from evalflow.stats.intervals import interval, wilson
from evalflow.summary.rows import summary_schema
from evalflow.summary.summarise import Summary, summarise, summary_document, write_summary

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]
Declare = Callable[..., Any]


def one(summary: Summary, **where: Any) -> dict[str, Any]:
    """The one row with these values; the one over all tags where `tag` is not among them."""
    where = {"tag": None, "statistic": "mean", **where}
    rows = [row for row in summary.frame.to_dicts() if all(row[name] == value for name, value in where.items())]
    assert len(rows) == 1
    return rows[0]


def test_columns_are_those_of_the_contract(record: Make, table: Table, declare: Declare):
    assert summarise(table([record()]), {"m": declare()}).frame.schema == summary_schema()
    assert ",".join(summary_schema()) == (
        "dataset,target,metric,statistic,judge,tag,n,n_scored,n_undefined,n_error,n_skipped,value,std,std_error,ci_low,"
        "ci_high,ci_method,bound_low,bound_high,median,lowest,pass_rate,pass_rate_low,pass_rate_high,cost_usd,input_tokens,"
        "output_tokens,latency_p50,latency_p95,n_cut_off,raw_value,raw_low,raw_high,raw_method,"
        "raw_pass_rate,raw_pass_rate_low,raw_pass_rate_high,n_labels,n_missing_labels,uncorrected,repeats,pass_hat_k,"
        "pass_hat_k_low,pass_hat_k_high,repeat_pass_share,repeat_pass_share_low,repeat_pass_share_high"
    )


def test_scores_of_answers_that_were_cut_off_are_counted(record: Make, table: Table, declare: Declare):
    cells = [record(0.2, 0, finish_reason="length"), record(0.6, 1, finish_reason="stop"), record(1.0, 2)]
    assert one(summarise(table(cells), {"m": declare()}))["n_cut_off"] == 1


def test_no_scores_at_all_make_an_empty_summary(table: Table, declare: Declare, tmp_path: Path):
    summary = summarise(table([]), {"m": declare()})
    assert summary.frame.schema == summary_schema()
    assert summary.frame.height == 0
    write_summary(summary, tmp_path)
    assert pl.read_parquet(tmp_path / "summary.parquet").schema == summary_schema()


def test_only_scored_cells_enter_the_mean_and_all_are_counted(record: Make, table: Table, declare: Declare):
    states = ["undefined", "error", "error", "skipped"]
    cells = [record(0.2, 0), record(0.6, 1), *(record(None, i + 2, status=s) for i, s in enumerate(states))]
    row = one(summarise(table(cells, 0.5), {"m": declare()}))
    assert [row[name] for name in ("n", "n_scored", "n_undefined", "n_error", "n_skipped")] == [6, 2, 1, 2, 1]
    assert (row["value"], row["median"], row["pass_rate"]) == (pytest.approx(0.4), pytest.approx(0.4), 0.5)
    expected = interval([0.2, 0.6], bounded=True)
    assert (row["ci_low"], row["ci_high"], row["ci_method"]) == (expected.low, expected.high, expected.method)
    assert (row["pass_rate_low"], row["pass_rate_high"]) == pytest.approx(wilson(1, 2))
    # Three of five should have had a score: at 0 they make 0.8 / 5, at 1 they make 3.8 / 5.
    assert (row["bound_low"], row["bound_high"]) == pytest.approx((0.16, 0.76))


def test_worst_is_high_where_lower_is_better_and_null_without_a_bounded_scale(
    record: Make, table: Table, declare: Declare
):
    scores = table([record(0.2, 0), record(None, 1, status="error")])
    row = one(summarise(scores, {"m": declare(direction="lower_is_better")}))
    assert (row["bound_low"], row["bound_high"]) == pytest.approx((0.1, 0.6))
    row = one(summarise(scores, {"m": declare(bounded=False)}))
    assert (row["bound_low"], row["bound_high"]) == (None, None)
    assert one(summarise(scores, {}))["bound_low"] is None


def test_nothing_scored_has_no_value_but_bounds(record: Make, table: Table, declare: Declare):
    row = one(summarise(table([record(None, i, status="undefined") for i in range(3)], 0.5), {"m": declare()}))
    nulls = ("value", "std", "std_error", "ci_low", "ci_high", "median", "pass_rate", "pass_rate_low", "pass_rate_high")
    assert [row[name] for name in nulls] == [None] * len(nulls)
    assert row["ci_method"] == "none: no scores"
    assert (row["bound_low"], row["bound_high"]) == (0.0, 1.0)


def test_cells_that_were_skipped_have_no_bounds(record: Make, table: Table, declare: Declare):
    row = one(summarise(table([record(None, status="skipped")]), {"m": declare()}))
    assert (row["n"], row["n_skipped"], row["bound_low"], row["bound_high"]) == (1, 1, None, None)


@pytest.mark.parametrize(
    ("scores", "method", "bounds"),
    [
        ([0.5], "none: one case", (None, None)),
        ([1.0], "wilson: 1 of 1 cases, too few for the rule of three", wilson(1, 1)),
        ([0.0, 1.0], "wilson", wilson(1, 2)),
        ([0.5, 0.5], "plus_two_t", (0.0, 1.0)),
        ([0.2, 0.6], "plus_two_t", (0.0, 1.0)),
        ([1.0] * 30, "wilson: 30 of 30 cases, by the rule of three at least 0.9", wilson(30, 30)),
        ([0.5] * 30, "plus_two_t", (0.4542116, 0.5457884)),
    ],
)
def test_small_and_uniform_runs_say_what_they_cannot_tell(
    record: Make, table: Table, declare: Declare, scores: list[float], method: str, bounds: tuple[Any, Any]
):
    row = one(summarise(table([record(s, i) for i, s in enumerate(scores)]), {"m": declare()}))
    assert (row["n_scored"], row["ci_method"]) == (len(scores), method)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(bounds)
    assert (row["std_error"] is None) == (len(set(scores)) == 1)


@pytest.mark.parametrize(
    ("scores", "method"),
    [([0.2, 0.9, 0.4], "none: one cluster"), ([1.0, 1.0], "none: one cluster"), ([0.7, 0.7], "none: one cluster")],
)
def test_one_cluster_shows_nothing_of_how_clusters_vary(
    record: Make, table: Table, declare: Declare, scores: list[float], method: str
):
    cells = [record(s, i, group="only") for i, s in enumerate(scores)]
    row = one(summarise(table(cells, 0.5), {"m": declare()}))
    assert (row["ci_method"], row["ci_low"], row["ci_high"], row["std_error"]) == (method, None, None, None)
    assert row["value"] == pytest.approx(sum(scores) / len(scores))
    assert (row["pass_rate_low"], row["pass_rate_high"]) == (None, None)


GRADED = [1.0, 0.0, 0.5, 1.0, 0.75, 0.25, 1.0, 0.0, 0.5, 1.0]


def test_only_a_scale_with_fixed_ends_has_cases_added_there(record: Make, table: Table, declare: Declare):
    scores = table([record(s, i) for i, s in enumerate(GRADED)])
    row, expected = one(summarise(scores, {"m": declare()})), interval(GRADED, bounded=True)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (row["std_error"], row["ci_method"]) == (pytest.approx(0.1301708279), "plus_two_t")
    row = one(summarise(scores, {"m": declare(bounded=False)}))
    assert (row["ci_low"], row["ci_method"]) == (pytest.approx(0.3055331292), "t: fewer than 30 cases")


def test_pass_rates_of_repeats_are_graded(record: Make, table: Table, declare: Declare):
    cells = [record(s, case, repeat=k) for case, row in enumerate(REPEATED) for k, s in enumerate(row)]
    row = one(summarise(table(cells, 0.5), {"m": declare()}))
    expected = interval([sum(scores) / 3 for scores in REPEATED], bounded=True)
    assert (row["pass_rate_low"], row["pass_rate_high"]) == pytest.approx((expected.low, expected.high), abs=1e-12)


REPEATED = [[1.0, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1]]


def test_repeats_are_averaged_and_never_new_cases(record: Make, table: Table, declare: Declare):
    cells = [record(s, case, repeat=k) for case, row in enumerate(REPEATED) for k, s in enumerate(row)]
    row = one(summarise(table(cells, 0.5), {"m": declare()}))
    assert (row["n"], row["value"]) == (18, pytest.approx(0.6111111111))
    assert row["std_error"] == pytest.approx(0.1590869007)
    assert row["std"] == pytest.approx(0.1518518519**0.5)
    assert row["pass_rate"] == pytest.approx(0.6111111111)


def test_a_case_scored_less_often_than_others_counts_as_one_case(record: Make, table: Table, declare: Declare):
    cells = [record(1.0, 0), record(None, 0, repeat=1, status="error"), record(0.0, 1), record(0.5, 1, repeat=1)]
    row = one(summarise(table(cells), {"m": declare()}))
    assert row["value"] == pytest.approx((1.0 + 0.25) / 2)
    assert (row["bound_low"], row["bound_high"]) == pytest.approx(((0.5 + 0.25) / 2, (1.0 + 0.25) / 2))


def test_target_repeats_are_averaged_too(record: Make, table: Table, declare: Declare):
    cells = [record(s, 0, target_repeat=k) for k, s in enumerate([0.0, 0.4])] + [record(0.9, 1)]
    assert one(summarise(table(cells), {"m": declare()}))["value"] == pytest.approx(0.55)


def test_a_group_is_a_cluster_and_a_case_without_one_stands_alone(record: Make, table: Table, declare: Declare):
    scores, groups = [1.0, 0.8, 0.1, 0.3, 0.6], ["a", "a", "b", "b", None]
    cells = [record(s, i, group=g) for i, (s, g) in enumerate(zip(scores, groups, strict=True))]
    row = one(summarise(table(cells, 0.5), {"m": declare()}))
    expected = interval(scores, ["a", "a", "b", "b", "alone"], bounded=True)
    assert (row["ci_low"], row["ci_high"], row["std_error"]) == pytest.approx(
        (expected.low, expected.high, expected.std_error)
    )
    assert row["ci_method"] == "plus_two_cr2_t"
    passes = interval([1.0, 1, 0, 0, 1], ["a", "a", "b", "b", "alone"], bounded=True)
    assert (row["pass_rate_low"], row["pass_rate_high"]) == pytest.approx((passes.low, passes.high))


def test_groups_of_one_case_are_no_clusters(record: Make, table: Table, declare: Declare):
    cells = [record(s, i, group=f"g{i}") for i, s in enumerate([0.1, 0.5, 0.6])]
    assert one(summarise(table(cells), {"m": declare()}))["ci_method"] == "plus_two_t"


def test_tags_roll_up(record: Make, table: Table, declare: Declare):
    tags = [("A > B",), ("A > C", "A > B"), ("A",), ("D",), ()]
    cells = [record(i / 10, i, tags=t) for i, t in enumerate(tags)]
    frame = summarise(table(cells), {"m": declare()}).frame
    found = {tag: (n, value) for tag, n, value in frame.select("tag", "n", "value").iter_rows()}
    assert list(found) == [None, "A", "A > B", "A > C", "D"]
    assert {tag: n for tag, (n, _) in found.items()} == {None: 5, "A": 3, "A > B": 2, "A > C": 1, "D": 1}
    assert found["A"][1] == pytest.approx(0.1)


def test_members_of_a_panel_are_left_out(record: Make, table: Table, declare: Declare):
    cells = [record(0.5, judge="panel"), record(0.1, judge="a", member_of="panel")]
    assert summarise(table(cells), {"m": declare()}).frame["judge"].to_list() == ["panel"]


def test_rows_come_in_the_order_of_the_composition(record: Make, table: Table, declare: Declare):
    cells = [
        record(dataset=d, target=t, metric=m, judge=j)
        for d in ("b", "a")
        for t in ("y", "x")
        for m in ("second", "first", "check")
        for j in ("k", None)
    ]
    metrics = {"second": declare("second"), "first": declare("first")}
    frame = summarise(table(cells), metrics).frame
    assert frame.select("dataset", "target").unique(maintain_order=True).rows() == [
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
        ("b", "y"),
    ]
    assert frame["metric"].unique(maintain_order=True).to_list() == ["second", "first", "check"]
    assert frame["judge"].to_list() == [None, "k"] * 12


def test_costs_are_summed(record: Make, table: Table, declare: Declare):
    row = one(summarise(table([record(1.0, 0), record(None, 1, status="error")]), {"m": declare()}))
    assert (row["cost_usd"], row["input_tokens"], row["output_tokens"]) == (1.0, 20, 2)


@pytest.mark.parametrize("status", ["scored", "error"])
def test_one_unknown_cost_makes_the_sum_unknown(record: Make, table: Table, declare: Declare, status: str):
    unknown = record(1.0 if status == "scored" else None, 1, status=status, cost_usd=None)
    row = one(summarise(table([record(), unknown]), {"m": declare()}))
    assert (row["cost_usd"], row["input_tokens"]) == (None, 20)


def test_what_never_asked_or_came_from_the_cache_has_no_unknown_cost(record: Make, table: Table, declare: Declare):
    nothing: dict[str, Any] = {"cost_usd": None, "input_tokens": None, "output_tokens": None, "latency_s": None}
    cells = [record(), record(None, 1, status="undefined", **nothing), record(None, 2, status="skipped", **nothing)]
    cells.append(record(1.0, 3, **{**nothing, "cached": True}))
    cells.append(record(1.0, 4, **{**nothing, "judge": None}))
    summary = summarise(table(cells), {"m": declare()})
    assert one(summary, judge="j")["cost_usd"] == 0.5
    assert one(summary, judge=None)["cost_usd"] == 0.0


def test_latency_is_of_the_calls_that_were_made(record: Make, table: Table, declare: Declare):
    cells = [record(1.0, i, latency_s=float(i)) for i in range(1, 6)] + [record(1.0, 6, latency_s=0.0, cached=True)]
    row = one(summarise(table(cells), {"m": declare()}))
    assert (row["latency_p50"], row["latency_p95"]) == (3.0, pytest.approx(4.8))
    again = [record(1.0, 1, repeat=1, latency_s=100.0)]
    assert one(summarise(table(cells + again), {"m": declare()}))["latency_p50"] == 3.5


def classified(record: Make, tp: int, fp: int, tn: int, fn: int, **fields: Any) -> list[ScoreRecord]:
    pairs = [(True, True)] * tp + [(False, True)] * fp + [(False, False)] * tn + [(True, False)] * fn
    return [
        record(float(t == p), i, judge=None, value={"truth": t, "prediction": p}, **fields)
        for i, (t, p) in enumerate(pairs)
    ]


def test_figures_of_a_classification_follow_its_mean(record: Make, table: Table, declare: Declare, tmp_path: Path):
    metric = declare(kind="recorded", figures=FigureSpec("classification", True))
    cells = [*classified(record, 18, 3, 74, 5, tags=("x",)), record(None, 100, judge=None, status="error")]
    summary = summarise(table(cells), {"m": metric})
    over_all = summary.frame.filter(pl.col("tag").is_null())
    assert over_all["statistic"].to_list() == ["mean", "accuracy", "precision", "recall", "f1", "mcc"]
    precision = one(summary, statistic="precision")
    assert precision["value"] == pytest.approx(18 / 21)
    assert (precision["ci_low"], precision["ci_high"]) == pytest.approx((0.6536393972, 0.950189875))
    assert (precision["n"], precision["n_scored"], precision["n_error"], precision["bound_low"]) == (101, 100, 1, None)
    assert one(summary, statistic="recall", tag="x")["n"] == 100
    key = {"dataset": "d", "target": "recorded", "metric": "m", "judge": None, "tag": None}
    assert {**key, "statistic": "precision", "n": 21} in summary.details
    matrix = {"labels": ["false", "true"], "matrix": [[74, 3], [5, 18]]}
    assert {**key, "statistic": "accuracy", "n": 100, **matrix} in summary.details
    write_summary(summary, tmp_path)
    assert pl.read_json(tmp_path / "summary.json").height == 1
    assert pl.read_parquet(tmp_path / "summary.parquet").equals(summary.frame)
    assert pl.read_csv(tmp_path / "summary.csv").columns == list(summary_schema())
    assert summary_document(summary)["rows"] == summary.frame.to_dicts()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_formulas_are_made_text_in_every_text_column_of_the_csv(
    record: Make, table: Table, declare: Declare, tmp_path: Path, text: str
):
    scores = table([record(dataset=text, target=text, judge=text, metric=text, tags=("=1+1",), score=-0.5)])
    summary = summarise(scores, {text: declare(name=text)})
    write_summary(summary, tmp_path)
    whole, tagged = pl.read_csv(tmp_path / "summary.csv").rows(named=True)
    for column in ("dataset", "target", "judge", "metric"):
        assert tagged[column] == f"'{text}"
    assert tagged["tag"] == "'=1+1"
    assert (whole["tag"], whole["value"]) == (None, -0.5)
    assert pl.read_parquet(tmp_path / "summary.parquet")["tag"].to_list() == [None, "=1+1"]


def test_figures_rest_on_cases_and_not_on_their_repeats(record: Make, table: Table, declare: Declare):
    metric = declare(kind="recorded", figures=FigureSpec("classification", True))
    cells = [r for k in range(4) for r in classified(record, 6, 2, 8, 2, repeat=k)]
    once, often = (summarise(table(c), {"m": metric}) for c in (cells[:18], cells))
    for name in ("precision", "recall", "f1"):
        a, b = one(once, statistic=name), one(often, statistic=name)
        assert b["value"] == pytest.approx(a["value"])
        assert b["ci_high"] - b["ci_low"] > 0.7 * (a["ci_high"] - a["ci_low"])
        assert b["ci_method"] == "cluster_bootstrap: fewer than 30 clusters"


def test_figures_with_nothing_scored_are_null(record: Make, table: Table, declare: Declare):
    metric = declare(kind="recorded", figures=FigureSpec("classification", True))
    row = one(summarise(table([record(None, status="error")]), {"m": metric}), statistic="precision")
    assert (row["value"], row["n"], row["n_error"], row["ci_method"]) == (None, 1, 1, "none: nothing to divide by")
