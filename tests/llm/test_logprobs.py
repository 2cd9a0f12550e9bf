from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from evalflow.llm.logprobs import weigh


class Grade(BaseModel):
    reason: str = "r"
    grade: int = Field(ge=1, le=10)


class Label(BaseModel):
    label: Literal["not", "not in context", "supported", "größer"]


class Flag(BaseModel):
    flag: bool


def _tokens(*parts: str | tuple[str, Mapping[str, float]]) -> tuple[str, list[dict[str, Any]]]:
    """A text and its tokens; a pair is a token and the probabilities of what could have stood there."""
    tokens: list[dict[str, Any]] = []
    for part in parts:
        text, likely = part if isinstance(part, tuple) else (part, {part: 1.0})
        top = [{"token": other, "logprob": math.log(p)} for other, p in likely.items()]
        tokens.append({"token": text, "logprob": math.log(likely[text]), "top_logprobs": top})
    return "".join(token["token"] for token in tokens), tokens


def _of(model: type[BaseModel], *parts: str | tuple[str, Mapping[str, float]]) -> Any:
    raw, tokens = _tokens(*parts)
    found = weigh(model.model_validate_json(raw[raw.index("{") : raw.rindex("}") + 1]), raw, tokens)
    return found.chances if found else None


def test_a_number_in_one_token() -> None:
    found = _of(Grade, '{"', "grade", '":', (" 4", {" 4": 0.6, " 5": 0.3, " x": 0.1}), "}")
    assert found["grade"] == pytest.approx({4: 0.6 / 0.9, 5: 0.3 / 0.9})


def test_a_longer_number_that_stands_beside_as_a_token_decides_what_the_shorter_means() -> None:
    found = _of(Grade, '{"grade": ', ("9", {"9": 0.5, "1": 0.2, "10": 0.3}), "}")
    assert found["grade"] == pytest.approx({9: 0.5, 1: 0.2, 10: 0.3})


def test_a_number_is_followed_through_its_digits() -> None:
    found = _of(Grade, '{"grade": ', ("1", {"1": 0.8, "7": 0.2}), ("0", {"0": 0.75, "}": 0.25}), "}")
    assert found["grade"] == pytest.approx({10: 0.6, 1: 0.2, 7: 0.2})


def test_a_short_number_whose_next_token_could_have_made_it_longer() -> None:
    found = _of(Grade, '{"grade": ', ("1", {"1": 1.0}), ("\n", {"\n": 0.9, "0": 0.1}), "}")
    assert found["grade"] == pytest.approx({1: 0.9, 10: 0.1})


def test_no_distribution_where_it_stays_open_what_an_alternative_would_have_become() -> None:
    assert _of(Grade, '{"grade": ', ("9", {"9": 0.5, "1": 0.5}), "}") is None


def test_labels_that_begin_alike_are_followed_to_their_end() -> None:
    found = _of(
        Label,
        '{"label": "',
        ("not", {"not": 0.7, "supported": 0.2, "sup": 0.1}),
        (" in", {" in": 0.5, '"': 0.5}),
        ' context"}',
    )
    assert found["label"] == pytest.approx({"not in context": 0.35, "not": 0.35, "supported": 0.3})


def test_a_quote_may_belong_to_the_token_of_the_label() -> None:
    found = _of(Label, '{"label":', (' "supported', {' "supported': 0.6, '"größer': 0.4}), '"}')
    assert found["label"] == pytest.approx({"supported": 0.6, "größer": 0.4})


def test_a_boolean() -> None:
    assert _of(Flag, '{"flag":', ("true", {"true": 0.9, "false": 0.1}), "}")["flag"] == pytest.approx(
        {True: 0.9, False: 0.1}
    )


def test_a_fence_and_prose_around_the_object_are_no_obstacle() -> None:
    found = _of(Flag, "Here:\n```json\n", '{"flag":', ("true", {"true": 0.5, "false": 0.5}), "}", "\n```")
    assert found["flag"] == {True: 0.5, False: 0.5}


def test_tokens_that_do_not_spell_the_value_give_nothing() -> None:
    raw, tokens = _tokens('{"flag": ', "true", "}")
    assert weigh(Flag(flag=False), raw.replace("true", "false"), tokens) is None
    assert weigh(Flag(flag=True), raw.replace(": ", ":"), tokens) is None
    assert weigh(Flag(flag=True), raw, []) is None


