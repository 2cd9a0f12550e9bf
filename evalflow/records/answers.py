"""Test cases, and a target's answers to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from evalflow.frozen import record
from evalflow.records.spend import CallCosts

AnswerStatus = Literal["answered", "absent", "error"]
RECORDED_FAILURE = "recorded"
"""The error_type of an answer whose failure is recorded in the data."""


@record()
class Message:
    """One turn of a conversation."""

    role: str
    content: str
    metadata: Mapping[str, Any] | None = None


@record()
class Context:
    """A piece of text that the target was given, or retrieved, to answer from."""

    text: str
    title: str | None = None
    path: str | None = None


@record(kw_only=True)
class Case:
    """One thing to evaluate: a conversation that ends with a user message, and what is known about it.

    A field that the data does not have is None (never an empty value): metrics that need it are skipped.

    Attributes:
        dataset, index: The dataset it came from, and its position in it, from 0.
        id, messages: The file's own id, else a hash of the content, unique in the dataset; and the conversation.
        answer, reference: The recorded answer, and the ideal one.
        contexts: What was retrieved; an empty tuple means that nothing was retrieved.
        expected, actual: The true label and the recorded prediction; or the expected ids and the retrieved ones.
        metadata, demo_answer: What the target sent with its answer; an example answer to try metrics on.
        failure: Why there is no recorded answer: the target failed during recording.
        checks: Checks in the case itself: identifier, enabled, params.
        tags, group: Names for slicing, hierarchical with " > "; the cluster for error bars (source, user, template).
        labels, vars: Human labels in the data, by metric name; and all other columns.
    """

    dataset: str
    index: int
    id: str
    messages: tuple[Message, ...] = ()
    answer: str | None = None
    reference: str | None = None
    contexts: tuple[Context, ...] | None = None
    expected: Any = None
    actual: Any = None
    metadata: Mapping[str, Any] | None = None
    demo_answer: Message | None = None
    failure: str | None = None
    checks: tuple[Mapping[str, Any], ...] | None = None
    tags: tuple[str, ...] = ()
    group: str | None = None
    labels: Mapping[str, Any] | None = None
    vars: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def question(self) -> str | None:
        """The last user message, or None."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.content
        return None

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages before the last user message."""
        last = len(self.messages) - 1
        while last > 0 and self.messages[last].role != "user":
            last -= 1
        return self.messages[: max(0, last)]


@record(kw_only=True)
class Answer(CallCosts):
    """One answer of a target to a case.

    Attributes:
        dataset, index, case_id, target, target_repeat: The answer's identity; target_repeat counts from 0.
        status, error_type, error: answered; absent (recorded data has none); error (generation failed), and why.
        messages: The conversation as sent, without the final answer.
    """

    dataset: str
    index: int
    case_id: str
    target: str
    target_repeat: int = 0
    status: AnswerStatus = "answered"
    messages: tuple[Message, ...] = ()
    answer: str | None = None
    actual: Any = None
    contexts: tuple[Context, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    error_type: str | None = None
    error: str | None = None

    @property
    def generated(self) -> bool:
        """Whether a target made it, or tried to; False for answers recorded in the data."""
        failed = self.status == "error" and self.error_type != RECORDED_FAILURE
        return failed or self.requests > 0 or self.latency_s is not None
