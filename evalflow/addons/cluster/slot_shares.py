"""Divides limits of calls in flight among a run's workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evalflow.calls.limiter import Limiter, Limiters

LimiterKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlotUse:
    """A worker's use of one limit.

    Attributes:
        maximum: Maximum calls in flight over all workers.
        wanted: Slots that it could use: calls in flight plus waiting calls.
        in_flight: Calls in flight now.
    """

    maximum: int
    wanted: int
    in_flight: int


@dataclass(slots=True)
class SlotHolder:
    """One worker's part of a limit.

    Attributes:
        share: The slots last given to it.
        bound: The maximum calls that it can have in flight before it reports again.
    """

    wanted: int = 0
    share: int = 0
    bound: int = 0
    in_flight: int = 0


class SlotShares:
    """Divides the slots of one limit among workers: bounds never add up to more than the maximum.

    A worker reports its use and gets its share. A lowered share only takes effect when the worker has received it and
    reports again. Then the new share counts, or the number of calls still in flight if that is larger. Only slots that
    are free by this count are given to others.
    """

    def __init__(self) -> None:
        self._maximum: int | None = None
        self._holders: dict[str, SlotHolder] = {}

    def report(self, worker: str, use: SlotUse) -> int:
        """Record a worker's use and return its share from now on."""
        self._maximum = use.maximum if self._maximum is None else min(use.maximum, self._maximum)
        holder = self._holders.setdefault(worker, SlotHolder())
        holder.wanted, holder.in_flight = min(use.wanted, self._maximum), use.in_flight
        holder.bound = max(holder.share, use.in_flight)
        free = self._maximum - sum(other.bound for other in self._holders.values())
        names = list(self._holders)
        fair = divided(self._maximum, [other.wanted for other in self._holders.values()])[names.index(worker)]
        holder.share = max(0, min(fair, holder.bound + free))
        holder.bound = max(holder.bound, holder.share)
        return holder.share

    def lost(self, worker: str) -> int:
        """Free the slots of a worker; returns its calls in flight at its last report."""
        return self._holders.pop(worker, SlotHolder()).in_flight


def divided(slots: int, wanted: Sequence[int]) -> list[int]:
    """Fair shares: an equal part for each, at most what it wants; the rest goes to those that want more.

    Slots that nobody wants are spread over those that want any, for their next calls.
    """
    shares = [0] * len(wanted)
    wanting = sorted((want, place) for place, want in enumerate(wanted) if want)
    for turn, (want, place) in enumerate(wanting):
        shares[place] = min(want, slots // (len(wanting) - turn))
        slots -= shares[place]
    for turn, (_, place) in enumerate(wanting):
        spare = slots // (len(wanting) - turn)
        shares[place] += spare
        slots -= spare
    return shares


@dataclass(slots=True)
class SharedLimit:
    """A worker's limiter, and the slots that it wanted at its last report."""

    limiter: Limiter
    wanted: int = 0

    def use(self) -> SlotUse:
        """Return the current use. Slots wanted at the last report still count, so that a short pause loses none."""
        before, limiter = self.wanted, self.limiter
        self.wanted = limiter.in_flight + limiter.waiting
        return SlotUse(limiter.maximum, max(before, self.wanted), limiter.in_flight)


class SharedLimiters(Limiters):
    """The limiters of one worker. No call passes before the worker has its first share."""

    def __init__(self, starved: Callable[[], None]) -> None:
        super().__init__()
        self._starved = starved
        self._shared: dict[LimiterKey, SharedLimit] = {}
        self._failed: Exception | None = None

    def get(self, key: LimiterKey, start: int, maximum: int, *, hosted: bool = False) -> Limiter:
        limiter = super().get(key, start, maximum, hosted=hosted)
        if key not in self._shared:
            self._shared[key] = SharedLimit(limiter)
            limiter.starved = self._starved
            limiter.share(0)
            if self._failed is not None:
                limiter.fail(self._failed)
        return limiter

    @property
    def waits(self) -> bool:
        """Whether calls wait for a larger share."""
        return any(shared.limiter.starving for shared in self._shared.values())

    def use(self) -> dict[LimiterKey, SlotUse]:
        return {key: shared.use() for key, shared in self._shared.items()}

    def take(self, shares: Mapping[LimiterKey, int]) -> None:
        for key, slots in shares.items():
            self._shared[key].limiter.share(slots)

    def fail(self, error: Exception) -> None:
        self._failed = error
        for shared in self._shared.values():
            shared.limiter.fail(error)
