"""Labels that a corrected interval needs: against intervals that were made, and by properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.power import cases_for_width
from evalflow.stats.prediction import Spread, assumed_spread, corrected_mean, observed_spread

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("n", [20, 40, 60, 200])
def test_the_planned_width_is_the_one_that_comes_about(n: int):
    rng = np.random.default_rng(n)
    widths: list[float] = []
    for _ in range(60):
        truth = rng.beta(2, 2, n + 300)
        judged = 0.2 + 0.6 * truth + rng.normal(0, 0.1, n + 300)
        found = corrected_mean(truth[:n], judged[:n], judged[n:])
        widths.append((found.high or 0) - (found.low or 0))
    spread = Spread(0.05, 0.36 * 0.05 + 0.01, 0.6 * 0.05)
    assert float(spread.width(n, n + 300)) == pytest.approx(np.mean(widths), rel=0.04)


def test_a_judge_that_knows_nothing_saves_no_labels():
    spread = assumed_spread(0.25, 0.0)
    assert spread.labels_for(0.1) == cases_for_width(0.25, 0.1)
    assert spread.width(30) == pytest.approx(2 * 2.0452 * (0.25 / 30) ** 0.5, rel=1e-4)
    assert Spread(0.25, 0.0, 0.0).labels_for(0.1, 10_000) == cases_for_width(0.25, 0.1)


def test_a_good_judge_saves_most():
    few, many = assumed_spread(0.25, 0.9).labels_for(0.1), assumed_spread(0.25, 0.5).labels_for(0.1)
    assert few is not None
    assert many is not None
    assert few < 0.3 * cases_for_width(0.25, 0.1)
    assert few < many


def test_no_number_of_labels_replaces_answers():
    assert assumed_spread(0.25, 0.9).labels_for(0.1, 100) is None
    assert assumed_spread(0.25, 0.9).labels_for(0.1, 16) is None
    assert assumed_spread(0.25, 0.9).labels_for(1e-6) is None
    assert assumed_spread(0.25, 0.9, design_effect=4).labels_for(0.2) == assumed_spread(1.0, 0.9).labels_for(0.2)


def test_the_spread_of_labelled_answers():
    found = observed_spread([0, 1, 1, 0], [0.2, 0.8, 0.6, 0.4], range(4))
    assert found is not None
    assert (found.labels, found.judged, found.shared) == pytest.approx((1 / 3, 0.2 / 3, 0.4 / 3))
    assert observed_spread([1], [1], [0]) is None


@given(st.floats(0.02, 0.5), st.floats(-1, 1), st.floats(0.05, 0.5), st.integers(50, 5000))
def test_the_fewest_labels_are_enough_and_one_less_is_not(variance: float, r: float, width: float, answers: int):
    spread = assumed_spread(variance, r)
    found = spread.labels_for(width, answers)
    if found is None:
        assert float(spread.width(answers - 2, answers)) > width
        return
    assert float(spread.width(found, answers)) <= width
    assert found == 15 or float(spread.width(found - 1, answers)) > width
    if r > 0.9:  # below, more answers weigh a judge more who adds noise
        assert (spread.labels_for(width, math.inf) or 0) <= found
