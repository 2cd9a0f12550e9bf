"""Checks that need no judge: rules over the answer or its metadata, and similarity of meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, TypeAdapter

from evalflow.config.schema import MetricConfig
from evalflow.errors import JudgeError
from evalflow.metrics.base import BaseMetric
from evalflow.metrics.checks.params import (
    Comparison,
    JsonSchemaValidity,
    Metadata,
    RegexMatching,
    SemanticSimilarity,
    StringMatching,
)
from evalflow.metrics.cosine import STEP, cosine, embedding_ask, failed
from evalflow.metrics.inputs import fields_of, obstacle
from evalflow.metrics.json_operations import Operation
from evalflow.metrics.json_tools import written
from evalflow.metrics.rulebook import Rulebook
from evalflow.protocols import Judge
from evalflow.records import EMBED, Answer, Ask, Case, Outcome, passes


class RuledCheck(BaseMetric[MetricConfig]):
    """Operations over one field; all of them must hold.

    Args:
        name: The column value.
        config: Its declaration.
        rulebook: The operations.
        keyword: Of a string matching check, for its reason.
    """

    def __init__(self, name: str, config: MetricConfig, rulebook: Rulebook, keyword: str | None = None) -> None:
        super().__init__(name, config)
        self._rulebook = rulebook
        self._keyword = keyword

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Apply the operations. An answer without metadata has nothing at any path."""
        fields = fields_of(case, answer)
        blocked = obstacle(self.config.needs, fields, answer, blank_is_text=True)
        if blocked:
            return blocked
        fields["metadata"] = fields["metadata"] or {}
        outcome = await self._rulebook.score(fields)
        if self._keyword is None or outcome.status != "scored":
            return outcome
        phrase = "contains" if outcome.score else "does not contain"
        return replace(outcome, reason=f"The agent answer {phrase} the keyword '{self._keyword}'")


class SimilarityCheck(BaseMetric[MetricConfig]):
    """Holds where the cosine reaches the case's own threshold; the value is the cosine."""

    def __init__(self, name: str, config: MetricConfig, params: SemanticSimilarity) -> None:
        super().__init__(name, config)
        self._params = params

    @property
    def embeds(self) -> bool:
        """Always."""
        return True

    @property
    def tasks(self) -> Mapping[str, str | None]:
        """The vectors of answer and reference."""
        return {STEP: EMBED}

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The vectors that scoring would ask for."""
        if obstacle(self.config.needs, fields_of(case, answer), answer, blank_is_text=False):
            return ()
        return (embedding_ask(self.name, answer.answer or "", self._params.reference),)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Compare the answer with the reference."""
        blocked = obstacle(self.config.needs, fields_of(case, answer), answer, blank_is_text=False)
        if blocked or judge is None:
            return blocked or Outcome(status="error", error_type="unsupported", error="there is no embedder")
        try:
            alike = await cosine(judge, self.name, answer.answer or "", self._params.reference)
        except JudgeError as error:
            return failed(error)
        wanted = self._params.threshold
        reason = f"similarity to the reference {alike:.3f} (cosine of embeddings), at least {wanted:g} is wanted"
        return Outcome(status="scored", score=float(passes(alike, wanted)), value=alike, reason=reason, path="direct")


class DisabledCheck(BaseMetric[MetricConfig]):
    """A check that the case switches off."""

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Nothing but the reason."""
        return Outcome(status="skipped", reason="the check is disabled")


def rulebook_of(identifier: str, params: BaseModel) -> Rulebook:
    """The operations that a check without a judge comes to.

    Raises:
        pydantic.ValidationError: A pattern, path or schema is invalid, or a number is wanted.
    """
    match params:
        case StringMatching():
            value = {"value": params.keyword, "case_sensitive": params.case_sensitive, "normalize": params.normalize}
            return Rulebook("answer", _operations([{"op": "contains", **value}]))
        case Metadata():
            return Rulebook("metadata", _operations([rule.operation for rule in params.json_path_rules]))
        case RegexMatching():
            return Rulebook("answer", _operations([{"op": "regex", "pattern": params.pattern}]))
        case JsonSchemaValidity():
            return Rulebook(params.field, _operations([{"op": "json_schema", "schema": params.schema_}]))
        case Comparison():
            text = identifier in ("equals", "not_equals")
            value = written(params.expected_value) if text else params.expected_value
            return Rulebook(params.field, _operations([{"op": identifier, "value": value}]))
        case _:
            raise TypeError(f"{identifier} is no check of this kind")


def _operations(declared: Sequence[Mapping[str, Any]]) -> list[Operation]:
    return TypeAdapter(list[Operation]).validate_python(list(declared))
