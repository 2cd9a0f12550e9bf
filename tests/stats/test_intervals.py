"""Intervals against published numbers, at the edges where they must refuse, and by properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalflow.stats.intervals import UNEVEN, cr2, interval, intervals, mean_error, moments, row_moments, stacked, wilson

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
    assert interval(SCORES * 3).method == "t: outliers in up to 10 % of cases may be missing"
    assert interval(SCORES * 30).method == "t"


def test_scores_with_fixed_ends_have_a_t_interval_with_a_case_more_at_each_end():
    for scores in (SCORES, [1.0] * 27 + [0.6, 0.3], [0.8, 0.8], [0.25] * 200):
        found, padded = interval(scores, bounded=True), [*scores, 0, 1]
        low, high = stats.t.interval(0.95, len(padded) - 1, np.mean(padded), stats.sem(padded))
        assert (found.low, found.high) == pytest.approx((max(0, low), min(1, high)), abs=1e-9)
        assert found.method == "plus_two_t"


def test_scores_with_fixed_ends_have_no_cliff_at_thirty_cases():
    before, after = (interval([1.0] * n + [0.6, 0.3], bounded=True) for n in (27, 28))
    assert (before.low, before.high) == pytest.approx((after.low, after.high), abs=0.005)


def _by_matrices(sizes: list[int]) -> tuple[np.ndarray, float]:
    """Each cluster's adjustment (I - H)^(-1/2) applied to ones, and the degrees of freedom, by the definitions."""
    n = sum(sizes)
    rest = np.eye(n) - np.full((n, n), 1 / n)
    ends = np.cumsum(sizes)
    adjusted, vectors = [], []
    for size, end in zip(sizes, ends, strict=True):
        own = slice(end - size, end)
        values, basis = np.linalg.eigh(rest[own, own])
        root = basis @ np.diag(values**-0.5) @ basis.T
        adjusted.append(root @ np.ones(size))
        vectors.append(rest[:, own] @ root @ np.ones(size) / n)
    spread = np.array(vectors) @ np.array(vectors).T
    return np.concatenate(adjusted), float(np.trace(spread) ** 2 / (spread**2).sum())


@pytest.mark.parametrize("sizes", [[4, 4, 3, 5], [1, 1, 1, 1, 1], [20, 1, 2, 3], [7, 2]])
def test_the_error_over_clusters_is_cr2_with_bell_and_mccaffreys_degrees_of_freedom(sizes: list[int]):
    scores = np.random.default_rng(5).random(sum(sizes))
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    adjustment, df = _by_matrices(sizes)
    sums = np.bincount(clusters, adjustment * (scores - scores.mean()))
    assert mean_error(scores, clusters) == pytest.approx((np.sqrt((sums**2).sum()) / scores.size, df), rel=1e-9)


def test_single_cases_have_the_usual_standard_error():
    assert mean_error(SCORES) == pytest.approx((stats.sem(SCORES), 9))
    assert all(math.isnan(found) for found in (*mean_error([0.5]), *mean_error([]), *cr2(np.ones(1), np.ones(1))))


def test_clusters_widen_the_interval():
    found, (error, df) = interval(CLUSTERED, CLUSTERS), mean_error(CLUSTERED, CLUSTERS)
    half = stats.t.ppf(0.975, df) * error
    assert (found.low, found.high) == pytest.approx((0.5625 - half, 0.5625 + half), abs=1e-9)
    assert found.std_error == error > mean_error(CLUSTERED)[0]
    assert found.method == "cr2_t: fewer than 10 clusters"


def test_clusters_of_scores_with_fixed_ends_have_a_cluster_more_at_each_end():
    # Cases that alternate: their squares sum to 0.6, those of their clusters to 0. One more cluster of two bad cases
    # would make (0 + 2 * 2) / (0.6 + 2) cases count as one.
    scores, clusters = [0.2, 0.8, 0.4, 0.6, 0.3, 0.7, 0.1, 0.9], [0, 0, 1, 1, 2, 2, 3, 3]
    found, size = interval(scores, clusters, bounded=True), 4 / 2.6
    error, df = cr2(np.array([0, 0, 0, 0, -size / 2, size / 2]), np.array([2, 2, 2, 2, size, size]))
    half = stats.t.ppf(0.975, df) * error
    assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-9)
    # Clusters of equal scores: all their cases count as one, and so do those of a pseudo-cluster.
    scores, clusters = [0.2] * 3 + [0.9] * 3 + [0.5] * 3, [0] * 3 + [1] * 3 + [2] * 3
    found, padded = (
        interval(scores, clusters, bounded=True),
        interval([*scores, 0, 0, 0, 1, 1, 1], [*clusters, 4, 4, 4, 5, 5, 5]),
    )
    assert (found.low, found.high) == pytest.approx((max(0, padded.low or 0), min(1, padded.high or 1)), abs=1e-9)
    found = interval(CLUSTERED, CLUSTERS, bounded=True)
    assert (found.std_error, found.method) == (mean_error(CLUSTERED, CLUSTERS)[0], "plus_two_cr2_t")


