"""The order that a conversation's turns must have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile

from evalflow.records import Message

ROLES = ("system", "user", "assistant")


def irregular(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """What is wrong with the order of a conversation, by the number of the message, from 0.

    Regular are: system messages at the beginning and nowhere else; then users and assistant, where no message of the
    assistant follows another one, and the last message is a user's. User messages may follow each other: the target
    is asked at each of them.
    """
    turns = list(dropwhile(lambda turn: turn[1].role == "system", enumerate(messages)))
    previous = None
    for number, message in turns:
        if message.role not in ROLES:
            yield number, f"has the role {message.role!r}; known: {', '.join(ROLES)}"
        elif message.role == "system":
            yield number, "is a system message, which can only stand at the beginning"
        elif message.role == previous == "assistant":
            yield number, "is the second assistant message in a row"
        previous = message.role
    if messages and messages[-1].role != "user":
        what = f"ends the conversation with the role {messages[-1].role!r}; the last must be a user's, to be answered"
        yield len(messages) - 1, what
