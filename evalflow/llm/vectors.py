"""Vectors as an OpenAI-compatible endpoint sends them: numbers that make no sense are refused."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_core import from_json

from evalflow.calls.gateway import Malformed
from evalflow.calls.transport import Response
from evalflow.records import Usage

Vector: TypeAlias = "array[float]"
"""Of 32-bit floats, as they are remembered: a vector is the same whether it was asked for or not."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The vectors of a request, in the order of its texts, and its tokens where the endpoint says."""

    vectors: Sequence[Vector]
    usage: Usage | None


def read(response: Response, count: int) -> Batch:
    """The vectors that a 2xx response holds.

    Args:
        response: As it came.
        count: How many texts were sent.

    Raises:
        Malformed: It holds others, or another number of them.
    """
    try:
        body: Any = from_json(response.body, allow_inf_nan=False)
    except ValueError:
        raise Malformed("no JSON") from None
    data = cast("Any", body).get("data") if isinstance(body, dict) else None
    if not isinstance(data, list) or len(cast("list[Any]", data)) != count:
        raise Malformed(f"no list of {count} embeddings under `data`")
    placed = sorted(enumerate(cast("list[Any]", data)), key=lambda pair: _index(pair[1], pair[0]))
    return Batch([_vector(item) for _, item in placed], _usage(cast("Any", body).get("usage")))


def shared(texts: Sequence[str], batch: Batch) -> Iterator[tuple[Vector, int, Usage | None]]:
    """Each vector with its share of the request: the first text has the request itself, tokens go by length."""
    tokens = batch.usage.input_tokens if batch.usage else 0
    length = sum(len(text) for text in texts) or 1
    so_far = given = 0
    for number, (text, vector) in enumerate(zip(texts, batch.vectors, strict=True)):
        so_far += len(text)
        upto = tokens * so_far // length
        yield vector, int(number == 0), Usage(upto - given, 0) if batch.usage else None
        given = upto


def _index(item: Any, otherwise: int) -> int:
    index = cast("Any", item).get("index") if isinstance(item, dict) else None
    return index if isinstance(index, int) else otherwise


def _vector(item: Any) -> Vector:
    numbers = cast("Any", item).get("embedding") if isinstance(item, dict) else None
    try:
        vector = array("f", cast("list[float]", numbers) if isinstance(numbers, list) else ())
    except (TypeError, OverflowError):
        raise Malformed("an embedding holds what is no number") from None
    if not vector or not math.isfinite(sum(vector)) or not any(vector):
        raise Malformed("an embedding is empty, zero or not finite")
    return vector


def _usage(counts: Any) -> Usage | None:
    tokens = cast("Any", counts).get("prompt_tokens") if isinstance(counts, dict) else None
    return Usage(tokens, 0) if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None
