"""The kind `similarity`: how alike two case fields mean, by the cosine of their embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from evalflow.config.schema import Word
from evalflow.errors import JudgeError, Problem, UserError
from evalflow.metrics.base import BaseMetric, Calls, UnitMetricConfig
from evalflow.metrics.cosine import STEP, cosine, embedding_ask, failed
from evalflow.metrics.json_schema import written
from evalflow.metrics.steps import fields_of, look_up, obstacle
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import EMBED, Answer, Ask, Case, Outcome


class SimilarityMetricConfig(UnitMetricConfig):
    """Two case fields, or dotted paths into metadata or vars.

    Attributes:
        field: One of them.
        against: The other one.
    """

    kind: Literal["similarity"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word = "answer"
    against: Word = "reference"


class SimilarityMetric(BaseMetric[SimilarityMetricConfig]):
    """The score is the cosine, negative ones taken as 0; the value is the cosine as it is."""

    Config = SimilarityMetricConfig

    @classmethod
    def build(cls, name: str, config: SimilarityMetricConfig, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """Check that both fields are declared.

        Raises:
            UserError: One is not.
        """
        problems = list(_undeclared(f"metric.{name}", config))
        if problems:
            raise UserError(problems)
        return cls(name, config)

    @classmethod
    def calls(cls, declared: Mapping[str, Any]) -> Calls:  # noqa: ARG003 - whatever it says
        """One, for both texts."""
        return Calls(1, 1)

    @property
    def embeds(self) -> bool:
        """Always."""
        return True

    @property
    def tasks(self) -> Mapping[str, str | None]:
        """The vectors of both fields."""
        return {STEP: EMBED}

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The vectors that scoring would ask for."""
        fields = fields_of(case, answer)
        if obstacle(self.config.needs, fields, answer, blank_is_text=False):
            return ()
        return (embedding_ask(self.name, *self._texts(fields)),)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Compare the fields; undefined where one is blank.

        Raises:
            InfrastructureError, BudgetError: No further call can be made.
        """
        if judge is None:
            raise ValueError(f"metric {self.name} needs an embedder")
        fields = fields_of(case, answer)
        blocked = obstacle(self.config.needs, fields, answer, blank_is_text=False)
        if blocked:
            return blocked
        try:
            alike = await cosine(judge, self.name, *self._texts(fields))
        except JudgeError as error:
            return failed(error)
        reason = f"similarity of {self.config.field} and {self.config.against}: {alike:.3f} (cosine of embeddings)"
        return Outcome(status="scored", score=max(0.0, alike), value=alike, reason=reason, path="direct")

    def _texts(self, fields: Mapping[str, Any]) -> tuple[str, str]:
        return written(look_up(self.config.field, fields)), written(look_up(self.config.against, fields))


def _undeclared(key: str, config: SimilarityMetricConfig) -> Iterator[Problem]:
    for name, field in (("field", config.field), ("against", config.against)):
        if field not in config.needs:
            line = f"needs: [{', '.join([*config.needs, field])}]"
            yield Problem(f"the metric compares {field!r}, which `needs` does not declare", f"{key}.{name}", line)
