"""The coordinator's client in a worker: collects what its calls need and exchanges it in one message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from evalflow.addons.cluster.budget_leases import LeasedBudget
from evalflow.addons.cluster.messages import OWED, CoordinatorReply, Payment, WorkerMessage
from evalflow.addons.cluster.slot_shares import SharedLimiters
from evalflow.calls import faults
from evalflow.calls.cache_store import Entry
from evalflow.calls.client import CallSession
from evalflow.calls.connections import Connections
from evalflow.calls.single_flight import SingleFlight, for_others
from evalflow.config.schema import BudgetConfig
from evalflow.errors import CallError, EvalflowError, InfrastructureError
from evalflow.records import Spend, Usage

T = TypeVar("T")
Send = Callable[[str, WorkerMessage], Awaitable[CoordinatorReply]]

BEAT_S = 0.01  # default until the coordinator sets it
LONGEST_BEAT_S = 0.2  # while there is nothing to say, and something is awaited
IDLE_S = 1.0  # while nothing is awaited either
PATIENCE_S = 60.0  # how long an answer of the coordinator may take
RECENT_BYTES = 16 * 1024**2
_ENTRY_BYTES = 500  # an entry without its body


class CoordinatorClient:
    """Exchanges messages with the coordinator, one at a time, starting with the first call.

    `send` is `Coordinator.exchange` or forwards to it. After it fails, or after the coordinator gave up the worker, all
    calls fail. `budget` has the run's limits; without it nothing is limited.
    """

    def __init__(self, worker: str, send: Send, *, budget: BudgetConfig | None = None) -> None:
        self._worker = worker
        self._send = send
        self._gathered = Gathered()
        self._asked: dict[bytes, asyncio.Future[Entry | None]] = {}
        self._owed: dict[bytes, Payment] = {}
        self._limiters = SharedLimiters(self._touch)
        self._budget = LeasedBudget(budget, self._touch) if budget else None
        self._touched = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._beat_s = BEAT_S
        self._closing = False
        self._failed: Exception | None = None
        self.recent = RecentEntries()
        self._flight = CoordinatedFlight(self)

    def session(self, connections: Connections | None = None, run_id: str = "", fence_key: bytes = b"") -> CallSession:
        """The session shared by the worker's judges and targets."""
        key = lambda: fence_key  # noqa: E731
        return CallSession(self._limiters, self._flight, self._budget, connections, run_id=run_id, fence_key=key)

    async def close(self) -> None:
        """Send pending messages and give back everything held. All calls must have ended."""
        self._closing = True
        if self._task is not None:
            self._touched.set()
            await self._task

    async def ask(self, key: bytes, unreadable: Entry | None) -> Entry | None:
        """Return the entry of a key, perhaps made by another worker; None if this worker must call the model."""
        if self._failed is not None:
            raise self._failed
        if key not in self._asked:
            self._gathered.asked.append((key, unreadable and unreadable.checksum))
        answer = self._asked[key] = asyncio.get_running_loop().create_future()
        self._touch()
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled() and not answer.exception():
                self._release(key, answer.result())
            raise

    def made(self, key: bytes, entry: Entry) -> None:
        self._owed.pop(key, None)
        self.recent.add(key, entry)
        self._gathered.made.append((key, entry))
        self._touch()

    def failed(self, key: bytes, error: BaseException) -> None:
        """Report a failed or cancelled call."""
        self._owed.pop(key, None)
        if isinstance(error, Exception):
            self._gathered.failed.append((key, _portable(error)))
        else:
            self._gathered.dropped.append(key)
        self._touch()

    def owes(self, key: bytes) -> bool:
        return key in self._owed

    def bill(self, key: bytes, entry: Entry, cost_usd: float | None) -> None:
        """Record that this worker pays for an entry that nobody has paid for."""
        if self._owed.pop(key) == "before":
            requests, usage = entry.requests, entry.usage or Usage()
            spend = Spend(requests=requests, reasks=requests - 1, usage=usage, cost_usd=cost_usd or 0.0)
            self._gathered.billed.append((key, spend))
            self._touch()

    def _touch(self) -> None:
        self._touched.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        pause_s, sent_at, last = self._beat_s, -IDLE_S, False
        try:
            while not last:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._touched.wait()
                if self._touched.is_set():
                    pause_s = self._beat_s
                    if not self._closing:
                        await asyncio.sleep(sent_at + self._beat_s - now())
                last, sent_at = self._closing, now()
                self._touched.clear()
                self._take(await self._answer(self._message(last)))
                pause_s = min(2 * pause_s, max(LONGEST_BEAT_S, self._beat_s)) if self._waits() else IDLE_S
            self._fail(InfrastructureError(f"the worker {self._worker} has ended"))
        except Exception as error:  # any transport error: the waiting calls must get it
            self._fail(error)

    def _waits(self) -> bool:
        return bool(self._asked) or self._limiters.waits or (self._budget is not None and self._budget.waits)

    def _message(self, last: bool) -> WorkerMessage:
        taken, self._gathered = self._gathered, Gathered()
        return WorkerMessage(
            asked=taken.asked,
            made=taken.made,
            failed=taken.failed,
            dropped=taken.dropped,
            unbilled=taken.unbilled,
            billed=taken.billed,
            lease=self._budget.use(last=last) if self._budget else None,
            slots=self._limiters.use(),
            last=last,
        )

    async def _answer(self, message: WorkerMessage) -> CoordinatorReply:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._send(self._worker, message)
        except Exception as error:
            why = (
                f"no answer within {PATIENCE_S:g} s" if isinstance(error, TimeoutError) else faults.of_exception(error)
            )
            hint = "finished results are kept: resume the run"
            raise InfrastructureError(f"the run's coordinator does not answer: {why}", hint) from error

    def _take(self, reply: CoordinatorReply) -> None:
        if reply.gone:
            raise InfrastructureError(f"the run gave up worker {self._worker} and continues without it")
        self._beat_s = reply.beat_s
        for key, entry, payment in reply.replies:
            if payment == "settled":
                self.recent.add(key, entry)
            elif payment in OWED:
                self._owed[key] = payment
            self._deliver(key, entry)
        for key in reply.yours:
            self._deliver(key, None)
        for key, error in reply.failed:
            answer = self._asked.pop(key, None)
            if answer is not None and not answer.done():
                answer.set_exception(error)
        if self._budget is not None and reply.lease is not None:
            self._budget.take(reply.lease)
        self._limiters.take(reply.shares)

    def _deliver(self, key: bytes, entry: Entry | None) -> None:
        answer = self._asked.pop(key, None)
        if answer is None or answer.done():
            self._release(key, entry)
        else:
            answer.set_result(entry)

    def _release(self, key: bytes, entry: Entry | None) -> None:
        """Give back what the coordinator assigned to a call that was cancelled."""
        if entry is None:
            self._gathered.dropped.append(key)
        elif self._owed.pop(key, None):
            self._gathered.unbilled.append(key)
        self._touch()

    def _fail(self, error: Exception) -> None:
        self._failed = error
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(error)
        self._asked.clear()
        self._limiters.fail(error)
        if self._budget is not None:
            self._budget.fail(error)


