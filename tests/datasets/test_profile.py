"""What `new dataset` and `check` say of the columns of a dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import examples
from evalflow.datasets.fields import field_map
from evalflow.datasets.profile import Profile, fields_by_column, shown_value, type_line
from evalflow.records import Case, Context, Message

Load = Callable[..., list[Case]]


def profile_of(cases: list[Case]) -> Profile:
    profile = Profile()
    for case in cases:
        profile.add(case)
    return profile


def test_texts_that_all_look_like_something_else_are_named_with_their_type(load: Load) -> None:
    file = "question,a b,names,ok,mixed,code\na?,3,\"['x', 'y']\",yes,1,x1\nb?,-4.5e3,[],No,one,2\nc?,,[],TRUE,,3\n"
    profile = profile_of(load(file, "mine.csv"))
    assert profile.read_as_text() == {"a b": "number", "names": "list", "ok": "boolean"}
    several = profile_of(load("question,gold\na?,\"['b', 'c']\"\n", "ref.csv", fields={"reference": "gold"}))
    assert several.read_as_text() == {"reference": "list"}
    assert type_line("reference", "list", "gold") == "reference: {column: gold, type: list}"
    assert type_line("a b", "number") == '"a b": {column: "a b", type: number}'
    declared = {"a b": {"column": "a b", "type": "number"}}
    assert "a b" not in profile_of(load(file, "mine.csv", fields=declared)).read_as_text()


def test_fields_that_only_some_cases_have_are_counted(load: Load) -> None:
    rows = [{"question": "a?", "answer": "b", "contexts": []}, {"question": "c?", "reference": "d"}, {"question": "e?"}]
    profile = profile_of(load(rows))
    assert profile.half_filled() == "of 3 cases: no answer in 2, no reference in 2"
    assert profile_of(load(rows[:1])).half_filled() == ""


@pytest.mark.parametrize(
    ("rows", "config", "fields"),
    [
        ([{"question": "a?", "expected": "b"}], {}, {"question": ["question"], "expected": ["expected", "reference"]}),
        ([{"question": "a?", "expected": True}], {}, {"question": ["question"], "expected": ["expected"]}),
        ([{"q": "a?", "chat_history": []}], {"question": "q"}, {"q": ["question"], "chat_history": ["history"]}),
        ([{"m": "a?", "extra": 1}], {"question": "m", "group": "m"}, {"m": ["question", "group"], "extra": []}),
    ],
)
def test_a_column_is_shown_with_the_fields_that_it_fills(
    load: Load, rows: list[Any], config: dict[str, str], fields: dict[str, list[str]]
) -> None:
    cases = load(rows, fields=config or None)
    declared = DatasetConfig(path="mine.jsonl", fields={**config} or None)
    found = fields_by_column(field_map("mine", declared), list(examples(declared)), profile_of(cases))
    assert found == fields


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", "a b"),
        ((Context("a"), Context("b", "t")), '["a", "b"]'),
        ((Message("user", "hi"),), '["user: hi"]'),
        (3, "3"),
        ("3", "3"),
        ({"a": None}, '{"a": null}'),
        ("x" * 50, "x" * 39 + "…"),
    ],
)
def test_values_are_shown_as_they_are_read(value: Any, text: str) -> None:
    assert shown_value(value) == text
