"""Typed readers of other tools' values: what is of another type is refused, with its name and its kind."""

from __future__ import annotations

import pytest

from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.addons.interop.importers.readers import object_in, objects_in, text_in, text_of, texts_in, texts_of


def test_texts_and_numbers_are_text() -> None:
    assert (text_of("a", "label"), text_of(3, "label"), texts_of("a", "prompts")) == ("a", "3", ["a"])
    assert text_in({"label": "", "id": 7}, "label", "id") == "7"
    assert text_in({"label": None}, "label", "id") == ""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (["a"], "its label is a list, not text"),
        ({"a": 1}, "its label is an object, not text"),
        (True, "its label is a boolean (true), not text"),
        (None, "its label is null, not text"),
    ],
)
def test_other_types_are_refused(value: object, reason: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        text_of(value, "label")
    assert (refused.value.reason, refused.value.hint) == (reason, "write it as text")


def test_a_list_is_of_one_type_or_not_read() -> None:
    assert (texts_in(["a", "b"]), texts_in([]), texts_in(["a", 1]), texts_in("a")) == (["a", "b"], [], None, None)
    assert (objects_in([{"a": 1}]), objects_in([{}, 1]), objects_in(None)) == ([{"a": 1}], None, None)
    assert (object_in({"a": 1}), object_in([])) == ({"a": 1}, None)
