"""The coordinator of a run's workers: it alone knows which replies exist, are in flight, and are paid for.

A worker asks the coordinator for keys and calls the model for those that nobody has. Other workers that want the same
key wait and get its reply or its error. The coordinator also divides the run's budget and its limits; see
`budget_leases` and `slot_shares`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from evalflow.addons.cluster.budget_leases import BudgetLeases
from evalflow.addons.cluster.messages import OWED, CoordinatorReply, Payment, WorkerMessage
from evalflow.addons.cluster.slot_shares import LimiterKey, SlotShares
from evalflow.calls.budget import Amount, Budget
from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry, short
from evalflow.calls.shared_cache import SharedCache
from evalflow.records import NOTHING, Spend, Usage

BEAT_S, BEAT_EACH_S = 0.04, 0.001
"""Seconds between a worker's messages, plus seconds per worker: all workers together send 1,000 messages a second."""
_SETTLED, _LOST = 0, -1  # codes for payers that are not workers


@dataclass(frozen=True, slots=True)
class CoordinatorTotals:
    """Totals of a run's calls that only the coordinator knows.

    Attributes:
        spent: Spent of the budget; None without a budget.
        unaccounted_requests: Maximum requests that lost workers made without a record, less those of earlier parts of
            the run whose replies were found.
        billed: The cost of calls that an earlier part of the run counted and that records have billed since.
    """

    spent: Amount | None
    unaccounted_requests: int
    billed: Spend


@dataclass(slots=True)
class Flight:
    """A call that its holder must make, and the workers waiting for it.

    `looking`: the shared cache is being searched first.
    """

    holder: str
    waiting: dict[str, None] = field(default_factory=dict[str, None])
    looking: bool = False


@dataclass(slots=True)
class Outbox:
    """The content of the next reply to a worker; `number` is the worker's number."""

    number: int
    replies: list[tuple[bytes, Entry, Payment]] = field(default_factory=list[tuple[bytes, Entry, Payment]])
    yours: list[bytes] = field(default_factory=list[bytes])
    failed: list[tuple[bytes, Exception]] = field(default_factory=list[tuple[bytes, Exception]])

    def empty(self) -> tuple[list[tuple[bytes, Entry, Payment]], list[bytes], list[tuple[bytes, Exception]]]:
        taken = self.replies, self.yours, self.failed
        self.replies, self.yours, self.failed = [], [], []
        return taken


