"""Other tools' YAML and JSON is read as they read it, with lines, and within limits."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.interop.importers.located import Broken, located_json, located_yaml
from evalflow.values.jsonvalues import as_map

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
)


def test_yaml_means_what_javascript_tools_read() -> None:
    text = "no: on\ntime: 22:22\nversion: 3.10\nhex: 0x1F\noctal: 010\nnull: ~\nday: 2024-01-01\nquoted: '3'"
    assert located_yaml(text, "f") == {
        "no": "on",
        "time": "22:22",
        "version": 3.1,
        "hex": 31,
        "octal": 10,
        "null": None,
        "day": "2024-01-01",
        "quoted": "3",
    }


def test_aliases_and_merged_keys_are_written_out() -> None:
    found = located_yaml("base: &base {a: 1, b: 2}\nown:\n  <<: *base\n  b: 3", "f")
    assert as_map(found)["own"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (located_yaml, "a:\n  - b: 1\n  - c: 2\nd: 3"),
        (located_json, '{"a": [\n\t{"b": "\\ud83d\\ude00"},\n{}],\n"d": 3}'),
    ],
)
def test_keys_and_items_know_their_lines(read: Any, text: str) -> None:
    found = read(text, "f")
    assert [found.at("a"), found["a"].at(0), found["a"].at(1), found.at("d")] == ["f:1", "f:2", "f:3", "f:4"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "f:2: the key 'a' is given twice"),
        ("a: [1", "broken YAML"),
        ("a: !!python/object:os.system x", "f:1: the tag !!python/object:os.system has no meaning here"),
        (BOMB, "too many values"),
        ("a: &a [*a]", "too many values"),
        ("[" * 20_000 + "]" * 20_000, "nested more than 100 deep"),
        ("{a: " * 20_000 + "1" + "}" * 20_000, "nested more than 100 deep"),
        ("? [a]\n: 1", "a key must be text"),
        ("<<: 3", "<< needs an object"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, said: str) -> None:
    with pytest.raises(Broken, match=said.replace("[", r"\[")):
        located_yaml(text, "f")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": ', "[" * 20_000, '{"a": NaN}'])
def test_json_is_refused_too(text: str) -> None:
    with pytest.raises(Broken):
        located_json(text, "f")
