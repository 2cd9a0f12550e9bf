"""Whether labelled answers are like the rest."""

import numpy as np
import pytest

from evalflow.stats.labelled import sampling_bias
from evalflow.summary.verdicts import is_biased_sample


def test_two_values_are_held_by_fisher_s_exact_test():
    # The lady tasting tea: 3 of 4 against 1 of 4 has the two-sided p 0.4857 (Fisher 1935).
    found = sampling_bias([1, 1, 1, 0], [1, 0, 0, 0])
    assert (found.labelled, found.rest, found.method) == (0.75, 0.25, "fisher")
    assert found.p_value == pytest.approx(34 / 70)
    assert not is_biased_sample(found)


def test_graded_scores_are_held_by_mann_and_whitney_s():
    found = sampling_bias([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    assert found.method == "mann_whitney"
    assert found.p_value == pytest.approx(0.1)


def test_answers_chosen_because_the_judge_failed():
    assert is_biased_sample(sampling_bias([0] * 20, [0] * 20 + [1] * 60))


def test_nothing_can_be_told_where_nothing_varies_or_nothing_is_left():
    assert sampling_bias([1, 1], [1, 1]).p_value is None
    assert sampling_bias([1, 0], []).p_value is None


def test_a_random_draw_is_seldom_called_chosen():
    random = np.random.default_rng(0)
    called = 0
    for _ in range(300):
        scores = random.permutation(np.linspace(0, 1, 100) ** 2)
        called += is_biased_sample(sampling_bias(scores[:30], scores[30:]))
    assert called <= 9


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("graded", [True, False])
def test_a_random_draw_out_of_groups_is_seldom_called_chosen(whole, graded):
    # Answers of a group are alike. Taken for single ones, 7 to 13 % of the draws of whole groups would be.
    random, groups = np.random.default_rng(0), np.repeat(np.arange(120), 5)
    called = alone = 0
    for _ in range(300):
        level = np.repeat(random.normal(size=120), 5) + random.normal(size=600)
        scores = level if graded else (level < 0.7).astype(float)
        drawn = np.isin(groups, random.permutation(120)[:20]) if whole else random.permutation(600) < 100
        called += is_biased_sample(sampling_bias(scores[drawn], scores[~drawn], groups[drawn], groups[~drawn]))
        alone += is_biased_sample(sampling_bias(scores[drawn], scores[~drawn]))
    assert called <= 9
    assert alone > 15 or not whole


def test_answers_chosen_out_of_groups_because_the_judge_failed():
    random, groups = np.random.default_rng(0), np.repeat(np.arange(60), 5)
    scores = (random.random(300) < 0.7).astype(float)
    drawn = np.isin(np.arange(300), np.flatnonzero(scores == 0)[:40])
    found = sampling_bias(scores[drawn], scores[~drawn], groups[drawn], groups[~drawn])
    assert (is_biased_sample(found), found.method) == (True, "score_cr0")


def test_groups_of_one_are_single_answers_and_one_group_says_nothing():
    assert sampling_bias([1, 1, 1, 0], [1, 0, 0, 0], [1, 2, 3, 4], [5, 6, 7, 8]).method == "fisher"
    assert sampling_bias([1, 1, 1], [1, 0, 0, 0], [1, 1, 1], [2, 2, 3, 3]).p_value is None
