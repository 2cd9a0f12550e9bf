"""Krippendorff's alpha against a published table, where it is undefined, and what may not change it."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.stats.raters import Level, krippendorff_alpha

_ = np.nan
TABLE = np.array(
    [
        [_, _, _, _, _, 3, 4, 1, 2, 1, 1, 3, 3, _, 3],
        [1, _, 2, 1, 3, 3, 4, 3, _, _, _, _, _, _, _],
        [_, _, 2, 1, 3, 4, 4, _, 2, 1, 1, 3, 3, _, 4],
    ]
)
LEVELS: tuple[Level, ...] = get_args(Level)


@pytest.mark.parametrize(
    ("level", "expected"),
    [("ordinal", 0.8067214199), ("interval", 0.8108448928)],
)
def test_the_textbook_s_table(level: Level, expected: float):
    found = krippendorff_alpha(TABLE, level)
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert (found.n, found.method) == (12, "bootstrap: fewer than 30 answers")
    assert found.low is not None
    assert found.high is not None
    assert found.low < expected < found.high <= 1


def test_alpha_is_undefined_rather_than_zero():
    assert krippendorff_alpha([[1, _], [_, 2]]).method == "none: no answer has two ratings"
    equal = krippendorff_alpha([[1, 1, 1], [1, 1, 1]], "interval")
    assert (equal.value, equal.method) == (None, "none: all ratings are equal")
    assert krippendorff_alpha([[1, 1, 1], [1, 1, 1]]).value is None
    one = krippendorff_alpha([[1], [2]])
    assert (one.value, one.low, one.method) == (0.0, None, "none: one answer")
    perfect = krippendorff_alpha([[1, 2] * 10, [1, 2] * 10])
    assert (perfect.value, perfect.low, perfect.method) == (1.0, None, "none: the resamples do not differ")
    rare = krippendorff_alpha([[1] * 9 + [2], [1] * 10])
    assert (rare.value, rare.low) == (0.0, None)
    assert rare.method.startswith("none: undefined in 3")
    many = np.arange(2400.0).reshape(2, 1200)
    assert krippendorff_alpha(many, "ordinal").value is not None


def test_clusters_are_drawn_whole():
    rng = np.random.default_rng(3)
    first = np.repeat(rng.integers(1, 6, 80), 5)
    second = np.where(np.repeat(rng.random(80) < 0.3, 5), np.repeat(rng.integers(1, 6, 80), 5), first)
    for level in LEVELS:
        alone = krippendorff_alpha([first, second], level)
        together = krippendorff_alpha([first, second], level, np.arange(400) // 5)
        assert together.value == pytest.approx(alone.value)
        assert (alone.method, together.method) == ("bootstrap", "cluster_bootstrap")
        assert (together.std_error or 0) / (alone.std_error or 1) == pytest.approx(5**0.5, rel=0.15)
    assert krippendorff_alpha([first, second], clusters=np.zeros(400)).method == "none: one cluster"


def test_many_answers_are_drawn_in_parcels_with_the_same_error():
    rng = np.random.default_rng(4)
    x = rng.normal(size=4_000)
    y = x + rng.normal(0, 0.5, 4_000)
    found = krippendorff_alpha([x, y], "interval")
    few = krippendorff_alpha([x[:1_000], y[:1_000]], "interval")
    assert 2 * (found.std_error or 0) == pytest.approx(few.std_error, rel=0.15)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(4, 30), st.sampled_from(LEVELS))
def test_neither_order_nor_raters_nor_unit_matter(seed: int, n: int, level: Level):
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 5, (3, n)).astype(float)
    table[rng.random(table.shape) < 0.2] = _
    found = krippendorff_alpha(table, level)
    again = krippendorff_alpha(table[rng.permutation(3)][:, rng.permutation(n)], level)
    assert again.value == pytest.approx(found.value)
    assert again.low == pytest.approx(found.low)
    assert krippendorff_alpha(table * 2.5, level).value == pytest.approx(found.value)
    assert krippendorff_alpha(table + 7, level).value == pytest.approx(found.value)
    if level == "ordinal":
        assert krippendorff_alpha(np.exp(table), level).value == pytest.approx(found.value)
