"""How likely each value of a reply's field was, read from the probabilities of the reply's tokens.

As in G-Eval (Liu et al., 2023): the probability of a value is that of the tokens which would have written it at the
position of the chosen value, normalised over the valid values. A value may take several tokens, and values may share
tokens (1 and 10), so the choice is followed token by token until it is decided. The endpoint shows only some
alternatives, which may leave open which value they would have become. If more than a trace stays open, no distribution
is given rather than a wrong one.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from evalflow.records import Distribution

K = TypeVar("K")
WIDEST = 101  # maximum number of values of a bounded whole number for it to count as a choice: a percentage has 101
UNRESOLVED = 0.01  # the share of the probability that may stay undecided
BARE_ENDS = ",}] \n\r\t"  # characters that end a number or a boolean; text ends at its quote


def choices(reply_model: type[BaseModel]) -> dict[str, tuple[Any, ...]]:
    """The possible values of each label, boolean and bounded whole number, by field; other fields are left out."""
    found = {name: _values(info) for name, info in reply_model.model_fields.items()}
    return {name: values for name, values in found.items() if values}


def normalised(weights: Mapping[K, float]) -> dict[K, float]:
    """Weights as probabilities that sum to 1; empty if all weights are 0."""
    total = sum(weights.values())
    return {value: weight / total for value, weight in weights.items()} if total > 0 else {}


def _values(info: FieldInfo) -> tuple[Any, ...]:
    if get_origin(info.annotation) is Literal:
        return get_args(info.annotation)
    if info.annotation is bool:
        return (True, False)
    if info.annotation is not int:
        return ()
    low = next((bound.ge for bound in info.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in info.metadata if isinstance(bound, Le)), None)
    if not isinstance(low, int | float) or not isinstance(high, int | float) or high - low >= WIDEST:
        return ()
    return tuple(range(int(low), int(high) + 1))


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    alternatives: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Value:
    """The value of a field in the reply, from `start` to `end`, without quotes."""

    raw: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.raw[self.start : self.end]

    @property
    def quoted(self) -> bool:
        return self.raw[self.start - 1] == '"'

    def written(self, at: int, token: str) -> str | None:
        """The start of the value if `token` were at `at`; None if the value cannot start like that."""
        if at > self.start:
            return self.raw[self.start : at] + token
        for sign in "".join(self.raw[at : self.start].split()):
            token = token.lstrip()
            if token and token[0] != sign:
                return None
            token = token[1:]
        return token if self.quoted else token.lstrip()

    def is_ended(self, written: str, text: str) -> bool:
        ends = '"' if self.quoted else BARE_ENDS
        return written.startswith(text) and written[len(text) : len(text) + 1] in tuple(ends)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Probabilities read from a reply's tokens, and the total of each field's valid values before normalisation."""

    chances: Distribution
    mass: Mapping[str, float]


def weigh(parsed: BaseModel, raw: str, tokens: Sequence[Mapping[str, Any]]) -> Weighed | None:
    """The probability of each value of each label, boolean and bounded whole number of a reply."""
    placed = _place(tokens)
    if "".join(token.text for token in placed) != raw:
        return None
    spans = _spans(raw)
    found: dict[str, Mapping[Any, float]] = {}
    mass: dict[str, float] = {}
    for name, values in choices(type(parsed)).items():
        written = {_written(value): value for value in values}
        value = _Value(raw, *spans[name]) if name in spans else None
        if value is None or value.text != _written(getattr(parsed, name)):
            continue
        weights = _weights(placed, value, frozenset(written))
        if weights:
            mass[name] = min(1.0, sum(weights.values()))
            found[name] = {written[text]: weight for text, weight in normalised(weights).items()}
    return Weighed(found, mass) if found else None


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1] if isinstance(value, str) else json.dumps(value)


def _place(tokens: Sequence[Mapping[str, Any]]) -> list[_Token]:
    placed: list[_Token] = []
    start = 0
    for token in tokens:
        text = str(token.get("token", ""))
        shown = cast("list[Mapping[str, Any]]", token.get("top_logprobs") or [])
        alternatives = {str(other["token"]): math.exp(min(0.0, float(other["logprob"]))) for other in shown}
        alternatives.setdefault(text, math.exp(min(0.0, float(token.get("logprob", 0.0)))))
        placed.append(_Token(text, start, alternatives))
        start += len(text)
    return placed


def _spans(raw: str) -> dict[str, tuple[int, int]]:
    """The position of each field's value in the first object, without its quotes. Empty if there is no object."""
    decoder = json.JSONDecoder()
    spans: dict[str, tuple[int, int]] = {}
    sign, at = "{", raw.find("{")
    try:
        while at >= 0 and sign in "{,":
            name, at = decoder.raw_decode(raw, _skip(raw, at + 1))
            start = _skip(raw, _skip(raw, at) + 1)
            _, end = decoder.raw_decode(raw, start)
            quoted = raw[start] == '"'
            spans[str(name)] = (start + quoted, end - quoted)
            at = _skip(raw, end)
            sign = raw[at]
    except (ValueError, IndexError):
        return {}
    return spans


def _skip(raw: str, at: int) -> int:
    while raw[at].isspace():
        at += 1
    return at


def _weights(tokens: Sequence[_Token], value: _Value, valid: frozenset[str]) -> dict[str, float]:
    """The probability of each valid text at the position of the chosen one; empty if too much stays undecided."""
    open_texts, carry, lost = valid, 1.0, 0.0
    weights: dict[str, float] = defaultdict(float)
    for token in tokens:
        if token.start + len(token.text) <= value.start:
            continue
        for text, probability in token.alternatives.items():
            if text == token.text:
                continue
            reached = _whole(_reached(open_texts, value, token, text), open_texts, value, token, text)
            if len(reached) == 1:
                weights[next(iter(reached))] += carry * probability
            elif reached:
                lost += carry * probability
        carry *= token.alternatives[token.text]
        open_texts = _reached(open_texts, value, token, token.text)
        if len(open_texts) <= 1 or token.start >= value.end:
            break
    if len(open_texts) != 1 or lost > UNRESOLVED:
        return {}
    weights[next(iter(open_texts))] += carry
    return weights


def _reached(open_texts: frozenset[str], value: _Value, token: _Token, text: str) -> frozenset[str]:
    """The valid texts that are still possible if `text` replaces the token."""
    written = value.written(token.start, text)
    if written is None:
        return frozenset()
    return frozenset(other for other in open_texts if other.startswith(written) or value.is_ended(written, other))


def _whole(
    reached: frozenset[str], open_texts: frozenset[str], value: _Value, token: _Token, text: str
) -> frozenset[str]:
    """The same, without texts (10) that are themselves alternatives for the token, and so would not begin with 1."""
    if len(reached) < 2:
        return reached
    written = {value.written(token.start, other) for other in token.alternatives}
    mine = value.written(token.start, text)
    return frozenset(other for other in reached if other == mine or other not in written & open_texts)
