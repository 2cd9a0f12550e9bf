"""The kind `g_eval`: criteria, evaluation steps for the judge, and an expected grade as the score.

G-Eval (Liu et al., 2023, arXiv:2303.16634): the score is the sum over the grades s of p(s) s, where p(s) is the judge's
probability of grade s, normalised over the scale's grades. The sum is then mapped to 0..1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from evalflow.config.schema import Word
from evalflow.errors import JudgeError, Problem, UserError
from evalflow.metrics.chain import ChainMetric, QuestionConfig, Scope
from evalflow.metrics.registry import g_eval_samples
from evalflow.metrics.returns import FieldType, ListType, StepConfig, StrType
from evalflow.metrics.rules import PartsRule, Rule
from evalflow.metrics.scale import Band, BooleanScale, LikertScale, band_fault, grade_rule, reply_type
from evalflow.metrics.steps import PreparedStep, build_steps
from evalflow.prompts import Prompts, messages
from evalflow.protocols import Judge, Prepared
from evalflow.records import Answer, Ask, Case, Outcome
from evalflow.values.jsonvalues import as_map, count_at, is_object, number_at, object_at, objects_at

FILE = "prepared.json"


def _not_blank(step: str) -> str:
    if not step.strip():
        raise ValueError("a step must not be blank")
    return step


EvalSteps = Annotated[tuple[Annotated[str, AfterValidator(_not_blank)], ...], Field(min_length=1)]
"""The evaluation steps, in order."""


class Steps(BaseModel):
    """The judge's reply: the steps it wrote. Endpoints show this class name to the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: EvalSteps


def steps_in(entry: Mapping[str, object], where: str) -> tuple[str, ...]:
    """The steps of an entry; UserError if they are invalid, as after a bad edit of the file."""
    try:
        return TypeAdapter(EvalSteps).validate_python(entry.get("steps"))
    except ValidationError as error:
        what = f"the steps of {entry.get('metric')} are not a list of texts: {error.errors()[0]['msg']}"
        raise UserError(Problem(what, where, "restore them")) from None


def find_entry(path: Path, criteria: str, key: str) -> Mapping[str, object]:
    """Find the entry with exactly these criteria in a prepared.json or a run's folder.

    UserError if there is none, or if several have different steps; `key` is the setting's key path.
    """
    file = path / FILE if path.is_dir() else path
    entries = [entry for entry in _entries(file, key) if entry.get("kind") == "g_eval"]
    matching = [entry for entry in entries if entry.get("criteria") == criteria]
    if not matching:
        known = "; ".join(f"{entry.get('metric')}: {entry.get('criteria')!r}" for entry in entries)
        what = f"{file} has no steps that were written for these criteria"
        hint = f"it has steps for {known}" if known else "no steps were written in that run"
        raise UserError(Problem(what, key, hint))
    different = {steps_in(entry, str(file)) for entry in matching}
    if len(different) > 1:
        judges = ", ".join(str(entry.get("judge")) for entry in matching)
        what = f"{file} has different steps for these criteria, written by {judges}"
        raise UserError(Problem(what, key, "paste those that you want into the metric's `steps`"))
    return matching[0]


def _entries(file: Path, key: str) -> Sequence[Mapping[str, object]]:
    try:
        content: object = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        hint = "name a run's folder or its prepared.json, such as outputs/latest"
        raise UserError(Problem(f"cannot read {file}: {error.strerror}", key, hint)) from None
    except ValueError as error:
        raise UserError(Problem(f"{file} is not JSON: {error}", key)) from None
    return [entry for entry in as_map(content).values() if is_object(entry)]


WRITING, SCORING = "steps", "score"
FIELD = "score"
EXTRAS = ("criteria", "scale", "rubric", "strict", "given", "inputs")
UNWRITTEN = ("…",) * 4  # placeholder for steps not yet written, to render the prompt