class Coordinator:
    """Answers the workers of one run, in one event loop.

    For each paid call it remembers the paying worker, in about 100 bytes. The cost of a lost worker's replies may be
    in no record; then the next worker that asks for such a reply pays for it. `settled` are the calls already paid
    according to the journals of a resumed run; other entries of this run are paid by the first worker that asks.
    `counted`: whether the cost of all earlier calls is already in the budget, as when the earlier part ended regularly.
    """

    def __init__(
        self,
        cache: Cache,
        shared: SharedCache | None = None,
        budget: Budget | None = None,
        settled: Iterable[int] = (),
        *,
        counted: bool = False,
    ) -> None:
        self._cache = cache
        self._shared = shared
        self._leases = BudgetLeases(budget) if budget else None
        self._counted = counted
        self._payers: dict[int, int] = dict.fromkeys(settled, _SETTLED)
        self._before: set[int] = set()  # earlier calls that a worker must pay for and has not billed yet
        self._flights: dict[bytes, Flight] = {}
        self._outboxes: dict[str, Outbox] = {}
        self._gone: set[str] = set()
        self._slots: defaultdict[LimiterKey, SlotShares] = defaultdict(SlotShares)
        self._looking: set[asyncio.Task[None]] = set()
        self._joined = 0
        self._unaccounted = 0
        self._lost_before = budget.lost_requests if budget else 0
        self._billed = NOTHING

    def open(self) -> None:
        """Connect to the shared cache, if there is one; UserError if that fails."""
        if self._shared is not None:
            self._shared.open()

    async def exchange(self, worker: str, message: WorkerMessage) -> CoordinatorReply:
        """Process a worker's message and return the news for it."""
        if worker in self._gone:
            for key, entry in message.made:
                self._keep_late(key, entry)
            return CoordinatorReply(gone=True)
        outbox = self._outboxes.get(worker) or self._join(worker)
        for key, entry in message.made:
            self._keep(outbox.number, key, entry)
        for key, error in message.failed:
            self._fail(key, error)
        for key in message.dropped:
            self._hand_on(key, worker)
        for key in message.unbilled:
            self._free(short(key))
        for key, spend in message.billed:
            self._bill(key, spend)
        for key, unreadable in message.asked:
            self._ask(worker, outbox, key, unreadable)
        lease = None
        if self._leases is not None and message.lease is not None:
            lease = self._leases.report(worker, message.lease, len(self._outboxes))
        shares = {key: self._slots[key].report(worker, use) for key, use in message.slots.items()}
        if message.last:
            self._leave(worker)
            return CoordinatorReply()
        replies, yours, failed = outbox.empty()
        beat_s = BEAT_S + BEAT_EACH_S * len(self._outboxes)
        return CoordinatorReply(replies=replies, yours=yours, failed=failed, lease=lease, shares=shares, beat_s=beat_s)

    def lost(self, worker: str, journaled: Iterable[int] | None) -> None:
        """Give up a worker.

        `journaled` are short keys of all calls whose cost is in the run's journals. Its other paid calls are paid again
        by the next worker that asks for them. None means that all its calls are in journals, since it had no cases
        left. Call this before its cases are given to others. If the worker comes back anyway, it learns that it was
        given up.
        """
        if worker in self._gone:
            return
        self._gone.add(worker)
        outbox = self._outboxes.get(worker)
        if outbox is None:
            return
        if journaled is not None:
            self._settle(outbox.number, set(journaled))
        self._unaccounted += self._leave(worker)

    @property
    def totals(self) -> CoordinatorTotals:
        if self._leases is None:
            return CoordinatorTotals(None, self._unaccounted, self._billed)
        budget = self._leases.budget
        turned_up = self._lost_before - budget.lost_requests
        return CoordinatorTotals(budget.spent, self._unaccounted - turned_up, self._billed)

    def close(self) -> None:
        """Store pending entries."""
        for task in self._looking:
            task.cancel()
        if self._leases is not None:
            self._leases.budget.close()
        self._cache.close()
        if self._shared is not None:
            self._shared.close()

    def _settle(self, number: int, journaled: set[int]) -> None:
        """Free the calls that a worker pays for, except those in journals."""
        for key in [key for key, payer in self._payers.items() if payer == number and key not in journaled]:
            self._free(key)
        for key in journaled:  # a record may arrive before its reply
            self._payers.setdefault(key, _SETTLED)

    def _join(self, worker: str) -> Outbox:
        self._joined += 1
        self._outboxes[worker] = outbox = Outbox(self._joined)
        return outbox

    def _leave(self, worker: str) -> int:
        """Free everything that a worker holds; return how many requests it may have made without reporting them."""
        for key, _, payment in self._outboxes.pop(worker).replies:
            if payment in OWED:
                self._free(short(key))
        held = [key for key, flight in self._flights.items() if flight.holder == worker]
        for flight in self._flights.values():
            flight.waiting.pop(worker, None)
        for key in held:
            self._hand_on(key, worker)
        in_flight = sum(shares.lost(worker) for shares in self._slots.values())
        return self._leases.lost(worker) if self._leases is not None else max(in_flight, len(held))

    def _ask(self, worker: str, outbox: Outbox, key: bytes, unreadable: int | None) -> None:
        flight = self._flights.get(key)
        if flight is not None:
            if flight.holder != worker:
                flight.waiting[worker] = None
            return
        entry = self._cache.get(key)
        if entry is not None and (unreadable is None or entry.checksum != unreadable):
            outbox.replies.append((key, entry, self._payment(outbox.number, key, entry)))
            return
        flight = self._flights[key] = Flight(worker)
        if self._shared is None or unreadable is not None:
            outbox.yours.append(key)
            return
        flight.looking = True
        task = asyncio.create_task(self._look(self._shared, key, flight))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, shared: SharedCache, key: bytes, flight: Flight) -> None:
        """Look for a key in the shared cache, while its worker holds it."""
        entry = await shared.get(key)
        flight.looking = False
        if self._flights.get(key) is not flight:
            return
        if entry is None:
            self._outboxes[flight.holder].yours.append(key)
        else:
            self._give(key, entry)

    def _give(self, key: bytes, entry: Entry) -> None:
        """End a flight: give the entry to all waiting workers, and to its holder unless it made the entry."""
        flight = self._flights.pop(key)
        for name in (flight.holder, *flight.waiting):
            outbox = self._outboxes[name]
            outbox.replies.append((key, entry, self._payment(outbox.number, key, entry)))

    def _keep(self, number: int, key: bytes, entry: Entry) -> None:
        stored = self._cache.put(key, entry)
        if self._shared is not None:
            self._shared.put(key, stored)
        self._payers[short(key)] = number
        self._before.discard(short(key))
        flight = self._flights.pop(key, None)
        for name in flight.waiting if flight else ():
            self._outboxes[name].replies.append((key, stored, "elsewhere"))

    def _keep_late(self, key: bytes, entry: Entry) -> None:
        """Keep an entry paid by a worker that was given up, unless another worker has been asked for it since."""
        if key not in self._flights and self._cache.get(key) is None:
            self._keep(self._payers.get(short(key), _LOST), key, entry)

    def _fail(self, key: bytes, error: Exception) -> None:
        flight = self._flights.pop(key, None)
        for name in flight.waiting if flight else ():
            self._outboxes[name].failed.append((key, error))

    def _hand_on(self, key: bytes, worker: str) -> None:
        """Pass a call that its worker does not make to the first waiting worker."""
        flight = self._flights.get(key)
        if flight is None or flight.holder != worker:
            return
        if not flight.waiting:
            del self._flights[key]
            return
        flight.holder = next(iter(flight.waiting))
        del flight.waiting[flight.holder]
        if not flight.looking:
            self._outboxes[flight.holder].yours.append(key)

    def _payment(self, number: int, key: bytes, entry: Entry) -> Payment:
        """Return who pays for an entry that a worker gets; the worker itself if nobody does yet."""
        payer = self._payers.get(short(key))
        if entry.run_id != self._cache.run_id or payer in (_SETTLED, number):
            return "settled"
        if payer is not None and payer != _LOST:
            return "elsewhere"
        self._payers[short(key)] = number
        if payer == _LOST:
            return "lost"
        self._before.add(short(key))
        return "before"

    def _free(self, key: int) -> None:
        """Make an entry unpaid: the next worker that asks for it pays."""
        if key in self._before:
            self._before.discard(key)
            del self._payers[key]
        else:
            self._payers[key] = _LOST

    def _bill(self, key: bytes, spend: Spend) -> None:
        """Record that a worker has paid for an earlier entry."""
        self._before.discard(short(key))
        if self._counted:
            self._billed += spend
        elif self._leases is not None:
            usage = spend.usage or Usage()
            amount = Amount(spend.requests, usage.input_tokens + usage.output_tokens, spend.cost_usd or 0.0)
            self._leases.budget.claim(amount)
