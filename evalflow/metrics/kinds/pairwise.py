"""The kind `pairwise`: a judge prefers one of two answers, asked once in each order.

Judges have a position bias (Zheng et al., 2023, arXiv:2306.05685, section 3.4). An answer wins or loses only if both
orders agree. The rate of disagreement is reported beside the win rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import field_validator

from evalflow.config.schema import Word
from evalflow.metrics.base import expect_declared
from evalflow.metrics.case_fields import blocked_outcome, fields_of, reference_in, tuple_of
from evalflow.metrics.chain import ChainMetric, QuestionConfig, Scope
from evalflow.metrics.reasons import REMARK, one_line
from evalflow.metrics.returns import FieldType, LabelType, StepConfig, StrType, reply_model
from evalflow.metrics.rules import MapRule
from evalflow.metrics.scale import PREFERENCE
from evalflow.metrics.steps import build_steps
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Ask, Case, FigureSpec, Message, Outcome, texts_of
from evalflow.values.jsonvalues import as_map, look_up, text_at, written

ANSWER_FIRST, ANSWER_SECOND = "answer_first", "answer_second"
FIELD = "better"
EXTRAS = ("criteria", "given")
VERDICTS: Sequence[Mapping[str, str]] = (
    {"first": "win", "second": "loss", "tie": "tie"},
    {"first": "loss", "second": "win", "tie": "tie"},
)
"""For each order (answer first, answer second): what "first" and "second" mean for the answer."""
_IN_PLACE = {place: PREFERENCE.values[verdict] for place, verdict in VERDICTS[0].items()}
_LEAN: Mapping[str, int] = {"first": 1, "tie": 0, "second": -1}


class PairwiseMetricConfig(QuestionConfig):
    """The other answer, and the criteria of the comparison.

    Attributes:
        against: The case field, or dotted path into one, with the other answer: reference, demo_answer, a column as
            vars.COLUMN, or vars.baseline for the answer of the run named by the root key `baseline`. It must be in
            `needs`.
        criteria: What makes an answer the better one, in words.
        inconsistent: The verdict for a pair whose two orders disagree. Such pairs are always counted.
        prompt: The template. Besides the fields in `needs` it can use `criteria`, `given` (a map of the other fields
            in `needs`), `source` (the answer shown first) and `against` (the answer shown second).
        weighting: None: verdicts are used as replied, without probabilities.
    """

    kind: Literal["pairwise"]  # pyright: ignore[reportIncompatibleVariableOverride]
    against: Word = "reference"
    criteria: Word
    inconsistent: Literal["tie", "undefined"] = "tie"
    prompt: Word = "pairwise/preference.jinja"
    weighting: None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    @field_validator("criteria")
    @classmethod
    def _not_blank(cls, criteria: str) -> str:
        if not criteria.strip():
            raise ValueError("the criteria are blank; say what makes an answer better")
        return criteria

    @field_validator("against")
    @classmethod
    def _another(cls, against: str) -> str:
        if against == "answer":
            raise ValueError("the answer cannot be compared with itself; name another field, such as reference")
        return against


class PairwiseMetric(ChainMetric[PairwiseMetricConfig]):
    """Asks about each pair in both orders. Equal texts are a tie without a call.

    The chain's own rule gives the verdict of the first order. The `value` of a score holds:
    verdict (win, loss or tie; null where the score is undefined);
    lean (position bias: 1 to the first answer shown, -1 to the second, 0 if both orders agree, null for equal texts);
    longer (whether the judge prefers the longer answer; null for a tie or equal lengths).
    """

    Config = PairwiseMetricConfig
    figures = FigureSpec("pairwise")

    @classmethod
    def build(cls, name: str, config: PairwiseMetricConfig, prompts: Prompts) -> Self:
        expect_declared(name, config.needs, {"answer": "answer", "against": config.against})
        returns: dict[str, FieldType] = {
            "reason": StrType(type="str"),
            FIELD: LabelType(type="label", labels=["first", "second", "tie"]),
        }
        question: dict[str, Any] = {"prompt": config.prompt, "returns": returns, "examples": config.examples}
        orders = {ANSWER_FIRST: ("answer", config.against), ANSWER_SECOND: (config.against, "answer")}
        asked = [
            StepConfig(id=order, source=first, against=second, **question) for order, (first, second) in orders.items()
        ]
        rule = MapRule(op="map", of=ANSWER_FIRST, field=FIELD, values=_IN_PLACE)
        keys = dict.fromkeys(orders, f"metric.{name}.prompt")
        steps = build_steps(name, asked, rule, config.shown, prompts, extras=EXTRAS, prompt_keys=keys)
        # The model name would reveal which of the two answers is judged.
        unnamed = reply_model("preference", returns, False)
        return cls(name, config, [replace(step, reply_model=unnamed) for step in steps], rule)

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        first, second = self._texts(fields_of(case, answer))
        return () if first == second else super().preview(case, answer)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        fields = fields_of(case, answer)
        first, second = self._texts(fields)
        if first == second and not blocked_outcome(self.config.needs, fields, answer, blank_is_text=False):
            value = {"verdict": "tie", "lean": None, "longer": None}
            reason = f"the answer and the {self.config.against} are the same text"
            return Outcome(status="scored", score=0.5, value=value, reason=reason, path="direct")
        asked = await super().score(case, answer, judge, repeat)
        return self._concluded(asked, len(first) - len(second)) if asked.status == "scored" else asked

    def _concluded(self, asked: Outcome, longer_by: int) -> Outcome:
        places = [text_at(as_map(step["reply"]), FIELD) for step in asked.steps]
        verdicts = [by_place[place] for by_place, place in zip(VERDICTS, places, strict=True)]
        to_first = sum(_LEAN[place] for place in places)
        lean = (to_first > 0) - (to_first < 0)
        if lean:
            return self._inconsistent(asked, verdicts, lean)
        (verdict,) = {*verdicts}
        longer = (verdict == "win") == (longer_by > 0) if longer_by and verdict != "tie" else None
        value = {"verdict": verdict, "lean": 0, "longer": longer}
        reason = f"{verdict} in both orders: {one_line(text_at(as_map(asked.steps[0]['reply']), 'reason'), 4 * REMARK)}"
        return replace(asked, score=PREFERENCE.values[verdict], value=value, reason=reason)

    def _inconsistent(self, asked: Outcome, verdicts: Sequence[str], lean: int) -> Outcome:
        undefined = self.config.inconsistent == "undefined"
        value = {"verdict": None if undefined else "tie", "lean": lean, "longer": None}
        reason = f"the order decides: {verdicts[0]} with the answer first, {verdicts[1]} with it second"
        if undefined:
            return replace(asked, status="undefined", score=None, value=value, reason=reason, path=None)
        return replace(asked, score=0.5, value=value, reason=f"{reason}; counted as a tie")

    def _texts(self, fields: Mapping[str, object]) -> tuple[str, str]:
        """The answer and the other text, as the judge reads them; "" if absent."""
        first, second = (_text(look_up(path, fields)) for path in ("answer", self.config.against))
        return first, second

    def _readings(self, fields: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
        """The fields, with only the first of several references: beating just any one of them means little."""
        return [{**fields, "reference": next(iter(texts_of(reference_in(fields))), None)}]

    def _scope(self, data: Mapping[str, object], repeat: int) -> Scope:
        """The prompt variables; a demo answer is replaced by its text."""
        return super()._scope({**data, "demo_answer": _text(data["demo_answer"])}, repeat)

    def _extras(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        compared = {"answer", self.config.against}
        return {"criteria": self.config.criteria, "given": self._given(fields, without=compared)}


def other_answer(config: PairwiseMetricConfig, case: Case, answer: Answer) -> str:
    """The text that an answer is compared with; empty if the case has none."""
    return _text(look_up(config.against, fields_of(case, answer)))


def _text(value: object) -> str:
    if value is None or value == ():
        return ""
    if references := tuple_of(str, value):
        return references[0]
    return value.content if isinstance(value, Message) else written(value)
