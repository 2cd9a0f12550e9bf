"""What a case and its answer offer to a metric, and when they offer too little for a score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from evalflow.records import Answer, Case, Context, Message, Outcome

FROM_ANSWER = ("answer", "actual", "contexts", "metadata")
LISTS: Mapping[str, Sequence[str]] = MappingProxyType({"turns": ("messages", "answer"), "contexts": ("contexts",)})
"""Lists in a case that a judge can be asked about item by item, and the fields that they are made of."""


def fields_of(case: Case, answer: Answer) -> dict[str, Any]:
    """Every field that `needs` and templates may name; None where the data has none.

    answer and actual come from the answer, contexts and metadata from the answer or else from the case, and the
    conversation is the one that was played. An answer that is absent has no metadata, also where it is known to have
    come with none ({}).
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
    """Whether the answer is the one that stands in the data, and not a generated or an example answer."""
    return not answer.generated and (answer.answer, answer.actual) == (case.answer, case.actual)


def look_up(path: str, fields: Mapping[str, Any]) -> Any:
    """The field, or what a dotted path such as `metadata.category` leads to inside of it; None where absent."""
    if "." not in path:
        return fields.get(path)
    here: Any = fields
    for part in path.split("."):
        if not isinstance(here, Mapping):
            return None
        here = cast("Mapping[str, Any]", here).get(part)
    return here


def items_in(name: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts of one of `LISTS`: of each context, or of each turn of the assistant, the answer last."""
    if name == "contexts":
        return tuple(context.text for context in cast("tuple[Context, ...]", fields["contexts"]))
    messages = cast("tuple[Message, ...]", fields["messages"] or ())
    return (*(message.content for message in messages if message.role == "assistant"), fields["answer"])


def root(path: str) -> str:
    """The case field that a dotted path starts from."""
    return path.partition(".")[0]


def obstacle(needs: Iterable[str], fields: Mapping[str, Any], answer: Answer, blank_is_text: bool) -> Outcome | None:
    """The outcome where no score is possible, or None where nothing is in the way.

    Args:
        needs: The fields the metric needs, in the order in which to complain.
        fields: What `fields_of` gives.
        answer: A failed one makes the score an error: what it would have held is not known.
        blank_is_text: Whether an empty text is something to score, as it is for a string comparison. A judge is not
            asked about one: nothing can be supported, relevant or coherent in it.
    """
    failed = answer.status == "error"
    values = {need: look_up(need, fields) for need in needs}
    missing = [need for need, value in values.items() if value is None and not (failed and root(need) in FROM_ANSWER)]
    if missing:
        return Outcome(status="skipped", reason=f"the case has no {' and no '.join(missing)}")
    if failed:
        error_type = f"target: {answer.error_type or 'unknown'}"
        return Outcome(status="error", error_type=error_type, error=answer.error or "the target gave no answer")
    if blank_is_text:
        return None
    blank = next((need for need, value in values.items() if _blank(need, value)), None)
    if blank is None:
        return None
    what = "the contexts are empty: nothing was retrieved" if blank == "contexts" else f"the {blank} is blank"
    return Outcome(status="undefined", reason=f"nothing to judge: {what}")


def _blank(need: str, value: Any) -> bool:
    if need == "contexts":
        return not any(context.text.strip() for context in cast("tuple[Context, ...]", value))
    return isinstance(value, str) and not value.strip()
