"""A chain's steps: their declaration, their inputs, and the checks of both before any data is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, field_validator

from evalflow.config.schema import FIELDS, IDENTIFIER, Strict, Word
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.jsonvalues import look_up
from evalflow.metrics.returns import (
    BoolType,
    LabelType,
    ListType,
    NumberType,
    RecordType,
    Returns,
    Shape,
    item_type,
    reply_model,
)
from evalflow.records import Answer, Case, Context, Message, Outcome

if TYPE_CHECKING:
    from jinja2 import Template  # noqa: TID251 - for the type only; Prompts creates them

    from evalflow.metrics.rules import Rule
    from evalflow.prompts import Prompts


FROM_ANSWER = ("answer", "actual", "contexts", "metadata")
LISTS: Mapping[str, Sequence[str]] = MappingProxyType({"turns": ("messages", "answer"), "contexts": ("contexts",)})
"""Lists in a case that a judge can be asked about item by item, with the fields they come from."""


def fields_of(case: Case, answer: Answer) -> dict[str, Any]:
    """Every field that `needs` and templates may name; None if the data has none.

    answer and actual come from the answer. contexts and metadata come from the answer, else from the case. The
    conversation is the one actually held with the target.
    """
    as_recorded = not answer.messages or answer.messages is case.messages
    played = case if as_recorded else replace(case, messages=answer.messages)
    metadata = case.metadata if answer.metadata is None else answer.metadata
    return {
        "question": played.question,
        "history": played.history,
        "messages": played.messages or None,
        "answer": answer.answer,
        "reference": case.reference,
        "contexts": case.contexts if answer.contexts is None else answer.contexts,
        "expected": case.expected,
        "actual": answer.actual,
        "metadata": None if answer.status == "absent" and not metadata else metadata,
        "demo_answer": case.demo_answer,
        "vars": case.vars,
    }


def is_recorded(case: Case, answer: Answer) -> bool:
    """Whether the answer is the recorded one, not a generated or an example answer."""
    return not answer.generated and (answer.answer, answer.actual) == (case.answer, case.actual)


def items_in(name: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts of one of `LISTS`: every context, or every assistant turn with the answer last."""
    if name == "contexts":
        return tuple(context.text for context in cast("tuple[Context, ...]", fields["contexts"]))
    messages = cast("tuple[Message, ...]", fields["messages"] or ())
    return (*(message.content for message in messages if message.role == "assistant"), fields["answer"])


def root(path: str) -> str:
    """The case field that a dotted path starts from."""
    return path.partition(".")[0]


def obstacle(needs: Iterable[str], fields: Mapping[str, Any], answer: Answer, blank_is_text: bool) -> Outcome | None:
    """The outcome if no score is possible, else None.

    Args:
        needs: The fields the metric needs, in the order of reporting.
        fields: As from `fields_of`.
        answer: A failed answer makes the score an error.
        blank_is_text: Whether an empty text can be scored, as in a string comparison. A judge is not asked about one.
    """
    failed = answer.status == "error"
    values = {need: fields[need] if need in fields else look_up(need, fields) for need in needs}
    if None in values.values():
        missing = [
            need for need, value in values.items() if value is None and not (failed and root(need) in FROM_ANSWER)
        ]
        if missing:
            return Outcome(status="skipped", reason=f"the case has no {' and no '.join(missing)}")
    if failed:
        error_type = f"target: {answer.error_type or 'unknown'}"
        return Outcome(status="error", error_type=error_type, error=answer.error or "the target gave no answer")
    if blank_is_text:
        return None
    for need, value in values.items():
        if need == "contexts":
            if not "".join([context.text for context in value]).strip():
                reason = "nothing to judge: the contexts are empty: nothing was retrieved"
                return Outcome(status="undefined", reason=reason)
        elif isinstance(value, str) and not value.strip():
            return Outcome(status="undefined", reason=f"nothing to judge: the {need} is blank")
    return None


RESERVED = ("source", "against", "items", "turns")
"""Variables set by a step's own keys, so reserved as step ids."""


class StepConfig(Strict):
    """One question to the judge.

    Attributes:
        id: Names the reply for later prompts and for the score rule.
        prompt: A template of the prompt folders.
        returns: The judge's reply.
        task: For judges that are no language models: extract_claims, verify_claims or rate_relevance.
        one_per: A list in an earlier reply; or `turns` (the assistant's) or `contexts` (in retrieval order). The judge
            then gives `returns` once for each item.
        source: The text to work on, as the variable `source`; defaults to the answer for extract_claims.
        against: The text to compare with, as the variable `against`; defaults to the contexts for verify_claims.
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
        """The case field for the variable `source`."""
        return self.source or ("answer" if self.task == "extract_claims" else None)

    @property
    def against_field(self) -> str | None:
        """The case field for the variable `against`."""
        return self.against or ("contexts" if self.task == "verify_claims" else None)


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A checked step with its compiled template and reply model."""

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
) -> tuple[PreparedStep, ...]:
    """Check steps and score rule against each other, the prompts and `needs`, and compile them.

    Args:
        metric: The metric's name, for messages.
        steps: The steps, in order.
        rule: The score rule.
        needs: The case fields that the metric declares.
        prompts: The templates.
        extras: Further variables that the kind gives to every template.
        prompt_keys: Key path of a step's prompt, if it is not `steps[i].prompt`.

    Raises:
        UserError: Lists every problem.
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
    problems += rule.problems(shapes, f"{where}.score")
    if problems:
        raise UserError(problems)
    return tuple(
        PreparedStep(
            step, shapes[step.id], prompts.get(step.prompt), reply_model(step.id, step.returns, bool(step.one_per))
        )
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


LISTED = 3
"""Number of items to assume in a list of unknown length."""


def stand_in(returns: Mapping[str, Any], source: Any = None) -> dict[str, Any]:
    """A placeholder reply of the declared types.

    A list gets one item per sentence of the text `source`, since that decides the length of later prompts.
    """
    texts = _sentences(source) if isinstance(source, str) else []
    return {name: _value(declared, texts) for name, declared in returns.items()}


def _value(declared: Any, texts: list[str]) -> Any:
    match declared:
        case BoolType():
            return True
        case NumberType():
            return declared.min if declared.min is not None else declared.max or 0
        case LabelType():
            return declared.labels[0]
        case ListType():
            return [_value(declared.items, [text]) for text in texts or ["…"] * LISTED]
        case RecordType():
            return {name: _value(inner, texts) for name, inner in declared.fields.items()}
        case _:
            return texts[0] if texts else "…"


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?。！？])\s*", text.strip())
    return [part for part in parts if part]
