"""A pass rate corrected by sensitivity and specificity: published numbers, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from evalflow.stats.prediction import rogan_gladen


@pytest.mark.parametrize(
    ("given", "estimate", "error", "bounds"),
    [
        ((0.4, 1000, 0.7, 200, 0.9, 200), 0.1666666667, 0.05264951361, (0.05635072484, 0.2627330258)),
        ((0.82, 300, 0.8, 20, 0.95, 60), 0.8266666667, 0.05272346796, (0.7237525608, 0.9304247574)),
        ((0.05, 100, 0.9, 50, 0.9, 50), 0.0, 0.06911353743, (0.0, 0.05510940457)),
    ],
)
def test_agrees_with_the_published_code(
    given: tuple[float, int, float, int, float, int], estimate: float, error: float, bounds: tuple[float, float]
):
    found = rogan_gladen(*given)
    assert found.value == pytest.approx(estimate, abs=1e-9)
    assert found.std_error == pytest.approx(error, abs=1e-9)
    assert (found.low, found.high) == pytest.approx(bounds, abs=1e-9)
    assert found.method == "rogan_gladen"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((0.5, 100, 0.5, 20, 0.5, 20), "none: the judge is no better than chance"),
        ((0.5, 100, 0.9, 0, 0.9, 20), "none: no labels that fail"),
        ((0.5, 100, 0.9, 20, 0.9, 0), "none: no labels that pass"),
        ((0.5, 0, 0.9, 20, 0.9, 20), "none: no answers without a label"),
    ],
)
def test_has_no_estimate_rather_than_a_wild_one(given: tuple[float, int, float, int, float, int], why: str):
    found = rogan_gladen(*given)
    assert (found.value, found.low, found.high, found.method) == (None, None, None, why)


def test_holds_the_truth_where_labels_were_chosen_by_class():
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        truth = rng.random(1500) < 0.2
        judged = np.where(truth, rng.random(1500) < 0.85, rng.random(1500) < 0.25)
        fails, passes = np.flatnonzero(~truth)[:60], np.flatnonzero(truth)[:60]
        rest = np.delete(np.arange(1500), np.concatenate([fails, passes]))
        # The labels took most of what passes: what is left passes less often.
        found = rogan_gladen(judged[rest].mean(), rest.size, 1 - judged[fails].mean(), 60, judged[passes].mean(), 60)
        held += (found.low or 0) <= (0.2 * 1500 - 60) / 1380 <= (found.high or 0)
    assert held == pytest.approx(955, abs=20)
