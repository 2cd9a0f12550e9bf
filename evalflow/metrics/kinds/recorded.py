"""The kind `recorded`: a score that is already in the data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Self

from evalflow.config.schema import MetricConfig, Word
from evalflow.errors import Problem, UserError
from evalflow.limited import LimitExceeded, in_thread
from evalflow.metrics.base import BaseMetric, scored
from evalflow.metrics.case_fields import fields_of, is_recorded
from evalflow.metrics.scale import NumberScale, RecordedScale, read
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome
from evalflow.values.cells import opened
from evalflow.values.jsonvalues import json_path, look_up

_ENTERED = re.compile(r"(?:\$\.)?([A-Za-z_]\w*)[.\[]")


class RecordedMetricConfig(MetricConfig):
    """The place of the score in the data.

    Attributes:
        field: A column, a case field, a dotted path into either, or a JSONPath (starting with $) into all of them.
        scale: The scale of the recorded score.
    """

    kind: Literal["recorded"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word
    scale: RecordedScale


class RecordedMetric(BaseMetric[RecordedMetricConfig]):
    """Reads scores from the data. A recorded score applies only to the recorded answer."""

    Config = RecordedMetricConfig
    reads_scores = True

    def __init__(self, name: str, config: RecordedMetricConfig) -> None:
        super().__init__(name, config)
        self.bounded = not isinstance(config.scale, NumberScale)

    @classmethod
    def build(cls, name: str, config: RecordedMetricConfig, prompts: Prompts) -> Self:  # noqa: ARG003 - no prompts
        problems: list[Problem] = []
        try:
            if config.field.startswith("$"):
                json_path(config.field)
        except ValueError as error:
            problems.append(Problem(f"{config.field!r} is not a JSONPath: {error}", f"metric.{name}.field"))
        bounded = not isinstance(config.scale, NumberScale)
        if bounded and config.threshold is not None and not 0 <= config.threshold <= 1:
            hint = "the threshold is compared with the score, which this scale maps to 0..1"
            problems.append(Problem(f"{config.threshold:g} is not in 0..1", f"metric.{name}.threshold", hint))
        if problems:
            raise UserError(problems)
        return cls(name, config)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        if not is_recorded(case, answer):
            which = "generated" if answer.generated else "an example"
            return Outcome(status="skipped", reason=f"the score is for the recorded answer, but this one is {which}")
        fields = fields_of(case, answer)
        row = {**{name: value for name, value in fields.items() if value is not None}, **case.vars}
        try:
            matches = await _find(self.config.field, row)
        except LimitExceeded as error:
            return Outcome(status="error", error_type=error.error_type, error=str(error))
        if len(matches) > 1:
            error = f"{self.config.field} matches {len(matches)} values; expected one"
            return Outcome(status="error", error_type="data", error=error)
        if not matches or matches[0] is None:
            return Outcome(status="skipped", reason=f"the case has no {self.config.field}")
        try:
            score, value = read(self.config.scale, matches[0])
        except ValueError as error:
            return Outcome(status="error", error_type="data", error=f"{self.config.field}: {error}")
        return scored(score, value, f"recorded as {value}")


async def _find(field: str, row: Mapping[str, object]) -> list[object]:
    if entered := _ENTERED.match(field):  # a table's cell may hold an object as text
        row = {**row, entered[1]: opened(row.get(entered[1]))}
    if not field.startswith("$"):
        return [row[field]] if field in row else [look_up(field, row)]
    path = json_path(field)
    return path.matches(row) if path.plain else await in_thread(lambda: path.matches(row))
