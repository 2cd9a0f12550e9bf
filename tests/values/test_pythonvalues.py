"""Values of Python programs become those of JSON if their meaning is plain, and are refused if not."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import uuid
from collections import deque, namedtuple
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from evalflow.values.pythonvalues import NotPlain, json_text, plain


class Tone(enum.StrEnum):
    KIND = "kind"


class Place(BaseModel):
    town: str
    when: dt.date


@dataclass
class Passage:
    text: str
    rank: float


class Page:
    def __init__(self, text: str) -> None:
        self.page_content = text
        self.metadata = {"source": Path("guide/fees.md"), "page": np.int64(3)}


class NAType:
    """As pandas' missing value: it has no truth value."""

    def __bool__(self) -> bool:
        raise TypeError

    def __eq__(self, other: object) -> Any:
        raise TypeError

    __hash__ = None  # type: ignore[assignment]


Pair = namedtuple("Pair", ["left", "right"])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([]), []),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([{"uid": "x"}, None], dtype=object), [{"uid": "x"}, None]),
        (np.array([1.5, np.nan]), [1.5, None]),
        (np.float64("nan"), None),
        (np.float32(0.1), 0.1),
        (pl.Series([0.1, None], dtype=pl.Float32), [0.1, None]),
        (pl.Series([[0.1], None], dtype=pl.List(pl.Float32)), [[0.1], None]),
        (pl.Series([{"x": 0.1}], dtype=pl.Struct({"x": pl.Float32})), [{"x": 0.1}]),
        (np.array([[0.1], [0.2]], dtype=np.float16), [[0.1], [0.2]]),
        (np.array([0.7, np.nan], dtype=np.float32), [0.7, None]),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.ma.masked, None),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (np.datetime64("2026-01-02T03:04:05.000000000"), "2026-01-02T03:04:05"),
        (np.datetime64("NaT"), None),
        (np.timedelta64(90, "s"), 90.0),
        (pl.Series(["a", None]), ["a", None]),
        (float("nan"), None),
        (NAType(), None),
        ({"rank": math.nan, "texts": ["a", math.nan]}, {"rank": None, "texts": ["a", None]}),
        ((1, (2,)), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (deque(["a"]), ["a"]),
        (range(2), [0, 1]),
        ({"a": 1}.keys(), ["a"]),
        (Pair("a", [math.nan]), {"left": "a", "right": [None]}),
        (Passage("a", math.nan), {"text": "a", "rank": None}),
        (Place(town="Ulm", when=dt.date(2026, 1, 2)), {"town": "Ulm", "when": "2026-01-02"}),
        (Page("a"), {"page_content": "a", "metadata": {"source": "guide/fees.md", "page": 3}}),
        (Tone.KIND, "kind"),
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00+00:00"),
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(minutes=1), 60.0),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Decimal("NaN"), None),
        ({1: "a", Tone.KIND: "b"}, {"1": "a", "kind": "b"}),
    ],
)
def test_what_is_plain_is_converted(value: Any, wanted: Any) -> None:
    assert plain(value) == wanted
    assert json.loads(json_text(plain({"x": value}))) == {"x": wanted}


def test_decimals_keep_their_digits() -> None:
    row = plain({"price": Decimal("4.50"), "prices": [Decimal("0.10")], "text": "4.50"})
    assert json_text(row) == '{"price": 4.50, "prices": [0.10], "text": "4.50"}'


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (object(), "got an object of the class object"),
        ([Fraction(1, 3)], "[0]: expected text, a number, a list or a dictionary"),
        ({"hits": [{"text": b"a"}]}, "hits[0].text: expected text, got bytes"),
        ({"hits": (one for one in "ab")}, "hits: expected a list, got an iterator"),
        ({"score": math.inf}, "score: inf is not a number"),
        ({"score": Decimal("1e999")}, "score: inf is not a number"),
        ({("a", "b"): 1}, "a key is an object of the class tuple"),
        ({1: "a", "1": "b"}, "two keys are '1' as text"),
        (3 + 1j, "the class complex"),
        (Passage, "the class type"),
        (print, "the class builtin_function_or_method"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_place(value: Any, what: str) -> None:
    with pytest.raises(NotPlain) as error:
        plain(value)
    assert what in str(error.value)


def test_a_list_within_itself_ends() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(NotPlain, match="more than 64 lists"):
        plain(endless)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_values_of_json_stay_what_they_are(value: Any) -> None:
    assert plain(value) == value
    assert json.loads(json_text(plain(value))) == value
