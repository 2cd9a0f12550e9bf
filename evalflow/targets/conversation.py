"""Scripted dialogues: the target is asked turn by turn, at each user message without an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from evalflow.protocols import Target
from evalflow.records import NOTHING, Answer, Case, Message


def open_turns(messages: Sequence[Message]) -> list[int]:
    """The positions of the messages at which the target is asked: user messages without an answer, and the last one."""
    last = len(messages) - 1
    return [
        at
        for at, message in enumerate(messages)
        if at == last or (message.role == "user" and messages[at + 1].role != "assistant")
    ]


class ConversationTarget:
    """Plays conversations with a target that answers only the last message.

    Its earlier answers and their metadata are part of the conversation for the next turn. Each turn is a separate call:
    cached, limited and counted like any other.
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
        played: list[Message] = []
        answers: list[Answer] = []
        for at, message in enumerate(case.messages):
            played.append(message)
            if at not in asked:
                continue
            answer = await self._target.answer(replace(case, messages=tuple(played)), repeat)
            answers.append(answer)
            if answer.status == "error":
                turn = f"turn {len(answers)} of {len(asked)}: {answer.error}"
                return replace(_totalled(answers), error=turn)
            if at != asked[-1]:
                played.append(Message("assistant", _as_text(answer), answer.metadata))
        return _totalled(answers)

    async def close(self) -> None:
        await self._target.close()


def _as_text(answer: Answer) -> str:
    """An answer as message text; a prediction is JSON unless it is text."""
    said = answer.actual if answer.answer is None else answer.answer
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _totalled(answers: Sequence[Answer]) -> Answer:
    """The last answer, with the totals of all turns. A turn that failed before any reply counts as 0."""
    taken = [answer for answer in answers if answer.requests or answer.cached]
    if not taken:
        return answers[-1]
    cached = all(answer.cached for answer in answers)
    return sum([answer.spend for answer in taken], NOTHING).fill(answers[-1], cached=cached)
