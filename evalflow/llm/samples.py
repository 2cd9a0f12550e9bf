"""Several replies to one ask, and how often each value came up in them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, cast

from pydantic import BaseModel

from evalflow.errors import CallError
from evalflow.llm.logprobs import choices, normalised
from evalflow.records import Distribution, Reply, Usage


async def draw(count: int, once: Callable[[int], Awaitable[Reply]], listed: bool) -> Reply:
    """Ask `count` times at the same time and take the replies together.

    The reply that is given is the first with the most frequent combination of values; the probabilities are
    frequencies among the valid replies. Where a sample fails, the others count, if they are more than half of all.

    Args:
        count: How many replies.
        once: Asks for one, given its number.
        listed: Whether a reply is a list of `results`, and there is one distribution for each.

    Raises:
        CallError: Half of the samples or more failed: the first failure, with what all of them took.
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
    """The first failure, in other words, with what all failures and replies took."""
    first = failures[0]
    return type(first)(
        first.error_type,
        what,
        first.raw,
        requests=sum(one.requests for one in (*failures, *replies)),
        usage=_used([*failures, *replies]),
        cost_usd=_total([*map(_cost, failures), *(reply.cost_usd for reply in replies)]),
        latency_s=max(one.latency_s for one in (*failures, *replies)),
        paid=tuple(digest for one in (*failures, *replies) for digest in one.paid),
    )


def combine(replies: Sequence[Reply], failures: Sequence[CallError], listed: bool) -> Reply:
    """Several replies as one, with what those that failed took. See `draw`."""
    parts = [_parts(reply.parsed, listed) for reply in replies]
    votes = [_vote(part) for part in parts]
    winner = Counter(votes).most_common(1)[0][0]
    return replace(
        replies[votes.index(winner)],
        probabilities=_frequencies(parts),
        reasks=sum(reply.reasks for reply in replies),
        requests=sum(one.requests for one in (*replies, *failures)),
        usage=_used([*replies, *failures]),
        cost_usd=_total([*(reply.cost_usd for reply in replies), *map(_cost, failures)]),
        saved_usd=_total([reply.saved_usd for reply in replies]),
        paid=tuple(digest for reply in replies for digest in reply.paid),
        cached=all(reply.cached for reply in replies) and not any(one.requests for one in failures),
        latency_s=max(one.latency_s for one in (*replies, *failures)),
        samples=len(replies),
        failed=len(failures),
        mass=None,
    )


def after(first: Reply, drawn: Reply) -> Reply:
    """What was drawn, with what a first reply took that was of no use."""
    return replace(
        drawn,
        reasks=first.reasks + drawn.reasks,
        requests=first.requests + drawn.requests,
        usage=_plus(first.usage, drawn.usage),
        cost_usd=_total([first.cost_usd, drawn.cost_usd]),
        saved_usd=_total([first.saved_usd, drawn.saved_usd]),
        paid=first.paid + drawn.paid,
        cached=first.cached and drawn.cached,
        latency_s=first.latency_s + drawn.latency_s,
    )


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


def _plus(left: Usage | None, right: Usage | None) -> Usage | None:
    return left + right if left and right else None


def _total(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _used(calls: Sequence[Reply | CallError]) -> Usage | None:
    """Tokens of all; None where one does not say. A call that nothing answered took none."""
    return reduce(_plus, (Usage() if isinstance(one, CallError) and not one.requests else one.usage for one in calls))


def _cost(error: CallError) -> float | None:
    return error.cost_usd if error.requests else 0.0


async def _attempt(once: Callable[[int], Awaitable[Reply]], number: int) -> Reply | CallError:
    """A failure is no exception here, since the task group would give up the other samples, which are paid."""
    try:
        return await once(number)
    except CallError as error:
        return error


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error