class GEvalMetricConfig(QuestionConfig):
    """Criteria and the way to grade by them.

    Attributes:
        criteria: What is graded, in words; optional if there are steps.
        steps: The evaluation steps; null: the judge writes them once per run.
        steps_from: A run's folder or its prepared.json: reuse the steps written there for the same criteria.
        needs: The fields of a case shown to the judge; a case that lacks one is skipped.
        scale: Whole grades.
        rubric: Descriptions of answers for ranges of grades.
        weighting: `probability`: if the judge gives no token probabilities, sample 10 replies; null: ask for one grade.
        samples: Replies to sample if the judge gives no token probabilities; null: as `weighting` says.
        strict: The score is 1 only for a perfect answer, else 0; the threshold is 1.
        prompt, steps_prompt: The templates. Besides the fields in `needs` they can use `criteria`, `scale`, `rubric`,
            `strict` and `inputs` (the names of the fields shown); `prompt` also `steps` and `given` (a map of the
            fields shown).
    """

    kind: Literal["g_eval"]  # pyright: ignore[reportIncompatibleVariableOverride]
    criteria: Word | None = None
    steps: EvalSteps | None = None
    steps_from: Word | None = None
    scale: LikertScale = LikertScale(type="likert", min=1, max=10)
    rubric: list[Band] | None = None
    samples: int | None = Field(default=None, ge=1, le=100)
    strict: bool = False
    prompt: Word = "g_eval/score.jinja"
    steps_prompt: Word = "g_eval/steps.jinja"
    threshold: float | None = Field(default=0.5, ge=0, le=1)

    @field_validator("criteria")
    @classmethod
    def _criteria_not_blank(cls, criteria: str | None) -> str | None:
        if criteria is not None and not criteria.strip():
            raise ValueError("the criteria are blank; describe a good answer")
        return criteria

    @field_validator("rubric")
    @classmethod
    def _on_scale(cls, rubric: list[Band] | None, info: ValidationInfo) -> list[Band] | None:
        scale: LikertScale | None = info.data.get("scale")  # None if the scale itself is invalid
        if scale is None or not rubric:
            return rubric
        fault = band_fault(rubric, scale.min, scale.max)
        if fault:
            raise ValueError(fault)
        if scale.anchors:
            raise ValueError("rubric and scale.anchors both describe the grades; keep one of them")
        return rubric

    @model_validator(mode="after")
    def _consistent(self) -> GEvalMetricConfig:
        if self.criteria is None and self.steps is None:
            raise ValueError("give criteria, or steps, or both")
        if self.steps is not None and self.steps_from is not None:
            raise ValueError("steps and steps_from exclude each other")
        if not self.needs:
            raise ValueError("needs is empty, so the judge would see nothing; give for example [question, answer]")
        if not self.strict:
            return self
        if self.direction == "lower_is_better":
            raise ValueError("strict gives 1 to perfect answers, so direction must be higher_is_better")
        return self.model_copy(update={"threshold": 1.0})


@dataclass(frozen=True, slots=True)
class _Plan:
    """The evaluation steps (None until written), the entry reused from another run, and why steps are missing."""

    steps: tuple[str, ...] | None
    reused: Mapping[str, object] | None = None
    fault: JudgeError | None = None


