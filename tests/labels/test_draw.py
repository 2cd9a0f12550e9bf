"""Answers drawn to be labelled."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.errors import UserError
from evalflow.labels.sheet import UnlabelledAnswer, advised_size, draw, draw_groups, score_strata, tag_stratum


def answers(n, score=lambda _: 0.0, tags=lambda _: ()):
    return [UnlabelledAnswer(("d", str(i), "t", 0), score(i), tags(i)) for i in range(n)]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 5))
def test_a_larger_draw_holds_the_smaller_one(small, large, seed):
    few, many = sorted((small, large))
    first, second = (draw(answers(50), size, seed).weights for size in (few, many))
    assert set(first) <= set(second)
    assert len(first) == min(few, 50)
    assert set(first.values()) == {1.0}


def test_the_draw_does_not_depend_on_the_order_and_does_on_the_seed():
    own = answers(50)
    assert set(draw(own, 10, 0).weights) == set(draw(own[::-1], 10, 0).weights) != set(draw(own, 10, 1).weights)


def test_every_answer_is_drawn_equally_often():
    counts = Counter(key for seed in range(2000) for key in draw(answers(10), 3, seed).weights)
    assert all(500 < counts[one.key] < 700 for one in answers(10))


def test_what_was_drawn_before_stays():
    before = draw(answers(50), 10, seed=1).weights
    after = draw(answers(50), 20, seed=2, already=before).weights
    assert set(before) <= set(after)
    assert len(after) == 20


def test_strata_are_drawn_alike_and_weighed_by_what_they_stand_for():
    own = answers(100, score=lambda i: float(i < 10))
    drawn = draw(own, 20, 0, stratum=score_strata(own))
    assert drawn.strata == {"score 0": (10, 90), "score 1": (10, 10)}
    assert Counter(drawn.weights.values()) == {9.0: 10, 1.0: 10}
    assert sum(drawn.weights.values()) == 100


def test_a_small_stratum_leaves_its_share_to_the_others():
    own = answers(100, tags=lambda i: ("rare",) if i < 3 else ())
    drawn = draw(own, 20, 0, stratum=tag_stratum)
    assert drawn.strata == {"rare": (3, 3), "without a tag": (17, 97)}


def test_many_scores_fall_into_fifths():
    own = answers(100, score=lambda i: i / 100)
    assert [n for _, n in draw(own, 20, 0, stratum=score_strata(own)).strata.values()] == [20] * 5


def test_more_strata_than_answers_to_draw():
    own = answers(10, score=lambda i: i % 4)
    with pytest.raises(UserError, match="3 answers cannot be drawn from 4 strata"):
        draw(own, 3, 0, stratum=score_strata(own))


def in_groups(*sizes):
    return [
        UnlabelledAnswer(("d", f"{group}.{i}", "t", 0), 0.0, (), f"g{group}")
        for group, n in enumerate(sizes)
        for i in range(n)
    ]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 40), st.integers(0, 5))
def test_groups_are_drawn_whole_and_stand_together(sizes, size, seed):
    own = in_groups(*sizes)
    drawn = draw_groups(own, size, seed)
    order = [key[1].partition(".")[0] for key in drawn.weights]
    runs = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert (
        len(runs) == len(set(runs)) == drawn.groups[0] == max(1, min(len(sizes), round(size * len(sizes) / len(own))))
    )
    assert all(order.count(name) == sizes[int(name)] for name in runs)


def test_large_groups_are_drawn_as_often_as_small_ones():
    own = in_groups(1, 1, 1, 9)
    counts = Counter(key for seed in range(2000) for key in draw_groups(own, 6, seed).weights)
    assert all(900 < counts[one.key] < 1100 for one in own)


def test_groups_that_were_drawn_before_stay():
    own = in_groups(*[3] * 20)
    before = draw_groups(own, 12, seed=1)
    after = draw_groups(own, 30, seed=2, already=before.weights)
    assert (before.groups, after.groups) == ((4, 20), (10, 20))
    assert list(after.weights)[:12] == sorted(before.weights, key=list(after.weights).index)


def test_answers_without_a_score_are_a_stratum_of_their_own():
    own = answers(40, score=lambda i: None if i < 10 else float(i % 2))
    assert draw(own, 15, 0, stratum=score_strata(own)).strata == {
        "score 0": (5, 15),
        "score 1": (5, 15),
        "without a score": (5, 10),
    }


@pytest.mark.parametrize(("answers", "size"), [(None, 50), (0, 50), (20, 20), (60, 50)])
def test_all_answers_are_advised_up_to_a_number_and_that_number_if_nobody_counted(answers, size):
    assert advised_size(answers) == size
