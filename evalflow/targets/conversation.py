"""Scripted dialogues: the target is asked turn by turn, at each user message without an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from evalflow.protocols import Target
from evalflow.records import CUT_OFF, NOTHING, Answer, Case, Message
from evalflow.values.jsonvalues import as_list, as_map

SIMULATION = "simulation"
"""The key of an answer's metadata with how its conversation ended: ended, reason, turns, simulator."""


def ending_of(metadata: Mapping[str, object] | None) -> str | None:
    """How the simulated conversation of an answer with this metadata ended; None if it was not simulated."""
    ended = as_map((metadata or {}).get(SIMULATION)).get("ended")
    return ended if isinstance(ended, str) else None


def open_turns(messages: Sequence[Message]) -> list[int]:
    """The positions of the messages at which the target is asked: user messages without an answer, and the last one."""
    last = len(messages) - 1
    return [
        at
        for at, message in enumerate(messages)
        if at == last or (message.role == "user" and messages[at + 1].role != "assistant")
    ]


@runtime_checkable
class KeepsConversations(Protocol):
    """A target with state per conversation besides the messages."""

    def conversation(self) -> Target:
        """The target for the turns of one conversation."""
        ...


def begun(target: Target) -> Target:
    """The target for the turns of one conversation: itself, if each of its answers stands alone."""
    return target.conversation() if isinstance(target, KeepsConversations) else target


class ConversationTarget:
    """Plays conversations with a target that answers only the last message.

    Its earlier answers are part of the conversation for the next turn, with their metadata and contexts, which metrics
    read. Each turn is a separate call: cached, limited and counted like any other.
    """

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self.identity = target.identity
        self._target = target

    async def answer(self, case: Case, repeat: int) -> Answer:
        """The last answer, the actual conversation, and cost and time of all turns; a failed turn ends it."""
        asked = open_turns(case.messages)
        if len(asked) < 2:
            return await self._target.answer(case, repeat)
        target = begun(self._target)
        played: list[Message] = []
        prompted_by: list[Message] = []
        answers: list[Answer] = []
        for at, message in enumerate(case.messages):
            played.append(message)
            if at not in asked:
                continue
            answer = await target.answer(replace(case, messages=tuple(played)), repeat)
            prompted_by.append(message)
            answers.append(answer)
            if answer.status == "error":
                turn = f"turn {len(answers)} of {len(asked)}: {answer.error}"
                return replace(totalled(answers, prompted_by), error=turn)
            if at != asked[-1]:
                played.append(as_message(answer))
        return totalled(answers, prompted_by)

    def conversation(self) -> ConversationTarget:
        return ConversationTarget(begun(self._target))

    async def close(self) -> None:
        await self._target.close()


def _as_text(answer: Answer) -> str:
    """An answer as message text, all of it; a prediction is JSON unless it is text."""
    if answer.full_answer is not None:
        return answer.full_answer
    content = answer.actual if answer.answer is None else answer.answer
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def as_message(answer: Answer) -> Message:
    """An answer as the assistant's turn: its metadata, with the texts that were retrieved for it under `contexts`."""
    contexts = {} if answer.contexts is None else {"contexts": [context.text for context in answer.contexts]}
    return Message("assistant", _as_text(answer), {**contexts, **(answer.metadata or {})} or None)


def totalled(answers: Sequence[Answer], prompted_by: Sequence[Message]) -> Answer:
    """The last answer, with the steps and totals of all turns. A turn that failed before any reply counts as 0.

    One that was cut off marks the whole.
    """
    ended = CUT_OFF if any(answer.finish_reason == CUT_OFF for answer in answers) else answers[-1].finish_reason
    answers = [*answers[:-1], replace(answers[-1], actual=_steps(answers, prompted_by), finish_reason=ended)]
    taken = [answer for answer in answers if answer.requests or answer.cached]
    if not taken:
        return answers[-1]
    cached = all(answer.cached for answer in answers)
    return sum([answer.spend for answer in taken], NOTHING).fill(answers[-1], cached=cached)


def _steps(answers: Sequence[Answer], prompted_by: Sequence[Message]) -> object:
    """Return an agent's steps in all turns with the messages between them; for other targets the last prediction."""
    done = [answer.actual for answer in answers if answer.actual is not None]
    if len(answers) < 2 or not done or not all(map(_is_trajectory, done)):
        return answers[-1].actual
    steps: list[object] = []
    for message, answer in zip(prompted_by, answers, strict=True):
        steps += [{"role": message.role, "content": message.content}] if steps else []
        steps += as_list(answer.actual)
    return steps


def _is_trajectory(actual: object) -> bool:
    return any("role" in as_map(step) for step in as_list(actual))
