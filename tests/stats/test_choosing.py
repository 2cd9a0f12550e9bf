"""Judges ranked by their agreement on the same answers."""

import numpy as np
import pytest

from evalflow.stats.agreement import cohen_kappa
from evalflow.stats.rank import agreements, correlation

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(3)
HUMAN = (RNG.random(80) < 0.6).astype(float)
GOOD = np.where(RNG.random(80) < 0.95, HUMAN, 1 - HUMAN)
BLIND = (RNG.random(80) < 0.5).astype(float)


def test_values_are_those_of_the_measures_themselves():
    graded = HUMAN + RNG.normal(0, 0.3, 80)
    assert agreements(HUMAN, [GOOD], "kappa").values[0] == pytest.approx(cohen_kappa(HUMAN, GOOD).value)
    assert agreements(HUMAN, [graded], "spearman").values[0] == pytest.approx(correlation(HUMAN, graded).value)


def test_a_better_judge_is_told_from_a_blind_one_and_not_from_itself():
    found = agreements(HUMAN, [GOOD, BLIND, GOOD], "kappa")
    far, same = found.difference(0, 1), found.difference(0, 2)
    assert far.p_value is not None
    assert far.p_value < 0.001
    assert far.high is not None
    assert far.high < 0
    assert (same.difference, same.p_value, same.low) == (0, 1, None)
    span = found.interval(0)
    assert span.low is not None
    assert span.high is not None
    assert span.low < found.values[0] <= span.high


def test_answers_of_one_cluster_are_drawn_together():
    alone = agreements(HUMAN, [GOOD, BLIND], "kappa").difference(0, 1)
    doubled = agreements(
        np.tile(HUMAN, 2), [np.tile(GOOD, 2), np.tile(BLIND, 2)], "kappa", np.tile(np.arange(80), 2)
    ).difference(0, 1)
    assert (doubled.n, doubled.clusters) == (160, 80)
    assert doubled.std_error == pytest.approx(alone.std_error, rel=0.1)


def test_a_judge_that_says_one_thing_is_undefined():
    found = agreements(HUMAN, [GOOD, np.ones(80)], "spearman").difference(0, 1)
    assert (found.value_b, found.p_value) == (None, None)
    assert found.method == "none: undefined"
