"""Comparisons against published numbers, at the edges, and by properties."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from evalflow.stats.intervals import wilson
from evalflow.stats.paired import (
    Adjustment,
    adjust,
    adjust_in_order,
    identical_cases_needed,
    max_share_changed,
    mcnemar,
    newcombe,
    paired_difference,
    paired_table,
    sign_flip_test,
    standard_error,
    t_test,
    within_margin,
)
from evalflow.stats.paired import cases_needed as cases_needed_for
from evalflow.stats.power import cases_needed, cases_needed_to_flip, detectable_difference, paired_variance

BEFORE = [0.8, 0.85, 0.3, 0.9, 0.6, 0.5, 0.25, 0.9, 0.4, 0.8, 0.2, 0.7]
AFTER = [0.9, 0.8, 0.4, 1.0, 0.6, 0.7, 0.2, 0.95, 0.5, 0.85, 0.3, 0.75]
P_VALUES = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216]


def close(*values: float) -> Any:
    return pytest.approx(values, abs=1e-6)


def test_paired_t_and_exact_sign_flips():
    found = paired_difference(BEFORE, AFTER)
    assert (found.difference, found.std_error, found.p_value) == close(0.0625, 0.02052806652, 0.0205078125)
    assert (found.low, found.high) == close(0.01731803022, 0.1076819698)
    assert t_test(0.0625, 0.02052806652, 11) == pytest.approx(0.01115432468, abs=1e-6)
    assert found.method == "paired_t_sign_flip: outliers in up to 25 % of cases may be missing"


def test_clusters_widen_the_difference():
    a = [1.0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0]
    b = [1.0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1]
    clusters = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    found = paired_difference(a, b, clusters)
    assert (found.difference, found.std_error) == close(0.25, 1 / 12)
    assert (found.low, found.high) == close(-0.01520385877, 0.5152038588)
    assert t_test(0.25, 1 / 12, 3) == pytest.approx(0.05766888562, abs=1e-6)
    assert standard_error(np.subtract(b, a))[0] == pytest.approx(0.130558242, abs=1e-6)
    assert found.method == "paired_cr2_t_sign_flip: fewer than 10 clusters"
    assert found.p_value == 2 / 8  # three clusters differ, and their signs are all alike


def test_mcnemar_and_newcombe():
    assert mcnemar(18, 7) == pytest.approx(0.04328525066, abs=1e-6)
    low, high = newcombe(52, 18, 7, 23)
    assert (-high, -low) == close(0.0119969638, 0.2047745463)
    a = [1.0] * 70 + [0.0] * 30
    b = [1.0] * 52 + [0.0] * 18 + [1.0] * 7 + [0.0] * 23
    assert paired_table(a, b) == (52, 18, 7, 23)
    found = paired_difference(a, b)
    assert (found.value_a, found.value_b, found.difference) == close(0.7, 0.59, -0.11)
    assert (found.low, found.high, found.method) == (low, high, "newcombe_mcnemar")


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("holm", [0.01, 0.072, 0.312, 0.312, 0.312, 0.312, 0.312, 0.615, 0.615, 0.615]),
        ("bh", [0.01, 0.04, 0.084, 0.084, 0.084, 0.1, 0.1057142857, 0.216, 0.216, 0.216]),
        (
            "by",
            [
                0.0292896825,
                0.11715873,
                0.2460333333,
                0.2460333333,
                0.2460333333,
                0.2928968254,
                0.3096337868,
                0.6326571429,
                0.6326571429,
                0.6326571429,
            ],
        ),
    ],
)
def test_many_comparisons(method: Adjustment, expected: list[float]):
    assert adjust(P_VALUES, method) == pytest.approx(expected, abs=1e-6)
    shuffled = np.random.default_rng(1).permutation(len(P_VALUES))
    assert adjust(np.array(P_VALUES)[shuffled], method) == pytest.approx(np.array(expected)[shuffled], abs=1e-6)


def test_a_test_that_was_not_made_is_in_no_family():
    found = adjust([0.02, math.nan, 0.03])
    assert found[[0, 2]] == pytest.approx([0.04, 0.04])
    assert math.isnan(found[1])
    assert adjust([]).size == 0


def test_sample_sizes_and_detectable_differences():
    assert cases_needed(1 / 9, 0.03) == pytest.approx(968.9974981, abs=1e-6)
    once = paired_variance(1 / 9, 1 / 6, 1 / 6)
    assert cases_needed(once, 0.03) == pytest.approx(3875.989992, abs=1e-5)
    assert cases_needed(paired_variance(1 / 9, 1 / 60, 1 / 60), 0.03) == pytest.approx(1259.696747, abs=1e-5)
    assert detectable_difference(math.sqrt(once / 200)) == pytest.approx(0.1320679937, abs=1e-6)
    ten = paired_variance(1 / 9, 1 / 60, 1 / 60)
    assert detectable_difference(math.sqrt(ten / 200)) == pytest.approx(0.07529034044, abs=1e-6)
    assert cases_needed_to_flip(0.15, 0.05) == pytest.approx(154.5985696, abs=1e-6)
    assert detectable_difference(0.1, df=5) > detectable_difference(0.1)


def test_non_inferiority_and_equivalence():
    d = [0.02, -0.05, 0.04, 0.0, 0.01, -0.03, 0.06, -0.02, 0.03, -0.01, 0.02, 0.05, -0.04, 0.01, 0.0, 0.02]
    unbounded = paired_difference(np.zeros(len(d)), d)
    found, turned = within_margin(unbounded, 0.05), within_margin(unbounded, 0.05, higher_is_better=False)
    assert found
    assert turned
    assert (found.p_not_inferior, found.p_equivalent) == close(1.4009775e-06, 3.04053548e-05)
    assert (turned.p_not_inferior, turned.p_equivalent) == close(3.04053548e-05, 3.04053548e-05)
    assert within_margin(paired_difference([0.5] * 9, [0.5] * 9), 0.05) is None


@pytest.mark.parametrize(
    ("a", "b", "clusters", "method", "p"),
    [
        ([], [], None, "none: no common cases", None),
        ([0.5], [0.7], None, "none: one case", 1.0),
        ([0.5, 0.5], [0.5, 0.5], None, "none: all differences equal", 1.0),
        ([0.1, 0.2, 0.3], [0.2, 0.3, 0.4], None, "none: all differences equal", 0.25),
        ([0.1, 0.2, 0.3], [0.2, 0.5, 0.4], ["x", "x", "x"], "none: one cluster", 1.0),
        ([0.5, 0.1], [0.7, 0.2], None, "none: fewer than 10 cases of a score without fixed ends", None),
        ([1.0, 0.0], [1.0, 0.0], None, "newcombe_mcnemar", 1.0),
    ],
)
def test_edges(a: list[float], b: list[float], clusters: Any, method: str, p: float | None):
    found = paired_difference(a, b, clusters)
    assert (found.method, found.p_value) == (method, p)
    assert (found.low is None) == method.startswith("none")


def test_cases_of_which_none_differs_bound_the_difference_by_the_rule_of_three():
    found = paired_difference([0.5] * 148 + [1.0], [0.5] * 148 + [1.0], bounded=True)
    assert (found.low, found.high) == close(-(1 - 0.05 ** (1 / 149)), 1 - 0.05 ** (1 / 149))
    assert (found.method, found.p_value) == ("rule_of_three: 149 of 149 cases alike", 1.0)
    assert -0.02 < (found.low or 0) < -0.0199
    assert max_share_changed(148) > 0.02
    assert max_share_changed(149) == pytest.approx(3 / 149, rel=0.02)
    grouped = paired_difference([0.5] * 9, [0.5] * 9, [0, 0, 0, 1, 1, 1, 2, 2, 2], bounded=True)
    assert (grouped.high, grouped.method) == (max_share_changed(3), "rule_of_three: 3 of 3 clusters alike")
    assert paired_difference([3.0] * 9, [3.0] * 9).method == "none: all differences equal"


@given(st.floats(0.0001, 0.9999))
def test_as_many_alike_as_needed_and_no_more(share: float):
    n = identical_cases_needed(share)
    assert max_share_changed(n) < share
    assert n == 1 or max_share_changed(n - 1) >= share * (1 - 1e-9)


@pytest.mark.parametrize(("k", "n", "limit"), [(1, 1, 0.9), (30, 40, 0.7), (0, 5, 0.1), (30, 40, 0.8)])
def test_the_cases_that_wilsons_interval_needs_are_those_that_decide(k: int, n: int, limit: float):
    def decided(cases: int) -> bool:
        low, high = (float(end) for end in wilson(k / n * cases, cases))
        return not low < limit < high

    low, high = (float(end) for end in wilson(k, n))
    needed = cases_needed_for(k / n, low, high, limit, n)
    assert needed is not None
    assert (decided(needed), decided(needed - 1)) == (True, False)


def test_other_intervals_shrink_with_the_root_of_the_cases():
    assert cases_needed_for(0.6, 0.4, 0.8, 0.5, 10) == 40
    assert cases_needed_for(0.5, 0.3, 0.7, 0.5, 10) is None
    assert cases_needed_for(0.0, -0.2, 0.2, -5e-324, 10) is None
    low, high = (float(end) for end in wilson(0, 10))
    assert cases_needed_for(0.0, low, high, 5e-324, 10) is None


SCORES = st.floats(0, 1).map(lambda x: round(x, 3))
PAIRS = st.lists(st.tuples(SCORES, SCORES, st.integers(0, 6)), min_size=2, max_size=40)


@given(PAIRS, st.booleans())
def test_swapping_the_runs_turns_the_difference_round(pairs: list[tuple[float, float, int]], grouped: bool):
    a, b, clusters = zip(*pairs, strict=True)
    forth, back = (paired_difference(x, y, clusters if grouped else None) for x, y in ((a, b), (b, a)))
    assert forth.difference == pytest.approx(-(back.difference or 0))
    assert (forth.p_value, forth.method) == (back.p_value, back.method)
    if forth.low is not None and back.high is not None:
        assert forth.low == pytest.approx(-back.high)


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_cases_plays_no_part(pairs: list[tuple[float, float, int]], random: Any):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    one, two = (paired_difference([a for a, _, _ in rows], [b for _, b, _ in rows]) for rows in (pairs, shuffled))
    assert one.std_error == (None if two.std_error is None else pytest.approx(two.std_error))
    assert one.difference == pytest.approx(two.difference, abs=1e-12)


@given(st.lists(SCORES, min_size=1, max_size=15), st.floats(0.01, 100))
def test_sign_flips_do_not_depend_on_the_scale(d: list[float], scale: float):
    assert sign_flip_test(np.array(d) * scale) == sign_flip_test(d)


def test_drawn_sign_flips_come_near_the_t_test_and_repeat_with_their_seed():
    d = np.random.default_rng(2).normal(0.1, 0.5, 200)
    exact = t_test(float(d.mean()), standard_error(d)[0] or 0, 199)
    assert sign_flip_test(d, seed=5) == pytest.approx(exact, abs=0.01)
    assert sign_flip_test(d, seed=5) == sign_flip_test(d, seed=5)


def test_very_many_cases_are_left_to_the_t_test():
    d = np.random.default_rng(2).normal(0.001, 0.5, 20_000)
    found = paired_difference(np.zeros(d.size), d)
    assert found.method == "paired_t"
    assert found.p_value == pytest.approx(t_test(float(d.mean()), standard_error(d)[0] or 0, d.size - 1))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_without_sequences_an_order_is_holm(p_values: list[float]):
    found = adjust_in_order(p_values, [None] * len(p_values))
    assert found == pytest.approx(adjust(p_values, "holm"))


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=3), min_size=1, max_size=4), st.floats(0.001, 0.5))
def test_tests_in_order_are_those_of_the_graphical_procedure(sequences: list[list[float]], level: float):
    """Against Bretz et al.'s algorithm 1, which rejects at a level, by hand."""
    p_values = [p for sequence in sequences for p in sequence]
    starts = list(itertools.accumulate((len(one) for one in sequences), initial=0))
    after = [None if at in starts else at - 1 for at in range(len(p_values))]
    found = adjust_in_order(p_values, after)
    assume(all(abs(p - level) > 1e-6 for p in found))
    assert {at for at, p in enumerate(found) if p <= level} == _rejected(p_values, starts, level)
    assert all(
        found[at] >= max(p_values[at], found[at - 1] if before is not None else 0) - 1e-9
        for at, before in enumerate(after)
    )


