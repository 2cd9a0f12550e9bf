"""The fields of a case and its answer that `needs` and templates may name, and whether they allow a score."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard, TypeVar

from evalflow.records import Answer, Case, Context, Message, Outcome
from evalflow.values.cells import list_in
from evalflow.values.contexts import contexts as read_contexts
from evalflow.values.jsonvalues import is_mapping, is_sequence, kind, look_up, written
from evalflow.values.trajectories import call_lines

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
        retrieved = (message.metadata or {}).get("contexts") if message.role == "assistant" else None
        is_known = is_known or retrieved is not None
        before += () if retrieved is None else _contexts(retrieved)
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
    turns, answer = tuple(message.text for message in messages if _says(message)), fields["answer"]
    return (*turns, answer) if isinstance(answer, str) else turns


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
