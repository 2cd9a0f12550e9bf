"""Agreement of two raters against published numbers, where it is undefined, and what may not change it."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from evalflow.stats.agreement import Distance, accuracy, auroc, class_rates, cohen_kappa
from evalflow.stats.rank import agreements, correlation

pytestmark = pytest.mark.slow

HUMAN = [1, 2, 3, 4, 5, 3, 2, 4, 5, 1, 3, 4, 2, 5, 4]
JUDGE = [1, 2, 3, 5, 5, 3, 3, 4, 4, 1, 2, 4, 2, 5, 5]
DISTANCES: tuple[Distance, ...] = get_args(Distance)
ratings = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=60)


def test_kappa_agrees_with_scikit_learn_and_statsmodels():
    found = cohen_kappa(HUMAN, JUDGE)
    assert found.value == pytest.approx(0.5810055866, abs=1e-9)
    assert found.std_error == pytest.approx(0.1549735032, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((0.2772631017, 0.8847480715), abs=1e-9)
    assert found.method == "delta: fewer than 30 answers"
    assert cohen_kappa(HUMAN, JUDGE, "quadratic").value == pytest.approx(0.9097472924, abs=1e-9)


def test_the_error_of_weighted_kappa_is_that_of_the_jackknife():
    rng = np.random.default_rng(1)
    x = rng.integers(1, 6, 400)
    y = np.clip(x + rng.integers(-1, 2, 400), 1, 5)
    for distance in DISTANCES:
        left_out = np.array([cohen_kappa(np.delete(x, i), np.delete(y, i), distance).value for i in range(400)], float)
        jackknife = np.sqrt(399 / 400 * ((left_out - left_out.mean()) ** 2).sum())
        assert cohen_kappa(x, y, distance).std_error == pytest.approx(jackknife, rel=0.02)


def test_answers_of_one_cluster_count_together():
    rng = np.random.default_rng(2)
    x = np.repeat(rng.integers(0, 2, 60), 4)
    y = np.where(np.repeat(rng.random(60) < 0.2, 4), 1 - x, x)
    alone, together = cohen_kappa(x, y), cohen_kappa(x, y, clusters=np.arange(240) // 4)
    assert together.value == alone.value
    assert together.method == "delta_cr2_t"
    assert together.std_error == pytest.approx(2 * (alone.std_error or 0) * np.sqrt(60 / 59))
    assert cohen_kappa(x, y, clusters=np.arange(240) // 60).method == "delta_cr2_t: fewer than 10 clusters"
    one = cohen_kappa(x, y, clusters=np.zeros(240))
    assert (one.low, one.method) == (None, "none: one cluster")


def test_agreement_is_undefined_rather_than_zero():
    assert cohen_kappa([], []).method == "none: fewer than 2 answers"
    assert cohen_kappa([1], [2]).value is None
    same = cohen_kappa([1, 1, 1], [1, 1, 1])
    assert (same.value, same.low, same.method) == (None, None, "none: one class only")
    assert cohen_kappa(["pass"] * 3, ["pass", "fail", "pass"]).value == 0
    assert accuracy([], []).method == "none: no answers"
    assert accuracy([], []).value is None


def test_no_disagreement_is_no_certainty():
    labels = [0, 1] * 10
    found = cohen_kappa(labels, labels)
    assert (found.value, found.high, found.method) == (1.0, 1.0, "wilson")
    assert found.low == pytest.approx(1 - (1 - 0.8388748) / 0.5, abs=1e-6)
    by_cluster = cohen_kappa(labels, labels, clusters=np.arange(20) // 4)
    assert by_cluster.method == "wilson_clusters"
    assert by_cluster.low is not None
    assert found.low is not None
    assert by_cluster.low < found.low


def test_each_class_has_its_rate():
    rates = class_rates(["pass", "pass", "pass", "fail"], ["pass", "fail", "pass", "unsure"])
    assert list(rates) == ["fail", "pass", "unsure"]
    assert (rates["pass"].value, rates["pass"].n, rates["pass"].method) == (pytest.approx(2 / 3), 3, "wilson")
    assert rates["fail"].value == 0
    assert (rates["unsure"].value, rates["unsure"].method) == (None, "none: no answer has this label")
    by_cluster = class_rates([1, 1, 1, 1, 0], [1, 1, 0, 1, 0], ["a", "a", "b", "c", "c"])[1]
    assert by_cluster.method.startswith("plus_two_cr2_t")
    assert accuracy(HUMAN, JUDGE).value == pytest.approx(2 / 3)


def test_weighted_agreement_is_that_of_as_many_answers():
    weights = np.array([1, 3, 1, 2, 5, 1, 1, 4, 1, 1, 2, 1, 1, 1, 3])
    many = np.repeat(HUMAN, weights), np.repeat(JUDGE, weights)
    for distance in DISTANCES:
        found = cohen_kappa(HUMAN, JUDGE, distance, weights=weights)
        assert found.value == pytest.approx(cohen_kappa(*many, distance).value)
    assert accuracy(HUMAN, JUDGE, weights=weights).value == pytest.approx(accuracy(*many).value)
    rates, all_rates = class_rates(HUMAN, JUDGE, weights=weights), class_rates(*many)
    assert {one: rate.value for one, rate in rates.items()} == pytest.approx(
        {one: rate.value for one, rate in all_rates.items()}
    )
    for kind in ("spearman", "pearson"):
        weighted, of_many = correlation(HUMAN, JUDGE, kind, weights=weights), correlation(*many, kind)
        assert weighted.value == pytest.approx(of_many.value)
        assert weighted.low is not None
        assert of_many.low is not None
        assert weighted.low < of_many.low
    assert correlation(HUMAN, JUDGE, "kendall", weights=weights).value is None
    table = np.array([JUDGE, HUMAN[::-1]], dtype=float)
    for measure in ("kappa", "spearman"):
        expanded = agreements(many[0], np.repeat(table, weights, axis=1), measure).values
        assert agreements(HUMAN, table, measure, weights=weights).values == pytest.approx(expanded)


def test_a_stratum_without_a_disagreement_seen_does_not_make_agreement_certain():
    human, judge = [1] * 30 + [0, 1] * 15, [1] * 30 + [0] * 30
    weights = [31.0] * 30 + [2.0] * 30
    found, rate = cohen_kappa(human, judge, weights=weights), accuracy(human, judge, weights=weights)
    assert rate.value == pytest.approx(1 - 30 / (31 * 30 + 60))
    assert found.low is not None
    assert rate.low is not None
    # Of 30 alike, 4 % may be otherwise; without them the whole would be known to within 1 %.
    assert rate.low < 0.93
    assert found.low < 0.4


def kappas(pairs: Any) -> list[float | None]:
    x, y = np.array(pairs).T
    return [cohen_kappa(x, y, distance).value for distance in DISTANCES]


@given(ratings, st.randoms(use_true_random=False))
def test_neither_order_nor_sides_matter(pairs: list[tuple[int, int]], random: Any):
    found = kappas(pairs)
    assert kappas([pair[::-1] for pair in pairs]) == pytest.approx(found)
    random.shuffle(pairs)
    assert kappas(pairs) == pytest.approx(found)


@given(ratings, st.permutations(["a", "b", "c", "d", "e"]))
def test_the_names_of_classes_do_not_matter(pairs: list[tuple[int, int]], names: list[str]):
    x, y = np.array(pairs).T
    found = cohen_kappa(x, y)
    renamed = cohen_kappa(np.array(names)[x - 1], np.array(names)[y - 1])
    assert (renamed.value, renamed.low, renamed.method) == (
        pytest.approx(found.value),
        pytest.approx(found.low),
        found.method,
    )


@given(ratings, st.floats(0.1, 10), st.floats(-5, 5))
def test_the_unit_of_a_distance_does_not_matter(pairs: list[tuple[int, int]], times: float, by: float):
    x, y = np.array(pairs).T
    for distance in DISTANCES:
        found, scaled = cohen_kappa(x, y, distance), cohen_kappa(by + times * x, by + times * y, distance)
        assert scaled.value == pytest.approx(found.value, abs=1e-9)
        assert scaled.std_error == pytest.approx(found.std_error, abs=1e-9)


def test_the_area_under_the_curve_counts_ties_half() -> None:
    """Of scores as the Mann-Whitney statistic of midranks does, and of people as half an answer on each side."""
    rng = np.random.default_rng(0)
    human, judge = rng.choice([0.0, 0.5, 1.0], 60), rng.integers(0, 4, 60) / 3
    told = human != 0.5
    ranks = mannwhitneyu(judge[human == 1], judge[human == 0]).statistic
    pairs = (human == 1).sum() * (human == 0).sum()
    assert auroc(human[told], judge[told]).value == pytest.approx(ranks / pairs)
    above = (judge[:, None] > judge) + (judge[:, None] == judge) / 2
    weights = human[:, None] * (1 - human)
    found = auroc(human, judge)
    assert found.value == pytest.approx((weights * above).sum() / weights.sum())
    assert found.low is not None
