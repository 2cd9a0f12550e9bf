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


def test_tokens_that_do_not_spell_the_text_give_nothing() -> None:
    raw, tokens = _tokens('{"flag": ', "true", "}")
    assert weigh(Flag(flag=True), f"{raw} ", tokens) is None
    assert weigh(Flag(flag=True), raw, []) is None


def test_an_object_other_than_the_parsed_one_gives_nothing() -> None:
    raw, tokens = _tokens('{"flag": ', ("false", {"false": 0.5, "true": 0.5}), "} no: ", '{"flag": true}')
    assert weigh(Flag(flag=True), raw, tokens) is None


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
