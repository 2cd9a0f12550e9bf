"""Intervals against published numbers, at the edges where they must refuse, and by properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.bootstrap import bootstrap_t
from evalflow.stats.intervals import Moments, cr1, interval, intervals, moments, t_interval, wilson

SCORES = [1.0, 0.0, 0.5, 1.0, 0.75, 0.25, 1.0, 0.0, 0.5, 1.0]
CLUSTERED = [1.0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0]
CLUSTERS = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (8, 10, 0.4901624715, 0.9433178485),
        (10, 10, 0.7224672001, 1.0),
        (0, 30, 0.0, 0.1135133932),
        (45, 50, 0.7863976856, 0.9565242351),
        (170, 200, 0.7939442072, 0.8928640644),
    ],
)
def test_wilson_agrees_with_statsmodels(k: int, n: int, low: float, high: float):
    assert wilson(k, n) == pytest.approx((low, high), abs=1e-9)


def test_wilson_takes_many_rows_at_once_and_has_no_bounds_without_trials():
    low, high = wilson([8, 0, 0], [10, 30, 0])
    assert low[:2] == pytest.approx([0.4901624715, 0.0], abs=1e-9)
    assert high[:2] == pytest.approx([0.9433178485, 0.1135133932], abs=1e-9)
    assert math.isnan(low[2])
    assert math.isnan(high[2])


def test_mean_of_graded_scores_has_a_t_interval():
    found = interval(SCORES)
    assert (found.low, found.high) == pytest.approx((0.3055331292, 0.8944668708), abs=1e-9)
    assert found.std_error == pytest.approx(0.1301708279, abs=1e-9)
    assert found.method == "t: fewer than 30 cases"
    assert interval(SCORES * 3).method == "t"


def test_few_bounded_scores_have_a_bootstrap_t_and_students_beside_it():
    found = intervals(moments(SCORES), {0: np.array(SCORES)}, bounded=True)
    assert found.method[0] == "bootstrap_t: fewer than 30 cases"
    low, high = bootstrap_t(np.sort([SCORES]))
    assert (found.low[0], found.high[0]) == pytest.approx((low[0], high[0]), abs=1e-12)
    assert (found.t_low[0], found.t_high[0]) == pytest.approx((0.3055331292, 0.8944668708), abs=1e-9)
    many = intervals(moments(SCORES * 3), bounded=True)
    assert (many.method[0], math.isnan(many.t_low[0])) == ("t", True)


def test_a_bootstrap_t_needs_the_scores_and_else_student_stands():
    found = intervals(moments(SCORES), bounded=True)
    assert found[0] == interval(SCORES)


def test_the_seed_decides_a_bootstrap_t_and_the_order_of_scores_does_not():
    a, b, c = (interval(s, bounded=True, seed=k) for s, k in ((SCORES, 0), (SCORES[::-1], 0), (SCORES, 1)))
    assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=1e-12)
    assert a.low != c.low


def test_clusters_widen_the_interval_as_cr1_says():
    m = moments(CLUSTERED, CLUSTERS)
    error = cr1(m.n, m.clusters, m.cluster_ss)
    assert error == pytest.approx([0.1594719885], abs=1e-9)
    low, high = t_interval(m.mean, error, m.clusters - 1)
    assert (low[0], high[0]) == pytest.approx((0.05498895952, 1.07001104), abs=1e-8)
    found = interval(CLUSTERED, CLUSTERS)
    assert found.high == pytest.approx(1.07001104, abs=1e-8)
    assert found.method == "cr1_t: fewer than 10 clusters"


def test_bounds_of_a_bounded_score_are_clipped_for_display():
    found = interval(CLUSTERED, CLUSTERS, bounded=True)
    assert (found.low, found.high) == (pytest.approx(0.05498895952, abs=1e-8), 1.0)
    assert found.std_error == pytest.approx(0.1594719885, abs=1e-9)


def test_ten_clusters_are_not_few():
    scores = [0.1 * (i % 7) for i in range(30)]
    assert interval(scores, [i // 3 for i in range(30)]).method == "cr1_t"
    assert interval(scores, [i // 4 for i in range(30)]).method == "cr1_t: fewer than 10 clusters"


@pytest.mark.parametrize(
    ("scores", "clusters", "method"),
    [
        ([], None, "none: no scores"),
        ([0.5], None, "none: one case"),
        ([0.5, 0.5], None, "none: all scores equal"),
        ([0.2, 0.4, 0.9], ["a", "a", "a"], "none: one cluster"),
        ([1, 1, 1], ["a", "a", "a"], "none: one cluster"),
        ([0.5, 0.5, 0.5], ["a", "a", "b"], "none: all scores equal"),
        ([1, 0, 1, 0], ["a", "a", "b", "b"], "none: clusters do not differ"),
        ([0.1, 0.7, 0.7, 0.1, 0.3, 0.5], ["a", "a", "b", "b", "c", "c"], "none: clusters do not differ"),
    ],
)
def test_without_visible_variation_there_is_no_interval_and_the_method_says_why(
    scores: list[float], clusters: list[str] | None, method: str
):
    found = interval(scores, clusters)
    assert (found.low, found.high, found.std_error) == (None, None, None)
    assert found.method == method


@pytest.mark.parametrize(
    ("scores", "clusters", "method", "n"),
    [
        ([1], None, "wilson: 1 of 1 cases, too few for the rule of three", 1),
        ([1, 1], None, "wilson: 2 of 2 cases, too few for the rule of three", 2),
        ([0] * 30, None, "wilson: 0 of 30 cases, by the rule of three at most 0.1", 30),
        ([1] * 60, None, "wilson: 60 of 60 cases, by the rule of three at least 0.95", 60),
        ([0] * 6, list("aabbcc"), "wilson_clusters: 0 of 3 groups, too few for the rule of three", 3),
        ([1] * 12, list("aabbccddeeff"), "wilson_clusters: 6 of 6 groups, by the rule of three at least 0.5", 6),
    ],
)
def test_a_perfect_or_hopeless_proportion_keeps_a_width_but_no_standard_error(
    scores: list[float], clusters: list[str] | None, method: str, n: int
):
    found = interval(scores, clusters)
    low, high = wilson(scores[0] * n, n)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.std_error is None
    assert found.method == method


def test_a_binary_score_outside_clusters_is_a_proportion():
    found = interval([1] * 8 + [0] * 2)
    assert (found.low, found.high) == pytest.approx((0.4901624715, 0.9433178485), abs=1e-9)
    assert found.method == "wilson"
    assert found.std_error == pytest.approx(math.sqrt(0.8 * 0.2 / 9))


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 4)), max_size=25), st.randoms())
def test_order_of_cases_does_not_matter(cases: list[tuple[float, int]], random):
    shuffled = random.sample(cases, len(cases))
    a, b = (interval([s for s, _ in rows], [c for _, c in rows]) for rows in (cases, shuffled))
    assert a.method == b.method
    assert (a.low is None) == (b.low is None)
    if a.low is not None:
        assert (a.low, a.high) == pytest.approx((b.low, b.high))


@given(st.lists(st.lists(st.floats(0, 1), max_size=8), min_size=1, max_size=5))
def test_many_rows_give_what_each_gives_alone(rows: list[list[float]]):
    each = [moments(row) for row in rows]
    together = Moments(
        *(np.concatenate([getattr(m, name) for m in each]) for name in Moments.__dataclass_fields__)  # type: ignore[arg-type]
    )
    found = intervals(together)
    assert [found[i] for i in range(len(rows))] == [interval(row) for row in rows]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_an_interval_holds_its_mean(scores: list[float]):
    found = interval(scores, bounded=True)
    if found.low is not None and found.high is not None:
        assert found.low - 1e-9 <= np.mean(scores) <= found.high + 1e-9
        assert 0 <= found.low <= found.high <= 1
