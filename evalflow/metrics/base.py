"""What most metrics have in common, for kinds to inherit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import Field

from evalflow.config.schema import MetricConfig
from evalflow.errors import Problem, UserError
from evalflow.frozen import record
from evalflow.prompts import Prompts
from evalflow.protocols import Judge, Prepared
from evalflow.records import Answer, Ask, Case, FigureSpec

C = TypeVar("C", bound=MetricConfig)


class UnitMetricConfig(MetricConfig):
    """A metric whose scores lie in 0..1, and so its threshold too."""

    threshold: float | None = Field(default=None, ge=0, le=1)


@record()
class Calls:
    """How often a metric calls a judge or an embedder, where every step has something to ask about.

    Attributes:
        low: For one score, at least.
        high: For one score, at most; None where the case decides.
        once: Once a run, beforehand.
    """

    low: int = 0
    high: int | None = 0
    once: int = 0


class BaseMetric(Generic[C]):
    """Implements what is the same for most kinds; a kind adds `Config`, `build` and `score`.

    Args:
        name: The column value.
        config: What its YAML declares.
    """

    Config: ClassVar[type[MetricConfig]]

    def __init__(self, name: str, config: C) -> None:
        self.name = name
        self.config = config

    @classmethod
    def build(cls, name: str, config: Any, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """A metric from its validated configuration.

        Raises:
            UserError: With all that is wrong and can be known without data.
        """
        return cls(name, config)

    @classmethod
    def calls(cls, declared: Mapping[str, Any]) -> Calls:  # noqa: ARG003 - none, whatever it says
        """How many calls it takes, as far as its YAML tells, before anything of it is validated: none."""
        return Calls()

    @property
    def asks(self) -> bool:
        """Whether it needs a judge."""
        return False

    @property
    def embeds(self) -> bool:
        """Whether it compares meanings."""
        return False

    @property
    def reads_scores(self) -> bool:
        """Whether its scores stand in the data."""
        return False

    @property
    def parts(self) -> Sequence[str]:
        """The metrics that its scores are made of: none, for it makes them itself."""
        return ()

    @property
    def stops(self) -> bool:
        """Whether a check that fails ends a case."""
        return False

    @property
    def bounded(self) -> bool:
        """Whether scores lie in 0..1."""
        return True

    @property
    def figures(self) -> FigureSpec | None:
        """Figures over a run that are more than a mean."""
        return None

    @property
    def tasks(self) -> Mapping[str, str | None]:
        """What it asks a judge: nothing."""
        return {}

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of its templates: none."""
        return ()

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The asks that scoring would lead to: none."""
        return ()

    def preparation(self) -> Sequence[Ask]:
        """The asks that preparing would lead to: none."""
        return ()

    async def prepare(self, judge: Judge | None, prepared: Prepared) -> Self:
        """The metric itself: there is nothing to make once per run."""
        return self

    def bind(self, case: Case) -> tuple[Self, ...]:
        """The metric itself, where it scores the case's dataset."""
        return (self,) if self.config.covers(case.dataset) else ()


def expect_declared(metric: str, needs: Sequence[str], fields: Mapping[str, str]) -> None:
    """See that a metric declares the case fields that it reads.

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
