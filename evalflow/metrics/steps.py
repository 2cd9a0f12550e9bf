"""A chain's steps: their inputs, the validation of their declarations, and placeholder replies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from pydantic import BaseModel, ValidationError

from evalflow.config.schema import FIELDS
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.examples import example_problems, examples_of
from evalflow.metrics.returns import (
    BoolType,
    LabelType,
    ListType,
    NumberType,
    RecordType,
    StepConfig,
    item_type,
    reply_model,
)
from evalflow.records import Answer, Case, Context, Message, Outcome
from evalflow.values.cells import list_in
from evalflow.values.contexts import contexts as read_contexts
from evalflow.values.jsonvalues import is_mapping, is_sequence, kind, look_up, written
from evalflow.values.trajectories import call_lines

if TYPE_CHECKING:
    from evalflow.metrics.rules import PartsRule, Rule
    from evalflow.prompts import Prompts, PromptTemplate

T = TypeVar("T")

COSTS = ("latency_s", "cost_usd")
"""An answer's latency in seconds and its cost in US dollars."""
FROM_ANSWER = (
    "answer",
    "actual",
    "contexts",
    "turn_contexts",
    "metadata",
    "finish_reason",
    "thoughts",
    "full_answer",
    *COSTS,
)
LISTS: Mapping[str, Sequence[str]] = {
    "turns": ("messages", "answer"),
    "user_turns": ("messages",),
    "contexts": ("contexts",),
    "calls": ("actual",),
}
"""Lists in a case that a step can ask about item by item (`one_per`), with the fields they come from."""
_OPEN_FIELDS = ("vars", "metadata", "expected")
"""Fields with free content; any list in them can be used in `one_per`, too."""


def fields_of(case: Case, answer: Answer) -> dict[str, object]:
    """Every field that `needs` and templates may name; None if the data lacks it.

    answer and actual come from the answer; contexts and metadata from the answer, else from the case. The conversation
    is the one actually held with the target. Latency and cost are those of the answer's own calls, cached or not; for a
    recorded answer, the case's columns latency_s and cost_usd.
    """
    as_recorded = not answer.messages or answer.messages is case.messages
    played = case if as_recorded else replace(case, messages=answer.messages)
    metadata = case.metadata if answer.metadata is None else answer.metadata
    recorded = is_recorded(case, answer)
    contexts = case.contexts if answer.contexts is None else answer.contexts
    return {
        "question": played.question,
        "history": played.history,
        "messages": played.messages or None,
        "answer": answer.answer,
        "reference": case.reference,
        "contexts": contexts,
        "turn_contexts": turn_contexts(played.messages, contexts),
        "expected": case.expected,
        "actual": answer.actual,
        "metadata": None if answer.status == "absent" and not metadata else metadata,
        "demo_answer": case.demo_answer,
        "scenario": case.scenario,
        "persona": case.persona,
        "goal": case.goal,
        "facts": case.facts,
        "brief": case.brief,
        "vars": case.vars,
        "finish_reason": answer.finish_reason,
        "thoughts": answer.thoughts,
        "full_answer": answer.answer if answer.full_answer is None else answer.full_answer,
        "latency_s": case.vars.get("latency_s") if recorded else answer.latency_s,
        "cost_usd": case.vars.get("cost_usd") if recorded else answer.full_cost_usd,
    }


def turn_contexts(
    messages: Iterable[Message], last: tuple[Context, ...] | None
) -> tuple[tuple[Context, ...], ...] | None:
    """The contexts retrieved for each of the assistant's turns, the answer last; None if no turn has any.

    An earlier turn has them in its message's metadata, under `contexts`.
    """
    turns: list[list[Context]] = []
    before: list[Context] = []  # from the tool calls that the turn made first
    is_known = last is not None
    for message in messages:
        found = (message.metadata or {}).get("contexts") if message.role == "assistant" else None
        is_known = is_known or found is not None
        before += () if found is None else _contexts(found)
        if _says(message):
            turns.append(before)
            before = []
    if not is_known:
        return None
    turns.append([*before, *(last or ())])
    return tuple(tuple(context for context in turn if context.text.strip()) for turn in turns)


def _contexts(given: object) -> tuple[Context, ...]:
    """The contexts in a message's metadata; a value that is not a context is kept as text."""
    try:
        return read_contexts([given] if is_mapping(given) else given)
    except ValueError:
        return (Context(written(given)),)