class GEvalMetric(ChainMetric[GEvalMetricConfig]):
    """A one-step chain: the judge replies with a reason, then a grade. The steps in the prompt are prepared first."""

    Config = GEvalMetricConfig

    def __init__(
        self,
        name: str,
        config: GEvalMetricConfig,
        steps: Sequence[PreparedStep],
        rule: Rule | PartsRule,
        writing: PreparedStep,
        plan: _Plan,
    ) -> None:
        super().__init__(name, config, steps, rule)
        if config.steps is None:
            # Even if the steps come from another run, so that results stay comparable with that run.
            self.prompts = (*self.prompts, config.steps_prompt)
        self._writing = writing
        self._plan = plan

    @classmethod
    def build(cls, name: str, config: GEvalMetricConfig, prompts: Prompts) -> Self:
        scale = BooleanScale(type="boolean") if config.strict else config.scale
        texts = ListType(type="list", items=StrType(type="str"))
        returns: dict[str, FieldType] = {"reason": StrType(type="str"), FIELD: reply_type(scale)}
        asked = [
            StepConfig(id=WRITING, prompt=config.steps_prompt, returns={"steps": texts}),
            StepConfig(id=SCORING, prompt=config.prompt, returns=returns, examples=config.examples),
        ]
        rule = grade_rule(scale, SCORING, FIELD)
        keys = {WRITING: f"metric.{name}.steps_prompt", SCORING: f"metric.{name}.prompt"}
        writing, scoring = build_steps(name, asked, rule, config.shown, prompts, extras=EXTRAS, prompt_keys=keys)
        plan = _Plan(config.steps)
        if config.steps_from:
            # Read now: once this run begins, `outputs/latest` points to it.
            origin = Path(config.steps_from)
            stored = find_entry(origin, config.criteria or "", f"metric.{name}.steps_from")
            entry = {name: value for name, value in stored.items() if name not in ("bill", "cost_usd")}
            plan = _Plan(None, reused={**entry, "copied_from": str(origin)})
        return cls(name, config, [scoring], rule, replace(writing, reply_model=Steps), plan)

    def preparation(self) -> Sequence[Ask]:
        written = self._plan.steps is not None or self._plan.reused is not None
        return () if written else (self._writing_ask(),)

    async def prepare(self, judge: Judge | None, prepared: Prepared) -> Self:
        """Have the judge write the steps, unless the run, the configuration or another run already has them."""
        criteria = self.config.criteria
        if self._plan.steps is not None or judge is None or criteria is None:
            return self
        ask = self._writing_ask()
        key = f"g_eval {_digest(json.dumps([criteria, judge.info.identity, ask.text]))}"
        entry = prepared.get(key) or self._plan.reused
        if entry is None:
            try:
                reply = await judge.ask(ask)
            except JudgeError as error:
                return self._with(_Plan(None, fault=error))
            assert isinstance(reply.parsed, Steps)
            entry = {
                "kind": "g_eval",
                "metric": self.name,
                "criteria": criteria,
                "judge": judge.info.name,
                "judge_identity": judge.info.identity,
                "prompt_sha256": _digest(ask.text),
                "steps": list(reply.parsed.steps),
                "copied_from": None,
            }
        if prepared.get(key) is None:
            prepared.put(key, entry)
        return self._with(_Plan(steps_in(entry, f"{self.name}, prepared.json")))

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        fault = self._plan.fault
        if fault is None:
            return await super().score(case, answer, judge, repeat)
        what = f"the judge could not write the steps to grade by: {fault}"
        steps = ({"id": WRITING, "reply": None, "raw": fault.raw, "error": str(fault), "reasks": 0},)
        return Outcome(status="error", error_type=fault.error_type, error=what, remedy=fault.remedy, steps=steps)

    def _with(self, plan: _Plan) -> Self:
        return type(self)(self.name, self.config, self._steps, self._rule, self._writing, plan)

    def _writing_ask(self) -> Ask:
        where = f"metric.{self.name}, step {WRITING}, {self.config.steps_prompt}"
        variables = self._fixed_variables()
        return Ask(
            metric=self.name,
            step=WRITING,
            task=None,
            messages=messages(self._writing.template, variables, where),
            reply_model=self._writing.reply_model,
            variables=variables,
        )

    def _scope(self, data: Mapping[str, object], repeat: int) -> Scope:
        scope = super()._scope(data, repeat)
        scope.logprobs = not self.config.strict
        scope.samples = g_eval_samples(self.config.strict, self.config.weighting, self.config.samples)
        return scope

    def _extras(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        return {**self._fixed_variables(), "given": self._given(fields), "steps": self._plan.steps or UNWRITTEN}

    def _fixed_variables(self) -> dict[str, object]:
        config = self.config
        bands = [band.model_dump() for band in config.rubric or ()]
        return {
            "criteria": config.criteria,
            "scale": config.scale.model_dump(),
            "rubric": bands,
            "strict": config.strict,
            "inputs": [*config.shown],
        }

    def _conclude(self, scope: Scope, weighted: bool) -> Outcome:
        outcome = super()._conclude(scope, weighted)
        return (
            outcome if self.config.strict else replace(outcome, reason=f"{outcome.reason} {_method(scope.trail[-1])}")
        )


def _method(step: Mapping[str, object]) -> str:
    if step["probabilities"] is None:
        return "[one grade: the judge gives no token probabilities]"
    if "mass" in step:
        return f"[weighted by token probabilities, {number_at(object_at(step, 'mass'), FIELD):.1%} of them on grades]"
    chances, samples = object_at(objects_at(step, "probabilities")[0], FIELD), count_at(step, "samples")
    grades = ", ".join(f"{grade} in {number_at(chances, grade) * samples:.0f}" for grade in chances)
    failed = f", {step['failed']} more failed" if "failed" in step else ""
    return f"[mean of {samples} samples{failed}: {grades}]"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
