"""Correlations against published numbers, where they are undefined, and what may not change them."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from evalflow.stats.rank import Correlation, correlation, grouped_spearman

HUMAN = [4.33, 3, 2.67, 5, 1, 3.67, 4, 2, 4.67, 3.33, 1.67, 5]
JUDGE = [4, 3, 3, 5, 2, 3, 4, 2, 4, 4, 1, 5]
DOCUMENTS = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
OF_PEOPLE, OF_JUDGE = [5, 3, 4, 1, 2, 2, 2, 2, 4, 1, 3, 5], [4, 3, 5, 2, 3, 1, 2, 4, 5, 2, 2, 4]
KINDS: tuple[Correlation, ...] = get_args(Correlation)


@pytest.mark.parametrize(
    ("kind", "value", "bounds"),
    [
        ("spearman", 0.9372793221, (0.7312431389, 0.9865864732)),
        ("pearson", 0.9194580501, (0.731612694, 0.9775353286)),
        ("kendall", 0.8529668502, None),
    ],
)
def test_correlations_agree_with_scipy(kind: Correlation, value: float, bounds: tuple[float, float] | None):
    found = correlation(HUMAN, JUDGE, kind)
    assert found.value == pytest.approx(value, abs=1e-9)
    assert found.method == "fisher: fewer than 30 answers"
    if bounds:
        assert (found.low, found.high) == pytest.approx(bounds, abs=1e-9)
    else:
        z = np.arctanh(value) + np.array([-1, 1]) * 1.959963985 * np.sqrt(0.437 / 8)
        assert (found.low, found.high) == pytest.approx(tuple(np.tanh(z)), abs=1e-8)


def test_correlation_within_documents_is_not_that_over_all():
    found = grouped_spearman(DOCUMENTS, OF_PEOPLE, OF_JUDGE)
    assert found.value == pytest.approx(0.7689323937, abs=1e-9)
    assert (found.n, found.method) == (2, "t: fewer than 10 groups")
    assert correlation(OF_PEOPLE, OF_JUDGE).value == pytest.approx(0.6937316603, abs=1e-9)
    assert grouped_spearman([0, 0, 1, 1], [1, 1, 2, 3], [1, 2, 4, 4]).value is None
    one = grouped_spearman([0, 0, 0, 1], [1, 2, 3, 4], [1, 3, 2, 4])
    assert (one.value, one.low, one.method) == (pytest.approx(0.5), None, "none: one group")
    alike = grouped_spearman([0, 0, 1, 1], [1, 2, 3, 4], [1, 2, 3, 4])
    assert (alike.value, alike.low, alike.method) == (1.0, None, "none: the groups do not differ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_correlation_is_undefined_rather_than_zero(kind: Correlation):
    assert correlation([], [], kind).method == "none: fewer than 3 answers"
    assert correlation([1, 2], [1, 2], kind).value is None
    assert correlation([1, 1, 1], [1, 2, 3], kind).method == "none: all labels equal"
    assert correlation([1, 2, 3], [0.1] * 3, kind).method == "none: the judge gives all answers one score"
    perfect = correlation([1, 2, 3, 4, 5], [2, 4, 6, 8, 10], kind)
    assert (perfect.value, perfect.low, perfect.method) == (
        pytest.approx(1),
        None,
        "none: no answer departs from the rest",
    )
    few = correlation([1, 2, 3], [1, 3, 2], kind)
    assert (few.low, few.method) == (None, "none: too few answers for an interval")


@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_one_cluster_count_together(kind: Correlation):
    rng = np.random.default_rng(5)
    level = rng.normal(size=100)
    x, y = np.repeat(level, 4), np.repeat(level + rng.normal(size=100), 4)
    alone, together = correlation(x, y, kind), correlation(x, y, kind, np.arange(400) // 4)
    assert together.value == alone.value
    assert together.method == "fisher_cr2_t"
    assert (together.std_error or 0) / (alone.std_error or 1) == pytest.approx(2, rel=0.02)
    assert correlation(x, y, kind, np.zeros(400)).method == "none: one cluster"
    assert correlation(x, y, kind, np.arange(400)) == alone


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_intervals_hold_the_truth_as_often_as_they_say(kind: Correlation):
    rng = np.random.default_rng(6)
    truth = 0.6 if kind == "pearson" else 6 / np.pi * np.arcsin(0.3)
    held = 0
    for _ in range(400):
        x = rng.normal(size=50)
        found = correlation(x, 0.6 * x + 0.8 * rng.normal(size=50), kind)
        held += (found.low or 0) < truth < (found.high or 0)
    assert held == pytest.approx(380, abs=14)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=40), st.sampled_from(KINDS))
def test_neither_order_nor_scale_matters(pairs: list[tuple[int, int]], kind: Correlation):
    x, y = np.array(pairs, float).T
    found = correlation(x, y, kind)
    assert correlation(x[::-1], y[::-1], kind).value == pytest.approx(found.value)
    assert correlation(y, x, kind).value == pytest.approx(found.value)
    moved = correlation(3 + 0.5 * x, y, kind)
    assert (moved.value, moved.low) == (pytest.approx(found.value), pytest.approx(found.low))
    if kind != "pearson":
        assert correlation(np.exp(x), y, kind).value == pytest.approx(found.value)
    if found.value is not None:
        assert correlation(-x, y, kind).value == pytest.approx(-found.value)


@pytest.mark.parametrize("grades", [2, 5, 100])
def test_tau_b_is_that_of_scipy_whatever_the_ties(grades: int) -> None:
    rng = np.random.default_rng(grades)
    human = rng.integers(0, grades, 500) / 7
    judge = np.where(rng.random(500) < 0.5, human, rng.integers(0, grades, 500) / 7)
    untyped: Any = stats
    found = correlation(human, judge, "kendall").value
    assert found == pytest.approx(untyped.kendalltau(human, judge).statistic, abs=1e-14)
