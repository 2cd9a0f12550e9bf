"""Texts that stand for lists, objects, numbers and booleans."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.values.cells import Base64, boolean_of, list_in, literal, number_of, object_in, read_as, split, text_of


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("['a', 'b']", ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("  [ 'a' , ]  ", ["a"]),
        ("[]", []),
        ("('a', 'b')", ["a", "b"]),
        ("('a',)", ["a"]),
        ("['it\\'s', \"so\", 'a\\nb', 'ü\\u00fc']", ["it's", "so", "a\nb", "üü"]),
        ("['two\nlines']", ["two\nlines"]),
        ("[1, -2.5, 1e3, True, None, nan]", [1, -2.5, 1000.0, True, None, None]),
        ("[{'uid': 'a', 'hits': [1, 2]}, {}]", [{"uid": "a", "hits": [1, 2]}, {}]),
        ("[{'a', 'b'}, ('c',)]", [["a", "b"], ["c"]]),
        ("[array(['a', 'b'], dtype=object)]", [["a", "b"]]),
        ("[Document(page_content='a', metadata={'page': 3})]", [{"page_content": "a", "metadata": {"page": 3}}]),
        # Texts that are none.
        ("plain text", None),
        ("[1] as the footnote says", None),
        ("[a](b.html)", None),
        ("[a] and [b]", None),
        ("(see below)", None),
        ("('a')", None),
        ("", None),
    ],
)
def test_a_text_is_a_list_if_all_of_it_is_one(text: str, wanted: Any) -> None:
    assert list_in(text) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("['a' 'b']", "there is no comma before"),
        ("['a'\n 'b']", "there is no comma before"),
        ("[1 2 3]", "there is no comma before '2'"),
        ("['a', 'b", "is not part of one"),
        ("['a', 'b'", "it ends too early"),
        ("['a', ..., 'z']", "is not part of one"),
        ("[Page(object at 0x7f)]", "is not part of one"),
        ("[datetime.date(2026, 1, 2)]", "'2026' is not expected there"),
        ("[left out]", "'left' is not expected there"),
        ("['a': 1]", "':' is not expected there"),
        ("['\\x']", "has an escape that nothing stands for"),
        ("[" * 100 + "]" * 100, "more than 64"),
        ("[1e999]", "too large"),
    ],
)
def test_a_text_that_begins_as_a_list_and_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="looks like a list and cannot be read as one") as error:
        list_in(text)
    assert why in str(error.value)
    assert str(error.value).endswith('write it as JSON: ["…", "…"]')


@pytest.mark.parametrize("mark", ["|", "\n", ";"])
def test_parts_are_separated_by_one_mark(mark: str) -> None:
    assert split(f" a{mark} b {mark}{mark}c") == ["a", "b", "c"]
    assert split("a, b") == ["a, b"]


def test_objects() -> None:
    assert object_in("{'a': 1, 'b': None, 3: ['c']}") == {"a": 1, "b": None, "3": ["c"]}
    for text, why in (("a", "got the text 'a'"), ("{'a'}", "got a list"), ("{'a': }", "is not expected there")):
        with pytest.raises(ValueError, match="expected an object") as error:
            object_in(text)
        assert why in str(error.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        (" 4.50 ", 4.5),
        ("+1", 1),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("1e5", 100_000.0),
        ("007", 7),
        ("1_000", None),
        ("1,5", None),
        ("1 000", None),
        ("0x10", None),
        ("½", None),
        ("٣", None),
        ("nan", None),
        ("1e999", None),
        ("", None),
        ("TRUE", None),
        (True, None),
        (3, 3),
        (0.5, 0.5),
        ([], None),
        (None, None),
    ],
)
def test_numbers(text: Any, number: Any) -> None:
    assert (number_of(text), type(number_of(text))) == (number, type(number))


def test_booleans() -> None:
    for true, false in (
        ("TRUE", "False"),
        ("yes", "No"),
        ("1", "0"),
        ("1.0", "0.0"),
        (1, 0),
        (1.0, 0.0),
        (True, False),
    ):
        assert (boolean_of(true), boolean_of(false)) == (True, False)
    assert [boolean_of(one) for one in ("", "wahr", "2", 2, None, [])] == [None] * 6


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("text", 4, "4"),
        ("text", True, "true"),
        ("text", Decimal("4.50"), "4.50"),
        ("text", "x", "x"),
        ("number", "4.50", 4.5),
        ("number", " ", None),
        ("number", "NaN", None),
        ("number", 4, 4),
        ("boolean", "Yes", True),
        ("boolean", "", None),
        ("list", "['a']", ["a"]),
        ("list", "a | b", ["a", "b"]),
        ("list", "a", ["a"]),
        ("list", 3, [3]),
        ("list", ["a"], ["a"]),
        ("json", '{"a": 1}', {"a": 1}),
        ("json", "{'a': True}", {"a": True}),
        ("json", "3", 3),
        ("json", "null", None),
        ("json", {"a": 1}, {"a": 1}),
    ],
)
def test_a_declared_type_is_read(kind: Any, value: Any, wanted: Any) -> None:
    assert read_as(kind, value) == wanted


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        ("text", ["a"], "expected text, got a list"),
        ("text", Base64("YQ=="), "expected text, got bytes"),
        ("number", "3,5", "expected a number, got the text '3,5'; write it with a decimal point"),
        ("number", True, "expected a number, got a boolean (true)"),
        ("boolean", "maybe", "expected true or false (or yes, no, 1, 0), got the text 'maybe'"),
        ("list", "['a' 'b']", "looks like a list"),
        ("json", "{broken", "expected JSON, got the text '{broken'"),
    ],
)
def test_a_value_that_is_not_of_the_declared_type_is_refused(kind: Any, value: Any, what: str) -> None:
    with pytest.raises(ValueError, match=r"expected|looks") as error:
        read_as(kind, value)
    assert what in str(error.value)


def test_a_number_with_an_exponent_is_written_as_json_writes_it() -> None:
    assert text_of(Decimal("1E+5")) == "100000.0"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_what_python_and_json_write_is_read_again(value: Any) -> None:
    for text in (repr([value]), json.dumps([value]), json.dumps([value], ensure_ascii=False)):
        assert literal(text) == [value]