def test_a_value_that_the_tokens_spell_at_several_places_gives_nothing_if_the_object_is_not_found_in_them() -> None:
    raw, tokens = _tokens('{"flag": ', "true", "} no, ", '{"flag": ', "true", "}")
    assert weigh(Flag(flag=True), '{"flag": true\t}', tokens) is None
    assert weigh(Flag(flag=True), raw[:14], tokens) is not None


def _with_bytes(parts: Sequence[tuple[bytes, Mapping[bytes, float]]]) -> list[dict[str, Any]]:
    """Tokens as OpenAI and llama.cpp give them: a part of a character is unreadable as text, and told by its bytes."""

    def one(text: bytes, chance: float) -> dict[str, Any]:
        return {"token": text.decode("utf-8", "replace"), "bytes": list(text), "logprob": math.log(chance)}

    return [
        {**one(text, likely.get(text, 1.0)), "top_logprobs": [one(*pair) for pair in likely.items()]}
        for text, likely in parts
    ]


class Word(BaseModel):
    why: str = "w"
    word: Literal["да", "нет", "не знаю"]


def test_tokens_that_are_parts_of_characters_are_matched_by_their_bytes() -> None:
    raw = '{"why": "😀 ok", "word": "да"}'
    first, rest = "д".encode(), "н".encode()
    tokens = _with_bytes(
        [
            (b'{"why": "', {}),
            (b"\xf0\x9f", {b"\xf0\x9f": 0.7, b"\xf0": 0.2}),
            (b"\x98\x80", {}),
            (b' ok", "word": "', {}),
            (first[:1], {first[:1]: 0.9, b"x": 0.1}),
            (first[1:], {first[1:]: 0.6, rest[1:]: 0.4}),
            ("а".encode(), {}),
            (b'"}', {}),
        ]
    )
    # It stays open what н would have become.
    assert weigh(Word(why="😀 ok", word="да"), raw, tokens) is None
    tokens[5]["top_logprobs"][1]["bytes"] = [*rest[1:], *"ет".encode()]
    found = weigh(Word(why="😀 ok", word="да"), raw, tokens)
    assert found is not None
    assert found.chances["word"] == pytest.approx({"да": 0.6, "нет": 0.4})
    assert found.mass["word"] == pytest.approx(0.9)


def test_a_character_that_llama_cpp_joined_has_the_alternatives_of_its_last_part() -> None:
    raw = '{"word": "да"}'
    first, rest = "д".encode(), "нет".encode()
    tokens = _with_bytes(
        [(b'{"word": "', {}), (first, {first[1:]: 0.75, rest[1:]: 0.25}), ("а".encode(), {}), (b'"}', {})]
    )
    tokens[1]["logprob"] = math.log(0.75)
    found = weigh(Word(word="да"), raw, tokens)
    assert found is not None
    assert found.chances["word"] == pytest.approx({"да": 0.75, "нет": 0.25})


def test_what_a_joined_character_hides_leaves_no_distribution() -> None:
    class Mixed(BaseModel):
        word: Literal["да", "no"]

    first = "д".encode()
    tokens = _with_bytes([(b'{"word": "', {}), (first, {first[1:]: 0.75, b"x": 0.25}), ("а".encode(), {}), (b'"}', {})])
    tokens[1]["logprob"] = math.log(0.75)
    assert weigh(Mixed(word="да"), '{"word": "да"}', tokens) is None


@pytest.mark.parametrize("before", [(), ("<think>", "4 or 5?", "</think>", "\n"), ("```", "json", "\n"), ("So: {4} ",)])
@pytest.mark.parametrize("after", [(), ("\n", "```", ""), ("<|im_end|>",)])
def test_the_reply_is_found_in_all_that_the_model_wrote(before: Sequence[str], after: Sequence[str]) -> None:
    likely = {"4": 0.75, "5": 0.25}
    _, tokens = _tokens(*before, '{"', "reason", '": "r", "grade":', " ", ("4", likely), "}", *after)
    found = weigh(Grade(reason="r", grade=4), '{"reason": "r", "grade": 4}', tokens)
    assert found is not None
    assert found.chances["grade"] == pytest.approx({4: 0.75, 5: 0.25})


