"""The messages between the workers of one run and its coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evalflow.addons.cluster.budget_leases import LeaseGrant, LeaseUse
from evalflow.addons.cluster.slot_shares import LimiterKey, SlotUse
from evalflow.calls.cache_store import Entry
from evalflow.records import Spend

Payment = Literal["settled", "elsewhere", "lost", "before"]
"""Who pays for an entry.

settled: nobody, since another run has paid for it, or a record of this run has its cost. elsewhere: another worker of
this run. lost, before: the worker that asks, since no record has the cost: a lost worker, or an earlier part of the
run, made the call.
"""

OWED = frozenset({"lost", "before"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMessage:
    """A worker's news since its last message.

    Attributes:
        asked: Keys of calls to make, with the checksum of an unreadable entry found before.
        made: Replies that it has paid for.
        failed: Calls that failed, without their cost.
        dropped: Calls that were cancelled.
        unbilled: Entries that it was to pay for but did not use.
        billed: Earlier entries that it has paid for since, with their cost.
        lease, slots: Its use of the budget, and of limits by limiter.
        last: Whether it is the last one.
    """

    asked: Sequence[tuple[bytes, int | None]] = ()
    made: Sequence[tuple[bytes, Entry]] = ()
    failed: Sequence[tuple[bytes, Exception]] = ()
    dropped: Sequence[bytes] = ()
    unbilled: Sequence[bytes] = ()
    billed: Sequence[tuple[bytes, Spend]] = ()
    lease: LeaseUse | None = None
    slots: Mapping[LimiterKey, SlotUse] = field(default_factory=dict[LimiterKey, SlotUse])
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReply:
    """The coordinator's news for a worker; may answer earlier messages.

    Attributes:
        replies: Entries of keys that it asked for.
        yours: Keys for which it must call the model.
        failed: Keys for which another worker's call failed.
        lease, shares: The extension of its lease, and its shares of limits.
        beat_s: Seconds until its next message.
        gone: Whether the worker was given up and gets nothing any more.
    """

    replies: Sequence[tuple[bytes, Entry, Payment]] = ()
    yours: Sequence[bytes] = ()
    failed: Sequence[tuple[bytes, Exception]] = ()
    lease: LeaseGrant | None = None
    shares: Mapping[LimiterKey, int] = field(default_factory=dict[LimiterKey, int])
    beat_s: float = 0.0
    gone: bool = False
