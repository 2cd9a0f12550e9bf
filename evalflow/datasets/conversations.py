"""A case's conversation: the order of its turns, and how it is built from messages, history and question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, takewhile
from typing import Any, Literal

from evalflow.datasets.rows import ReadRow, content_id, json_value
from evalflow.errors import Problem
from evalflow.records import Case, Message
from evalflow.values.cells import opened
from evalflow.values.jsonvalues import as_list, as_map, written

ROLES = ("system", "developer", "user", "assistant", "tool")
HEAD = ("system", "developer")


def irregular(messages: Sequence[Message], *, continues: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the violations of message order in a conversation, each with the message's number from 0.

    The rules: system messages come first; no assistant message follows another; a tool's result follows the turn that
    called it, or another result; the last message is a user's or a tool's, unless a simulated user `continues`. Several
    user messages may follow each other: the target is asked at each of them.
    """
    previous: Message | None = None
    for number, message in dropwhile(lambda turn: turn[1].role in HEAD, enumerate(messages)):
        if message.role not in ROLES:
            yield number, f"has the role {message.role!r}; known: {', '.join(ROLES)}"
        elif message.role in HEAD:
            yield number, f"is a {message.role} message, which can only stand at the beginning"
        elif message.role == "assistant" and previous is not None and previous.role == "assistant":
            yield number, "is the second assistant message in a row"
        elif message.role == "tool" and not (previous and (previous.role == "tool" or previous.tool_calls)):
            yield number, "is a tool's result, but the turn before it calls no tool"
        previous = message
    if messages and messages[-1].role not in ("user", "tool") and not continues:
        what = f"ends the conversation with the role {messages[-1].role!r}; the last must be a user's, to be answered"
        yield len(messages) - 1, what


def answer_key(turns: object) -> str | None:
    """The key of the text in the last of several turns of a file, if it is the assistant's; else None."""
    listed = as_list(opened(turns))
    last = as_map(listed[-1] if len(listed) > 1 else None)
    if last.get("role", last.get("from")) not in ("assistant", "gpt", "ai", "model"):
        return None
    return next((key for key in ("content", "value", "text") if isinstance(last.get(key), str)), None)


def with_question(values: dict[str, Any], dataset: str, where: str) -> list[Problem]:
    """Replace question and history among a case's values by its messages: the history, then the question.

    The question is not added if the messages end with it. A history that ends with the question and the recorded answer
    contains the whole conversation and is cut before the answer.
    """
    question, history = values.pop("question", None), values.pop("history", None)
    messages: Sequence[Message] = values.get("messages", ())
    if history and messages:
        if tuple(messages[: len(history)]) != tuple(history):
            hint = f"say which counts: dataset.{dataset}.fields={{messages: messages}}, or {{history: history}}"
            return [Problem("history is not the beginning of messages", where, hint)]
    elif history:
        messages = values["messages"] = _without_answer(history, question, values.get("answer"))
    if question is None or (messages and question.strip() == _last_of_user(messages, whole=not history)):
        return []
    if messages and not history:
        hint = f"say which counts: dataset.{dataset}.fields={{messages: messages}}, or {{question: question}}; "
        hint += f"if messages has the turns before the question: dataset.{dataset}.fields={{history: messages}}"
        return [Problem("question is not the last user message of messages", where, hint)]
    values["messages"] = (*messages, Message("user", question))
    return []


def _without_answer(history: Sequence[Message], question: str | None, answer: str | None) -> Sequence[Message]:
    if question is None or answer is None or [message.content for message in history[-2:]] != [question, answer]:
        return history
    return history[:-1] if [message.role for message in history[-2:]] == ["user", "assistant"] else history


def _last_of_user(messages: Sequence[Message], *, whole: bool) -> str | None:
    """The last message, if it is the user's; of a `whole` conversation also the user's last that others follow."""
    for message in reversed(messages):
        if message.role == "user":
            return message.content.strip()
        if not whole:
            return None
    return None


def order_problems(
    values: Mapping[str, Any], dataset: str, place: Callable[[], str], where: str, key: str | None
) -> list[Problem]:
    """The problems of a case's messages, their order and an empty question; `place` gives their field and column.

    `key` is that of `answer_key`, if the last message can be the answer.
    """
    messages, continues = values.get("messages"), "scenario" in values
    if messages and messages[-1].role == "user" and not messages[-1].text.strip() and not continues:
        named = f"case {values['id']!r}: " if "id" in values else ""
        hint = f"write it, or leave the row out; if it is meant: dataset.{dataset}.allow_irregular=true"
        return [Problem(f"{named}the question is empty", where, hint)]
    faults = [f"message {n} {what}" for n, what in irregular(messages or (), continues=continues)]
    if messages == () and not continues:
        faults = ["it has no message"]
    if not faults:
        return []
    name = f"case {values['id']!r}" if "id" in values else "the case"
    hint = f"repair the conversation, or let it pass: dataset.{dataset}.allow_irregular=true"
    if len(faults) == 1 and key and "answer" not in values and place() == "messages":
        fields = f"dataset.{dataset}.fields"
        parts = f"""'++{fields}.messages="$.messages[:-1]"' '++{fields}.answer="$.messages[-1].{key}"'"""
        hint = f"if the last message is the recorded answer: {parts}; else {hint}"
    return [Problem(f"{name}: {place()}: {what}", where, hint) for what in faults]


