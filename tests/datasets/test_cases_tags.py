"""Tags are written in one way, whoever wrote them, and stand for all that is above them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.datasets import tag_levels, tag_name


@pytest.mark.parametrize("text", ["U>H", "U > H", " U  >H ", "U > > H", ">U>H>"])
def test_one_tag_is_written_in_one_way(text: str) -> None:
    assert tag_name(text) == "U > H"
    assert tag_levels(text) == ["U", "U > H"]


@pytest.mark.parametrize("text", ["", " ", ">", " > > "])
def test_what_names_nothing_is_no_tag(text: str) -> None:
    assert tag_name(text) == ""
    assert tag_levels(text) == []


@given(st.text("ab >", max_size=12))
def test_a_name_is_its_own_name_and_its_last_level(text: str) -> None:
    name = tag_name(text)
    assert tag_name(name) == name
    assert list(tag_levels(name))[-1:] == ([name] if name else [])


def test_data_gives_each_tag_once(load: Any) -> None:
    (case,) = load([{"tags": ["U>H", "U > H", "x", " > "]}])
    assert case.tags == ("U > H", "x")
    assert load([{"tags": "U>H; x ;U > H"}])[0].tags == ("U > H", "x")
