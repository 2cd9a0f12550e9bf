"""Values as the text that metrics and prompts see."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from evalflow.records import Context, Message
from evalflow.values.jsonvalues import count_at, json_path, object_at, objects_at, text_at, written


def test_values_are_written_as_json_and_records_as_objects() -> None:
    assert written("3") == written(3) == "3"
    assert written({"b": [True, None], "a": "ü"}) == '{"a": "ü", "b": [true, null]}'
    assert written((Context("one", "T"), Context("two"))) == '[{"text": "one", "title": "T"}, {"text": "two"}]'
    assert written(Message("user", "hi")) == '{"content": "hi", "role": "user"}'
    assert written(dt.date(2026, 1, 2)) == '"2026-01-02"'


def test_what_json_has_no_like_of_is_refused() -> None:
    with pytest.raises(ValueError, match="an object of the class object cannot be written as JSON"):
        written({"a": object()})


@pytest.mark.parametrize(
    ("path", "document", "found"),
    [
        ("$.found[*].text", {"found": []}, []),
        ("$.found[*].text", {"found": [{"text": "a"}]}, ["a"]),
        ("$.found[*].text", {"found": [{"body": "a"}]}, None),
        ("$.found[*].text", {"other": []}, None),
        ("$.turns[*].found[*].text", {"turns": [{"found": []}, {"found": []}]}, []),
        ("$.found[0].text", {"found": []}, None),
    ],
)
def test_nothing_in_an_empty_list_is_an_empty_list(path: str, document: Any, found: Any) -> None:
    assert json_path(path).value(document) == found


@pytest.mark.parametrize(
    ("read", "values", "what"),
    [
        (text_at, {"name": 3}, "name: expected text, got a number (3)"),
        (text_at, {}, "name: expected text, got nothing"),
        (object_at, {"name": None}, "name: expected an object, got null"),
        (objects_at, {"name": {}}, "name: expected a list of objects, got an object"),
        (objects_at, {"name": [{}, 1]}, "name: expected a list of objects, got a list"),
        (count_at, {"name": True}, "name: expected a whole number, got a boolean (true)"),
        (count_at, {"name": 1.5}, "name: expected a whole number, got a number (1.5)"),
    ],
)
def test_a_value_of_another_type_is_refused(read: Any, values: dict[str, object], what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        read(values, "name")


def test_an_optional_list_and_a_count_may_be_missing() -> None:
    assert objects_at({}, "name", optional=True) == []
    assert count_at({"name": None}, "name") == 0
