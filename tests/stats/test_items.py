"""Discrimination against numpy's correlation, suspect keys, and short sets with their loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalflow.stats.items import FEWEST_SYSTEMS, choose, items, measured_loss
from evalflow.stats.rank import correlation


def answered(cases: int, systems: int, seed: int = 0) -> Any:
    """Passes and failures of systems of unlike ability on cases of unlike difficulty (Rasch 1960)."""
    rng = np.random.default_rng(seed)
    ability, hard = np.linspace(-2, 2, systems), rng.normal(0, 1, (cases, 1))
    return (rng.random((cases, systems)) < 1 / (1 + np.exp(hard - ability))).astype(np.float64)


def test_discrimination_is_the_correlation_with_the_other_cases():
    scores = answered(30, 12) + np.random.default_rng(1).normal(0, 0.1, (30, 12))
    found = items(scores)
    for place in range(30):
        rest = np.delete(scores, place, axis=0).mean(axis=0)
        alone = correlation(scores[place], rest, "pearson")
        assert alone.low is not None
        assert alone.high is not None
        assert (found.discrimination[place], found.low[place], found.high[place]) == pytest.approx(
            (alone.value, alone.low, alone.high)
        )
    assert found.mean == pytest.approx(scores.mean(axis=1))
    assert found.spread == pytest.approx(scores.std(axis=1, ddof=1))


def test_a_wrong_key_is_suspected_and_no_other():
    scores = answered(200, 30)
    order = np.argsort(np.abs(scores.mean(axis=1) - 0.5))
    scores[order[0]] = 1 - np.sort(scores[order[0]])
    found = items(scores)
    assert np.flatnonzero(found.p_adjusted < 0.05).tolist() == [order[0]]
    assert found.high[order[0]] < 0


def test_few_systems_prove_nothing():
    """Six systems can be ordered in 20 ways by three passes: the smallest p-value of a case alone is 0.05."""
    scores = np.tile([0.0, 0, 0, 1, 1, 1], (50, 1))
    scores[0] = 1 - scores[0]
    found = items(scores)
    assert found.discrimination[0] == -1
    assert np.nanmin(found.p_adjusted) >= 0.05
    few = items(scores[:, : FEWEST_SYSTEMS - 1])
    assert np.isnan(few.discrimination).all()
    assert few.mean[0] == 0.75


def test_cases_without_spread_have_no_discrimination():
    scores = answered(20, 8)
    scores[3], scores[4] = 1, 0.3
    found = items(scores)
    assert np.isnan(found.discrimination[[3, 4]]).all()
    assert np.isnan(found.p_adjusted[[3, 4]]).all()
    assert found.spread[[3, 4]].tolist() == [0, 0]


def test_a_short_set_has_its_share_of_each_stratum_and_of_hard_cases():
    scores, strata = answered(400, 8), np.repeat(["a", "b"], [300, 100])
    places = choose(scores, 40, strata)
    assert places.tolist() == sorted(set(places.tolist()))
    assert abs(int((strata[places] == "b").sum()) - 10) <= 1
    assert np.abs(scores[places].mean(axis=0) - scores.mean(axis=0)).max() < 0.05
    assert choose(scores, 40, strata).tolist() == places.tolist()
    assert choose(scores, 400).tolist() == list(range(400))
    for n in (0, 401):
        with pytest.raises(ValueError, match=f"{n} of 400 cases"):
            choose(scores, n)


def test_the_loss_of_a_short_set_is_that_on_other_systems():
    scores = answered(300, 24)
    loss = measured_loss(scores[:, ::2], 30)
    places = choose(scores[:, ::2], 30)
    other = np.abs(scores[places, 1::2].mean(axis=0) - scores[:, 1::2].mean(axis=0)).mean()
    assert loss.error == pytest.approx(other, abs=0.03)
    assert 0.7 < loss.order <= 1
    assert loss.low < loss.gain < loss.high
    assert loss.gain == pytest.approx(loss.random_error - loss.error)


def test_a_set_that_learns_nothing_is_not_called_better():
    scores = np.random.default_rng(0).integers(0, 2, (200, 8)).astype(np.float64)
    assert measured_loss(scores, 20).low <= 0
    alike = np.ones((50, 5))
    assert np.isnan(measured_loss(alike, 10).order)
    with pytest.raises(ValueError, match="3 systems"):
        measured_loss(scores[:, :3], 20)


@pytest.mark.slow
def test_a_set_that_learns_a_lot_is_called_better():
    """All systems find the same cases hard: difficulty alone tells the mean."""
    rng = np.random.default_rng(0)
    scores = np.clip(rng.beta(0.5, 0.5, (300, 1)) + rng.normal(0, 0.02, (300, 10)), 0, 1)
    assert measured_loss(scores, 20).low > 0
