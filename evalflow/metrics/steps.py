"""A chain's steps: how they are declared, and all that can be wrong with them before any data is seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import BaseModel, field_validator

from evalflow.config.schema import FIELDS, IDENTIFIER, Strict, Word
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.inputs import LISTS, root
from evalflow.metrics.replies import Shape, item_type
from evalflow.metrics.returns import Returns, reply_model
from evalflow.metrics.rule_config import rule_problems

if TYPE_CHECKING:
    from jinja2 import Template  # noqa: TID251 - its type; Prompts makes them

    from evalflow.metrics.rule_config import Rule
    from evalflow.prompts import Prompts

RESERVED = ("source", "against", "items", "turns")
"""Variables that a step's own keys fill, so that no step may be called that."""


class StepConfig(Strict):
    """One question to the judge.

    Attributes:
        id: Names the reply for later prompts and for the score rule.
        prompt: A template of the prompt folders.
        returns: What the judge replies.
        task: What a judge without language can answer: extract_claims, verify_claims or rate_relevance.
        one_per: A list in an earlier reply; or `turns`, the assistant's, or `contexts`, in the order in which they were
            retrieved. The judge then gives `returns` once for each.
        source: The text to work on, as the variable `source`; for extract_claims the answer, unless said otherwise.
        against: What to compare with, as the variable `against`; for verify_claims the contexts, unless said
            otherwise.
    """

    id: Word
    prompt: Word
    returns: Returns
    task: Word | None = None
    one_per: Word | None = None
    source: Word | None = None
    against: Word | None = None

    @field_validator("id")
    @classmethod
    def _usable(cls, step: str) -> str:
        if not IDENTIFIER.match(step):
            raise ValueError(f"the step id {step!r} must be lower-case letters, digits and _, a letter first")
        if step in FIELDS or step in RESERVED:
            raise ValueError(f"the step id {step!r} already is the name of a template variable; choose another")
        return step

    @property
    def source_field(self) -> str | None:
        """The case field that the variable `source` is taken from."""
        return self.source or ("answer" if self.task == "extract_claims" else None)

    @property
    def against_field(self) -> str | None:
        """The case field that the variable `against` is taken from."""
        return self.against or ("contexts" if self.task == "verify_claims" else None)


@dataclass(frozen=True, slots=True)
class Step:
    """A step that is ready to be asked: its template is compiled and its reply model made."""

    config: StepConfig
    shape: Shape
    template: Template
    reply_model: type[BaseModel]


def build_steps(
    metric: str,
    steps: Sequence[StepConfig],
    rule: Rule,
    needs: Collection[str],
    prompts: Prompts,
    extras: Collection[str] = (),
    prompt_keys: Mapping[str, str] | None = None,
) -> tuple[Step, ...]:
    """Check steps and score rule against each other, the prompts and the declared needs, and make them ready.

    Args:
        metric: The metric's name, for messages.
        steps: The steps, in order.
        rule: The score rule.
        needs: The case fields that the metric declares.
        prompts: The templates.
        extras: Further variables that the kind gives to every template.
        prompt_keys: Key path of a step's prompt, where it is not `steps[i].prompt`.

    Raises:
        UserError: With every problem that was found.
    """
    where = f"metric.{metric}"
    shapes = {step.id: Shape(step.id, step.returns, step.one_per) for step in steps}
    problems = [*_duplicates(steps, where)]
    for position, step in enumerate(steps):
        key = f"{where}.steps[{position}]"
        earlier = {one.id: shapes[one.id] for one in steps[:position]}
        problems += _reference_problems(step, earlier, needs, key)
        known = {root(need) for need in needs} | set(earlier) | _own_variables(step) | set(extras)
        prompt_key = (prompt_keys or {}).get(step.id, f"{key}.prompt")
        problems += _prompt_problems(step.prompt, known, prompts, prompt_key)
    problems += rule_problems(rule, shapes, f"{where}.score")
    if problems:
        raise UserError(problems)
    return tuple(
        Step(step, shapes[step.id], prompts.get(step.prompt), reply_model(step.id, step.returns, bool(step.one_per)))
        for step in steps
    )


def _duplicates(steps: Sequence[StepConfig], where: str) -> Iterator[Problem]:
    ids = [step.id for step in steps]
    for position, step in enumerate(ids):
        if step in ids[:position]:
            yield Problem(f"there already is a step {step!r}", f"{where}.steps[{position}].id", "give it its own id")


def _own_variables(step: StepConfig) -> set[str]:
    filled = {"source": step.source_field, "against": step.against_field, "items": step.one_per}
    return {name for name, value in filled.items() if value is not None}


def _reference_problems(
    step: StepConfig, earlier: Mapping[str, Shape], needs: Collection[str], key: str
) -> Iterator[Problem]:
    if step.one_per is not None and step.one_per in LISTS:
        for field in LISTS[step.one_per]:
            if field not in needs:
                yield _undeclared(field, needs, f"{key}.one_per", f"`one_per: {step.one_per}` reads")
    elif step.one_per is not None:
        try:
            item_type(step.one_per, earlier)
        except ValueError as error:
            yield Problem(str(error), f"{key}.one_per")
    for name, field in (("source", step.source_field), ("against", step.against_field)):
        if field is not None and field not in needs:
            yield _undeclared(field, needs, f"{key}.{name}", f"`{name}` is")


def _prompt_problems(prompt: str, known: Collection[str], prompts: Prompts, key: str) -> Iterator[Problem]:
    try:
        used = prompts.variables(prompt)
    except UserError as error:
        for problem in error.problems:
            yield replace(problem, where=f"{key} ({problem.where})" if problem.where else key)
        return
    for variable in sorted(used - set(known)):
        if variable in FIELDS:
            yield _undeclared(variable, known, key, f"the prompt {prompt} uses")
        else:
            what = f"the prompt {prompt} uses {variable!r}, which is neither in `needs` nor an earlier step"
            yield Problem(what, key, did_you_mean(variable, known))


def _undeclared(field: str, needs: Collection[str], key: str, user: str) -> Problem:
    if root(field) not in FIELDS:
        return Problem(f"{user} {field!r}, which is no case field", key, did_you_mean(field, FIELDS))
    declared = [need for need in needs if root(need) in FIELDS]
    line = ", ".join([*declared, field])
    return Problem(f"{user} {field!r}, which `needs` does not declare", key, f"needs: [{line}]")
