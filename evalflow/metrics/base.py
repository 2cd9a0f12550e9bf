"""What most metrics have in common, for kinds to inherit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import Field

from evalflow.config.schema import MetricConfig
from evalflow.errors import Problem, UserError
from evalflow.metrics.steps import fields_of, obstacle
from evalflow.prompts import Prompts
from evalflow.protocols import Judge, Prepared
from evalflow.records import Answer, Ask, Case, FigureSpec, Outcome

C = TypeVar("C", bound=MetricConfig)


class UnitMetricConfig(MetricConfig):
    """A metric whose scores lie in 0..1, and so its threshold too."""

    threshold: float | None = Field(default=None, ge=0, le=1)


class BaseMetric(Generic[C]):
    """A metric that asks nobody; a kind adds `Config` and `score`. For the attributes see `Metric`.

    Args:
        name: The column value.
        config: What its YAML declares.
    """

    Config: ClassVar[type[MetricConfig]]
    asks: bool = False
    embeds: bool = False
    reads_scores: bool = False
    stops: bool = False
    bounded: bool = True
    parts: Sequence[str] = ()
    figures: FigureSpec | None = None
    tasks: Mapping[str, str | None] = MappingProxyType({})
    prompts: tuple[str, ...] = ()

    def __init__(self, name: str, config: C) -> None:
        self.name = name
        self.config = config

    @classmethod
    def build(cls, name: str, config: Any, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """A metric from its validated configuration; UserError for what can be known to be wrong without data."""
        return cls(name, config)

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The asks that scoring would lead to."""
        return ()

    def preparation(self) -> Sequence[Ask]:
        """The asks that preparing would lead to."""
        return ()

    async def prepare(self, judge: Judge | None, prepared: Prepared) -> Self:
        """Make what is made once per run; see `Metric`."""
        return self

    def bind(self, case: Case) -> Sequence[Self]:
        """The metric itself, where it scores the case's dataset."""
        return (self,) if self.config.covers(case.dataset) else ()


class FieldMetric(BaseMetric[C]):
    """A metric that compares fields of case and answer, and asks nobody. A kind adds `Config` and `compare`."""

    names_fields: ClassVar[tuple[str, ...]] = ()
    """The configuration keys that name a case field, each of which must stand in `needs`."""

    @classmethod
    def build(cls, name: str, config: Any, prompts: Prompts) -> Self:
        """See `BaseMetric`; `needs` must declare each field that the configuration names."""
        expect_declared(name, config.needs, {key: getattr(config, key) for key in cls.names_fields})
        return super().build(name, config, prompts)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """The outcome of `compare`, unless a field is missing. An empty text is a text like any other."""
        fields = fields_of(case, answer)
        blocked = obstacle(self.config.needs, fields, answer, blank_is_text=True)
        if blocked:
            return blocked
        try:
            return await self.compare(fields)
        except ValueError as error:
            return Outcome(status="error", error_type="data", error=str(error))

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        """The outcome for one answer.

        Args:
            fields: All fields of case and answer; none of those in `needs` is absent.

        Raises:
            ValueError: What stands in a field cannot be compared; becomes a score in state error.
        """
        raise NotImplementedError


def expect_declared(metric: str, needs: Sequence[str], fields: Mapping[str, str]) -> None:
    """See that `needs` declares the case fields that a metric reads.

    Args:
        metric: Its name.
        needs: What it declares.
        fields: The fields by the keys that name them.

    Raises:
        UserError: One is missing.
    """
    line = f"needs: [{', '.join(dict.fromkeys([*needs, *fields.values()]))}]"
    problems = [
        Problem(f"`{key}` is {field!r}, which `needs` does not declare", f"metric.{metric}.{key}", line)
        for key, field in fields.items()
        if field not in needs
    ]
    if problems:
        raise UserError(problems)


def scored(score: float, value: Any, reason: str, steps: Sequence[Mapping[str, Any]] = ()) -> Outcome:
    """The outcome of a comparison that no judge took part in."""
    return Outcome(status="scored", score=score, value=value, reason=reason, steps=tuple(steps), path="direct")
