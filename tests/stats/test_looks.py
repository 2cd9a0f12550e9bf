"""Intervals for several looks against closed forms, brute force and exact enumeration, and by properties."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betainc, betaln

from evalflow.stats.arrays import Interval
from evalflow.stats.intervals import interval
from evalflow.stats.looks import LimitTest, anytime_interval, obrien_fleming, planned_interval

pytestmark = pytest.mark.slow

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=60)
PASSES = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60)


def _ends(found: Interval) -> tuple[float, float]:
    assume(found.low is not None)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def _mixture(passed: int, n: int, limit: float) -> float:
    """The likelihood of all rates above the limit, uniformly mixed, over that of the limit."""
    inside = betainc(n - passed + 1, passed + 1, 1 - limit)
    log = betaln(passed + 1, n - passed + 1) - passed * math.log(limit) - (n - passed) * math.log1p(-limit)
    return float(inside * math.exp(log) / (1 - limit))


def _lower_by_scan(values: list[float], needed: float = 40.0) -> float:
    """The lower end by its definition: a fine grid of limits, and the beta mixture after every case."""
    passed, best = 0, 0.0
    for n, value in enumerate(values, start=1):
        passed += int(value)
        while best < 0.999 and _mixture(passed, n, best + 0.001) >= needed:
            best += 0.001
    return best


@pytest.mark.parametrize("seed", range(4))
def test_passes_and_failures_have_the_ends_of_the_beta_mixture(seed: int):
    values = (np.random.default_rng(seed).random(300) < 0.9).astype(float).tolist()
    found = anytime_interval(values)
    assert found.low == pytest.approx(_lower_by_scan(values), abs=0.002)
    assert found.high == pytest.approx(1 - _lower_by_scan([1 - value for value in values]), abs=0.002)
    assert found.method == "beta_mixture"


def _betting_by_scan(values: list[float]) -> float:
    """The lower end for graded scores: 2,000 bets alike, and all limits on a grid, after every case."""
    bets = (np.arange(2000) + 0.5) / 2000
    low = 0.0
    for limit in np.arange(0.01, 1, 0.01):
        logs = np.cumsum([np.log1p(bets * (value / limit - 1)) for value in values], axis=0)
        if np.exp(logs).mean(axis=1).max() < 40:
            return low
        low = limit
    return low


@pytest.mark.parametrize("seed", range(3))
def test_graded_scores_have_the_ends_of_evenly_spread_bets(seed: int):
    values = np.random.default_rng(seed).beta(4, 2, 150)
    found = anytime_interval(values)
    assert found.low == pytest.approx(_betting_by_scan(list(values)), abs=0.011)
    assert found.high == pytest.approx(1 - _betting_by_scan(list(1 - values)), abs=0.011)
    assert found.method == "betting"


@pytest.mark.parametrize("limit", [0.2, 0.5, 0.9])
def test_of_all_sequences_no_more_are_decided_wrongly_than_a_side_may_err(limit: float):
    wrong = {"above": 0.0, "below": 0.0}
    for values in product((0.0, 1.0), repeat=11):
        test = LimitTest(limit, level=0.8)
        for value in values:
            test.add(value)
        if test.verdict:
            wrong[test.verdict] += limit ** sum(values) * (1 - limit) ** (11 - sum(values))
    assert max(wrong.values()) <= 0.1
    assert sum(wrong.values()) > 0


def test_a_p_value_at_every_look_is_small_no_more_often_than_it_says():
    small = dict.fromkeys((0.05, 0.1, 0.3), 0.0)
    for values in product((0.0, 1.0), repeat=11):
        test = LimitTest(0.4, level=0.99)
        for value in values:
            test.add(value)
        chance = 0.4 ** sum(values) * 0.6 ** (11 - sum(values))
        small = {level: total + chance * (test.p_value <= level) for level, total in small.items()}
    assert all(0 < total <= level for level, total in small.items())


def test_no_more_are_decided_wrongly_where_large_clusters_score_worse():
    small, large, wrong = 0.9, (1 - 0.9 / 2) / 1.5, {"above": 0.0, "below": 0.0}
    units = [((1, 1), small / 2), ((0, 1), (1 - small) / 2), ((3, 3), large / 2), ((0, 3), (1 - large) / 2)]
    assert sum(chance * total for (total, _), chance in units) == pytest.approx(
        sum(chance * size / 2 for (_, size), chance in units)
    )
    for sequence in product(units, repeat=6):
        test = LimitTest(0.5, level=0.8, largest=3)
        for (total, size), _ in sequence:
            test.add(total, size)
        if test.verdict:
            wrong[test.verdict] += math.prod(chance for _, chance in sequence)
    assert max(wrong.values()) <= 0.1
    assert sum(wrong.values()) > 0


@pytest.mark.parametrize(("looks", "bound"), [(1, 1.960), (2, 1.977), (3, 2.004), (4, 2.024), (5, 2.040), (10, 2.087)])
def test_bounds_are_those_of_published_tables(looks: int, bound: float):
    assert obrien_fleming(looks) == pytest.approx(bound, abs=6e-4)


def test_bounds_of_two_looks_are_those_of_the_bivariate_normal_distribution():
    bound = obrien_fleming(2)
    correlated: Any = np.array([[1, math.sqrt(0.5)], [math.sqrt(0.5), 1]])
    below = stats.multivariate_normal.cdf([bound * math.sqrt(2), bound], cov=correlated)
    assert 1 - below == pytest.approx(0.025, abs=1e-5)


def test_planned_looks_have_the_usual_interval_at_the_quantile_of_the_bound():
    values = np.random.default_rng(0).beta(4, 2, 100)
    padded = [*values, 0, 1]
    level = 1 - 2 * stats.norm.sf(obrien_fleming(5) * math.sqrt(5 / 3))
    low, high = stats.t.interval(level, 101, np.mean(padded), stats.sem(padded))
    found = planned_interval(values, None, look=3, looks=5)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert found.method == "obrien_fleming"


def test_one_planned_look_is_the_interval_of_one_look():
    values = np.random.default_rng(1).beta(4, 2, 60)
    for clusters in (None, np.arange(60) // 5):
        one, usual = planned_interval(values, clusters, look=1, looks=1), interval(values, clusters, bounded=True)
        assert (one.low, one.high) == pytest.approx((usual.low, usual.high), abs=1e-6)


@given(SCORES)
def test_an_interval_only_narrows(values: list[float]):
    (low, high), (later_low, later_high) = _ends(anytime_interval(values[:-1])), _ends(anytime_interval(values))
    assert low <= later_low <= later_high <= high


@given(SCORES)
def test_turning_the_scale_round_turns_the_interval_round(values: list[float]):
    low, high = _ends(anytime_interval(values))
    assert _ends(anytime_interval(1 - np.array(values))) == pytest.approx((1 - high, 1 - low), abs=1e-5)


@given(SCORES)
def test_a_higher_level_is_never_narrower(values: list[float]):
    (low, high), (inner_low, inner_high) = (_ends(anytime_interval(values, level=level)) for level in (0.99, 0.9))
    assert low <= inner_low <= inner_high <= high


@given(SCORES, st.floats(0.05, 0.95))
@settings(max_examples=50)
def test_a_verdict_at_a_limit_agrees_with_the_interval(values: list[float], limit: float):
    test = LimitTest(limit)
    for value in values:
        test.add(value)
    low, high = _ends(anytime_interval(values))
    assume(min(abs(low - limit), abs(high - limit)) > 1e-5)
    assert test.verdict == ("above" if low > limit else "below" if high < limit else None)


@given(PASSES)
def test_clusters_of_one_case_each_are_cases(values: list[float]):
    assert anytime_interval(values, range(len(values))) == anytime_interval(values)


def test_clusters_of_equal_cases_count_once():
    values = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    alone = anytime_interval(values)
    found = anytime_interval(np.repeat(values, 4), np.repeat(range(6), 4), largest=4)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=1e-6)
    assert found.method == "cluster_betting"


def test_what_cannot_be_used_is_refused_with_its_reason():
    assert anytime_interval([]).method == "none: no scores"
    assert anytime_interval([1.0] * 40 + [0.0] * 400).method.startswith("none: early and late scores")
    with pytest.raises(ValueError, match="a score is outside"):
        anytime_interval([0.5, 1.5])
    with pytest.raises(ValueError, match="a score is outside"):
        anytime_interval([0.5, math.nan])
    with pytest.raises(ValueError, match="3 scores, more than the largest of 2"):
        anytime_interval([0, 1, 1], ["a", "a", "a"], largest=2)
    with pytest.raises(ValueError, match="look 6 is not in"):
        planned_interval([0.0, 1.0], None, look=6, looks=5)
