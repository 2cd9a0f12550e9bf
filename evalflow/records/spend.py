"""The cost of calls. Every sum of tokens, money and time in a run is made here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several calls.

    Example:
        >>> both = Usage(10, 2, provider_cached=8) + Usage(5, 1)
        >>> both.input_tokens, both.output_tokens, both.provider_cached
        (15, 3, 8)
    """

    input_tokens: int = 0
    output_tokens: int = 0
    # Input tokens that the provider read from its own cache, and the US dollars that it charged less for them, over the
    # calls of which they are known; None if they are known of none.
    provider_cached: int | None = None
    provider_saved_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            known_sum(self.provider_cached, other.provider_cached),
            known_sum(self.provider_saved_usd, other.provider_saved_usd),
        )


@dataclass(slots=True, kw_only=True, unsafe_hash=True)  # not enforced, as in `CallCosts`
class Spend:
    """The cost of calls. An unknown part is None, and so is any sum that includes it.

    Example:
        >>> (Spend(requests=1, cost_usd=0.002) + Spend(requests=2, cost_usd=None)).cost_usd is None
        True
    """

    # Answered requests, and how many of them were re-asks after an invalid reply.
    requests: int = 0
    reasks: int = 0
    # Tokens, US dollars and seconds.
    usage: Usage | None = Usage()
    cost_usd: float | None = 0.0
    latency_s: float | None = 0.0
    # Calls that the cache replaced, and their original cost.
    cached: int = 0
    saved_usd: float | None = 0.0
    paid: tuple[int, ...] = ()  # `calls.cache_store.short` of the calls that were paid for and cached

    @property
    def full_cost_usd(self) -> float | None:
        """What the calls cost, those included that the cache replaced; None if unknown."""
        return _plus(self.cost_usd, self.saved_usd)

    def __add__(self, other: Spend) -> Spend:
        return Spend(
            requests=self.requests + other.requests,
            reasks=self.reasks + other.reasks,
            usage=self.usage + other.usage if self.usage and other.usage else None,
            cost_usd=_plus(self.cost_usd, other.cost_usd),
            latency_s=_plus(self.latency_s, other.latency_s),
            cached=self.cached + other.cached,
            saved_usd=_plus(self.saved_usd, other.saved_usd),
            paid=self.paid + other.paid,
        )

    @property
    def reused(self) -> Spend:
        """The cost if everything is reused: no requests, all calls cached, the full cost saved."""
        calls = self.cached or min(1, self.requests)
        return replace(self, requests=0, reasks=0, cost_usd=0.0, cached=calls, saved_usd=self.full_cost_usd, paid=())

    def fill(self, taken: T, **changes: Any) -> T:
        """A copy of a reply, an answer or an outcome with these values; it is cached if no call was made."""
        values = {name: getattr(self, name) for name in _shared(type(taken))}
        if "cached" in values:
            values["cached"] = self.cached > 0 and not self.requests
        return replace(taken, **{**values, **changes})


@cache
def _shared(kind: type[DataclassInstance]) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind)) & {field.name for field in fields(Spend)}


def known_sum(first: N | None, second: N | None) -> N | None:
    """The sum of what is known; None if neither is known."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def longest(latencies: Iterable[float | None]) -> float | None:
    """The latency of calls at the same time: the longest one, None if one is unknown, 0 for none."""
    seconds: list[float] = []
    for latency in latencies:
        if latency is None:
            return None
        seconds.append(latency)
    return max(seconds, default=0.0)


def _plus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


NOTHING = Spend()


@dataclass(slots=True, kw_only=True)
class CallCosts:
    """The cost and time of the calls behind a reply or an answer.

    It must not be changed. This class, its subclasses and other values that are built for each call or case do not
    enforce that, since frozen dataclasses take three times as long to build.
    """

    # Answered calls in all, none for a cached reply; and invalid replies sent back before.
    requests: int = 0
    reasks: int = 0
    # Summed over the calls; None if unknown, never a false 0. A cached reply cost nothing.
    usage: Usage | None = None
    cost_usd: float | None = None
    # cached, saved_usd: Whether no call was made for it, and its original cost then; None if unknown.
    saved_usd: float | None = 0.0
    paid: tuple[int, ...] = ()  # digests of its calls; see `Spend`
    latency_s: float | None = None  # seconds without the wait for a free slot; of a cached reply, the original ones
    cached: bool = False

    @property
    def full_cost_usd(self) -> float | None:
        """As in `Spend`."""
        return _plus(self.cost_usd, self.saved_usd)

    @property
    def spend(self) -> Spend:
        """The spend of this one call, which can be added to others."""
        return Spend(
            requests=self.requests,
            reasks=0 if self.cached else self.reasks,
            usage=self.usage,
            cost_usd=self.cost_usd,
            latency_s=self.latency_s,
            cached=int(self.cached),
            saved_usd=self.saved_usd,
            paid=self.paid,
        )
