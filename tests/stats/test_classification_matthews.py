"""Matthews' correlation coefficient: against scikit-learn's definition by hand, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from evalflow.stats.classification import matthews

PAIRS = [("t", "t"), ("f", "t"), ("f", "f"), ("t", "f")]


@pytest.mark.parametrize(
    ("totals", "value"),
    [([18, 3, 74, 5], 0.7683397489), ([5, 0, 5, 0], 1.0), ([0, 5, 0, 5], -1.0), ([4, 4, 4, 4], 0.0)],
)
def test_two_classes(totals: list[int], value: float):
    for of in (matthews(PAIRS), matthews(PAIRS, "t"), matthews(PAIRS, "f")):
        assert of(np.array([totals], dtype=float))[0] == pytest.approx(value)


@pytest.mark.parametrize("totals", [[5, 0, 0, 5], [5, 5, 0, 0], [0, 0, 9, 0]])
def test_one_class_leaves_it_undefined(totals: list[int]):
    assert np.isnan(matthews(PAIRS)(np.array([totals], dtype=float))[0])


def test_several_classes_are_the_correlation_of_their_indicators():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, size=200)
    said = np.where(rng.random(200) < 0.6, truth, rng.integers(0, 3, size=200))
    pairs = [(str(t), str(p)) for t in range(3) for p in range(3)]
    totals = np.array([[float(((truth == t) & (said == p)).sum()) for t in range(3) for p in range(3)]])
    x, y = np.eye(3)[truth], np.eye(3)[said]
    joint, own, other = (((a - a.mean(0)) * (b - b.mean(0))).sum() for a, b in ((x, y), (x, x), (y, y)))
    assert matthews(pairs)(totals)[0] == pytest.approx(joint / np.sqrt(own * other))
