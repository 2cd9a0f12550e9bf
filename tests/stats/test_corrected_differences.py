"""Differences and ranks by people's labels: the judge's favour disappears, whatever is labelled where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.stats.arrays import Floats
from evalflow.stats.corrected_differences import (
    CorrectedMeans,
    corrected_apart,
    corrected_difference,
    corrected_means,
    labelled_together,
)
from evalflow.stats.prediction import MIN_LABELS, corrected_mean
from evalflow.stats.ranks import rank_intervals

pytestmark = pytest.mark.slow

N = 200


def drawn(seed: int, favour: float, *, rates: bool, runs: int = 2) -> tuple[Floats, Floats]:
    """What people and a judge who favours the last run say of equal runs, as scores or as passes."""
    rng = np.random.default_rng(seed)
    people = np.clip(rng.beta(5, 2, (N, 1)) + rng.normal(0, 0.1, (N, runs)), 0, 1)
    judge = people + rng.normal(0, 0.08, people.shape)
    judge[:, -1] += favour
    judge = np.clip(judge, 0, 1)
    if rates:
        people, judge = (np.asarray(side >= 0.7, dtype=np.float64) for side in (people, judge))
    return people, judge


def only(people: Floats, rows: slice) -> Floats:
    known = np.full(people.shape, np.nan)
    known[rows] = people[rows]
    return known


@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("favour", [0.0, 0.1])
def test_a_judge_who_favours_a_run_makes_no_difference(rates: bool, favour: float) -> None:
    found = {"paired": 0, "apart": 0, "samples": 0, "ranks": 0}
    for seed in range(100):
        people, judge = drawn(seed, favour, rates=rates)
        sides = judge[:, 0], judge[:, 1]
        both = only(people, slice(60))
        paired = corrected_difference(sides, (both[:, 0], both[:, 1]), bounded=True)
        one, other = only(people[:, 0], slice(60)), only(people[:, 1], slice(60, 120))
        names = np.arange(N), np.arange(N)
        apart = corrected_apart(sides, (one, other), names)
        samples = corrected_apart(sides, (one, other), (names[0], names[1] + N))
        means = corrected_means(judge, both, bounded=True)
        assert paired
        assert apart
        assert samples
        assert isinstance(means, CorrectedMeans)
        ranks = rank_intervals(means.values, means.covariance, means.df, means.parts)
        found["ranks"] += bool(ranks.better.any())
        for name, one_found in (("paired", paired), ("apart", apart), ("samples", samples)):
            assert one_found.low is not None
            assert one_found.high is not None
            found[name] += not one_found.low <= 0 <= one_found.high
    assert max(found.values()) <= 13, found  # 5 expected; more than 13 in one of 2,000 such tests


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.integers(MIN_LABELS, N), st.sampled_from([1, 4]))
def test_two_runs_are_ranked_by_the_values_that_are_compared(seed: int, rates: bool, labels: int, size: int) -> None:
    """In whatever order the cases come: of pass rates, many cases have the same difference."""
    people, judge = drawn(seed, 0.05, rates=rates)
    known, groups = only(people, slice(labels)), np.arange(N) // size
    order = np.random.default_rng(seed).permutation(N)
    pair = corrected_difference((judge[:, 0], judge[:, 1]), (known[:, 0], known[:, 1]), groups, bounded=True)
    means = corrected_means(judge[order], known[order], groups[order], bounded=True)
    assert pair
    assert isinstance(means, CorrectedMeans)
    assert means.values.tolist() == pytest.approx([pair.value_a, pair.value_b])
    assert means.values[1] - means.values[0] == pytest.approx(pair.difference)
    assert means.labelled == labels


@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("labels", [20, 60, N])
def test_runs_have_together_the_mean_of_the_single_runs(labels: int, rates: bool) -> None:
    people, judge = drawn(3, 0.05, rates=rates, runs=3)
    known = only(people, slice(labels))
    means = corrected_means(judge, known, bounded=True)
    assert isinstance(means, CorrectedMeans)
    alone = [
        corrected_mean(people[:labels, run], judge[:labels, run], judge[labels:, run], bounded=True).estimate
        for run in range(3)
    ]
    assert means.values.mean() == pytest.approx(np.mean(np.array(alone, dtype=np.float64)))
    for value, (low, high) in zip(means.values, means.ends, strict=True):
        assert low is not None
        assert high is not None
        assert low < value < high


@pytest.mark.parametrize(("both", "together"), [(14, False), (15, True), (30, True), (29, False)])
def test_few_cases_labelled_in_both_runs_leave_each_to_its_own_labels(both: int, together: bool) -> None:
    assert labelled_together(both, 60 if both > 15 else both) == together


def test_what_is_too_little_corrects_nothing_and_says_why() -> None:
    people, judge = drawn(1, 0.05, rates=False)
    few = only(people, slice(MIN_LABELS - 1))
    assert corrected_means(judge, few) == f"fewer than {MIN_LABELS} labels"
    names = np.arange(N)
    assert corrected_apart((judge[:, 0], judge[:, 1]), (few[:, 0], few[:, 1]), (names, names)) is None
    group = np.where(names < 40, 0, names)
    assert corrected_means(judge, only(people, slice(40)), group) == "labels in one cluster only"


def test_labels_of_all_answers_are_compared_alone() -> None:
    people, judge = drawn(2, 0.1, rates=False, runs=3)
    means = corrected_means(judge, people)
    assert isinstance(means, CorrectedMeans)
    assert means.values.tolist() == pytest.approx(people.mean(axis=0).tolist())
    assert means.method.endswith("labels alone")
    names = np.arange(N)
    found = corrected_apart((judge[:, 0], judge[:, 1]), (people[:, 0], people[:, 1]), (names, names + N))
    assert found
    assert found.difference == pytest.approx(people[:, 1].mean() - people[:, 0].mean())
    assert "labels alone" in found.method