Answers = Literal["recorded", "demo", "none"]
"""What an earlier turn of the assistant is: the row's answer, its example answer, or left to the target."""


def whole_conversation(
    index: int, rows: Iterable[ReadRow], answers: Answers, *, allow_irregular: bool
) -> Case | Sequence[Problem] | None:
    """One case of all rows; None without rows.

    Its messages are the question and the answer of every row, where the message of an answer has the row's contexts and
    metadata. The last row gives the other fields; tags are those of all rows. `vars` has the variables of all rows, the
    last ones where they differ, and then also `turns`, the variables and tags of each row; `outputs` are the references
    of all rows, if there are any (null for a row without).
    """
    turns: list[Case] = []
    problems: list[Problem] = []
    for turn in _turns(rows, answers, allow_irregular=allow_irregular):
        if isinstance(turn, Case):
            turns.append(turn)
        else:
            problems += turn
    if problems or not turns:
        return problems or None
    merged: dict[str, object] = {name: value for turn in turns for name, value in turn.vars.items()}
    own = [{**turn.vars, **({"tags": list(turn.tags)} if turn.tags else {})} for turn in turns]
    merged |= {"turns": own} if any(variables != own[0] for variables in own) else {}
    outputs = [json_value(turn.reference) for turn in turns]
    merged |= {"outputs": outputs} if any(output is not None for output in outputs) else {}
    tags = tuple(dict.fromkeys(tag for turn in turns for tag in turn.tags))
    return replace(turns[-1], index=index, id=content_id([turn.id for turn in turns]), tags=tags, vars=merged)


def each_turn(
    name: str, rows: Iterable[ReadRow], answers: Answers, *, allow_irregular: bool
) -> Iterator[Case | Sequence[Problem]]:
    """Each row as a case whose history are the rows before it with their recorded answers.

    Turns of one conversation depend on each other: cases without a group get the name.
    """
    kept = "recorded" if answers == "none" else answers
    for turn in _turns(rows, kept, allow_irregular=allow_irregular):
        yield replace(turn, group=name) if isinstance(turn, Case) and turn.group is None else turn


def _turns(rows: Iterable[ReadRow], answers: Answers, *, allow_irregular: bool) -> Iterator[Case | Sequence[Problem]]:
    """The case of each row, its messages after those of the rows before it; or its problems."""
    before: tuple[Message, ...] = ()
    for row in rows:
        case = row.case
        if case is None:
            yield row.problems
            continue
        more = _new_messages(before, case.messages)
        if wrong := _wrong_turn(case, row.where, bool(before), () if allow_irregular else more):
            yield [wrong]
            continue
        whole = replace(case, messages=(*before, *more))
        answer = _answer(case, answers)
        before = whole.messages if answer is None else (*whole.messages, answer)
        yield whole


def _new_messages(before: Sequence[Message], own: Sequence[Message]) -> Sequence[Message]:
    """The messages of a row without those that it repeats: the conversation so far, or its system message."""
    texts = [(message.role, message.content) for message in before]
    if len(own) > len(before) and texts == [(message.role, message.content) for message in own[: len(before)]]:
        return own[len(before) :]
    head = list(takewhile(lambda message: message.role in HEAD, own))
    return own[len(head) :] if head and list(before[: len(head)]) == head else own


def _wrong_turn(case: Case, where: str, follows: bool, messages: Sequence[Message]) -> Problem | None:
    if not case.messages:
        return Problem("a turn of a conversation needs a question", where, "name its column in `fields`")
    if case.scenario is not None:
        what = "a turn of a conversation cannot have a scenario"
        return Problem(what, where, f"dataset.{case.dataset}.conversation=false")
    if follows and any(message.role in HEAD for message in messages):
        what = "a system message can only stand at the beginning of a conversation, which is the first row"
        return Problem(what, where, f"dataset.{case.dataset}.allow_irregular=true lets it pass")
    return None


def _answer(case: Case, answers: Answers) -> Message | None:
    if answers == "demo":
        return case.demo_answer
    answer = case.actual if case.answer is None else case.answer
    if answers == "none" or answer is None:
        return None
    contexts = {} if case.contexts is None else {"contexts": [json_value(context) for context in case.contexts]}
    return Message("assistant", written(answer), {**contexts, **(case.metadata or {})} or None)
