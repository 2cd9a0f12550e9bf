"""Several replies to one ask, and the frequency of each value in them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import BaseModel

from evalflow.errors import CallError
from evalflow.llm.logprobs import choices, normalised
from evalflow.records import NOTHING, Distribution, Reply, Spend


async def draw(count: int, once: Callable[[int], Awaitable[Reply]], listed: bool) -> Reply:
    """Ask `count` times concurrently and combine the replies.

    The result is the first reply with the most frequent combination of values; the probabilities are frequencies among
    the valid replies. If some samples fail, the others count, if they are more than half of all.

    Args:
        count: Number of replies.
        once: Asks for one reply, given its number.
        listed: Whether a reply is a list of `results`, with one distribution per item.

    Raises:
        CallError: Half of the samples or more failed: the first failure, with the cost of all samples.
        InfrastructureError, BudgetError: No further call can be made; the other samples are given up.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_attempt(once, number)) for number in range(count)]
    except BaseExceptionGroup as failed:
        raise _first(failed) from None
    drawn = [task.result() for task in tasks]
    replies = [one for one in drawn if isinstance(one, Reply)]
    failures = [one for one in drawn if isinstance(one, CallError)]
    if 2 * len(replies) <= count:
        what = f"{len(failures)} of {count} samples failed; the first: {failures[0]}"
        raise charged(failures, replies, what)
    return combine(replies, failures, listed)


def charged(failures: Sequence[CallError], replies: Sequence[Reply], what: str) -> CallError:
    """The first failure with a new message, and with the cost of all failures and replies."""
    first = failures[0]
    return type(first)(first.error_type, what, first.raw, _together(replies, failures))


def combine(replies: Sequence[Reply], failures: Sequence[CallError], listed: bool) -> Reply:
    """Several replies as one, with the cost of the failed ones. See `draw`."""
    parts = [_parts(reply.parsed, listed) for reply in replies]
    votes = [_vote(part) for part in parts]
    winner = Counter(votes).most_common(1)[0][0]
    return _together(replies, failures).fill(
        replies[votes.index(winner)],
        probabilities=_frequencies(parts),
        reasks=sum(reply.reasks for reply in replies),
        samples=len(replies),
        failed=len(failures),
        mass=None,
    )


def after(first: Reply, drawn: Reply) -> Reply:
    """The sampled reply, plus the cost of a first reply that could not be used."""
    return (first.spend + drawn.spend).fill(drawn, reasks=first.reasks + drawn.reasks)


def _frequencies(replies: Sequence[Sequence[BaseModel]]) -> tuple[Distribution, ...] | None:
    items = list(zip(*replies, strict=True))
    names = choices(type(replies[0][0])) if items else {}
    if not names:
        return None
    return tuple({name: normalised(Counter(getattr(part, name) for part in item)) for name in names} for item in items)


def _parts(parsed: BaseModel, listed: bool) -> Sequence[BaseModel]:
    return cast("Any", parsed).results if listed else (parsed,)


def _vote(parts: Sequence[BaseModel]) -> str:
    """The values of all choices, in a form that can be counted."""
    return json.dumps([[getattr(part, name) for name in choices(type(part))] for part in parts])


def _together(replies: Sequence[Reply], failures: Sequence[CallError]) -> Spend:
    """The cost of concurrent calls."""
    spends = [one.spend for one in (*replies, *failures) if one.spend]
    return replace(sum(spends, NOTHING), latency_s=max([one.latency_s or 0.0 for one in spends], default=0.0))


async def _attempt(once: Callable[[int], Awaitable[Reply]], number: int) -> Reply | CallError:
    """Return a failure: raising it would make the task group cancel the other samples, which have been paid for."""
    try:
        return await once(number)
    except CallError as error:
        return error


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error
