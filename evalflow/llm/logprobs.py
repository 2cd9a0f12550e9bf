"""Compute the probability of each value of a reply's field from the probabilities of the reply's tokens.

As in G-Eval (Liu et al., 2023), the probability of a value is that of the tokens that would have written it instead of
the chosen value, normalised over the valid values. A value may take several tokens, and values may share tokens (1 and
10), so the choice is followed token by token until it is decided. The endpoint shows only some alternatives, and some
of these may be ambiguous. If more than a small probability stays undecided, no distribution is given rather than a
wrong one.

Tokens are compared as bytes, since a character may take several. They cover everything that the model wrote, including
thoughts, a fence and the end of the turn, while the reply may be a part of it.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from evalflow.records import Distribution
from evalflow.values.jsonvalues import as_list, as_map, as_number

K = TypeVar("K")
WIDEST = 101  # maximum number of values of a bounded integer to count as a choice: a percentage has 101
UNRESOLVED = 0.01  # maximum undecided probability
BARE_ENDS = b",}] \n\r\t"  # characters that end a number or a boolean; texts end with a quote
_UNKNOWN = "\ufffd".encode()


def choices(reply_model: type[BaseModel]) -> dict[str, tuple[object, ...]]:
    """Return the possible values of each label, boolean and bounded integer, by field; other fields are left out."""
    by_field = {name: _values(info) for name, info in reply_model.model_fields.items()}
    return {name: values for name, values in by_field.items() if values}


def normalised(weights: Mapping[K, float]) -> dict[K, float]:
    """Normalise weights to probabilities that sum to 1; empty if all weights are 0."""
    total = sum(weights.values())
    return {value: weight / total for value, weight in weights.items()} if total > 0 else {}


def _values(info: FieldInfo) -> tuple[object, ...]:
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
    """A token and its position; `hides`: whether its alternatives are unknown."""

    text: bytes
    start: int
    alternatives: Mapping[bytes, float]
    hides: bool = False


@dataclass(frozen=True, slots=True)
class _Value:
    """The position of a field's value in the model's text, from `start` to `end`, without quotes."""

    raw: bytes
    start: int
    end: int

    @property
    def quoted(self) -> bool:
        return self.raw[: self.start].endswith(b'"')

    def written(self, at: int, token: bytes) -> bytes | None:
        """Return the beginning of the value if `token` were at `at`; None if no value can begin like that."""
        if at > self.start:
            return self.raw[self.start : at] + token
        for sign in b"".join(self.raw[at : self.start].split()):
            token = token.lstrip()
            if token and token[0] != sign:
                return None
            token = token[1:]
        return token if self.quoted else token.lstrip()

    def is_ended(self, written: bytes, text: bytes) -> bool:
        rest = written.removeprefix(text)
        return rest != written and rest[:1] != b"" and rest[0] in (b'"' if self.quoted else BARE_ENDS)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Probabilities from a reply's tokens, and the total of each field's valid values before normalisation."""

    chances: Distribution
    mass: Mapping[str, float]


def weigh(parsed: BaseModel, raw: str, tokens: Sequence[Mapping[str, object]]) -> Weighed | None:
    """Return the probability of each value of each label, boolean and bounded integer of a reply.

    `raw` is the JSON of the reply; `tokens` are those of everything that the model wrote.
    """
    spans = _spans(raw)
    for spell in _SPELLINGS:
        spelled = b"".join(map(spell, tokens))
        places = {name: _place(spelled, raw, *span) for name, span in spans.items()}
        if any(at is not None for at in places.values()):
            break
    else:
        return None
    distributions: dict[str, Mapping[object, float]] = {}
    mass: dict[str, float] = {}
    placed = _tokens(tokens, spell)
    for name, values in choices(type(parsed)).items():
        at = places.get(name)
        if at is None:
            continue
        _, start, end = spans[name]
        for ascii_only in (False, True):
            written = {_written(value, ascii_only): value for value in values}
            if raw[start:end] != _written(getattr(parsed, name), ascii_only):
                continue
            value = _Value(spelled, at, at + len(raw[start:end].encode()))
            weights = _weights(placed, value, frozenset(map(str.encode, written)))
            if weights:
                mass[name] = min(1.0, sum(weights.values()))
                distributions[name] = {written[text.decode()]: weight for text, weight in normalised(weights).items()}
            break
    return Weighed(distributions, mass) if distributions else None


def _written(value: object, ascii_only: bool) -> str:
    text = json.dumps(value, ensure_ascii=ascii_only)
    return text[1:-1] if isinstance(value, str) else text


def _place(spelled: bytes, raw: str, key: int, start: int, end: int) -> int | None:
    """Locate a value of the JSON in the model's text; None if the tokens do not show it.

    Some endpoints give no bytes for tokens that are parts of characters; then the field's name locates the value.
    """
    at = spelled.rfind(raw.encode())
    if at >= 0:
        return at + len(raw[:start].encode())
    named = raw[key:end].encode()
    return spelled.find(named) + len(raw[key:start].encode()) if spelled.count(named) == 1 else None


