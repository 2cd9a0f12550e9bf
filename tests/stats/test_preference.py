"""Figures over pairs that were asked about in both orders."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from evalflow.stats.figures import preference_figures

NUMBERS = ("score", "lean", "longer")
COUNTS = ("cluster", "n", "clusters")


def pairs(*rows: tuple[float | None, int | None, int | None, int], cluster: int | None = None) -> pl.DataFrame:
    """Rows of score, lean and longer, each so many times: every pair its own cluster, or all the given one."""
    said = [
        (*row[:3], i, 1, row[3]) if cluster is None else (*row[:3], cluster, row[3], 1) for i, row in enumerate(rows)
    ]
    numbers, counts = dict.fromkeys(NUMBERS, pl.Float64), dict.fromkeys(COUNTS, pl.Int64)
    return pl.DataFrame(said, schema={**numbers, **counts}, orient="row")


def figures(counts: pl.DataFrame) -> dict[str, Any]:
    return {figure.statistic: figure for figure in preference_figures(counts)}


def test_the_swap_test() -> None:
    """100 pairs, 75 of them consistent; of the others 19 prefer what is read first."""
    found = figures(pairs((1.0, 0, 1, 45), (0.0, 0, 0, 30), (0.5, 1, None, 19), (0.5, -1, None, 6)))
    consistency, first = found["consistency"], found["first_preferred"]
    assert consistency.value == 0.75
    assert (consistency.low, consistency.high) == pytest.approx((0.6569553645, 0.8245478864), abs=1e-6)
    assert (consistency.n, consistency.method) == (100, "wilson")
    assert (first.value, first.n) == (0.76, 25)
    assert first.details == {"first": 19, "second": 6, "p_value": pytest.approx(0.01463329792, abs=1e-6)}
    assert found["win_rate"].value == pytest.approx((45 + 12.5) / 100)
    assert found["win_rate"].details == {"wins": 45, "losses": 30, "ties": 0, "decided_by_order": 25}
    assert (found["longer_preferred"].value, found["longer_preferred"].n) == (0.6, 75)


def test_without_a_pair_that_the_order_decides_there_is_nothing_to_test() -> None:
    found = figures(pairs((1.0, 0, None, 3)))
    assert (found["first_preferred"].value, found["first_preferred"].details["p_value"]) == (None, None)
    assert found["consistency"].value == 1.0


def test_equal_texts_are_ties_that_say_nothing_of_the_judge() -> None:
    found = figures(pairs((0.5, None, None, 2), (1.0, 0, None, 2)))
    assert found["win_rate"].details == {"wins": 2, "losses": 0, "ties": 2, "decided_by_order": 0}
    assert (found["consistency"].value, found["consistency"].n) == (1.0, 2)


def test_undefined_pairs_count_for_the_consistency_and_not_for_the_wins() -> None:
    found = figures(pairs((1.0, 0, None, 3), (None, 1, None, 1)))
    assert (found["win_rate"].value, found["win_rate"].n) == (1.0, 3)
    assert (found["consistency"].value, found["consistency"].n) == (0.75, 4)


def test_repeats_of_a_case_are_no_further_evidence() -> None:
    """Eight repeats of one case lean one way: that is one case."""
    counts = pl.concat([pairs((0.5, 1, None, 8), (0.5, -1, None, 2), cluster=1), pairs((0.5, -1, None, 3), cluster=2)])
    assert figures(counts)["first_preferred"].details == {"first": 1, "second": 1, "p_value": 1.0}