@pytest.mark.parametrize("unreadable", ["\ufffd", ""])
@pytest.mark.parametrize("given", [None, [239, 191, 189]])
def test_a_value_is_found_by_its_name_if_the_endpoint_spoils_other_characters(
    unreadable: str, given: list[int] | None
) -> None:
    _, tokens = _tokens('{"reason": "', unreadable, unreadable, '", "grade": ', ("4", {"4": 0.75, "5": 0.25}), "}")
    for token in tokens[1:3]:
        token["bytes"] = given if unreadable else None
    found = weigh(Grade(reason="ß", grade=4), '{"reason": "ß", "grade": 4}', tokens)
    assert found is not None
    assert found.chances["grade"] == pytest.approx({4: 0.75, 5: 0.25})


@pytest.mark.parametrize(("blank", "line"), [("Ġ", "Ċ"), ("▁", "<0x0A>")])
def test_tokens_with_the_marks_of_a_vocabulary(blank: str, line: str) -> None:
    likely = {f"{blank}4": 0.75, f"{blank}5": 0.25}
    _, tokens = _tokens("{", line, '"grade"', ":", (f"{blank}4", likely), line, "}")
    found = weigh(Grade(grade=4), '{\n"grade": 4\n}', tokens)
    assert found is not None
    assert found.chances["grade"] == pytest.approx({4: 0.75, 5: 0.25})


def test_labels_may_be_written_with_escapes() -> None:
    raw, tokens = _tokens('{"label": "', ("gr", {"gr": 0.75, "supported": 0.25}), "\\u00f6\\u00df", "er", '"}')
    found = weigh(Label(label="größer"), raw, tokens)
    assert found is not None
    assert found.chances["label"] == pytest.approx({"größer": 0.75, "supported": 0.25})


def test_numbers_that_are_no_probabilities_count_as_none() -> None:
    raw, tokens = _tokens('{"grade": ', ("4", {"4": 0.75, "5": 0.25}), "}")
    value = tokens[1]
    for logprob in (None, -math.inf, -9999.0, math.nan, "low"):
        value["top_logprobs"] = [*value["top_logprobs"][:2], {"token": "3", "logprob": logprob}, {}, None]
        found = weigh(Grade(grade=4), raw, tokens)
        assert found is not None
        assert {grade: chance for grade, chance in found.chances["grade"].items() if chance} == pytest.approx(
            {4: 0.75, 5: 0.25}
        )
    value |= {"logprob": None, "top_logprobs": value["top_logprobs"][1:2]}  # what was written has no probability
    assert weigh(Grade(grade=4), raw, tokens) is None


def test_the_end_of_the_turn_is_no_beginning_of_a_value() -> None:
    raw, tokens = _tokens('{"grade": ', ("4", {"4": 0.6, "": 0.2, "5": 0.2}), "}")
    found = weigh(Grade(grade=4), raw, tokens)
    assert found is not None
    assert found.chances["grade"] == pytest.approx({4: 0.75, 5: 0.25})


@given(
    grade=st.integers(1, 10),
    weights=st.dictionaries(st.integers(1, 10).map(str), st.floats(0.2, 1), min_size=1),
    cuts=st.lists(st.integers(0, 40), max_size=6),
)
def test_probabilities_always_sum_to_one_and_whole_tokens_keep_their_ratio(
    grade: int, weights: dict[str, float], cuts: Sequence[int]
) -> None:
    weights[str(grade)] = weights.get(str(grade), 0.5)
    total = sum(weights.values())
    likely = {text: weight / total for text, weight in weights.items()}
    before, after = json.dumps({"reason": 'a "quoted" {1}'})[:-1] + ', "grade": ', "}"
    edges = sorted({min(cut, len(before)) for cut in cuts} | {0, len(before)})
    parts = [before[a:b] for a, b in itertools.pairwise(edges)]
    found = _of(Grade, *parts, (str(grade), likely), after)
    if found is None:
        assert "1" in likely or "10" in likely
        return
    assert sum(found["grade"].values()) == pytest.approx(1)
    assert found["grade"] == pytest.approx({int(text): p for text, p in likely.items()})
