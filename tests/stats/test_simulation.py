"""Plans are tested by running what they plan: runs and comparisons of the planned size, drawn from the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.arrays import Floats
from evalflow.stats.intervals import interval
from evalflow.stats.paired import paired_difference
from evalflow.stats.simulation import Population, fewest, guessed, is_higher, shifted, typical_width, unrelated, widths
from evalflow.stats.variance import Components, variance_limit
from evalflow.summary.plan import Basis, Level, Planner

pytestmark = pytest.mark.slow


def good(rng: np.random.Generator, n: int) -> Any:
    """Graded scores with a mean of 0.95 and a standard deviation of 0.05."""
    return rng.beta(17.1, 0.9, n)


def basis(scores: Any, clusters: Any = None) -> Basis:
    drawn = Population(scores, clusters)
    parts = Components(scores.size, drawn.variance, None, None)
    rate = float(scores.mean()) if drawn.binary and clusters is None else None
    limit = variance_limit(scores, clusters, 0.8)
    return Basis("", [], parts, parts, 0.0, drawn, drawn, rate, sampled=scores.size, scores_limit=limit)


def met(rng: np.random.Generator, n: int, width: float, runs: int) -> float:
    found = (interval(good(rng, n), bounded=True) for _ in range(runs))
    return float(np.mean([(one.high or 0) - (one.low or 0) <= width for one in found]))


def test_half_of_the_runs_meet_a_typical_width_and_most_an_assured_one():
    rng = np.random.default_rng(1)
    shares = np.zeros(2)
    for _ in range(8):
        pilot = basis(good(rng, 150))
        for place, one in enumerate((pilot, pilot.assured(0.8))):
            cases = Planner(one, Level()).cases_for_width(0.05, 1, 1)
            assert 60 < cases < 150  # 18 by a t interval
            shares[place] += met(rng, cases, 0.05, 20) / 8
    assert 0.25 < shares[0] < 0.8
    assert shares[1] > 0.8 - 2 * 0.07


@pytest.mark.parametrize(("size", "comparisons"), [(1, 1), (5, 1), (5, 4)])
def test_comparisons_of_the_planned_size_find_the_difference(size: int, comparisons: int):
    differences = guessed("normal", 0.0, 0.3, size, 0.2)
    variance = differences.variance
    parts = Components(0, variance / 2, None, None)
    level = Level(comparisons=comparisons)
    cases = Planner(Basis("", [], parts, parts, variance, None, differences), level).cases_to_detect(0.2, 1, 1)
    rng, hits = np.random.default_rng(2), 0
    for seed in range(400):
        codes = np.arange(cases) // size
        shared = rng.normal(0, 0.3 * 0.2**0.5, codes[-1] + 1)[codes] if size > 1 else 0.0
        error = shared + rng.normal(0, 0.3 * (0.8**0.5 if size > 1 else 1), cases)
        a = np.full(cases, 0.5)
        found = paired_difference(a, a + 0.2 + error, codes if size > 1 else None, seed, bounded=True, draws=1999)
        hits += (found.p_value or 1) < level.each and (found.low or 0) > 0
    assert hits / 400 == pytest.approx(0.8, abs=0.075)


def test_the_typical_width_is_that_of_the_reported_interval():
    scores = np.repeat([0.2, 0.9, 1.0], 20)
    found = interval(scores, bounded=True)
    assert typical_width(Population(scores), 60) == pytest.approx((found.high or 0) - (found.low or 0))
    passes = np.repeat([0.0, 1.0], [10, 40])
    found = interval(passes, bounded=True)
    assert typical_width(Population(passes), 50) == pytest.approx((found.high or 0) - (found.low or 0))


def test_an_uncertain_pilot_has_wider_and_more_varied_runs():
    drawn = Population(good(np.random.default_rng(3), 40))
    known, unknown = widths(drawn, 100), widths(drawn, 100, unknown=True)
    assert np.quantile(unknown, 0.9) > np.quantile(known, 0.9)
    assert (widths(drawn, 100) == known).all()  # a fixed seed
    none = widths(Population(np.repeat([0.0, 1.0], [3, 27]), np.arange(30) // 3), 30, unknown=True)
    assert np.isfinite(none).all()


def test_clusters_are_drawn_whole():
    population = Population(np.arange(12.0), np.repeat(np.arange(4), 3), bounded=False)
    draw = population.drawer()
    places, clusters = draw(np.random.default_rng(0), 10, None)
    assert clusters is not None
    assert places.size == clusters.size == 10
    for cluster in range(3):
        own = places[clusters == cluster]
        assert (own == own[0] + np.arange(3)).all()
        assert own[0] % 3 == 0


def test_guesses_have_what_was_stated():
    for size in (1, 5):
        graded = guessed("graded", 0.9, 0.1, size, 0.2)
        assert graded.values.mean() == pytest.approx(0.9, abs=0.005)
        assert graded.variance == pytest.approx(0.01 * (1 + 0.2 * (size - 1)), rel=0.05)
    assert guessed("pass", 0.8, 0.4).values.mean() == pytest.approx(0.8)
    assert guessed("pass", 0.8, 0.4, 5, 0.2).variance == pytest.approx(0.16 * 1.8, rel=0.15)
    flips = guessed("flips", 0.0, 0.2**0.5)
    assert np.abs(flips.values).mean() == pytest.approx(0.2)
    other = unrelated(graded)
    assert other.variance == pytest.approx(2 * graded.variance, rel=0.25)
    a, b, _ = shifted(other, 0.1)(np.random.default_rng(0), 4000)
    assert (b - a).mean() == pytest.approx(0.1, abs=0.02)


def test_equal_cases_become_normal_where_they_are_given_a_variance():
    equal = Population(np.full(10, 0.5))
    assert equal.scaled(0.04).variance == pytest.approx(0.04, rel=1e-3)
    assert equal.scaled(0.0) is equal


def test_the_fewest_is_found_from_any_guess():
    for start in (2, 50, 99, 100, 101, 5000):
        assert fewest(lambda n: n >= 100, start) == 100
    assert fewest(lambda n: n >= 2, 7) == 2


@given(
    st.integers(0, 10_000),
    st.sampled_from(["graded", "passes", "rare"]),
    st.integers(2, 60),
    st.sampled_from([1, 3]),
    st.sampled_from([0.2, 0.05, 0.01]),
    st.booleans(),
)
def test_what_is_higher_is_what_the_comparison_finds(
    seed: int, kind: str, n: int, size: int, alpha: float, bounded: bool
):
    rng = np.random.default_rng(seed)
    a, b = rng.random(n), np.clip(rng.random(n) + 0.3, 0, 1)
    if kind == "passes":
        a, b = (a < 0.4).astype(float), (b > 0.5).astype(float)
    elif kind == "rare":
        b = np.where(rng.random(n) < 0.2, b, a)
    clusters = None if size == 1 else np.arange(n) // size
    found = paired_difference(a, b, clusters, bounded=bounded, draws=999)
    expected = (found.p_value or 0) < alpha and found.p_value is not None and (found.low is None or found.low > 0)
    positive = (found.difference or 0) > 0
    assert is_higher(a, b, clusters, alpha, bounded=bounded, draws=999) == (expected and positive)


@pytest.mark.parametrize(
    ("a", "b", "alpha"),
    [
        (np.full(12, 0.75), np.full(12, 0.25), 0.05),  # a difference without variance, for A
        (np.full(12, 0.5), np.full(12, 0.5), 0.05),
        (np.zeros(20), (np.arange(20) < 4).astype(float), 0.2),  # p is 0.125, but the 95 % interval contains 0
    ],
)
def test_what_is_lower_or_within_its_interval_is_not_higher(a: Floats, b: Floats, alpha: float):
    found = paired_difference(a, b, None, bounded=True, draws=999)
    assert found.difference is not None
    assert found.difference <= 0 or (found.p_value is not None and found.p_value < alpha and (found.low or 0) < 0)
    assert not is_higher(a, b, None, alpha, bounded=True, draws=999)
