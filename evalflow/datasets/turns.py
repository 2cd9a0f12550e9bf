"""Rows that are the turns of one conversation: as one case, or each as a case with the turns before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from evalflow.datasets.case_rows import ReadRow, content_id, json_value
from evalflow.datasets.conversations import HEAD
from evalflow.errors import Problem
from evalflow.records import Case, Message
from evalflow.values.jsonvalues import written

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
