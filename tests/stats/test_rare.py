"""Differences of scores in 0..1 of which few are large: against the equation, exact error rates, and properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.intervals import pseudo_cluster_size, t_interval
from evalflow.stats.paired import (
    Difference,
    cases_needed_at_margin,
    paired_difference,
    standard_error,
    within_margin,
)
from evalflow.stats.unpaired import unpaired_difference


def collapsed(k: int, n: int = 200, drop: float = 0.8) -> Difference:
    after = np.full(n, 0.9)
    after[:k] -= drop
    return paired_difference(np.full(n, 0.9), after, bounded=True, draws=99)


def test_two_collapsed_answers_of_200_do_not_pass_a_margin_of_two_points():
    found = collapsed(2)
    assert found.difference == pytest.approx(-0.008)
    assert found.low is not None
    assert found.low < -0.02 < t_interval(-0.008, found.std_error or 0, 199)[0]
    assert found.method == "paired_t_rare_sign_flip"


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(8), 5)])
def test_the_bounds_solve_the_equation(clusters: Any):
    rng = np.random.default_rng(4)
    a = rng.beta(4, 1, 40)
    b = np.clip(a - 0.02 + rng.normal(0, 0.05, 40), 0, 1)
    b[3] = 0.0
    found = paired_difference(a, b, clusters, bounded=True)
    d = b - a
    off = d - d.mean()
    units = off if clusters is None else np.add.reduceat(off, np.arange(0, 40, 5))
    size = 1.0
    if clusters is not None:
        size = min(5.0, max(1.0, (np.sum(units**2) + 25) / (np.sum(off**2) + 5)))
    error, df = standard_error(d, clusters)
    t2, error = scipy.stats.t.ppf(0.975, df) ** 2, error or 0
    for end, side in ((found.low, -units), (found.high, units)):
        assert end is not None
        third = size**3 + sum(max(x, 0) ** 3 for x in side)
        rare = 0.9 * third / (size**2 + np.sum(units**2)) / (40 + 2 * size)
        away = max(0.0, -end + min(d.mean(), 0)) if side is not units else max(0.0, end - max(d.mean(), 0))
        if abs(end) < 1:
            assert (d.mean() - end) ** 2 == pytest.approx(t2 * (error**2 + rare * away))


@pytest.mark.parametrize("drop", [0.8, 0.4])
@pytest.mark.parametrize("margin", [0.02, 0.05])
@pytest.mark.parametrize("n", [50, 100, 150, 200, 500])
def test_a_gate_rarely_passes_a_run_that_is_worse_by_the_margin(n: int, margin: float, drop: float):
    """Exact: the number of cases that drop is binomial, and their mean drop is the margin."""
    chances = scipy.stats.binom.pmf(range(n + 1), n, margin / drop)
    passing, covered = 0.0, 0.0
    for k, chance in enumerate(chances):
        if chance > 1e-7:
            found = collapsed(k, n, drop)
            assert found.low is not None
            assert found.high is not None
            passing += chance * (found.low >= -margin - 1e-9)
            covered += chance * (found.low <= -margin + 1e-9 and found.high >= -margin - 1e-9)
    assert passing <= 0.025
    assert covered >= 0.95


SCORES = st.floats(0, 1).map(lambda x: round(x, 3))
PAIRS = st.lists(st.tuples(SCORES, SCORES, st.integers(0, 6)), min_size=2, max_size=40)


@given(PAIRS, st.booleans(), st.floats(0.001, 0.5), st.booleans())
def test_the_p_value_at_a_margin_and_the_interval_agree(
    pairs: list[tuple[float, float, int]], grouped: bool, margin: float, higher: bool
):
    a, b, clusters = zip(*pairs, strict=True)
    found = paired_difference(a, b, clusters if grouped else None, bounded=True)
    tested = within_margin(found, margin, higher_is_better=higher)
    if not any(found.rare) or tested is None or found.low is None or found.high is None:
        return
    low = found.low if higher else -found.high
    if abs(low + margin) > 1e-9:
        assert (low > -margin) == (tested.p_not_inferior < 0.025)
    assert -1 <= found.low <= (found.difference or 0) <= found.high <= 1


@given(PAIRS, st.booleans())
def test_zero_is_excluded_where_t_excludes_it(pairs: list[tuple[float, float, int]], grouped: bool):
    a, b, clusters = zip(*pairs, strict=True)
    found = paired_difference(a, b, clusters if grouped else None, bounded=True)
    plain = paired_difference(a, b, clusters if grouped else None)
    if any(found.rare) and found.low is not None and plain.low is not None:
        assert found.high is not None
        assert plain.high is not None
        assert (found.low > 0, found.high < 0) == (plain.low > 0, plain.high < 0)
        assert found.low <= plain.low + 1e-12 or plain.low < -1
        assert (found.p_value, found.std_error) == (plain.p_value, plain.std_error)


def test_many_varied_differences_have_the_t_interval():
    rng = np.random.default_rng(1)
    a = rng.uniform(0, 1, 5_000)
    b = np.clip(a + rng.normal(0, 0.3, 5_000), 0, 1)
    found, plain = paired_difference(a, b, bounded=True), paired_difference(a, b)
    assert found.low is not None
    assert (found.high or 0) - found.low == pytest.approx((plain.high or 0) - (plain.low or 0), rel=0.02)


def test_as_many_cases_decide_as_it_says():
    found = collapsed(2)
    needed = cases_needed_at_margin(found, 0.02)
    assert needed is not None
    assert 400 < needed < 500
    assert (collapsed(5, 500).low or 0) > -0.02 > (collapsed(4, 400).low or 0)
    assert cases_needed_at_margin(found, 0.008) is None


def test_a_pseudo_cluster_is_whole_until_the_scores_vary():
    sizes = np.full(20, 5.0)
    assert pseudo_cluster_size(np.zeros(20), sizes, 0.0) == 5
    assert pseudo_cluster_size(np.full(20, 1.0), sizes, 20.0) == pytest.approx(
        45 / 25
    )  # the cases vary, the clusters do not go
    assert pseudo_cluster_size(np.full(20, 5.0), sizes, 100.0) == 5
    assert pseudo_cluster_size(np.zeros(2), np.array([9.0, 1.0]), 0.0) == pytest.approx(82 / 10)


@pytest.mark.parametrize("n", [50, 100, 200, 500])
@pytest.mark.parametrize("margin", [0.02, 0.05])
def test_two_samples_rarely_pass_a_margin_that_one_misses_by_rare_drops(n: int, margin: float):
    """Exact: A's scores are good, and so are those of B but a binomial number of them, which are 0.1."""
    good = np.tile([0.9, 0.92, 0.94, 0.9, 0.94], n // 5)
    drop, passing = 0.82, 0.0
    for k, chance in enumerate(scipy.stats.binom.pmf(range(n + 1), n, margin / drop)):
        if chance > 1e-7:
            bad = good.copy()
            bad[:k] = 0.1
            found = unpaired_difference(good, bad, bounded=True)
            assert found.low is not None
            passing += chance * (found.low >= -margin)
    assert passing <= 0.035


@given(st.lists(SCORES, min_size=2, max_size=30), st.lists(SCORES, min_size=2, max_size=30), st.floats(0.001, 0.5))
def test_two_samples_agree_with_welch_about_zero_and_with_their_p_value(a: list[float], b: list[float], margin: float):
    found, plain = unpaired_difference(a, b, bounded=True), unpaired_difference(a, b)
    if not any(found.rare) or found.low is None or found.high is None or plain.low is None or plain.high is None:
        return
    assert (found.low > 0, found.high < 0) == (plain.low > 0, plain.high < 0)
    tested = within_margin(found, margin)
    assert tested is not None
    if abs(found.low + margin) > 1e-9:
        assert (found.low > -margin) == (tested.p_not_inferior < 0.025)
    back = unpaired_difference(b, a, bounded=True)
    assert (found.low, found.high) == pytest.approx((-(back.high or 0), -(back.low or 0)))
