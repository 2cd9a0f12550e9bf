"""YAML that is changed in a few places, and stays as it is written in all others."""

from __future__ import annotations

import pytest

from evalflow.config.yaml_text import with_values

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
    values = {
        ("version",): "2",
        ("steps", 0, "prompt"): "c.jinja",
        ("steps", 1, "prompt"): "d.jinja",
        ("steps", 1, "task"): "t",
        ("title",): "M",
    }
    assert with_values(TEXT, values) == (
        "# @package metric.m\n"
        "title: M\n"
        "version: 2   # counted, über\n"
        "steps:\n"
        "  - id: a\n"
        "    prompt: c.jinja\n"
        "  - {task: t, id: b, prompt: d.jinja}\n"
        "scale: {type: boolean}\n"
    )


@pytest.mark.parametrize("path", [("scale",), ("steps", 0, "id", "x"), ("nothing", "x")])
def test_what_is_no_value_of_a_map_is_refused(path: tuple[str | int, ...]) -> None:
    with pytest.raises(KeyError):
        with_values(TEXT, {path: "1"})
