"""Values as the text that metrics and prompts see."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from evalflow.jsonvalues import json_path, written
from evalflow.records import Context, Message


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
