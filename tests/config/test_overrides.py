"""Overrides with letters and signs that Hydra's grammar does not know."""

from __future__ import annotations

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hypothesis import given
from hypothesis import strategies as st

from evalflow.config.load import compose
from evalflow.config.overrides import quoted


def value_of(word: str) -> Any:
    (override,) = OverridesParser.create().parse_overrides(quoted([word]))
    return override.value()


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return value.text if isinstance(value, QuotedString) else value


def swept(word: str) -> list[str]:
    (override,) = OverridesParser.create().parse_overrides(quoted([word]))
    return [text.strip("\"'") for text in override.sweep_string_iterator()]


@pytest.mark.parametrize(
    "text",
    [
        "Fälle.jsonl",
        "质问集.csv",
        "質問 集.csv",
        "Вопросы (1).xlsx",
        "a#b.jsonl",
        "it's.jsonl",
        "really!?.csv",
        "~cases.csv",
        "~/cases.csv",
        "a=b.csv",
        "C:\\Daten\\Fälle.csv",
        "[old] cases.csv",
        'say "hi"',
        "`x` & <y>; ^z",
        "🙂",
        "ä\\",
        "f(x",
    ],
)
def test_a_text_needs_no_quotes_of_hydra(text: str) -> None:
    assert value_of(f"dataset.rag.path={text}") == text


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=[Größe,b]", ["Größe", "b"]),
        ("a=[1,ä, 'b c']", [1, "ä", "b c"]),
        ("+a={x: Größe, y: {z: [ö]}}", {"x": "Größe", "y": {"z": ["ö"]}}),
        ("a={faithfulness: {mean: >= 0.8}}", {"faithfulness": {"mean": ">= 0.8"}}),
    ],
)
def test_the_texts_of_lists_and_maps_are_quoted_one_by_one(word: str, value: Any) -> None:
    assert plain(value_of(word)) == value


def test_commas_stay_those_of_a_sweep() -> None:
    assert swept("dataset.rag.path=Fälle.jsonl,~alt.jsonl,c.jsonl") == ["Fälle.jsonl", "~alt.jsonl", "c.jsonl"]
    assert swept("""a='ä,b',ö""") == ["ä,b", "ö"]


@pytest.mark.parametrize(
    "word",
    [
        "a",
        "~a",
        "a=",
        "a=1",
        "a=null",
        "a='x y'",
        'a="A > B"',
        "a=${b}",
        "a=[b,c]",
        "a=x,y",
        "a={ä: b}",
        "a=[a,b]]x]",
        "ä=1",
    ],
)
def test_what_hydra_reads_or_nothing_can_mend_is_left_alone(word: str) -> None:
    assert quoted([word]) == [word]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(lambda text: "," not in text))
def test_any_text_is_readable(text: str) -> None:
    (word,) = quoted([f"dataset.rag.path={text}"])
    OverridesParser.create().parse_override(word)


def test_a_composition_has_the_text() -> None:
    words = ["dataset=rag", "dataset.rag.path=Fälle #1.jsonl", "metric=exact_match"]
    assert compose(words).values["dataset"]["rag"]["path"] == "Fälle #1.jsonl"
