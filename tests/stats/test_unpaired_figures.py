"""Figures of two samples of different cases: against resampling case by case, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from evalflow.stats.classification import of_class
from evalflow.stats.paired import Difference
from evalflow.stats.paired_figures import PairedClusters, figure_difference
from evalflow.stats.unpaired import fisher, newcombe_unpaired, unpaired_figure_difference

PAIRS = [("true", "true"), ("true", "false"), ("false", "true"), ("false", "false")]
RATIOS = of_class(PAIRS, "true")
A = [0] * 20 + [1] * 10 + [2] * 6 + [3] * 24
B = [0] * 40 + [1] * 5 + [2] * 8 + [3] * 47


def compared(name: str, a: list[int], b: list[int], group: int = 1) -> Difference:
    """Of cases in the cells given; so many of a run in a row are one group."""
    sides = [np.eye(4)[side].reshape(-1, group, 4).sum(axis=1) for side in (a, b)]
    left, right = (np.vstack([sides[0], 0 * sides[1]]), np.vstack([0 * sides[0], sides[1]]))
    clusters = PairedClusters(left, right, np.ones(len(left), np.int64), len(a) + len(b), 0)
    return unpaired_figure_difference(RATIOS[name], clusters, (len(a), len(b)))


def test_precision_and_recall_are_shares_of_two_samples():
    precision, recall = compared("precision", A, B), compared("recall", A, B)
    assert (precision.low, precision.high) == newcombe_unpaired(20, 40, 26, 48)
    assert (precision.n, precision.p_value) == (74, fisher(20, 40, 26, 48))
    assert (recall.value_a, recall.value_b) == (20 / 30, 40 / 45)
    assert recall.method == "newcombe_fisher: 30 against 45 cases"


@pytest.mark.parametrize("group", [1, 4])
def test_f1_agrees_with_resampling_each_run_by_itself(group: int):
    rng = np.random.default_rng(3)
    a, b = rng.permutation(A), rng.permutation(B)
    found = compared("f1", list(a), list(b), group)
    drawn: list[np.ndarray] = []
    for side in (a, b):
        counts = np.eye(4)[side].reshape(-1, group, 4).sum(axis=1)
        drawn.append(RATIOS["f1"].of(counts[rng.integers(0, len(counts), size=(20_000, len(counts)))].sum(axis=1)))
    difference = drawn[1] - drawn[0]
    fewest = 60 // group  # expanded to the width of t
    end = scipy.stats.norm.cdf((fewest / (fewest - 1)) ** 0.5 * scipy.stats.t.ppf(0.975, fewest - 1))
    levels = (1 - end, end)
    assert (found.low, found.high) == pytest.approx(np.quantile(difference, levels), abs=0.02)
    assert found.std_error == pytest.approx(difference.std(), rel=0.06)
    assert (found.n, found.clusters, found.df) == (160, 160 / group, 60 / group - 1)
    kind = "unpaired_bootstrap_t" if group == 1 else "unpaired_cluster_bootstrap_t"
    few = ", fewer than 30 clusters in one" if group > 1 else ""
    assert found.method == f"{kind}: 60 against 100 cases{few}"


def test_a_case_that_is_in_both_runs_is_drawn_with_what_both_said_of_it():
    a, b = np.eye(4)[A], np.eye(4)[A[:-4] + [0] * 4]
    clusters = PairedClusters(a, b, np.ones(60, np.int64), 60, 0)
    apart = compared("f1", A, A[:-4] + [0] * 4)
    found, paired = (
        unpaired_figure_difference(RATIOS["f1"], clusters, (60, 60)),
        figure_difference(RATIOS["f1"], clusters),
    )
    assert (found.low, found.high) == (paired.low, paired.high)
    assert (found.std_error or 1) < 0.7 * (apart.std_error or 0)


@pytest.mark.parametrize(
    ("name", "a", "b", "method"),
    [
        ("f1", [3, 3], [0, 1], "none: undefined in a run"),
        ("f1", [0], [0, 1, 2, 3], "none: one case in a run"),
        ("f1", [0] * 40, [0] * 40, "none: the resamples do not differ"),
        ("recall", [0] * 40, [0] * 30, "newcombe_fisher: 40 against 30 cases"),
        ("f1", [0, 1] * 10, [0, 2] * 20, "unpaired_bootstrap_t: 20 against 40 cases, fewer than 30 cases in one"),
    ],
)
def test_edges(name: str, a: list[int], b: list[int], method: str):
    found = compared(name, a, b)
    assert found.method == method
    assert (found.low is None) == method.startswith("none")


def test_groups_of_very_unequal_size_count_as_fewer_and_are_said():
    # Forty groups a run, of which the first holds most of its cases.
    side = np.concatenate([[[60.0, 20, 10, 60]], np.tile([[1.0, 0, 1, 0], [1, 1, 0, 2]], (20, 1))])
    nothing = np.zeros_like(side)
    weights = np.ones(2 * len(side), dtype=np.int64)
    clusters = PairedClusters(np.concatenate([side, nothing]), np.concatenate([nothing, side]), weights, 520, 0)
    found = unpaired_figure_difference(RATIOS["f1"], clusters, (260, 260))
    assert found.df is not None
    assert found.df < 5
    assert found.method == "unpaired_cluster_bootstrap_t: 260 against 260 cases, clusters of very unequal size"
