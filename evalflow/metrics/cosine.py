"""How alike two texts mean: the cosine of their embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

from pydantic import BaseModel

from evalflow.errors import JudgeError
from evalflow.protocols import Judge
from evalflow.records import EMBED, Ask, Outcome

STEP = EMBED


class Vectors(BaseModel):
    """The reply to an ask of the task `embed`: one vector for each item."""

    results: list[list[float]]


def embedding_ask(metric: str, *texts: str) -> Ask:
    """What the embedder is asked: a vector for each text. The judge's repeat is left out, for vectors have no noise."""
    return Ask(metric=metric, step=STEP, task=EMBED, messages=(), reply_model=Vectors, variables={}, items=texts)


async def cosine(judge: Judge, metric: str, text: str, other: str) -> float:
    """The cosine of two texts' embeddings, -1 to 1. See `cosines`."""
    (alike,) = await cosines(judge, metric, text, [other])
    return alike


async def cosines(judge: Judge, metric: str, text: str, others: Sequence[str]) -> list[float]:
    """The cosine of a text's embedding and each of several others', -1 to 1.

    Args:
        judge: An embedder, in the place of a judge.
        metric: Who asks.
        text: One text, not blank.
        others: The other ones, none blank.

    Raises:
        JudgeError: The texts could not be embedded.
        InfrastructureError, BudgetError: No further call can be made.
    """
    reply = await judge.ask(embedding_ask(metric, text, *others))
    assert isinstance(reply.parsed, Vectors)
    one, *rest = reply.parsed.results
    return [_cosine(one, other) for other in rest]


def _cosine(one: Sequence[float], two: Sequence[float]) -> float:
    if len(one) != len(two):
        raise JudgeError("malformed", f"the embedder gave vectors of {len(one)} and {len(two)} numbers")
    length = math.hypot(*one) * math.hypot(*two)
    if not length:
        raise JudgeError("malformed", "the embedder gave a vector without length")
    return min(1.0, max(-1.0, sum(map(mul, one, two)) / length))


def failed(error: JudgeError) -> Outcome:
    """The outcome where the texts could not be embedded."""
    return Outcome(status="error", error_type=error.error_type, error=str(error))
