"""The kinds that compare texts by their embeddings: `similarity` and `generated_questions`.

`generated_questions` is the answer relevancy of ragas (Es et al., 2024, arXiv:2309.15217): a judge writes questions
from the answer alone. The score is the mean cosine of their embeddings with the question's, or 0 if every one of them
is marked noncommittal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from evalflow.config.schema import Word
from evalflow.errors import JudgeError
from evalflow.metrics.base import CosineMetric, UnitMetricConfig, cosines, embedding_ask, failed, scored
from evalflow.metrics.case_fields import fields_of
from evalflow.metrics.chain import ChainMetric, QuestionConfig
from evalflow.metrics.reasons import QUOTE, one_line
from evalflow.metrics.references import references_at
from evalflow.metrics.returns import BoolType, FieldType, ListType, RecordType, StepConfig, StrType
from evalflow.metrics.rules import Rule, ShareRule
from evalflow.metrics.steps import PreparedStep, build_steps
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import EMBED, Answer, Ask, Case, Outcome
from evalflow.values.jsonvalues import as_map, look_up, objects_at, text_at, written

WRITING = "writing"
EXTRAS = ("count",)


class SimilarityMetricConfig(UnitMetricConfig):
    """Two case fields, or dotted paths into metadata or vars.

    Attributes:
        field: The first field.
        against: The second field; if it is a list of texts, the nearest counts.
    """

    kind: Literal["similarity"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word = "answer"
    against: Word = "reference"


class SimilarityMetric(CosineMetric[SimilarityMetricConfig]):
    """The score is the cosine, at least 0; the value is the unclamped cosine."""

    Config = SimilarityMetricConfig
    names_fields = ("field", "against")

    def texts(self, fields: Mapping[str, object]) -> tuple[str, Sequence[str]]:
        others = [written(one) for one in references_at(self.config.against, fields)]
        others = [one for one in others if one.strip()] or others
        return written(look_up(self.config.field, fields)), others

    def outcome(self, cosine: float, among: str) -> Outcome:
        reason = f"similarity of {self.config.field} and {self.config.against}: {cosine:.3f} (cosine of embeddings)"
        return scored(max(0.0, cosine), cosine, f"{reason}; {among}" if among else reason)


class GeneratedQuestionsMetricConfig(QuestionConfig):
    """How questions are generated from the answer.

    Attributes:
        questions: Number of questions to generate.
        prompt: The template. Besides the fields in `needs` it can use `count`, the number of questions.
    """

    kind: Literal["generated_questions"]  # pyright: ignore[reportIncompatibleVariableOverride]
    questions: int = Field(default=3, ge=1, le=20)
    prompt: Word = "relevance/questions.jinja"

    @model_validator(mode="after")
    def _compared(self) -> Self:
        if not {"question", "answer"} <= {*self.needs}:
            raise ValueError("this metric compares question and answer: needs: [question, answer]")
        return self


class GeneratedQuestionsMetric(ChainMetric[GeneratedQuestionsMetricConfig]):
    """A judge writes questions and marks noncommittal answers; the embedder compares the questions.

    The chain's rule gives the share of noncommittal questions. If it is 1, the score is 0 and nothing is embedded.
    Otherwise the score is the mean cosine, at least 0. The value is the unclamped mean.
    """

    Config = GeneratedQuestionsMetricConfig
    embeds = True

    def __init__(
        self, name: str, config: GeneratedQuestionsMetricConfig, steps: Sequence[PreparedStep], rule: Rule
    ) -> None:
        super().__init__(name, config, steps, rule)
        self.tasks = {**self.tasks, EMBED: EMBED}

    @classmethod
    def build(cls, name: str, config: GeneratedQuestionsMetricConfig, prompts: Prompts) -> Self:
        fields: dict[str, FieldType] = {
            "question": StrType(type="str"),
            "reason": StrType(type="str"),
            "noncommittal": BoolType(type="bool"),
        }
        questions = ListType(type="list", items=RecordType(type="record", fields=fields))
        returns: dict[str, FieldType] = {"questions": questions}
        step = StepConfig(id=WRITING, prompt=config.prompt, returns=returns, examples=config.examples)
        rule = ShareRule(op="share", of=f"{WRITING}.questions", field="noncommittal", equals=True)
        keys = {WRITING: f"metric.{name}.prompt"}
        steps = build_steps(name, [step], rule, config.shown, prompts, extras=EXTRAS, prompt_keys=keys)
        return cls(name, config, steps, rule)

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The asks of scoring, with the case's question in place of the generated ones."""
        asks = super().preview(case, answer)
        texts = [case.question or ""] * (1 + self.config.questions)
        return (*asks, embedding_ask(self.name, *texts)) if asks else ()

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        asked = await super().score(case, answer, judge, repeat)
        if asked.status != "scored" or judge is None:
            return asked
        generated = [text_at(one, "question") for one in objects_at(as_map(asked.steps[-1]["reply"]), "questions")]
        if asked.score == 1:
            return replace(asked, score=0.0, value=0.0, reason=f"the answer is noncommittal: {asked.reason}")
        question = written(fields_of(case, answer)["question"])
        try:
            if not all(text.strip() for text in generated):
                raise JudgeError("schema", "the judge wrote a blank question")
            similarities = await cosines(judge, self.name, question, generated)
        except JudgeError as error:
            return failed(error, asked.steps)
        mean = sum(similarities) / len(similarities)
        lowest, least_similar = min(zip(similarities, generated, strict=True))
        quoted = f'"{one_line(least_similar, QUOTE)}" ({lowest:.3f})'
        step: dict[str, object] = {
            "id": EMBED,
            "task": EMBED,
            "items": generated,
            "reply": [{"similarity": cosine} for cosine in similarities],
            "probabilities": None,
            "reasks": 0,
        }
        reason = f"similarity {mean:.3f} on average; least alike: {quoted}"
        return replace(asked, score=max(0.0, mean), value=mean, reason=reason, steps=(*asked.steps, step))

    def _extras(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        return {"count": self.config.questions}
