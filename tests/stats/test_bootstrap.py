"""Bootstrap intervals against published numbers, and at the edges of tiny samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evalflow.stats.bootstrap import bootstrap_t, percentiles, resample

SCORES = np.array([1.0, 0.0, 0.5, 1.0, 0.75, 0.25, 1.0, 0.0, 0.5, 1.0])


def test_percentiles_of_a_mean_agree_with_numpy_and_scipy():
    totals = resample(np.stack([np.ones(10), SCORES], axis=1), np.ones(10, dtype=np.int64), seed=12345)
    assert (totals[:, 0] == 10).all()
    means = totals[:, 1] / 10
    assert percentiles(means) == pytest.approx((0.35, 0.825), abs=0.03)
    assert means.std(ddof=1) == pytest.approx(0.1232102259, abs=0.03)


def test_a_pattern_that_several_clusters_share_is_drawn_as_often_as_they_would_be():
    single = resample(np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([1, 1, 1]), seed=3)
    shared = resample(np.array([[1.0, 0], [0, 1]]), np.array([2, 1]), seed=4)
    assert single.mean(axis=0) == pytest.approx([2, 1], abs=0.1)
    assert shared.mean(axis=0) == pytest.approx([2, 1], abs=0.1)
    assert shared.std(axis=0) == pytest.approx(single.std(axis=0), abs=0.1)


def test_a_bootstrap_t_agrees_with_resampling_one_by_one():
    rng = np.random.default_rng(7)
    drawn = SCORES[rng.integers(0, 10, size=(40_000, 10))]
    drawn = drawn[drawn.std(axis=1) > 0]
    t = (drawn.mean(axis=1) - SCORES.mean()) / stats.sem(drawn, axis=1)
    error = stats.sem(SCORES)
    upper, lower = np.quantile(t, (0.025, 0.975))
    low, high = bootstrap_t(SCORES[None, :])
    assert (low[0], high[0]) == pytest.approx((0.6 - lower * error, 0.6 - upper * error), abs=0.02)


def test_a_skewed_sample_has_a_skewed_interval():
    skewed = np.array([[1.0, 1, 1, 0.98, 0.99, 1, 0.97, 1, 0.6, 1]])
    low, high = bootstrap_t(skewed)
    assert skewed.mean() - low[0] > 2 * (high[0] - skewed.mean())


def test_rows_do_not_depend_on_each_other():
    rows = np.stack([SCORES, SCORES**2, SCORES / 2])
    together = bootstrap_t(rows, seed=5)
    alone = [bootstrap_t(row[None, :], seed=5) for row in rows]
    assert together[0] == pytest.approx(np.concatenate([low for low, _ in alone]), abs=1e-12)
    assert together[1] == pytest.approx(np.concatenate([high for _, high in alone]), abs=1e-12)


def test_two_scores_leave_everything_open():
    low, high = bootstrap_t(np.array([[0.2, 0.6]]))
    assert (low[0], high[0]) == (-np.inf, np.inf)
