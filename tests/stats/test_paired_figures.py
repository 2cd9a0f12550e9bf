"""Differences of figures: against resampling case by case, at the edges, and by properties."""

from __future__ import annotations

import numpy as np
import pytest

from evalflow.stats.classification import overall
from evalflow.stats.paired_figures import PairedClusters, figure_difference

PAIRS = [("true", "true"), ("true", "false"), ("false", "true"), ("false", "false")]
F1 = overall(PAIRS, "true")["f1"]
PRECISION = overall(PAIRS, "true")["precision"]


def alone(a: list[int], b: list[int], seed: int = 0) -> PairedClusters:
    """Cases that stand alone, by the cell in which each run puts them."""
    sides = [np.eye(4)[side] for side in (a, b)]
    patterns, weights = np.unique(np.concatenate(sides, axis=1), axis=0, return_counts=True)
    return PairedClusters(patterns[:, :4], patterns[:, 4:], weights, len(a), seed)


A = [0] * 20 + [1] * 10 + [2] * 6 + [3] * 24
B = [0] * 27 + [1] * 3 + [3] * 4 + [2] * 2 + [3] * 21 + [2] * 3


def test_f1_agrees_with_resampling_case_by_case():
    found = figure_difference(F1, alone(A, B))
    assert (found.value_a, found.value_b) == pytest.approx((40 / 56, 54 / 62))
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 60, size=(20_000, 60))
    a, b = (np.stack([(np.array(side)[rows] == cell).sum(axis=1) for cell in range(4)], axis=1) for side in (A, B))
    drawn = F1(b) - F1(a)
    assert (found.low, found.high) == pytest.approx(np.quantile(drawn, (0.025, 0.975)), abs=0.01)
    assert found.std_error == pytest.approx(drawn.std(), rel=0.05)
    assert (found.n, found.clusters, found.df, found.method) == (60, 60, 59, "paired_bootstrap_swaps")


def test_a_swap_moves_a_case_as_a_whole():
    clusters = alone([0, 0, 1, 3], [0, 1, 1, 3])
    a, b = clusters.swaps
    assert {tuple(row) for row in np.concatenate([a, b], axis=1)} == {
        (2, 1, 0, 1, 1, 2, 0, 1),
        (1, 2, 0, 1, 2, 1, 0, 1),
    }


def test_the_p_value_needs_six_cases_that_differ():
    five = figure_difference(F1, alone([1] * 5 + [0] * 40, [0] * 45))
    nine = figure_difference(F1, alone([1] * 9 + [0] * 40, [0] * 49))
    assert five.p_value == pytest.approx(2 / 2**5, abs=0.01)
    assert (nine.p_value or 1) < 0.02


def test_swapping_the_runs_turns_the_difference_round():
    forth, back = figure_difference(PRECISION, alone(A, B)), figure_difference(PRECISION, alone(B, A))
    assert forth.difference == pytest.approx(-(back.difference or 0))
    assert forth.p_value == pytest.approx(back.p_value, abs=0.02)


def test_clusters_are_drawn_whole():
    a, b = np.eye(4)[A], np.eye(4)[B]
    groups = np.arange(60) // 10
    grouped = [np.stack([side[groups == g].sum(axis=0) for g in range(6)]) for side in (a, b)]
    found = figure_difference(F1, PairedClusters(grouped[0], grouped[1], np.ones(6, np.int64), 60, 0))
    assert (found.clusters, found.df) == (6, 5)
    assert found.method == "paired_cluster_bootstrap_swaps: fewer than 10 clusters"
    assert found.difference == figure_difference(F1, alone(A, B)).difference


@pytest.mark.parametrize(
    ("a", "b", "method"),
    [
        ([3, 3], [3, 3], "none: undefined in a run"),
        ([0], [1], "none: one case"),
        ([0, 0, 1], [0, 0, 1], "none: the resamples do not differ"),
        ([0, 3, 3, 3], [2, 3, 3, 3], "none: undefined in "),
    ],
)
def test_edges(a: list[int], b: list[int], method: str):
    found = figure_difference(F1, alone(a, b))
    assert found.method.startswith(method)
    assert (found.low, found.std_error) == (None, None)


def test_the_seed_decides_what_is_drawn():
    one, two, other = (figure_difference(F1, alone(A, B, seed)) for seed in (4, 4, 5))
    assert one == two
    assert one != other


def test_several_classes_have_their_means():
    cells = [("a", "a"), ("a", "b"), ("b", "b"), ("c", "b"), ("c", "c")]
    figures = overall(cells, None)
    assert list(figures) == [
        "macro_precision", "macro_recall", "macro_f1", "weighted_precision", "weighted_recall", "weighted_f1",
        "weighted_f2",
    ]  # fmt: skip
    totals = np.array([[3.0, 1, 4, 1, 1]])
    assert figures["macro_recall"](totals)[0] == pytest.approx((3 / 4 + 1 + 1 / 2) / 3)
    assert figures["weighted_recall"](totals)[0] == pytest.approx(8 / 10)