def _rejected(p_values: list[float], starts: list[int], level: float) -> set[int]:
    heads, size = starts[:-1], len(p_values)
    weight = {at: 1 / len(heads) if at in heads else 0.0 for at in range(size)}
    flow = dict.fromkeys(itertools.product(range(size), repeat=2), 0.0)
    for at in range(size):
        if at + 1 < size and at + 1 not in heads:
            flow[at, at + 1] = 1.0
            continue
        others = [head for head in heads if head != max(one for one in heads if one <= at)]
        flow |= {(at, head): 1 / len(others) for head in others}
    left, rejected = set(range(size)), set[int]()
    while able := [at for at in left if weight[at] > 0 and p_values[at] <= weight[at] * level]:
        one = able[0]
        left.discard(one)
        rejected.add(one)
        weight = {at: weight[at] + weight[one] * flow[one, at] for at in left}
        flow = {
            (a, b): (flow[a, b] + flow[a, one] * flow[one, b]) / (1 - flow[a, one] * flow[one, a])
            if a != b and flow[a, one] * flow[one, a] < 1
            else 0.0
            for a in left
            for b in left
        }
    return rejected


def test_an_order_keeps_the_family_wise_error_rate():
    """Two sequences of two true hypotheses, of which the tests of one are nearly the same."""
    rng = np.random.default_rng(6)
    wrong = 0
    for _ in range(2_000):
        shared = rng.normal(size=2)
        z = np.repeat(shared, 2) * 0.95**0.5 + rng.normal(size=4) * 0.05**0.5
        wrong += bool((adjust_in_order(2 * scipy.stats.norm.sf(abs(z)), [None, 0, None, 2]) < 0.05).any())
    assert wrong / 2_000 <= 0.06