def _spans(raw: str) -> dict[str, tuple[int, int, int]]:
    """Return the positions of each field's name and of its value without quotes in an object."""
    decoder = json.JSONDecoder(strict=False)
    spans: dict[str, tuple[int, int, int]] = {}
    sign, at = "{", raw.find("{")
    try:
        while at >= 0 and sign in "{,":
            key = _skip(raw, at + 1)
            name, at = decoder.raw_decode(raw, key)
            start = _skip(raw, _skip(raw, at) + 1)
            _, end = decoder.raw_decode(raw, start)
            quoted = raw[start] == '"'
            spans[str(name)] = (key, start + quoted, end - quoted)
            at = _skip(raw, end)
            sign = raw[at]
    except (ValueError, IndexError):  # the end of the object, or a trailing comma
        pass
    return spans


def _skip(raw: str, at: int) -> int:
    while raw[at].isspace():
        at += 1
    return at


def _by_bytes(token: Mapping[str, object]) -> bytes:
    """Return a token's bytes, or its text if the endpoint gives no bytes."""
    codes = token.get("bytes")
    numbers = [code for code in as_list(codes) if isinstance(code, int)]
    try:
        return bytes(numbers) if isinstance(codes, list) and len(numbers) == len(as_list(codes)) else _by_text(token)
    except ValueError:
        return _by_text(token)


def _by_text(token: Mapping[str, object]) -> bytes:
    return str(token.get("token") or "").encode("utf-8", "replace")


def _by_marks(token: Mapping[str, object]) -> bytes:
    """Decode a token written as in vocabularies: blanks as Ġ or ▁, line ends as Ċ, other bytes by number."""
    text = str(token.get("token") or "")
    return _NUMBERED.sub(lambda byte: bytes([int(byte[1], 16)]), text.translate(_MARKS).encode("utf-8", "replace"))


_SPELLINGS = (_by_bytes, _by_text, _by_marks)
_MARKS = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n", "ĉ": "\t", "č": "\r"})
_NUMBERED = re.compile(rb"<0x([0-9A-Fa-f]{2})>")


def _tokens(tokens: Sequence[Mapping[str, object]], spell: Callable[[Mapping[str, object]], bytes]) -> list[_Token]:
    """Return the tokens with their alternatives."""
    placed: list[_Token] = []
    start = 0
    for token in tokens:
        text = spell(token)
        alternatives: dict[bytes, float] = defaultdict(float)
        for other in as_list(token.get("top_logprobs")):
            chance = _chance(as_map(other))
            if chance is not None and as_map(other).get("bytes") != []:  # a token without bytes is the end of the turn
                alternatives[spell(as_map(other))] += chance
        own = _chance(token)
        end = start + len(text)
        if text not in alternatives and own is not None:
            # llama.cpp joins the parts of a character into one token, with the alternatives of the last part.
            parts = [part for part, chance in alternatives.items() if 0 < len(part) < len(text) and chance == own]
            last = next((part for part in parts if text.endswith(part) and not _is_text(part)), None)
            if last is not None:
                before = text.removesuffix(last)
                placed.append(_Token(before, start, {before: 1.0}, hides=True))
                start, text = start + len(before), last
            else:
                alternatives[text] = own
        placed.append(_Token(text, start, alternatives, hides=text not in alternatives))
        start = end
    return placed


def _chance(token: Mapping[str, object]) -> float | None:
    logprob = as_number(token.get("logprob"))
    return None if logprob is None or math.isnan(logprob) else math.exp(min(0.0, logprob))


def _is_text(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _weights(tokens: Sequence[_Token], value: _Value, valid: frozenset[bytes]) -> dict[bytes, float]:
    """Return the probability of each valid text in place of the chosen one; empty if too much stays undecided."""
    open_texts, carry, lost = valid, 1.0, 0.0
    weights: dict[bytes, float] = defaultdict(float)
    for token in tokens:
        if token.start + len(token.text) <= value.start:
            continue
        kept = _reached(open_texts, value, token, token.text)
        if token.hides and kept != open_texts:
            return {}
        for text, probability in token.alternatives.items():
            if text == token.text:
                continue
            if not text or _UNKNOWN in text:  # part of a non-ASCII character, which no value contains
                lost += 0.0 if all(map(bytes.isascii, open_texts)) else carry * probability
                continue
            reached = _whole(_reached(open_texts, value, token, text), open_texts, value, token, text)
            if len(reached) == 1:
                weights[next(iter(reached))] += carry * probability
            elif reached:
                lost += carry * probability
        carry *= token.alternatives.get(token.text, 1.0)
        open_texts = kept
        if len(open_texts) <= 1 or token.start >= value.end:
            break
    if len(open_texts) != 1 or lost > UNRESOLVED:
        return {}
    weights[next(iter(open_texts))] += carry
    return weights


def _reached(open_texts: frozenset[bytes], value: _Value, token: _Token, text: bytes) -> frozenset[bytes]:
    """Return the valid texts that are still possible if `text` replaces the token."""
    written = value.written(token.start, text)
    if written is None:
        return frozenset()
    return frozenset(other for other in open_texts if other.startswith(written) or value.is_ended(written, other))


def _whole(
    reached: frozenset[bytes], open_texts: frozenset[bytes], value: _Value, token: _Token, text: bytes
) -> frozenset[bytes]:
    """Like `_reached`, without texts (10) that are themselves alternatives of the token, so do not begin with 1."""
    if len(reached) < 2:
        return reached
    written = {value.written(token.start, other) for other in token.alternatives}
    mine = value.written(token.start, text)
    return frozenset(other for other in reached if other == mine or other not in written & open_texts)
