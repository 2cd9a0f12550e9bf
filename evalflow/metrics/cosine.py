"""Semantic similarity of two texts: the cosine of their embeddings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from evalflow.errors import JudgeError
from evalflow.metrics.base import BaseMetric, C, failed
from evalflow.metrics.steps import blocked_outcome, fields_of
from evalflow.protocols import Judge
from evalflow.records import EMBED, Answer, Ask, Case, Outcome

STEP = EMBED


class Vectors(BaseModel):
    """The reply to an ask of the task `embed`: one vector for each item."""

    results: list[list[float]]


class CosineMetric(BaseMetric[C]):
    """A metric over the cosine of two texts' embeddings; a kind adds `texts` and `outcome`."""

    embeds = True
    tasks = MappingProxyType({STEP: EMBED})

    def texts(self, fields: Mapping[str, Any]) -> tuple[str, str]:
        raise NotImplementedError

    def outcome(self, cosine: float) -> Outcome:
        """The outcome for a cosine in -1..1."""
        raise NotImplementedError

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        fields = fields_of(case, answer)
        if blocked_outcome(self.config.needs, fields, answer, blank_is_text=False):
            return ()
        return (embedding_ask(self.name, *self.texts(fields)),)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        fields = fields_of(case, answer)
        blocked = blocked_outcome(self.config.needs, fields, answer, blank_is_text=False)
        if blocked or judge is None:
            return blocked or Outcome(status="error", error_type="unsupported", error="there is no embedder")
        text, other = self.texts(fields)
        try:
            (cosine,) = await cosines(judge, self.name, text, [other])
        except JudgeError as error:
            return failed(error)
        return self.outcome(cosine)


def embedding_ask(metric: str, *texts: str) -> Ask:
    """Ask for one embedding per text. It has no repeat number, since embeddings do not vary."""
    return Ask(metric=metric, step=STEP, task=EMBED, messages=(), reply_model=Vectors, variables={}, items=texts)


async def cosines(judge: Judge, metric: str, text: str, others: Sequence[str]) -> list[float]:
    """The cosines, -1 to 1, of a text's embedding with those of several others; errors as in `Judge.ask`."""
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