class CoordinatedFlight(SingleFlight):
    """Single flight over all workers of the run."""

    def __init__(self, client: CoordinatorClient) -> None:
        super().__init__()
        self._client = client

    def known(self, key: bytes) -> Entry | None:
        return self._client.recent.get(key)

    async def _find(self, key: bytes, unreadable: Entry | None) -> Entry | None:
        return await self._client.ask(key, unreadable)

    async def _ask(self, key: bytes, ask: Callable[[], Awaitable[tuple[T, Entry]]]) -> tuple[T, Entry]:
        try:
            return await super()._ask(key, ask)
        except BaseException as error:
            self._client.failed(key, error)
            raise

    def _keep(self, key: bytes, entry: Entry) -> None:
        self._client.made(key, entry)

    def _is_owed(self, key: bytes, entry: Entry) -> bool:
        return self._client.owes(key)

    def _claim(self, key: bytes, entry: Entry, price: Callable[[Entry], float | None]) -> None:
        self._client.bill(key, entry, price(entry))


@dataclass
class Gathered:
    """The content of the next message; see `WorkerMessage`."""

    asked: list[tuple[bytes, int | None]] = field(default_factory=list[tuple[bytes, int | None]])
    made: list[tuple[bytes, Entry]] = field(default_factory=list[tuple[bytes, Entry]])
    failed: list[tuple[bytes, Exception]] = field(default_factory=list[tuple[bytes, Exception]])
    dropped: list[bytes] = field(default_factory=list[bytes])
    unbilled: list[bytes] = field(default_factory=list[bytes])
    billed: list[tuple[bytes, Spend]] = field(default_factory=list[tuple[bytes, Spend]])


class RecentEntries:
    """The most recent entries that a worker may use for free."""

    def __init__(self) -> None:
        self._entries: dict[bytes, Entry] = {}
        self._room = RECENT_BYTES

    def get(self, key: bytes) -> Entry | None:
        return self._entries.get(key)

    def add(self, key: bytes, entry: Entry) -> None:
        before = self._entries.pop(key, None)
        self._entries[key] = entry
        self._room += (_size(before) if before else 0) - _size(entry)
        while self._room < 0:
            self._room += _size(self._entries.pop(next(iter(self._entries))))


def _size(entry: Entry) -> int:
    return _ENTRY_BYTES + len(entry.body)


def _portable(error: Exception) -> Exception:
    """Convert an error for other workers to a class that every process knows."""
    if isinstance(error, EvalflowError | CallError):
        return for_others(error)
    return InfrastructureError(f"a worker failed: {faults.of_exception(error)}")
