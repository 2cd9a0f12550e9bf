"""Reliability of people, and the test of whether a judge may take a person's place, against published numbers."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from evalflow.stats.raters import (
    Nearness,
    alt_test,
    compare_alphas,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    noise_ceiling,
    reliability,
    spearman_brown,
)
from evalflow.summary.verdicts import agrees_more, is_limit, may_replace

SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
COUNTS = [[0, 0, 3], [0, 2, 1], [3, 0, 0], [1, 2, 0], [0, 3, 0], [2, 1, 0], [0, 1, 2], [3, 0, 0]]
PEOPLE = [
    [int(digit) for digit in row]
    for row in (
        "5113254312233312431132523344234532244451",
        "5222154421344421451142522353153542243451",
        "5112155322224421552142543444234531234353",
    )
]
JUDGE = [int(digit) for digit in "5112155412333321541132532333143542243451"]


def test_reliability_is_that_of_the_published_table():
    found = reliability(np.transpose(SHROUT_FLEISS))
    assert found.value == pytest.approx(0.4427971337, abs=1e-9)
    assert spearman_brown(np.array(0.1657417684), 4) == pytest.approx(0.4427971337, abs=1e-9)
    ceiling = noise_ceiling(found)
    ends = (found.value, found.low, found.high)
    assert [ceiling.value, ceiling.low, ceiling.high] == pytest.approx([max(0.0, end or 0.0) ** 0.5 for end in ends])
    assert not is_limit(ceiling)  # of six answers


@pytest.mark.parametrize("gaps", [False, True])
def test_people_who_disagree_limit_what_a_judge_can_reach(gaps: bool):
    rng = np.random.default_rng(2)
    truth = rng.normal(size=200)
    ratings = truth + rng.normal(0, 0.8, (4, 200))
    if gaps:
        ratings[2:, rng.random(200) < 0.5] = np.nan
    found = reliability(ratings)
    assert found.low is not None
    assert found.high is not None
    k = 3 if gaps else 4
    assert found.low < k / (k + 0.64) < found.high
    assert is_limit(noise_ceiling(found))
    turned = reliability(ratings[:, rng.permutation(200)])
    assert (turned.value, turned.low) == (pytest.approx(found.value), pytest.approx(found.low))
    many = reliability(ratings, np.arange(200) // 10)
    assert (many.value, many.method) == (pytest.approx(found.value), "cluster_bootstrap: fewer than 30 clusters")
    assert not is_limit(noise_ceiling(many))
    assert not is_limit(noise_ceiling(reliability(np.stack([truth, truth]))))


def test_reliability_is_undefined_rather_than_zero():
    nothing = np.nan
    for ratings in ([[1], [2]], [[1, 2], [nothing, nothing]], [[2, 2], [2, 2]], [[0, 1], [1, 0]]):
        found = reliability(ratings)
        assert (found.value, noise_ceiling(found).value, is_limit(noise_ceiling(found))) == (None, None, False)
    assert fleiss_kappa([[3, 0], [3, 0]]) is None
    assert gwet_ac1([[3], [3]]) is None
    assert gwet_ac1([[3, 0], [3, 0]]) == 1


def test_agreement_of_several_raters():
    assert fleiss_kappa(COUNTS) == pytest.approx(0.4920634921, abs=1e-9)
    assert gwet_ac1(COUNTS) == pytest.approx(0.503875969, abs=1e-9)


@pytest.mark.parametrize(
    ("nearness", "p_values", "advantages"),
    [
        ("accuracy", [0.0008645858974, 0.0001126363084, 0.0002306774794], [0.925, 0.95, 0.925]),
        ("neg_rmse", [3.454265898e-06, 1.535712696e-07, 9.209524603e-07], [0.975, 1.0, 0.975]),
    ],
)
def test_a_good_judge_may_take_any_person_s_place(nearness: Nearness, p_values: list[float], advantages: list[float]):
    found = alt_test(PEOPLE, JUDGE, nearness)
    assert found.p_values == pytest.approx(p_values, rel=1e-6)
    assert found.advantages == pytest.approx(advantages)
    assert found.method == "alt_test_by"
    assert found.advantage == pytest.approx(np.mean(advantages))
    verdict = may_replace(found, agrees=True)
    assert (verdict.may, verdict.rate, verdict.won, verdict.people) == (True, 1.0, 3, 3)
    assert found.behind is not None
    assert found.behind < 0


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, np.nan])] * 3, st.sampled_from([0.0, 0.3, 1.0])), min_size=1)
)
def test_both_alphas_are_krippendorffs_of_pairs_of_ratings(rows: list[tuple[float, ...]]):
    table = np.array(rows).T
    people, judge = table[:3], table[3]
    found = compare_alphas(people, judge)
    alone = krippendorff_alpha(people)
    assert (found.people.value, found.people.n) == (pytest.approx(alone.value, abs=1e-9), alone.n)
    if found.judge.value is not None:
        several = (~np.isnan(people)).sum(axis=0) > 1
        pairs = [(h, j) for column, j in zip(people.T[several], judge[several], strict=True) for h in column]
        by_pairs = krippendorff_alpha(np.array([pair for pair in pairs if pair[0] == pair[0]]).T)
        assert found.judge.value == pytest.approx(by_pairs.value, abs=1e-9)
        if found.people.value is not None:
            assert found.difference.value == pytest.approx(found.judge.value - found.people.value, abs=1e-9)


def test_a_judge_is_said_to_agree_more_or_less_than_people_only_if_that_is_clear():
    rng = np.random.default_rng(3)
    truth = rng.random(200) < 0.6

    def rated(n: int, wrong: float) -> np.ndarray:
        return np.where(rng.random(n) < wrong, ~truth[:n], truth[:n]).astype(float)

    people = np.stack([rated(200, 0.2), rated(200, 0.2)])
    assert agrees_more(compare_alphas(people, rated(200, 0.2))) is None
    assert agrees_more(compare_alphas(people, rated(200, 0.0))) == "more"
    assert agrees_more(compare_alphas(people, rated(200, 0.45))) == "less"
    few = compare_alphas(people[:, :20], 1 - truth[:20].astype(float))
    assert few.difference.high is not None
    assert (few.difference.high < 0, agrees_more(few)) == (True, None)
    assert agrees_more(compare_alphas(people[:, :1], [1.0])) is None
    assert compare_alphas(np.ones((2, 40)), np.ones(40)).difference.value is None


def test_a_judge_that_says_one_thing_may_not():
    found = may_replace(alt_test(PEOPLE, [1] * 40), agrees=True)
    assert (found.may, found.rate) == (False, 0.0)


def test_where_the_judge_and_the_person_always_tie_the_judge_may():
    people = [[1, 2] * 20] * 3
    assert alt_test(people, [1, 2] * 20).p_values.tolist() == [0.0, 0.0, 0.0]


def test_gaps_few_people_and_few_answers():
    assert alt_test(PEOPLE[:2], JUDGE).method == "none: fewer than 3 people"
    gaps = np.array(PEOPLE, float)
    gaps[0, :15] = np.nan
    found = alt_test(gaps, JUDGE)
    assert found.method == "alt_test_by: fewer than 30 answers of a person"
    assert may_replace(found, agrees=True).may
    gaps[0] = np.nan
    nobody = alt_test(gaps, JUDGE)
    verdict = may_replace(nobody, agrees=True)
    assert (verdict.may, verdict.rate) == (None, None)
    assert nobody.method == "none: fewer than 3 people share answers"
    assert np.isnan(nobody.p_values[0])


def test_a_judge_that_always_says_the_commonest_label_may_not_replace_anybody():
    rng = np.random.default_rng(1)
    people = (rng.random((3, 100)) < 0.97).astype(float)  # they differ by chance alone
    judge = np.ones(100)
    found = alt_test(people, judge)
    assert (may_replace(found, agrees=True).may, may_replace(found, agrees=False).may) == (True, False)
