"""Two samples of different cases: against published tables, scipy, and at the edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalflow.stats.unpaired import fisher, newcombe_unpaired, unpaired_difference


@pytest.mark.parametrize(
    ("a", "b", "interval"),
    [
        ((48, 80), (56, 70), (0.0524, 0.3339)),
        ((3, 10), (9, 10), (0.1705, 0.8090)),
        ((2, 7), (6, 7), (0.0582, 0.8062)),
        ((0, 29), (5, 56), (-0.0381, 0.1926)),
        ((0, 20), (0, 10), (-0.1611, 0.2775)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
    ],
)
def test_newcombes_published_intervals(a: tuple[int, int], b: tuple[int, int], interval: tuple[float, float]):
    """Newcombe 1998, Statistics in Medicine 17:873, table II, method 10."""
    assert newcombe_unpaired(a[0], b[0], a[1], b[1]) == pytest.approx(interval, abs=5e-5)


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_fishers_test_agrees_with_scipy(n_a: int, n_b: int, data: Any):
    k_a, k_b = data.draw(st.integers(0, n_a)), data.draw(st.integers(0, n_b))
    expected: Any = stats.fisher_exact([[k_a, n_a - k_a], [k_b, n_b - k_b]])
    assert fisher(k_a, k_b, n_a, n_b) == pytest.approx(expected.pvalue, rel=1e-6)


def test_scores_go_by_welchs_t():
    rng = np.random.default_rng(0)
    a, b = rng.random(20), 2 * rng.random(35)
    few = ", outliers in up to 15 % of cases may be missing"
    found = unpaired_difference(a, b)
    expected: Any = stats.ttest_ind(b, a, equal_var=False)
    assert (found.p_value, found.df) == pytest.approx((expected.pvalue, expected.df))
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert (found.n, found.method) == (55, f"welch_t: 20 against 35 cases{few}")


def test_without_pairs_the_same_scores_show_far_less():
    a = [0.9, 0.8, 0.4, 1.0, 0.6, 0.7, 0.2, 0.95, 0.5, 0.85, 0.3, 0.75]
    b = [0.8, 0.85, 0.3, 0.9, 0.6, 0.5, 0.25, 0.9, 0.4, 0.8, 0.2, 0.7]
    assert unpaired_difference(b, a).std_error == pytest.approx(0.10715413, abs=1e-6)


def test_clusters_of_one_run_widen_the_difference():
    rng = np.random.default_rng(1)
    of_a, of_b = np.repeat(np.arange(12), 5), np.repeat(np.arange(100, 115), 5)
    a, b = (rng.normal(size=200)[codes] + 0.2 * rng.normal(size=codes.size) for codes in (of_a, of_b))
    found, alone = unpaired_difference(a, b, of_a, of_b), unpaired_difference(a, b)
    few = ", outliers in up to 25 % of clusters may be missing"
    assert (found.n, found.clusters, found.method) == (135, 27, f"unpaired_cr2_t: 60 against 75 cases{few}")
    means = [np.array([side[codes == c].mean() for c in np.unique(codes)]) for side, codes in ((a, of_a), (b, of_b))]
    # With groups of one size, CR2 is Welch's on the means of the groups.
    assert found.std_error == pytest.approx(np.sqrt(sum(m.var(ddof=1) / m.size for m in means)))
    assert (found.std_error or 0) > 1.8 * (alone.std_error or 0)


def test_what_both_runs_have_in_common_is_not_counted_twice():
    rng = np.random.default_rng(2)
    a = rng.random(30)
    b = a + 0.05 + 0.01 * rng.random(30)
    found = unpaired_difference(a, b, np.arange(30), np.arange(30))
    paired = (b - a).std(ddof=1) / np.sqrt(30)
    assert (found.clusters, found.df) == (30, 29)
    assert found.std_error == pytest.approx(paired)


@pytest.mark.parametrize(
    ("a", "b", "method"),
    [
        ([], [0.5], "none: a run without a scored case"),
        ([0.2], [0.5, 0.6], "none: one case in a run"),
        ([0.5, 0.5], [0.5, 0.5], "none: all scores of a run equal"),
        ([1.0], [0.0], "newcombe_fisher: 1 against 1 cases"),
        ([1.0, 1.0], [1.0, 1.0], "newcombe_fisher: 2 against 2 cases"),
        ([0.5, 0.5], [0.4, 0.6], "none: fewer than 10 cases in a run of a score without fixed ends"),
    ],
)
def test_edges(a: list[float], b: list[float], method: str):
    found = unpaired_difference(a, b)
    assert found.method == method
    assert (found.low is None) == method.startswith("none")


def test_one_cluster_in_a_run_shows_nothing():
    found = unpaired_difference([0, 1, 0.5], [0.3, 0.2], [1, 1, 1], [2, 3])
    assert (found.method, found.p_value) == ("none: one cluster in a run", None)
