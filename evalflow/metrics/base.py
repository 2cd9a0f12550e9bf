"""Base classes for metric kinds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from operator import mul
from types import MappingProxyType
from typing import ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, Field

from evalflow.config.schema import MetricConfig
from evalflow.errors import JudgeError, Problem, UserError
from evalflow.metrics.case_fields import blocked_outcome, fields_of, root
from evalflow.metrics.references import which
from evalflow.prompts import Prompts
from evalflow.protocols import Judge, Prepared
from evalflow.records import EMBED, Answer, Ask, Case, FigureSpec, Outcome
from evalflow.values.jsonvalues import look_up

C = TypeVar("C", bound=MetricConfig)
T = TypeVar("T")


class UnitMetricConfig(MetricConfig):
    """A metric with scores, and so a threshold, in 0..1."""

    threshold: float | None = Field(default=None, ge=0, le=1)


class BaseMetric(Generic[C]):
    """A metric without a judge; a kind adds `Config` and `score`. For the attributes see `Metric`.

    Example:
        >>> class Short(BaseMetric):
        ...     Config = MetricConfig
        ...     async def score(self, case, answer, judge, repeat):
        ...         return scored(float(len(answer.answer) < 80), len(answer.answer), "characters")
        >>> Short("short", MetricConfig(kind="short", needs=["answer"])).asks
        False
    """

    Config: ClassVar[type[MetricConfig]]
    names_fields: ClassVar[tuple[str, ...]] = ()
    """The configuration keys that may name a case field; a key that is null names none."""
    asks: bool = False
    embeds: bool = False
    reads_scores: bool = False
    stops: bool = False
    is_off: bool = False
    bounded: bool = True
    unknown_scripts: Collection[str] = ()
    parts: Sequence[str] = ()
    figures: FigureSpec | None = None
    tasks: Mapping[str, str | None] = MappingProxyType({})
    prompts: tuple[str, ...] = ()
    files_sha256: str | None = None

    def __init__(self, name: str, config: C) -> None:
        self.name = name
        self.config = config

    @classmethod
    def build(cls, name: str, config: C, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """Build a metric from its validated configuration; UserError for mistakes that show without data."""
        expect_declared(name, config.needs, cls.fields_read(config))
        return cls(name, config)

    @classmethod
    def fields_read(cls, config: C) -> Mapping[str, str]:
        """The case fields that the configuration names, by key; each must be in `needs`."""
        named = {key: getattr(config, key) for key in cls.names_fields}
        return {key: field for key, field in named.items() if field is not None}

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        return ()

    def preparation(self) -> Sequence[Ask]:
        return ()

    async def prepare(self, judge: Judge | None, prepared: Prepared) -> Self:
        return self

    def bind(self, case: Case) -> Sequence[Self]:
        """The metrics that score this case: this one, or none if it does not score the case's dataset."""
        datasets = self.config.datasets
        return (self,) if datasets is None or case.dataset in datasets else ()


class FieldMetric(BaseMetric[C]):
    """A metric that compares fields of case and answer without a judge. A kind adds `Config` and `compare`.

    Example:
        >>> class Same(FieldMetric):
        ...     Config = MetricConfig
        ...     async def compare(self, fields):
        ...         same = fields["answer"] == fields["reference"]
        ...         return scored(float(same), same, "compared letter by letter")
        >>> Same("same", MetricConfig(kind="same", needs=["answer", "reference"])).bounded
        True
    """

    measures: ClassVar[bool] = False
    """Whether the score measures the answer, such as its length, without calling it right or wrong."""

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Call `compare` if no field is missing.

        An empty text is not missing; an answer without the scored part is wrong.
        """
        fields = fields_of(case, answer)
        blocked = blocked_outcome(self.needed(fields, answer), fields, answer, blank_is_text=True)
        if blocked:
            return blocked
        missed = not self.measures and lacks_part(self.config, answer)
        if missed:
            fields |= {name: "" for name in GENERATED if isinstance(fields[name], str)}
        try:
            outcome = await self.compare(fields)
        except ValueError as error:
            outcome = Outcome(status="error", error_type="data", error=str(error))
        return wrong(self.config, outcome) if missed else outcome

    def needed(self, fields: Mapping[str, object], answer: Answer) -> Sequence[str]:
        """The fields that must be present; the score is skipped if one is missing."""
        return self.config.needs

    async def compare(self, fields: dict[str, object]) -> Outcome:
        """The outcome for all fields; those in `needs` are present. A ValueError becomes a score in state error."""
        raise NotImplementedError


GENERATED = ("answer", "actual")
"""The fields that come from the target's answer."""


