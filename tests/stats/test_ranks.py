"""Joint confidence in ranks: its parts against references, and rules that hold for any scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalflow.stats.paired import standard_error
from evalflow.stats.ranks import mean_covariance, rank_intervals


def graded(cases: int, systems: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.beta(4, 2, (cases, 1)) + rng.normal(0, 0.1, (cases, systems))


@pytest.mark.parametrize("clusters", [None, [i // 4 for i in range(40)], [min(i, 7) for i in range(40)]])
def test_the_variance_of_a_difference_is_that_of_a_comparison_with_half_a_case_more(clusters: list[int] | None):
    scores = graded(40, 3)
    means, covariance, df, parts = mean_covariance(scores, clusters)
    assert (parts is None) == (clusters is None)
    if parts is not None:
        assert parts.sum(axis=0) == pytest.approx(means)
    assert means == pytest.approx(scores.mean(axis=0))
    usual: list[float] = []
    for j, k in ((0, 1), (0, 2), (1, 2)):
        apart = scores[:, j] - scores[:, k]
        error, freedom = standard_error(apart, clusters)
        assert error is not None
        added = covariance[j, j] + covariance[k, k] - 2 * covariance[j, k] - error**2
        assert df == pytest.approx(freedom)
        usual.append(added)
    totals = np.array([np.bincount(clusters or range(40), column) for column in scores.T])
    pairs = [totals[j] - totals[k] for j, k in ((0, 1), (0, 2), (1, 2))]
    assert usual == pytest.approx([np.mean(np.square(pairs)) / 40**2] * 3)


def test_of_two_systems_the_critical_value_is_that_of_a_t_test():
    """Two systems differ if |t| exceeds the 97.5 % quantile, here with 9 degrees of freedom: 2.262."""
    covariance = np.eye(2) / 2
    limit = float(stats.t.ppf(0.975, 9))
    assert rank_intervals([1.05 * limit, 0], covariance, 9).better.tolist() == [[False, True], [False, False]]
    assert not rank_intervals([0.95 * limit, 0], covariance, 9).better.any()


def test_the_critical_value_is_that_of_the_studentised_range():
    """Of independent systems with one variance the largest difference follows Tukey's distribution."""
    for systems in (3, 6):
        limit = float(stats.studentized_range.ppf(0.95, systems, 20))
        far = np.zeros(systems)
        far[0] = 1.03 * limit
        assert rank_intervals(far, np.eye(systems), 20).better[0].any()
        far[0] = 0.97 * limit
        # Spread out, so that only the two ends are as far apart as this.
        far[1:] = np.linspace(0, far[0] / 2, systems - 1)
        assert not rank_intervals(far, np.eye(systems), 20).better.any()


def test_later_steps_find_more():
    """Once the far ones are told apart, the smaller family needs a smaller difference."""
    one_step = float(stats.studentized_range.ppf(0.95, 4, 1e6)) / np.sqrt(2)
    values = np.array([0.0, 0.96 * one_step, 50.0, 100.0]) * np.sqrt(2)
    found = rank_intervals(values, np.eye(4), 1e6)
    assert list(zip(found.low.tolist(), found.high.tolist(), strict=True)) == [(4, 4), (3, 3), (2, 2), (1, 1)]


def test_nothing_is_claimed_without_variation():
    for scores in (np.ones((10, 3)), np.zeros((1, 3))):
        found = rank_intervals(*mean_covariance(scores))
        assert found.rank.tolist() == [1, 1, 1]
        assert (found.low.tolist(), found.high.tolist()) == ([1, 1, 1], [3, 3, 3])
    alone = mean_covariance(graded(20, 3), np.zeros(20))
    assert not rank_intervals(*alone).better.any()


def test_a_few_cases_that_differ_in_one_way_are_no_proof():
    scores = np.zeros((100, 2))
    scores[:4, 0] = 1
    assert not rank_intervals(*mean_covariance(scores)).better.any()
    scores[:12, 0] = 1
    assert rank_intervals(*mean_covariance(scores)).better[0, 1]


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 6), st.integers(2, 40))
def test_rules_of_ranks(seed: int, systems: int, cases: int):
    scores = np.round(graded(cases, systems, seed), 1)
    found = rank_intervals(*mean_covariance(scores))
    assert ((found.low <= found.rank) & (found.rank <= found.high)).all()
    assert not (found.better & found.better.T).any()
    order = np.random.default_rng(seed).permutation(systems)
    again = rank_intervals(*mean_covariance(3 * scores[:, order] + 1))
    assert again.rank.tolist() == found.rank[order].tolist()
    falling = rank_intervals(*mean_covariance(scores), seed=1)
    assert falling.rank.tolist() == found.rank.tolist()


def test_one_large_group_does_not_decide():
    """In 3 of 20 groups A is better, and one of these holds half of the cases."""
    clusters = np.repeat(np.arange(20), [95, *[5] * 19])
    scores = np.zeros((190, 2))
    scores[clusters < 3, 0] = 1
    means, covariance, df, parts = mean_covariance(scores, clusters)
    assert not rank_intervals(means, covariance, df, parts).better.any()
    scores[clusters < 12, 0] = 1
    assert rank_intervals(*mean_covariance(scores, clusters)).better[0, 1]
