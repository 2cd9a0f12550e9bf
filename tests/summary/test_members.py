"""Members of panels and cascades on labelled answers: classes, weights, thresholds, and what labels cannot tell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.report.members import MemberAdvice
from evalflow.summary.members import MemberScores, cascade_advice, panel_advice


def members(scores: Any, human: Any, **options: Any) -> MemberScores:
    scores, human = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    given = {
        "names": [f"m{at}" for at in range(scores.shape[1])],
        "scores": scores,
        "human": human,
        "costs": np.where(np.isnan(scores), math.nan, 1.0),
        "confidence": np.full(scores.shape, math.nan),
        "units": np.arange(human.size),
        "levels": np.array([0.0, 1.0]),
        "threshold": None,
        "higher_is_better": True,
    }
    return MemberScores(**(given | options))


def drawn(seed: int, rates: list[float], n: int = 200, labelled: int = 100) -> tuple[Any, Any]:
    """Verdicts of members that are right so often, and labels of the first answers."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.6).astype(float)
    scores = np.where(rng.random((n, len(rates))) < rates, truth[:, None], 1 - truth[:, None])
    human = np.where(np.arange(n) < labelled, truth, math.nan)
    return scores, human


def test_classes_are_those_of_the_threshold_or_the_nearest_score():
    graded = members([[0.3, 0.75]], [0.8], threshold=0.7)
    assert graded.of_class(graded.scores).tolist() == [[0, 1]]
    lower = members([[0.3, math.nan]], [0.8], threshold=0.5, higher_is_better=False)
    assert lower.of_class(lower.scores).tolist() == [[1, -1]]
    grades = members([[0.5, 0.25]], [0.5], levels=np.array([0.0, 0.5, 1.0]))
    assert grades.of_class(grades.scores).tolist() == [[1, 1]]  # a tie goes up
    assert grades.classes == ["0", "0.5", "1"]


def test_better_members_weigh_more_and_one_no_better_than_chance_is_named():
    found = panel_advice(members(*drawn(0, [0.95, 0.8, 0.4])), 0)
    assert found is not None
    weights = list(found.weights.values())
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1)
    assert found.useless == ["m2"]
    assert weights[2] > 0
    assert list(found.ways) == ["majority", "best member", "weighted", "dawid_skene"]


def test_two_that_make_the_same_mistakes_outvote_a_better_one_and_that_is_said():
    scores, human = drawn(4, [0.95, 0.7], n=400, labelled=300)
    found = panel_advice(members(np.column_stack([scores, scores[:, 1], scores[:, 1], scores[:, 1]]), human), 0)
    assert found is not None
    name, alone = found.alone
    assert name == "m0"
    assert alone.low is not None
    assert alone.low > 0.1
    assert all((excess.low or 0) > 0.1 for one, _, excess in found.shared if one != "m0")
    [told] = [line for line in MemberAdvice("panel", {}, "judge", found).lines() if "ask it alone" in line]
    assert told.startswith("m0 alone is better than all together by weights, +0.2")


@settings(max_examples=10)
@given(st.integers(0, 200))
def test_measures_do_not_depend_on_what_is_not_labelled_but_for_the_model(seed: int):
    scores, human = drawn(seed, [0.9, 0.7, 0.7], n=60, labelled=30)
    found, alone = panel_advice(members(scores, human), 0), panel_advice(members(scores[:30], human[:30]), 0)
    if found is None or alone is None:
        assert found is alone
        return
    assert found.weights == alone.weights
    assert [way.value for way in found.ways.values()][:3] == [way.value for way in alone.ways.values()][:3]


def test_answers_of_a_group_stay_in_one_fold_and_widen_intervals():
    scores, human = drawn(1, [0.8, 0.75, 0.7], n=100)
    alone = panel_advice(members(scores, human), 0)
    twice = panel_advice(
        members(np.repeat(scores, 2, axis=0), np.repeat(human, 2), units=np.repeat(np.arange(100), 2)), 0
    )
    assert alone is not None
    assert twice is not None
    for one, other in zip(alone.ways.values(), twice.ways.values(), strict=True):
        assert one.low is not None
        assert other.low is not None
        assert one.high is not None
        assert other.high is not None
        assert other.high - other.low > 0.85 * (one.high - one.low)
        assert "cr2" in other.method


def test_too_few_labels_one_class_or_one_group_give_no_advice():
    scores, human = drawn(2, [0.9, 0.8], labelled=14)
    assert panel_advice(members(scores, human), 0) is None
    assert panel_advice(members(scores, np.ones(200)), 0) is None
    assert panel_advice(members(scores, scores[:, 0], units=np.zeros(200, dtype=int)), 0) is None
    missing = scores.copy()
    missing[:, 1] = math.nan
    assert panel_advice(members(missing, scores[:, 0]), 0) is None


def cascade(seed: int, n: int = 300, **options: Any) -> MemberScores:
    """The first member errs where its confidence is below 0.7; the last is right; both were asked everything."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.5).astype(float)
    sure = rng.uniform(0.4, 1, n)
    first = np.where((sure < 0.7) & (rng.random(n) < 0.6), 1 - truth, truth)
    given = {"confidence": np.stack([sure, np.full(n, math.nan)], axis=1), "costs": np.array([[1.0, 9.0]] * n)}
    return members(np.stack([first, truth], axis=1), truth, **(given | options))


def test_the_cheapest_threshold_that_agrees_is_advised():
    found = cascade_advice(cascade(0), 1.0, 0)
    assert found is not None
    assert [point.threshold for point in found.points] == sorted(point.threshold for point in found.points)
    assert 0.6 < found.advised.threshold < 0.8
    assert found.advised.cost_usd == pytest.approx(1 + 9 * found.advised.escalated)
    assert found.points[-1].cost_usd == 10
    assert found.points[-1].agreement.value == 1
    assert found.points[0].escalated < 0.01
    assert (found.validated.value or 0) > 0.95


def test_where_the_first_is_as_good_nothing_is_escalated():
    same = cascade(1)
    found = cascade_advice(members(same.scores[:, [1, 1]], same.human, confidence=same.confidence), 1.0, 0)
    assert found is not None
    assert found.advised is found.points[0]
    assert found.gain.difference == 0


def test_what_a_run_did_not_ask_is_not_known():
    """With 0.6 as the run's threshold the last member was asked below it alone."""
    whole = cascade(2)
    asked = whole.confidence[:, 0] < 0.6
    scores, costs = whole.scores.copy(), whole.costs.copy()
    scores[~asked, 1] = costs[~asked, 1] = math.nan
    found = cascade_advice(members(scores, whole.human, confidence=whole.confidence, costs=costs), 0.6, 0)
    assert found is not None
    assert found.points[-1].threshold == 0.6
    assert found.points[-1].escalated == pytest.approx(asked.mean())
    assert found.points[-1].cost_usd == pytest.approx(1 + 9 * asked.mean())
    full = cascade_advice(whole, 0.6, 0)
    assert full is not None
    assert [point.agreement for point in full.points] == [point.agreement for point in found.points]


def test_unknown_prices_and_members_without_confidence():
    costs = np.full((300, 2), math.nan)
    found = cascade_advice(cascade(3, costs=costs), 1.0, 0)
    assert found is not None
    assert {point.cost_usd for point in found.points} == {None}
    silent = cascade_advice(cascade(3, confidence=np.full((300, 2), math.nan)), 0.8, 0)
    assert silent is not None
    assert [point.escalated for point in silent.points] == [1.0]
    assert cascade_advice(cascade(3, n=14), 1.0, 0) is None