def lacks_part(config: MetricConfig, answer: Answer) -> bool:
    """Whether `target.extract` found nothing in the answer that the metric reads."""
    return answer.extracted is False and not {root(need) for need in config.needs}.isdisjoint(GENERATED)


def wrong(config: MetricConfig, outcome: Outcome | None = None) -> Outcome:
    """The worst possible score, for an answer in which the scored part was not found.

    `outcome` is the score of an empty answer.
    """
    worst = 0.0 if config.direction == "higher_is_better" else 1.0
    reason = "target.extract finds nothing in the answer, which counts as wrong"
    if outcome is not None and outcome.status == "scored" and outcome.score == worst:
        return replace(outcome, reason=reason)
    return scored(worst, worst, reason, outcome.steps if outcome else ())


def expect_declared(metric: str, needs: Sequence[str], fields: Mapping[str, str]) -> None:
    """Raise UserError if `needs` lacks a case field that the metric reads.

    `fields` maps each key to the field it names.
    """
    line = f"needs: [{', '.join(dict.fromkeys([*needs, *fields.values()]))}]"
    problems = [
        Problem(f"`{key}` is {field!r}, which `needs` does not declare", f"metric.{metric}.{key}", line)
        for key, field in fields.items()
        if field not in needs
    ]
    if problems:
        raise UserError(problems)


def read_field(field: str, fields: Mapping[str, object], read: Callable[[object], T]) -> T:
    """The value of a field, or at a dotted path, as `read` returns it; its ValueError names the field."""
    try:
        return read(look_up(field, fields))
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


def failed(error: JudgeError, steps: Sequence[Mapping[str, object]] = ()) -> Outcome:
    """The outcome `error`, when a judge or embedder failed and will not be asked again."""
    return Outcome(
        status="error", error_type=error.error_type, error=str(error), remedy=error.remedy, steps=tuple(steps)
    )


def blocked_by(name: str, part: Outcome, steps: tuple[Mapping[str, object], ...] = ()) -> Outcome:
    """The outcome of a combined score when one of its parts has no score."""
    if part.status == "error":
        what = f"{name}: {part.error}"
        return Outcome(status="error", error_type=part.error_type, error=what, remedy=part.remedy, steps=steps)
    return Outcome(status=part.status, reason=f"{name} is {part.status}: {part.reason}", steps=steps)


def scored(score: float, value: object, reason: str, steps: Sequence[Mapping[str, object]] = ()) -> Outcome:
    """The outcome of a comparison without a judge.

    Example:
        >>> scored(1.0, 12, "12 words").status
        'scored'
    """
    return Outcome(status="scored", score=score, value=value, reason=reason, steps=tuple(steps), path="direct")


class Vectors(BaseModel):
    """The reply to an ask of the task `embed`: one vector for each item."""

    results: list[list[float]]


class CosineMetric(BaseMetric[C]):
    """A metric of the cosine between a text and the nearest of other texts; a kind adds `texts` and `outcome`."""

    embeds = True
    tasks = MappingProxyType({EMBED: EMBED})

    def texts(self, fields: Mapping[str, object]) -> tuple[str, Sequence[str]]:
        """The text, and the texts to compare it with; the nearest one counts."""
        raise NotImplementedError

    def outcome(self, cosine: float, among: str) -> Outcome:
        """The outcome for a cosine in -1..1; `among` says which of several texts is the nearest."""
        raise NotImplementedError

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        fields = fields_of(case, answer)
        blocked = blocked_outcome(self.config.needs, fields, answer, blank_is_text=False)
        if blocked or lacks_part(self.config, answer):
            return ()
        text, others = self.texts(fields)
        return (embedding_ask(self.name, text, *others),)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        fields = fields_of(case, answer)
        blocked = blocked_outcome(self.config.needs, fields, answer, blank_is_text=False)
        if blocked or judge is None:
            return blocked or Outcome(status="error", error_type="unsupported", error="there is no embedder")
        if lacks_part(self.config, answer):
            return wrong(self.config)
        text, others = self.texts(fields)
        if not others:
            return Outcome(status="undefined", reason="nothing to compare with: the list is empty")
        try:
            similarities = await cosines(judge, self.name, text, others)
        except JudgeError as error:
            return failed(error)
        best = max(range(len(others)), key=similarities.__getitem__)
        return self.outcome(similarities[best], which(best, others))


def embedding_ask(metric: str, *texts: str) -> Ask:
    """Ask for one embedding per text. It has no repeat number, since embeddings do not vary."""
    return Ask(metric=metric, step=EMBED, task=EMBED, messages=(), reply_model=Vectors, variables={}, items=texts)


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
