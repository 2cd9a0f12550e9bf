"""What runs report that their looks stopped: intervals that hold, and means without the bias of the stop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalflow.stats.looks import LimitTest, anytime_interval, planned_interval
from evalflow.stats.stopping import adjusted_mean, by_bets, by_plan, stopped_interval

pytestmark = pytest.mark.slow


def stopped(rng: np.random.Generator, mean: float, limit: float) -> Any:
    test, scores = LimitTest(limit), (rng.random(400) < mean).astype(float)
    for count, score in enumerate(scores, start=1):
        test.add(float(score))
        if test.verdict:
            return scores[:count]
    return scores


@pytest.mark.parametrize("mean", [0.8, 0.97])
def test_the_adjusted_mean_is_nearer_to_the_truth_and_the_interval_holds_it(mean: float):
    rng = np.random.default_rng(1)
    plain, adjusted, held = list[float](), list[float](), 0
    for _ in range(25):
        scores = stopped(rng, mean, 0.9)
        plain.append(float(scores.mean()))
        adjusted.append(adjusted_mean(scores, None, 400, by_bets(0.9)))
        found = stopped_interval(scores)
        held += (found.low or 0) <= mean <= (found.high or 1)
    assert abs(np.mean(adjusted) - mean) < abs(np.mean(plain) - mean)
    assert held >= 23


def test_the_interval_needs_no_order_and_contains_that_of_the_looks():
    scores = np.random.default_rng(2).beta(4, 1, 80)
    found, shuffled = stopped_interval(scores), stopped_interval(scores[::-1])
    assert (found.low, found.high) == (shuffled.low, shuffled.high)
    looked = anytime_interval(scores)
    assert (found.low or 0) <= (looked.low or 0) + 1e-5
    assert (found.high or 1) >= (looked.high or 1) - 1e-5
    assert found.method == looked.method == "betting"
    grouped = stopped_interval(scores, np.arange(80) // 4)
    assert grouped.method.startswith("cluster_betting")
    assert (grouped.high or 0) - (grouped.low or 0) > (found.high or 0) - (found.low or 0)


def test_a_run_that_ends_with_its_cases_has_no_bias_to_adjust():
    scores = np.repeat([0.0, 1.0], [20, 80])
    assert adjusted_mean(scores, None, 100, by_bets(0.2)) == pytest.approx(0.8, abs=0.06)
    assert adjusted_mean(scores, np.arange(100) // 5, 100, by_bets(0.8, largest=5)) == pytest.approx(0.8, abs=0.03)


def test_planned_looks_are_adjusted_by_their_own_rule():
    scores = np.concatenate([np.zeros(16), np.ones(24)])
    np.random.default_rng(3).shuffle(scores)
    found = planned_interval(scores, None, look=1, looks=5)
    assert found.high is not None
    assert found.high < 0.95
    assert adjusted_mean(scores, None, 200, by_plan(0.95, 200, 5)) == pytest.approx(0.6, abs=0.015)


@pytest.mark.parametrize("limit", [0.0, 0.5, 0.9, 1.0])
def test_passes_and_fails_stop_as_scores_do(limit: float):
    """A row of half points makes the rule bet on each score, not count passes."""
    passed = (np.random.default_rng(4).random((60, 200)) < np.linspace(0, 1, 60)[:, None]).astype(float)
    scores = np.concatenate([passed, np.full((1, 200), 0.5)])
    totals, counts = by_bets(limit)(passed, np.ones_like(passed))
    of_scores = by_bets(limit)(scores, np.ones_like(scores))
    assert totals.tolist() == of_scores[0][:-1].tolist()
    assert counts.tolist() == of_scores[1][:-1].tolist()
    assert (counts < 200).any()
