"""Whether labelled answers are like the rest."""

import numpy as np
import pytest

from evalflow.stats.selection import selection


def test_two_values_are_held_by_fisher_s_exact_test():
    # The lady tasting tea: 3 of 4 against 1 of 4 has the two-sided p 0.4857 (Fisher 1935).
    found = selection([1, 1, 1, 0], [1, 0, 0, 0])
    assert (found.labelled, found.rest, found.method) == (0.75, 0.25, "fisher")
    assert found.p_value == pytest.approx(34 / 70)
    assert not found.chosen


def test_graded_scores_are_held_by_mann_and_whitney_s():
    found = selection([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    assert found.method == "mann_whitney"
    assert found.p_value == pytest.approx(0.1)


def test_answers_chosen_because_the_judge_failed():
    assert selection([0] * 20, [0] * 20 + [1] * 60).chosen


def test_nothing_can_be_told_where_nothing_varies_or_nothing_is_left():
    assert selection([1, 1], [1, 1]).p_value is None
    assert selection([1, 0], []).p_value is None


def test_a_random_draw_is_seldom_called_chosen():
    random = np.random.default_rng(0)
    called = 0
    for _ in range(300):
        scores = random.permutation(np.linspace(0, 1, 100) ** 2)
        called += selection(scores[:30], scores[30:]).chosen
    assert called <= 9
