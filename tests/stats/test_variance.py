"""Variance components and draws of several answers, against published numbers."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evalflow.stats.variance import Components, components, pass_all_k, pass_at_k, variance_limit
from tests.repeats import repeated


def found(scores: Any, clusters: Any = None) -> Components:
    known = components(repeated(scores), clusters)
    assert known is not None
    return known


def test_variance_components():
    parts = found([[1.0, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1]])
    assert (parts.generator_noise, parts.case_spread) == pytest.approx((1 / 6, 0.0962962963), abs=1e-6)
    sizes = [parts.std_error(6, repeats) for repeats in (1, 3, 10, math.inf)]
    assert sizes == pytest.approx([0.2093493742, 0.1590869007, 0.1372121004, 0.1266861583], abs=1e-6)
    assert parts.noise() / parts.variance() == pytest.approx(0.6338028169, abs=1e-6)
    assert parts.judge_noise is None


def test_the_judges_noise_is_told_from_the_generators():
    rng = np.random.default_rng(3)
    n, answers, judgements = 4000, 3, 4
    case = rng.normal(0, 0.5, (n, 1, 1))
    table = case + rng.normal(0, 0.3, (n, answers, 1)) + rng.normal(0, 0.2, (n, answers, judgements))
    table[rng.random(table.shape) < 0.2] = np.nan
    parts = found(table)
    assert parts.case_spread == pytest.approx(0.25, abs=0.02)
    assert parts.generator_noise == pytest.approx(0.09, abs=0.006)
    assert parts.judge_noise == pytest.approx(0.04, abs=0.002)
    once = found(case + rng.normal(0, 0.2, (n, 1, judgements)))
    assert once.generator_noise is None
    assert once.judge_noise == pytest.approx(0.04, abs=0.002)
    assert once.case_spread == pytest.approx(0.25, abs=0.02)


def test_a_cluster_s_common_part_is_in_the_spread():
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(500), 4)
    common = np.repeat(rng.normal(0, 0.4, 500), 4)[:, None]
    scores = common + rng.normal(0, 0.3, (2000, 1)) + rng.normal(0, 0.2, (2000, 2))
    parts = found(scores, clusters)
    assert parts.generator_noise == pytest.approx(0.04, abs=0.004)
    assert parts.case_spread == pytest.approx(4 * 0.16 + 0.09, abs=0.08)
    assert found(scores).case_spread == pytest.approx(0.25, abs=0.03)


def test_one_case_or_one_cluster_shows_no_spread():
    assert components(repeated([[1.0, 0.0]])) is None
    assert components(repeated([[1.0, 0.0], [1.0, 1.0]]), ["a", "a"]) is None
    assert components(repeated(np.full((3, 2), np.nan))) is None
    assert found([[1.0, 1.0], [1.0, 1.0]]).variance() == 0


@given(st.integers(1, 6), st.data())
def test_draws_are_counted(n: int, data: st.DataObject):
    passed = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    k = data.draw(st.integers(1, n))
    draws = [[passed[i] for i in drawn] for drawn in combinations(range(n), k)]
    assert pass_at_k([sum(passed)], [n], k) == pytest.approx([np.mean([any(draw) for draw in draws])])
    assert pass_all_k([sum(passed)], [n], k) == pytest.approx([np.mean([all(draw) for draw in draws])])


def test_fewer_answers_than_are_drawn_tell_nothing():
    assert np.isnan(pass_at_k([1], [1], 2)).all()
    assert np.isnan(pass_all_k([1], [1], 2)).all()


@pytest.mark.parametrize("clustered", [False, True])
def test_the_limit_of_a_variance_holds_with_its_chance(clustered: bool):
    """Of scores that pile up at 1, where n - 1 degrees of freedom give 70 % instead of 80."""
    rng = np.random.default_rng(5)
    units = np.where(rng.random((1_000, 60)) < 0.3, rng.beta(2, 1, (1_000, 60)), 1.0)
    true = float(np.where(rng.random(10**6) < 0.3, rng.beta(2, 1, 10**6), 1.0).var())
    scores = np.repeat(units, 3, axis=1) if clustered else units
    groups = np.repeat(np.arange(60), 3) if clustered else None
    held = [
        float(own.var(ddof=1)) * variance_limit(x, groups, 0.8) >= true for own, x in zip(units, scores, strict=True)
    ]
    assert np.mean(held) == pytest.approx(0.8, abs=0.04)


def test_the_limit_of_a_normal_variance_is_that_of_chi_square():
    scores = scipy.stats.norm.ppf((np.arange(2_000) + 0.5) / 2_000)
    assert variance_limit(scores, None, 0.9) == pytest.approx(1_999 / scipy.stats.chi2.ppf(0.1, 1_999), rel=2e-3)
    assert variance_limit([0.5, 0.5], None, 0.8) == math.inf
    assert variance_limit([0.5], None, 0.8) == math.inf
