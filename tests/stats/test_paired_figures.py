"""Differences of figures: against resampling case by case, at the edges, and by properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.classification import of_class, over_classes
from evalflow.stats.paired import identical_cases_to_decide
from evalflow.stats.paired_figures import PairedClusters, figure_difference

PAIRS = [("true", "true"), ("true", "false"), ("false", "true"), ("false", "false")]
F1 = of_class(PAIRS, "true")["f1"]
PRECISION = of_class(PAIRS, "true")["precision"]


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
    drawn = F1.of(b) - F1.of(a)
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
    assert found.method == "paired_cluster_bootstrap_swaps: fewer than 30 clusters"
    assert found.difference == figure_difference(F1, alone(A, B)).difference


@pytest.mark.parametrize(
    ("a", "b", "method"),
    [
        ([3, 3], [3, 3], "none: undefined in a run"),
        ([0], [1], "none: one case"),
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
    figures = over_classes(cells)
    assert list(figures) == [
        "macro_precision",
        "macro_recall",
        "macro_f1",
        "weighted_precision",
        "weighted_recall",
        "weighted_f1",
        "weighted_f2",
        "mcc",
    ]
    totals = np.array([[3.0, 1, 4, 1, 1]])
    assert figures["macro_recall"](totals)[0] == pytest.approx((3 / 4 + 1 + 1 / 2) / 3)
    assert figures["weighted_recall"](totals)[0] == pytest.approx(8 / 10)


def test_where_no_answer_changed_the_cases_that_a_figure_is_about_bound_it():
    same = alone(A, A)
    precision, f1, f2 = (figure_difference(of_class(PAIRS, "true")[name], same) for name in ("precision", "f1", "f2"))
    share = [1 - 0.05 ** (1 / n) for n in (26, 36)]
    assert (precision.low, precision.high) == pytest.approx((-share[0], share[0]))
    assert f1.high == pytest.approx(2 * share[1] / (1 + share[1]))
    assert f2.high == pytest.approx(5 * share[1] / (1 + 4 * share[1]))
    assert [found.p_value for found in (precision, f1, f2)] == [1, 1, 1]
    assert precision.method == "rule_of_three: the 26 that count of 60 cases alike"
    macro = figure_difference(over_classes(PAIRS)["macro_f1"], same)
    assert (macro.low, macro.method) == (None, "none: no answer changed, which says nothing of how much it varies")


CELLS = st.lists(st.integers(0, 3), min_size=2, max_size=40)


@given(
    CELLS,
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 1)), max_size=12),
    st.sampled_from(["precision", "recall", "f1", "f2"]),
)
def test_no_figure_moves_farther_than_its_cases_that_differ_allow(
    cells: list[int], changes: list[tuple[int, int]], name: str
):
    """The truth of a case stays; its prediction may change."""
    after = list(cells)
    for at, predicted in changes:
        if at < len(cells):
            after[at] = 2 * (cells[at] // 2) + predicted
    ratio = of_class(PAIRS, "true")[name]
    a, b = np.eye(4)[cells], np.eye(4)[after]
    values = [ratio.of(side.sum(axis=0)[None, :])[0] for side in (a, b)]
    about = ((a + b) @ ratio.trials) > 0
    if np.isnan(values).any():
        return
    share = ((a != b).any(axis=1) & about).sum() / about.sum()
    most = ratio.leverage * share / (1 + (ratio.leverage - 1) * share)
    assert abs(values[1] - values[0]) <= most + 1e-9


@pytest.mark.parametrize("name", ["precision", "f1", "f2"])
@pytest.mark.parametrize("margin", [0.02, 0.1, 0.3])
def test_as_many_cases_as_are_said_to_keep_an_unchanged_figure_within_a_margin_do(name: str, margin: float):
    ratio = of_class(PAIRS, "true")[name]
    needed = identical_cases_to_decide(figure_difference(ratio, alone([0, 1, 2, 3] * 3, [0, 1, 2, 3] * 3)), margin)
    assert needed is not None
    enough = -(-needed // 4)
    many = [figure_difference(ratio, alone([0, 1, 2, 3] * n, [0, 1, 2, 3] * n)).high or 1 for n in (enough, enough - 1)]
    assert many[0] < margin <= many[1]