@pytest.mark.parametrize("bad", [0.05, 0.2])
@pytest.mark.parametrize("groups", [10, 20, 50, 100])
def test_a_gate_rarely_passes_where_groups_go_bad_as_wholes(groups: int, bad: float):
    """Exact: the number of bad groups is binomial; their cases score 0.1, all others 0.95 or 1."""
    clusters, good = np.repeat(np.arange(groups), 5), np.tile([0.95, 1, 1, 1, 1], groups)
    truth, passing = (1 - bad) * 0.99 + bad * 0.1, 0.0
    for k, chance in enumerate(stats.binom.pmf(range(groups + 1), groups, bad)):
        if chance > 1e-7:
            found = interval(np.where(clusters < k, 0.1, good), clusters, bounded=True)
            assert found.low is not None
            passing += chance * (found.low > truth)
    assert passing <= 0.05


def test_ten_clusters_are_not_few():
    scores = [0.1 * (i % 7) for i in range(30)]
    assert interval(scores, [i // 3 for i in range(30)]).low is not None
    none = "none: fewer than 10 clusters of a score without fixed ends"
    assert interval(scores, [i // 4 for i in range(30)]).method == none
    passes = [i % 3 > 0 for i in range(30)]
    assert interval(passes, [i // 4 for i in range(30)]).method == "cr2_t: fewer than 10 clusters"


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


@pytest.mark.parametrize("n", [1, 7, 30, 60, 1000])
def test_all_or_nothing_reaches_the_end_exactly(n: int):
    assert wilson(n, n)[1] == 1
    assert wilson(0, n)[0] == 0


@pytest.mark.parametrize(
    ("scores", "clusters", "method"),
    [
        ([0] * 6, list("aabbcc"), "plus_two_cr2_t: 0 of 3 groups, too few for the rule of three"),
        ([1] * 12, list("aabbccddeeff"), "plus_two_cr2_t: 6 of 6 groups, by the rule of three at least 0.5"),
    ],
)
def test_so_do_groups_that_all_pass_or_fail(scores: list[float], clusters: list[str], method: str):
    found = interval(scores, clusters, bounded=True)
    groups = len(set(clusters))
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low > 1 / groups
    assert (found.std_error, found.method) == (None, method)


def test_a_binary_score_outside_clusters_is_a_proportion():
    found = interval([1] * 8 + [0] * 2)
    assert (found.low, found.high) == pytest.approx((0.4901624715, 0.9433178485), abs=1e-9)
    assert found.method == "wilson"
    assert found.std_error == pytest.approx(math.sqrt(0.8 * 0.2 / 9))


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 4)), max_size=25), st.randoms())
def test_order_of_cases_does_not_matter(cases: list[tuple[float, int]], random):
    shuffled = random.sample(cases, len(cases))
    a, b = (interval([s for s, _ in rows], [c for _, c in rows], bounded=True) for rows in (cases, shuffled))
    assert a.method == b.method
    assert (a.low is None) == (b.low is None)
    if a.low is not None:
        assert (a.low, a.high) == pytest.approx((b.low, b.high))


@given(st.lists(st.lists(st.floats(0, 1), max_size=8), min_size=1, max_size=5))
def test_many_rows_give_what_each_gives_alone(rows: list[list[float]]):
    found = intervals(stacked(map(moments, rows)))
    assert [found[i] for i in range(len(rows))] == [interval(row) for row in rows]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=2, max_size=30), st.booleans())
def test_an_interval_holds_its_mean(cases: list[tuple[float, int]], grouped: bool):
    scores, groups = zip(*cases, strict=True)
    found = interval(scores, groups if grouped else None, bounded=True)
    assert (found.low is None) == (grouped and len(set(groups)) == 1)
    if found.low is not None and found.high is not None:
        assert found.low - 1e-9 <= np.mean(scores) <= found.high + 1e-9
        assert 0 <= found.low < found.high <= 1


def test_clusters_of_very_unequal_size_are_said():
    sizes = [60, *[2] * 20]
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    scores = np.random.default_rng(4).random(clusters.size)
    scores[clusters == 0] = np.linspace(0, 1, 60)  # its sum is as the average, so that the mean is not skewed
    for bounded, method in ((True, "plus_two_cr2_t"), (False, "cr2_t")):
        assert interval(scores, clusters, bounded=bounded).method == f"{method}: clusters of very unequal size"
        assert UNEVEN not in interval(scores, np.arange(clusters.size) // 2, bounded=bounded).method


@given(st.integers(0, 1000), st.integers(1, 40), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_rows_have_together_the_moments_of_each(seed: int, cases: int, passing: float, bounded: bool):
    rng = np.random.default_rng(seed)
    scores = rng.random((5, cases))
    scores = np.where(rng.random(scores.shape) < passing, scores.round(), scores)
    together = row_moments(scores, bounded=bounded)
    for found, expected in zip(together, stacked(moments(row, bounded=bounded) for row in scores), strict=True):
        np.testing.assert_array_equal(found, expected)
