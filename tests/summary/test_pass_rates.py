"""A pass rate at a threshold is the one that the summary gives of a run with that threshold."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, get_args

import polars as pl
import pytest

from evalflow.records import Direction, ScoreRecord
from evalflow.summary.summarise import Threshold, passing_rates, summarise, with_passed

pytestmark = pytest.mark.slow

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]
LIMITS = (0.0, 0.25, 0.5, 0.75, 1.0)


def cells(record: Make, cases: int, shape: str) -> Iterator[ScoreRecord]:
    """Scores on a grid; `shape` says whether cases are repeated, unevenly, and whether they carry groups."""
    draw = random.Random(f"{cases}{shape}")
    for case in range(cases):
        group = f"g{case // 3}" if "grouped" in shape and case % 7 else None
        target = "ab"[case % 2 if "two" in shape else 0]
        for repeat in range(draw.randint(1, 3) if "repeated" in shape else 1):
            score = draw.choice(LIMITS)
            yield record(score, case, repeat=repeat, group=group, target=target)
        yield record(None, case, repeat=3, group=group, target=target, status="error")
        yield record(0.1, case, metric="other", group=group)
        yield record(0.1, case, judge="k", group=group, member_of="panel")


@pytest.mark.parametrize("cases", [1, 9, 40])
@pytest.mark.parametrize("shape", ["plain", "repeated", "grouped", "grouped and repeated", "two targets"])
def test_it_is_the_summarys(record: Make, table: Table, declare: Any, shape: str, cases: int) -> None:
    scores = table(list(cells(record, cases, shape)))
    limits = {f"m {way} {limit}": (way, limit) for way in get_args(Direction) for limit in LIMITS}
    # a metric for each limit, so that one summary has all of them
    own = pl.col("metric") == "m"
    copies = [scores.filter(own).with_columns(metric=pl.lit(name)) for name in limits]
    others = scores.filter(~own)
    judged = with_passed(
        pl.concat([*copies, others]).drop("threshold", "passed"),
        [Threshold(name, "j", limit, way) for name, (way, limit) in limits.items()],
    )
    metrics = {name: declare(name, direction=way) for name, (way, _) in limits.items()}
    whole = summarise(judged, metrics).frame.filter(pl.col("judge") == "j", pl.col("tag").is_null())
    compared = 0
    for way in get_args(Direction):
        found = passing_rates(scores, "m", "j", LIMITS, higher_is_better=way == "higher_is_better")
        targets = {one.target for one in found}
        assert len(found) == len(LIMITS) * len(targets)
        assert [one.threshold for one in found] == list(LIMITS) * len(targets)
        for one in found:
            [row] = whole.filter(metric=f"m {way} {one.threshold}", target=one.target).to_dicts()
            known = [row[name] for name in ("pass_rate", "pass_rate_low", "pass_rate_high")]
            assert [one.rate, one.low, one.high] == pytest.approx(known)
            compared += 1
    assert compared == whole.filter(pl.col("metric").is_in(list(limits))).height


def test_a_metric_that_asks_nobody_and_one_without_scores(record: Make, table: Table) -> None:
    scores = table([record(0.4, judge=None), record(0.9, 1, judge=None), record(None, 2, status="error")])
    [one] = passing_rates(scores, "m", None, [0.5])
    assert (one.n, one.rate, one.method) == (2, 0.5, "wilson")
    assert passing_rates(scores, "m", "j", [0.5]) == []
    assert passing_rates(scores, "m", None, []) == []
