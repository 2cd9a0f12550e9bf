"""YAML that is changed in a few places, and stays as it is written in all others."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.config.yaml_text import safe_yaml, unescaped, with_values

TEXT = """\
# @package metric.m
version: 1   # counted, über
steps:
  - id: a
    prompt: a.jinja
  - {id: b, prompt: "b.jinja"}
scale: {type: boolean}
"""


def test_values_are_replaced_or_added_where_they_belong() -> None:
    values: dict[tuple[str | int, ...], object] = {
        ("version",): 2,
        ("steps", 0, "prompt"): "c.jinja",
        ("steps", 1, "prompt"): "d.jinja",
        ("steps", 1, "task"): "t",
        ("title",): "M",
    }
    assert with_values(TEXT, values) == (
        "# @package metric.m\n"
        "version: 2   # counted, über\n"
        "steps:\n"
        "  - id: a\n"
        "    prompt: c.jinja\n"
        '  - {id: b, prompt: "d.jinja", task: "t"}\n'
        "scale: {type: boolean}\n"
        "title: M\n"
    )


ODD = 'He said: "${x}" {{ y }} # z\n\u0085\u2028\U0001f600 - 1e3'


@pytest.mark.parametrize("place", [(), ("steps", 0), ("steps", 1)])
def test_lists_of_maps_are_added_and_replaced(place: tuple[str | int, ...]) -> None:
    first, second = [{"answer": ODD, "reply": {"score": 1}}, {"vars.a b": "1e3", "reply": [ODD]}], [{"reply": True}]
    added = with_values(TEXT + "# the end\n", {(*place, "examples"): first, ("version",): 2})
    again = with_values(added, {(*place, "examples"): second})
    for text, rows in ((added, first), (again, second)):
        assert "# counted" in text
        assert text.endswith("# the end\n")
        found: Any = unescaped(safe_yaml(text))
        for part in place:
            found = found[part]
        assert found["examples"] == rows
    assert again.count("\n") <= TEXT.count("\n") + 3


@pytest.mark.parametrize("path", [("steps", 0, "id", "x"), ("nothing", "x")])
def test_what_is_no_value_of_a_map_is_refused(path: tuple[str | int, ...]) -> None:
    with pytest.raises(KeyError):
        with_values(TEXT, {path: "1"})