def tuple_of(kind: type[T], value: object) -> tuple[T, ...]:
    """The items of a tuple field; () if the field does not hold a tuple."""
    return tuple(item for item in value if isinstance(item, kind)) if _is_tuple(value) else ()


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def reference_in(fields: Mapping[str, object]) -> str | tuple[str, ...] | None:
    """The reference of a case; a tuple if there are several, each of them right."""
    reference = fields["reference"]
    return reference if reference is None or isinstance(reference, str) else tuple_of(str, reference)


def is_recorded(case: Case, answer: Answer) -> bool:
    """Whether this is the recorded answer, not a generated or an example one."""
    same = (answer.answer, answer.actual) == (case.answer, case.actual)
    return not answer.generated and (answer.recorded or same)


def items_in(name: str, fields: Mapping[str, object]) -> tuple[str, ...]:
    """The texts of one of `LISTS`: every context, every turn of a side, or every tool call.

    The assistant's last turn is the answer. Any other name is the path of a list in the case; in a text, each line is
    an item. ValueError if there is no such list.
    """
    if name == "calls":
        try:
            return call_lines(fields["actual"])
        except ValueError as error:
            raise ValueError(f"actual: {error}") from None
    if name not in LISTS:
        return _listed(name, look_up(name, fields))
    if name == "contexts":
        return tuple(context.text for context in tuple_of(Context, fields["contexts"]))
    messages = tuple_of(Message, fields["messages"])
    if name == "user_turns":
        return tuple(message.text for message in messages if message.role == "user")
    said, answer = tuple(message.text for message in messages if _says(message)), fields["answer"]
    return (*said, answer) if isinstance(answer, str) else said


def _says(message: Message) -> bool:
    """Whether the message is a turn of the assistant with text, not just tool calls."""
    return message.role == "assistant" and not message.only_calls


