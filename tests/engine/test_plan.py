"""What a draw promises, for any data."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.engine.plan import Draw, case_digest
from evalflow.records import Case

pytestmark = pytest.mark.slow

KEYS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=4)), unique=True, max_size=30)
SIZES = st.integers(min_value=1, max_value=8)
SEEDS = st.integers(min_value=-(2**63), max_value=2**63)


def cases(keys: Iterable[tuple[str, str]]) -> list[Case]:
    return [Case(dataset=dataset, index=i, id=id_) for i, (dataset, id_) in enumerate(keys)]


def drawn(data: list[Case], size: int | None, seed: int) -> list[Case]:
    draw = Draw(size, seed)
    for case in data:
        draw.offer(case)
    return list(draw.pick(data))


@given(KEYS, SIZES, SEEDS)
def test_as_many_as_asked_for_are_drawn_of_each_dataset(keys: list[tuple[str, str]], size: int, seed: int) -> None:
    data = cases(keys)
    picked = drawn(data, size, seed)
    for dataset in ("a", "b"):
        there = sum(case.dataset == dataset for case in data)
        assert sum(case.dataset == dataset for case in picked) == min(size, there)


@given(KEYS, SIZES, SEEDS)
def test_what_is_drawn_keeps_its_order(keys: list[tuple[str, str]], size: int, seed: int) -> None:
    indexes = [case.index for case in drawn(cases(keys), size, seed)]
    assert indexes == sorted(indexes)


@given(KEYS, SIZES, SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_the_data_plays_no_part(
    keys: list[tuple[str, str]], size: int, seed: int, shuffle: random.Random
) -> None:
    data = cases(keys)
    picked = {case.index for case in drawn(data, size, seed)}
    shuffle.shuffle(data)
    assert {case.index for case in drawn(data, size, seed)} == picked


@given(KEYS, SIZES, SEEDS)
def test_a_larger_draw_holds_the_smaller_one(keys: list[tuple[str, str]], size: int, seed: int) -> None:
    data = cases(keys)
    small, large = drawn(data, size, seed), drawn(data, size + 1, seed)
    assert {case.index for case in small} <= {case.index for case in large}


@given(KEYS, SIZES, SEEDS)
def test_another_dataset_changes_nothing_in_the_draw_of_one(keys: list[tuple[str, str]], size: int, seed: int) -> None:
    data = cases(keys)
    alone = drawn([case for case in data if case.dataset == "a"], size, seed)
    assert alone == [case for case in drawn(data, size, seed) if case.dataset == "a"]


@given(KEYS, SEEDS)
def test_without_a_size_all_are_drawn(keys: list[tuple[str, str]], seed: int) -> None:
    data = cases(keys)
    assert drawn(data, None, seed) == data


def test_another_seed_draws_others() -> None:
    data = cases(("a", str(i)) for i in range(100))
    assert drawn(data, 10, 0) != drawn(data, 10, 1)


def test_a_digest_tells_dataset_and_id_apart() -> None:
    keys = [("a", "b"), ("ab", ""), ("", "ab"), ("b", "a")]
    assert len({case_digest(case) for case in cases(keys)}) == len(keys)
