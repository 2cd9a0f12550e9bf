"""The summary against a plain reading of its definition, on random data."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evalflow.records import ScoreRecord
from evalflow.stats.intervals import interval
from evalflow.summary.summarise import summarise

pytestmark = pytest.mark.slow

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]
Declare = Callable[..., Any]
THRESHOLD = 0.5
STATES = ("scored", "undefined", "error", "skipped")


def plainly(records: list[ScoreRecord], tag: str | None) -> dict[str, Any]:
    """One row of the summary, record by record."""
    rows = [r for r in records if tag is None or any(t == tag or t.startswith(f"{tag} > ") for t in r.tags)]
    cases = {r.case_id: [q for q in rows if q.case_id == r.case_id] for r in rows}
    means, passes, clusters, floor, ceiling = [], [], [], [], []
    for name, cells in cases.items():
        scores = [r.score for r in cells if r.score is not None]
        wanted = [r for r in cells if r.status != "skipped"]
        if wanted:
            floor.append(sum(scores) / len(wanted))
            ceiling.append((sum(scores) + len(wanted) - len(scores)) / len(wanted))
        if scores:
            means.append(statistics.fmean(scores))
            passes.append(statistics.fmean([s >= THRESHOLD for s in scores]))
            clusters.append(("group", cells[0].group) if cells[0].group else ("case", name))
    numbers = [str(c) for c in clusters]
    score, passed = interval(means, numbers, bounded=True), interval(passes, numbers, bounded=True)
    counts = {"n": len(rows), **{f"n_{state}": sum(r.status == state for r in rows) for state in STATES}}
    return counts | {
        "value": statistics.fmean(means) if means else None,
        "median": statistics.median(means) if means else None,
        "lowest": min(means, default=None),
        "std": statistics.stdev(means) if len(means) > 1 else None,
        "std_error": score.std_error,
        "ci_low": score.low,
        "ci_high": score.high,
        "bound_low": statistics.fmean(floor) if floor else None,
        "bound_high": statistics.fmean(ceiling) if ceiling else None,
        "pass_rate": statistics.fmean(passes) if passes else None,
        "pass_rate_low": passed.low,
        "pass_rate_high": passed.high,
        "cost_usd": sum(r.cost_usd or 0 for r in rows),
    }


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("clustered", [False, True])
def test_random_scores_agree_with_the_definition(
    record: Make, table: Table, declare: Declare, repeats: int, clustered: bool
):
    rng = random.Random(repeats + 10 * clustered)
    cells = [
        record(
            rng.choice([0.0, 0.25, 0.5, 1.0]) if status == "scored" else None,
            case,
            repeat=k,
            metric=metric,
            status=status,
            group=f"g{case // 4}" if clustered and case % 5 else None,
            cost_usd=rng.random(),
            tags=[(), ("A",), ("A > B", "C")][case % 3],
        )
        for metric in ("m", "other")
        for case in range(60)
        for k in range(repeats)
        for status in rng.choices(STATES, [8, 1, 1, 1])
    ]
    frame = summarise(table(cells, THRESHOLD), {"m": declare(), "other": declare("other")}).frame
    assert frame.height == 3 * 4
    for row in frame.filter(pl.col("metric") != "cases").to_dicts():
        expected = plainly([r for r in cells if r.metric == row["metric"]], row["tag"])
        assert {name: row[name] for name in expected} == pytest.approx(expected)


CELLS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0, None]), st.sampled_from([None, "g"])),
    min_size=1,
    max_size=12,
    unique_by=lambda cell: cell[0],
)
QUICK = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@QUICK
@given(CELLS, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_counts_add_up(
    record: Make, table: Table, declare: Declare, cells: list[Any], rng: random.Random
):
    records = [record(s, case, group=g, status="scored" if s is not None else "error") for case, s, g in cells]
    found, again = (
        summarise(table(r, 0.5), {"m": declare()}).frame for r in (records, rng.sample(records, len(cells)))
    )
    for a, b in zip(found.to_dicts(), again.to_dicts(), strict=True):
        assert a == pytest.approx(b)
        assert a["n"] == a["n_scored"] + a["n_undefined"] + a["n_error"] + a["n_skipped"] == len(cells)


@QUICK
@given(CELLS, st.integers(2, 4))
@example([(0, None, None)], 2)
def test_asking_the_same_again_does_not_narrow_the_interval(
    record: Make, table: Table, declare: Declare, cells: list[Any], times: int
):
    def run(repeats: int) -> dict[str, Any]:
        records = [
            record(s, case, group=g, repeat=k, status="scored" if s is not None else "undefined")
            for case, s, g in cells
            for k in range(repeats)
        ]
        return summarise(table(records, 0.5), {"m": declare()}).frame.row(0, named=True)

    once, often = run(1), run(times)
    same = (
        "value",
        "std",
        "std_error",
        "ci_low",
        "ci_high",
        "ci_method",
        "bound_low",
        "bound_high",
        "median",
        "pass_rate_low",
    )
    assert {name: often[name] for name in same} == pytest.approx({name: once[name] for name in same})
    assert often["n"] == times * once["n"]
