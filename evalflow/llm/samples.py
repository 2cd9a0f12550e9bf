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

from evalflow.llm.values import choices, normalised
from evalflow.records import Distribution, Reply, Usage


async def draw(count: int, once: Callable[[int], Awaitable[Reply]], listed: bool) -> Reply:
    """Ask `count` times at the same time and take the replies together.

    The reply that is given is the first with the most frequent combination of values; the probabilities are
    frequencies.

    Args:
        count: How many replies.
        once: Asks for one, given its number.
        listed: Whether a reply is a list of `results`, and there is one distribution for each.

    Raises:
        EvalflowError: What the first reply that failed raised; the others are given up.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_as_coroutine(once, number)) for number in range(count)]
    except BaseExceptionGroup as failed:
        raise _first(failed) from None
    return combine([task.result() for task in tasks], listed)


def combine(replies: Sequence[Reply], listed: bool) -> Reply:
    """Several replies as one. See `draw`."""
    parts = [_parts(reply.parsed, listed) for reply in replies]
    votes = [_vote(part) for part in parts]
    winner = Counter(votes).most_common(1)[0][0]
    return replace(
        replies[votes.index(winner)],
        probabilities=_frequencies(parts),
        reasks=sum(reply.reasks for reply in replies),
        requests=sum(reply.requests for reply in replies),
        usage=reduce(_plus, (reply.usage for reply in replies)),
        cost_usd=_total([reply.cost_usd for reply in replies]),
        saved_usd=_total([reply.saved_usd for reply in replies]),
        paid=tuple(digest for reply in replies for digest in reply.paid),
        cached=all(reply.cached for reply in replies),
        latency_s=max(reply.latency_s for reply in replies),
        samples=len(replies),
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


async def _as_coroutine(once: Callable[[int], Awaitable[Reply]], number: int) -> Reply:
    return await once(number)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error
