"""The kind `retrieval`: what was retrieved, best first, against what should have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.base import BaseMetric, UnitMetricConfig
from evalflow.metrics.ranking import Ranking, ids_of, measure_names, measures
from evalflow.metrics.steps import fields_of, look_up, obstacle
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, FigureSpec, Outcome

_SHOWN = 5


class RetrievalMetricConfig(UnitMetricConfig):
    """Which ids are compared, and how.

    Attributes:
        relevant: The field with what should be retrieved.
        retrieved: The field with what was, best first.
        id: The key of the id in each item of either list; null: the items are the ids.
        at: The ranks at which a list is cut for the measures `precision@k`, `recall@k`, `hit@k` and `ndcg@k`.
        score: The measure that is the case's score; the others are figures over the run.
    """

    kind: Literal["retrieval"]  # pyright: ignore[reportIncompatibleVariableOverride]
    relevant: Word = "expected"
    retrieved: Word = "actual"
    id: Word | None = None
    at: list[Annotated[int, Field(ge=1)]] = Field(default=[1, 3, 5, 10])
    score: Word = "f1"


class RetrievalMetric(BaseMetric[RetrievalMetricConfig]):
    """Measures each case; asks nobody."""

    Config = RetrievalMetricConfig

    @classmethod
    def build(cls, name: str, config: RetrievalMetricConfig, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        """Check the measure and the fields.

        Raises:
            UserError: There is no such measure, or a field is not declared.
        """
        fields = {"relevant": config.relevant, "retrieved": config.retrieved}
        line = f"needs: [{', '.join(dict.fromkeys([*config.needs, *fields.values()]))}]"
        problems = [
            Problem(f"`{key}` is {field!r}, which `needs` does not declare", f"metric.{name}.{key}", line)
            for key, field in fields.items()
            if field not in config.needs
        ]
        known = measure_names(config.at)
        if config.score not in known:
            what = f"there is no measure {config.score!r}"
            problems.append(Problem(what, f"metric.{name}.score", did_you_mean(config.score, known)))
        if problems:
            raise UserError(problems)
        return cls(name, config)

    @property
    def figures(self) -> FigureSpec:
        """The mean of each measure over the cases for which it is defined."""
        return FigureSpec("retrieval", measures=measure_names(self.config.at))

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Measure one case."""
        config = self.config
        fields = fields_of(case, answer)
        blocked = obstacle(config.needs, fields, answer, blank_is_text=True)
        if blocked:
            return blocked
        try:
            relevant, retrieved = (self._ids(field, fields) for field in (config.relevant, config.retrieved))
        except ValueError as error:
            return Outcome(status="error", error_type="data", error=str(error))
        ranking = Ranking(relevant, retrieved)
        found = measures(ranking, config.at)
        if found[config.score] is None:
            return Outcome(status="undefined", reason=f"no {config.score}: {ranking.undefined}")
        return Outcome(
            status="scored", score=found[config.score], value=found, reason=_told(ranking, found), path="direct"
        )

    def _ids(self, field: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
        try:
            return ids_of(look_up(field, fields), self.config.id)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None


def _told(ranking: Ranking, found: Mapping[str, float | None]) -> str:
    """What was found, missed and retrieved besides; and which measures have no value here."""
    hits, missed, others = ranking.hits, ranking.missed, ranking.others
    parts = [f"found {len(hits)} of {len(ranking.relevant)} expected in {len(ranking.retrieved)} retrieved"]
    parts += [f"{word}: {_listed(ids)}" for word, ids in (("missed", missed), ("not expected", others)) if ids]
    undefined = [name for name, value in found.items() if value is None and "@" not in name]
    if undefined:
        parts.append(f"no {', '.join(undefined)}: {ranking.undefined}")
    return "; ".join(parts)


def _listed(ids: Sequence[str]) -> str:
    more = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