def _listed(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        listed = list_in(value)
        listed = value.splitlines() if listed is None else listed
    else:
        listed = value
    if not is_sequence(listed):
        raise ValueError(f"{name}: {kind(value)} is not a list of texts")
    return tuple(text for one in listed if (text := written(one).strip()))


def is_in_case(name: str) -> bool:
    """Whether `one_per` names a list in the case, not in an earlier reply."""
    return name in LISTS or root(name) in _OPEN_FIELDS


def root(path: str) -> str:
    """The case field that a dotted path starts from."""
    return path.partition(".")[0]


def blocked_outcome(
    needs: Iterable[str],
    fields: Mapping[str, object],
    answer: Answer,
    blank_is_text: bool,
    may_be_empty: Collection[str] = (),
) -> Outcome | None:
    """The outcome if no score is possible, else None: `error` for a failed answer, `skipped` for a missing field.

    With `blank_is_text` an empty text can be scored, as in a string comparison; fields in `may_be_empty` can always be
    empty.
    """
    failed = answer.status == "error"
    values: dict[str, object] = {need: fields[need] if need in fields else look_up(need, fields) for need in needs}
    if None in values.values():
        missing = [
            need for need, value in values.items() if value is None and not (failed and root(need) in FROM_ANSWER)
        ]
        if missing == ["actual"] and is_null_prediction(answer):
            return Outcome(status="error", error_type="target: malformed", error="the target's prediction is null")
        if missing:
            return Outcome(status="skipped", reason=f"the case has no {' and no '.join(missing)}")
    if failed:
        error_type = f"target: {answer.error_type or 'unknown'}"
        return Outcome(status="error", error_type=error_type, error=answer.error or "the target gave no answer")
    if blank_is_text:
        return None
    for need, value in values.items():
        if need not in may_be_empty and (reason := _nothing_in(need, value)):
            return Outcome(status="undefined", reason=f"nothing to judge: {reason}")
    return None


def _nothing_in(need: str, value: object) -> str | None:
    """Why a field has nothing to read; None if it has."""
    if need == "turn_contexts":
        return None if any(tuple_of(object, value)) else "nothing was retrieved for any turn"
    if need == "contexts":
        texts = [context.text for context in tuple_of(Context, value)]
        return None if "".join(texts).strip() else "the contexts are empty: nothing was retrieved"
    return f"the {need} is blank" if _is_blank(value) else None


def is_empty(field: str, fields: Mapping[str, object]) -> bool:
    """Whether a field of the case is a blank text or an empty list."""
    value = look_up(field, fields)
    return value in ([], (), {}) or _nothing_in(field, value) is not None


def is_null_prediction(answer: Answer) -> bool:
    """Whether a target gave null as its prediction."""
    made = answer.generated and answer.status == "answered" and answer.answer is None
    return made and answer.actual is None


def _is_blank(value: object) -> bool:
    """Whether a text, or each of several references, is blank."""
    texts = tuple_of(object, value) or (value,)
    return all(isinstance(text, str) and not text.strip() for text in texts)


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A checked step with its compiled template and reply model."""

    config: StepConfig
    template: PromptTemplate
    reply_model: type[BaseModel]
    examples: Sequence[Mapping[str, object]] = ()
    examples_name: str = ""

    @property
    def texts(self) -> Sequence[str]:
        """The names, in the run's prompts, of the texts that its prompt uses."""
        return [self.config.prompt, *([self.examples_name] if self.examples_name else [])]


def build_steps(
    metric: str,
    steps: Sequence[StepConfig],
    rule: Rule | PartsRule,
    needs: Collection[str],
    prompts: Prompts,
    extras: Collection[str] = (),
    prompt_keys: Mapping[str, str] | None = None,
) -> tuple[PreparedStep, ...]:
    """Check steps and score rule against each other, the prompts and `needs`, and compile them.

    `extras` are further variables that the kind gives to every template; `prompt_keys` are the key paths of prompts,
    if they differ from `steps[i].prompt`. UserError lists every problem.
    """
    where = f"metric.{metric}"
    problems: list[Problem] = []
    earlier: dict[str, StepConfig] = {}
    for position, step in enumerate(steps):
        key = f"{where}.steps[{position}]"
        if step.id in earlier:
            problems.append(Problem(f"there already is a step {step.id!r}", f"{key}.id", "choose another id"))
        problems += step_problems(step, earlier, needs, prompts, key, extras, (prompt_keys or {}).get(step.id))
        earlier[step.id] = step
    problems += unsaid_problems({f"{where}.steps[{at}]": step for at, step in enumerate(steps)}, prompts)
    problems += rule.problems(earlier, f"{where}.score")
    if problems:
        raise UserError([*dict.fromkeys(problems)])  # two steps may share a prompt
    return tuple(prepared_step(step, prompts) for step in steps)


def prepared_step(step: StepConfig, prompts: Prompts) -> PreparedStep:
    """A checked step, ready to be asked."""
    model = reply_model(step.id, step.returns, bool(step.one_per))
    name, examples = examples_of(step, model, prompts)
    return PreparedStep(step, prompts.get(step.prompt), model, examples, name)


def step_problems(
    step: StepConfig,
    earlier: Mapping[str, StepConfig],
    needs: Collection[str],
    prompts: Prompts,
    key: str,
    extras: Collection[str] = (),
    prompt_key: str | None = None,
    uncertain: Collection[str] = (),
) -> Iterator[Problem]:
    """Problems of a step's references.

    `earlier` are the steps that always come before it, `uncertain` a graph's other steps.
    """
    yield from _reference_problems(step, earlier, needs, key)
    for name, given in (step.if_empty or {}).items():
        yield from _given_problems(step, name, given, earlier, needs, f"{key}.if_empty.{name}")
    own = {"source": step.source_field, "against": step.against_field, "items": step.one_per}
    known = {*map(root, needs), *earlier, *extras, *(name for name, value in own.items() if value is not None)}
    yield from _prompt_problems(step.prompt, known, prompts, prompt_key or f"{key}.prompt", uncertain)
    if step.examples is not None:
        model = reply_model(step.id, step.returns, bool(step.one_per))
        place = prompt_key.rpartition(".")[0] if prompt_key else key
        yield from example_problems(step, model, {*known, *needs}, prompts, f"{place}.examples")


def _reference_problems(
    step: StepConfig, earlier: Mapping[str, StepConfig], needs: Collection[str], key: str
) -> Iterator[Problem]:
    if step.one_per is not None and step.one_per in LISTS:
        for field in LISTS[step.one_per]:
            if field not in needs:
                yield _undeclared(field, needs, f"{key}.one_per", f"`one_per: {step.one_per}` reads")
    elif step.one_per is not None and is_in_case(step.one_per):
        if step.one_per not in needs:
            yield _undeclared(step.one_per, needs, f"{key}.one_per", "`one_per` is")
    elif step.one_per is not None:
        try:
            item_type(step.one_per, earlier)
        except ValueError as error:
            yield Problem(str(error), f"{key}.one_per")
    for name, field in (("source", step.source_field), ("against", step.against_field)):
        if field is not None and field not in needs:
            yield _undeclared(field, needs, f"{key}.{name}", f"`{name}` is")


def _given_problems(
    step: StepConfig, name: str, given: object, earlier: Mapping[str, StepConfig], needs: Collection[str], key: str
) -> Iterator[Problem]:
    """Problems of a reply declared in `if_empty`."""
    if root(name) in earlier:
        try:
            item_type(name, earlier)
        except ValueError as error:
            yield Problem(str(error), key)
    elif name not in needs:
        yield _undeclared(name, needs, key, "`if_empty` names")
    if given == [] and step.one_per is None:
        yield Problem("[] means no items, but this step has no `one_per`", key, "give the reply, or `ask`")
    if is_mapping(given):
        try:
            reply_model(step.id, step.returns, one_per=False).model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            what = f"not a reply of this step: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            yield Problem(what, key, f"it returns {', '.join(step.returns)}")


def unsaid_problems(steps: Mapping[str, StepConfig], prompts: Prompts) -> Iterator[Problem]:
    """Steps that read a field which may be empty (another step has `if_empty` for it), without `if_empty` for it."""
    may_be_empty = dict.fromkeys(
        name for step in steps.values() for name in step.if_empty or () if root(name) in FIELDS
    )
    for key, step in steps.items():
        for name in may_be_empty:
            if name not in (step.if_empty or ()) and name in _read_by(step, prompts):
                what = f"the step {step.id!r} reads {name}, which may be empty: another step has `if_empty` for it"
                yield Problem(what, key, f"add if_empty: {{{name}: ...}}, a reply or `ask`")


def _read_by(step: StepConfig, prompts: Prompts) -> Collection[str]:
    try:
        shown = prompts.variables(step.prompt)
    except UserError:  # reported where the prompt is checked
        shown = set[str]()
    listed = LISTS.get(step.one_per or "", (step.one_per,))
    return {*shown, *filter(None, (*listed, step.source_field, step.against_field))}


def _prompt_problems(
    prompt: str, known: Collection[str], prompts: Prompts, key: str, uncertain: Collection[str]
) -> Iterator[Problem]:
    try:
        used = prompts.variables(prompt)
    except UserError as error:
        for problem in error.problems:
            yield replace(problem, where=f"{key} ({problem.where})" if problem.where else key)
        return
    for variable in sorted(used - set(known)):
        if variable in FIELDS:
            yield _undeclared(variable, known, key, f"the prompt {prompt} uses")
        elif variable in uncertain:
            what = f"the prompt {prompt} uses the reply {variable!r}, which not every path to this node has"
            yield Problem(what, key, f"lead every path through {variable}, or put this question into two nodes")
        else:
            what = f"the prompt {prompt} uses {variable!r}, which is neither in `needs` nor an earlier step"
            yield Problem(what, key, did_you_mean(variable, known))


def _undeclared(field: str, needs: Collection[str], key: str, user: str) -> Problem:
    if root(field) not in FIELDS:
        return Problem(f"{user} {field!r}, which is not a case field", key, did_you_mean(field, FIELDS))
    declared = [need for need in needs if root(need) in FIELDS]
    line = ", ".join([*declared, field])
    return Problem(f"{user} {field!r}, which `needs` does not declare", key, f"needs: [{line}]")


def placeholder_reply(returns: Mapping[str, object], source: object = None) -> dict[str, object]:
    """A placeholder reply of the declared types.

    A list gets one item per sentence of `source`, or three; this determines the length of later prompts.
    """
    sentences = re.split(r"(?<=[.!?。！？])\s*", source.strip()) if isinstance(source, str) else []
    texts = [text for text in sentences if text]
    return {name: _value(declared, texts) for name, declared in returns.items()}


def _value(declared: object, texts: list[str]) -> object:
    match declared:
        case BoolType():
            return True
        case NumberType():
            return declared.min if declared.min is not None else declared.max or 0
        case LabelType():
            return declared.labels[0]
        case ListType():
            return [_value(declared.items, [text]) for text in texts or ["…"] * 3]
        case RecordType():
            return {name: _value(inner, texts) for name, inner in declared.fields.items()}
        case _:
            return texts[0] if texts else "…"
