"""Dawid and Skene's model: golden numbers, labels as the truth, missing votes, and judges that share errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.dawid_skene import MISSING, dawid_skene, shared_errors

pytestmark = pytest.mark.slow

VOTES = np.array(
    [
        [1, 1, 1],
        [1, 1, 0],
        [0, 0, 0],
        [1, 0, 1],
        [0, 0, 1],
        [1, 1, 1],
        [0, 0, 0],
        [0, 1, 0],
        [1, 1, 1],
        [0, 0, 0],
        [1, 0, 0],
        [1, 1, 0],
    ]
)
NO_LABELS = np.full(len(VOTES), MISSING)


def test_without_a_prior_it_is_the_textbook_model():
    """Golden numbers of crowd-kit 1.4.2, DawidSkene(n_iter=200), to 1e-4."""
    found = dawid_skene(VOTES, NO_LABELS, 2, prior=0)
    assert found.prior == pytest.approx([0.472973, 0.527027], abs=1e-4)
    assert found.confusion[:, 1, 1] == pytest.approx([1.0, 0.769231, 0.611111], abs=1e-4)
    assert found.confusion[:, 0, 0] == pytest.approx([0.880952, 0.8, 0.8], abs=1e-4)
    assert found.truth[[0, 1, 3, 10], 1] == pytest.approx([0.990991, 0.945946, 0.891892, 0.567568], abs=1e-4)


def test_with_all_labels_it_counts_errors_and_no_judge_is_infallible():
    labels = VOTES[:, 0]
    found = dawid_skene(VOTES, labels, 2)
    assert (found.truth.argmax(axis=1) == labels).all()
    for judge in range(3):
        for true in (0, 1):
            hits, n = int((VOTES[labels == true, judge] == true).sum()), int((labels == true).sum())
            assert found.confusion[judge, true, true] == pytest.approx((hits + 0.5) / (n + 1))


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(2, 4))
def test_probabilities_sum_to_1_whatever_is_missing(seed: int, judges: int, classes: int):
    rng = np.random.default_rng(seed)
    votes, labels = rng.integers(-1, classes, (20, judges)), rng.integers(-1, classes, 20)
    found = dawid_skene(votes, labels, classes)
    assert np.isfinite(found.confusion).all()
    for shares in (found.prior, found.confusion.reshape(-1, classes).T, found.truth.T):
        assert np.sum(shares, axis=0) == pytest.approx(1)
    known = labels != MISSING
    assert (found.truth[known].argmax(axis=1) == labels[known]).all()
    order = rng.permutation(20)
    again = dawid_skene(votes[order], labels[order], classes)
    assert again.confusion == pytest.approx(found.confusion, abs=1e-3)


def test_unlabelled_answers_tell_of_judges_that_err_independently():
    rng = np.random.default_rng(1)
    truth = (rng.random(4_000) < 0.7).astype(np.int64)
    rates = np.array([0.9, 0.8, 0.65])
    votes = np.where(rng.random((4_000, 3)) < rates, truth[:, None], 1 - truth[:, None])
    found = dawid_skene(votes, np.full(4_000, MISSING), 2)
    assert found.confusion[:, 1, 1] == pytest.approx(rates, abs=0.05)
    assert (found.truth.argmax(axis=1) == truth).mean() > ((votes.sum(axis=1) > 1) == truth).mean() + 0.01


@pytest.mark.parametrize("classes", [2, 3])
def test_shared_errors_are_found_and_chance_is_not(classes: int):
    rng = np.random.default_rng(3)
    n = 3_000
    truth = rng.integers(0, classes, n)

    def judge() -> np.ndarray:
        return np.where(rng.random(n) < 0.8, truth, rng.integers(0, classes, n))

    one, other = judge(), judge()
    span = shared_errors(one, other, truth, classes, np.arange(n))
    assert span.low is not None
    assert span.high is not None
    assert span.low < 0 < span.high
    assert abs(span.value or 0) < 0.02
    copied = np.where(rng.random(n) < 0.7, one, other)
    span = shared_errors(one, copied, truth, classes, np.arange(n))
    by_hand = (one == copied).mean() - sum(
        ((one == c) & (truth == k)).mean() * ((copied == c) & (truth == k)).mean() / (truth == k).mean()
        for k in range(classes)
        for c in range(classes)
    )
    assert span.value == pytest.approx(by_hand)
    assert span.low is not None
    assert span.low > 0.05


def test_intervals_of_shared_errors_hold():
    """With 100 labels, 95 % wanted; two standard errors of 400 simulations are 2.2 points."""
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(200):
        truth = (rng.random(100) < 0.6).astype(np.int64)
        wrong = rng.random((100, 2)) > 0.8
        same = rng.random(100) < 0.5
        wrong[same, 1] = wrong[same, 0]
        one, other = np.where(wrong, 1 - truth[:, None], truth[:, None]).T
        span = shared_errors(one, other, truth, 2, np.arange(100))
        held += (span.low or 0) <= 0.16 <= (span.high or 0)
    # Independent: 0.8^2 + 0.2^2 = 0.68; half of them copied: 0.68 + 0.5 * 0.32.
    assert 0.9 <= held / 200 <= 0.99
