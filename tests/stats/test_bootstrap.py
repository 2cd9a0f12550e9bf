"""Bootstrap intervals against published numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

from evalflow.stats.bootstrap import percentiles, resample

SCORES = np.array([1.0, 0.0, 0.5, 1.0, 0.75, 0.25, 1.0, 0.0, 0.5, 1.0])


def test_percentiles_of_a_mean_agree_with_numpy_and_scipy():
    totals = resample(np.stack([np.ones(10), SCORES], axis=1), np.ones(10, dtype=np.int64), seed=12345)
    assert (totals[:, 0] == 10).all()
    means = totals[:, 1] / 10
    assert percentiles(means, 10_000) == pytest.approx((0.35, 0.825), abs=0.03)
    assert means.std(ddof=1) == pytest.approx(0.1232102259, abs=0.03)


@pytest.mark.parametrize("units", [2, 6, 20, 1_000])
def test_percentiles_of_normal_values_are_as_wide_as_a_t_interval(units: int):
    normal: Any = scipy.stats.norm.ppf((np.arange(400_000) + 0.5) / 400_000)
    # A resampled mean varies by s / sqrt(G) * sqrt((G - 1) / G); t takes s / sqrt(G).
    low, high = percentiles(normal * ((units - 1) / units) ** 0.5, units)
    wanted = float(scipy.stats.t.ppf(0.975, units - 1))
    # So far out, even many values end before the percentile.
    assert (low, high) == pytest.approx((-wanted, wanted), rel=1e-3) if units > 2 else high > 3


def test_a_pattern_that_several_clusters_share_is_drawn_as_often_as_they_would_be():
    single = resample(np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([1, 1, 1]), seed=3)
    shared = resample(np.array([[1.0, 0], [0, 1]]), np.array([2, 1]), seed=4)
    assert single.mean(axis=0) == pytest.approx([2, 1], abs=0.1)
    assert shared.mean(axis=0) == pytest.approx([2, 1], abs=0.1)
    assert shared.std(axis=0) == pytest.approx(single.std(axis=0), abs=0.1)
