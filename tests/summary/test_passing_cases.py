"""Cases that pass everything: the rule, state by state, and its figure in the summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.records import ScoreRecord
from evalflow.summary.passing_cases import passing_cases, passing_metrics
from evalflow.summary.summarise import Threshold, summarise, with_passed

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]
LIMITS = [Threshold("fees", "j", 0.5), Threshold("tone", None, 0.5), Threshold("length", None, 2, "lower_is_better")]


def passing(table: Table, rows: Sequence[ScoreRecord]) -> pl.LazyFrame:
    """The table of scores with pass and fail by `LIMITS`."""
    return with_passed(table(rows).drop("threshold", "passed"), LIMITS)


def cases_of(scores: pl.LazyFrame) -> pl.DataFrame:
    return passing_cases(scores, passing_metrics(scores))


STATES = ("passes", "fails", "error", "undefined", "skipped")


def one_case(record: Make, found: Sequence[str], case: int = 0, **fields: Any) -> list[ScoreRecord]:
    """Scores of a case, in the states of three metrics."""
    judges: dict[str, Any] = {"fees": "j", "tone": None, "length": None}
    scores = {"passes": 1.0, "fails": 0.0}
    rows: list[ScoreRecord] = []
    for (metric, judge), state in zip(judges.items(), found, strict=False):
        value = scores.get(state)
        score = value if value is None or metric != "length" else {1.0: 1.0, 0.0: 9.0}[value]
        status = "scored" if score is not None else state
        rows.append(record(score, case, status=status, metric=metric, judge=judge, **fields))
    return rows


@pytest.mark.parametrize(
    ("found", "status", "score"),
    [
        (("passes", "passes", "passes"), "scored", 1.0),
        (("passes", "fails", "passes"), "scored", 0.0),
        (("passes", "error", "passes"), "error", None),
        (("error", "passes", "fails"), "scored", 0.0),
        (("passes", "undefined", "skipped"), "scored", 1.0),
        (("undefined", "undefined", "skipped"), "undefined", None),
        (("skipped", "skipped", "skipped"), "skipped", None),
        (("error", "undefined", "skipped"), "error", None),
    ],
)
def test_a_case_passes_if_nothing_fails_and_something_passes(
    record: Make, table: Table, found: Sequence[str], status: str, score: float | None
) -> None:
    [row] = cases_of(passing(table, one_case(record, found, tags=("fees > refund",)))).to_dicts()
    assert (row["status"], row["score"], row["passed"]) == (status, score, score)
    assert (row["metric"], row["judge"], row["tags"]) == ("cases", None, ["fees > refund"])


@given(st.lists(st.lists(st.sampled_from(STATES), min_size=3, max_size=3), min_size=1, max_size=6))
def test_it_is_the_rule_case_by_case(found: list[list[str]]) -> None:
    rows: list[dict[str, Any]] = []
    for case, states in enumerate(found):
        for metric, state in zip(("fees", "tone", "length"), states, strict=True):
            passed = {"passes": True, "fails": False}.get(state)
            about = {
                "dataset": "d",
                "target": "t",
                "case_id": f"c{case}",
                "metric": metric,
                "group": None,
                "tags": [],
                "finish_reason": None,
            }
            status = state if passed is None else "scored"
            rows.append({**about, "status": status, "passed": passed, "threshold": 0.5, "member_of": None, "repeat": 0})
    schema = {"group": pl.String, "tags": pl.List(pl.String), "passed": pl.Boolean, "member_of": pl.String}
    frame = pl.DataFrame(rows, schema_overrides=schema).with_columns(target_repeat=pl.lit(0, pl.Int64)).lazy()
    known = cases_of(frame)
    assert known["case_id"].to_list() == [f"c{case}" for case in range(len(found))]
    for states, row in zip(found, known.iter_rows(named=True), strict=True):
        decided = "fails" in states or ("passes" in states and "error" not in states)
        assert (row["status"] == "scored") is decided
        assert row["score"] == (float("fails" not in states) if decided else None)


def test_metrics_without_pass_and_fail_and_members_of_a_panel_do_not_count(record: Make, table: Table) -> None:
    rows = one_case(record, ("passes", "passes"))
    rows += [record(0.0, metric="fees", judge="one", member_of="j"), record(0.1, metric="words", judge=None)]
    rows += [record(None, metric="words", judge=None, status="error", case=1), *one_case(record, ("passes",), 1)]
    scores = passing(table, rows)
    assert passing_metrics(scores) == {"fees": False, "tone": False}
    assert cases_of(scores)["score"].to_list() == [1.0, 1.0]


def test_of_repeats_the_share_that_passes_counts(record: Make, table: Table) -> None:
    """Two answers; the first is judged as failing once of two times, of the second a rule fails."""
    rows: list[ScoreRecord] = []
    for target_repeat, grades, tone in ((0, (1.0, 0.0), 1.0), (1, (1.0, 1.0), 0.0)):
        fields: dict[str, Any] = {"target_repeat": target_repeat}
        rows += [record(grade, metric="fees", repeat=i, **fields) for i, grade in enumerate(grades)]
        rows.append(record(tone, metric="tone", judge=None, **fields))
    [row] = cases_of(passing(table, rows)).to_dicts()
    assert (row["status"], row["score"]) == ("scored", 0.25)


def test_the_summary_has_its_rate_by_dataset_and_tag(record: Make, table: Table, declare: Any) -> None:
    rows: list[ScoreRecord] = []
    for case in range(10):
        states = ("passes", "fails" if case < 3 else "error" if case == 3 else "passes")
        rows += one_case(record, states, case, tags=("refund",) if case < 5 else ())
    metrics = {"fees": declare("fees"), "tone": declare("tone")}
    found = summarise(passing(table, rows), metrics).frame
    assert found["metric"].unique(maintain_order=True).to_list() == ["fees", "tone", "cases"]
    everything, refund = found.filter(metric="cases").to_dicts()
    kept = ("statistic", "judge", "tag", "n", "n_scored", "n_error", "value", "pass_rate")
    assert [everything[name] for name in kept] == [*("pass_rate", None, None), *(10, 9, 1), *[pytest.approx(6 / 9)] * 2]
    assert everything["ci_low"] == everything["pass_rate_low"] < 6 / 9 < everything["ci_high"]
    assert [refund[name] for name in ("tag", "n", "n_scored", "value")] == ["refund", 5, 4, 0.25]


def test_a_run_of_one_metric_has_it_only_if_cases_bring_it(record: Make, table: Table, declare: Any) -> None:
    scores = passing(table, one_case(record, ("passes",)))
    names = {
        kind: summarise(scores, {"fees": declare("fees", kind=kind)}).frame["metric"].to_list()
        for kind in ("judge", "checks")
    }
    assert names == {"judge": ["fees"], "checks": ["fees", "cases"]}
