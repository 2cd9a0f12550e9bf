from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.summary.journal import json_line

pytestmark = pytest.mark.slow

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_what_is_json_comes_back_the_same_from_one_line(value: Any) -> None:
    line = json_line(value)
    assert json.loads(line) == value
    assert b"\n" not in line


@pytest.mark.parametrize("half", ["", "\ud800"])
def test_nothing_is_refused(half: str) -> None:
    value = {"a": half, "b": float("nan"), "c": [float("-inf"), Fraction(1, 3)], "d": ("é", 1)}
    expected = {"a": half and "?", "b": "NaN", "c": ["-Infinity", "1/3"], "d": ["é", 1]}
    assert json.loads(json_line(value)) == expected
