"""A budget shared by the workers of one run: each spends from a lease, which the coordinator extends step by step."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isinf

from evalflow.calls.budget import Amount, Budget, Unit
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError

AHEAD = 4
"""A lease covers this multiple of the amount in use: few calls must wait, and little is lost if a worker dies."""
PART = 4  # a lease grows by at most this fraction of a worker's equal share of the rest
_NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class LeaseUse:
    """A worker's use of its lease.

    Attributes:
        spent: Spent since the last report.
        kept: The amount to keep in the lease; the rest is returned.
        needed: The maximum cost of the next call, if that call is waiting.
        ahead: Further amount that would be useful.
    """

    spent: Amount
    kept: Amount
    needed: Amount | None = None
    ahead: Amount = field(default_factory=Amount)


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """The coordinator's answer to a `LeaseUse`.

    Attributes:
        granted: The extension of the lease.
        refused: Why the next call can never be made; empty if it can.
        scarce: Whether another worker waits, so unreserved amounts must be returned.
    """

    granted: Amount = field(default_factory=Amount)
    refused: str = ""
    scarce: bool = False


class BudgetLeases:
    """Divides a run's budget among its workers: spending plus all leases never exceed a limit."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._leases: dict[str, Amount] = {}
        self._total = Amount()
        self._waiting: set[str] = set()

    def report(self, worker: str, use: LeaseUse, workers: int) -> LeaseGrant:
        """Book what was spent and returned, and extend the lease by a fair share of the rest."""
        self._set(worker, use.kept, use.spent)
        self._waiting.discard(worker)
        scarce = bool(self._waiting)
        needed = use.needed or Amount()
        refused = use.needed and self.budget.refusal(needed)
        if not refused:
            return LeaseGrant(self._extend(worker, needed, Amount() if scarce else use.ahead, workers), scarce=scarce)
        if not self._leases:
            return LeaseGrant(refused=refused, scarce=scarce)
        self._waiting.add(worker)
        return LeaseGrant(scarce=scarce)

    def lost(self, worker: str) -> int:
        """Count the whole lease of a worker as spent; returns the requests in it."""
        self._waiting.discard(worker)
        lease = self._leases.get(worker, Amount())
        self._set(worker, Amount(), lease)
        return lease.requests

    def _extend(self, worker: str, needed: Amount, ahead: Amount, workers: int) -> Amount:
        def part(unit: Unit) -> float:
            least, more, left = getattr(needed, unit), getattr(ahead, unit), self.budget.left(unit)
            return max(least, min(more, left if isinf(left) else left / (PART * workers)))

        granted = Amount(int(part("requests")), int(part("tokens")), part("usd"))
        if granted != Amount():
            self._set(worker, self._leases.get(worker, Amount()) + granted)
        return granted

    def _set(self, worker: str, lease: Amount, spent: Amount = _NOTHING) -> None:
        before = self._leases.pop(worker, Amount())
        if lease != Amount():
            self._leases[worker] = lease
        # Sums of dollars leave rounding errors.
        self._total = self._total - before + lease if self._leases else Amount()
        self.budget.hold(spent, self._total, len(self._leases))


class LeasedBudget(Budget):
    """A worker's part of the run's budget; calls wait in order until the lease covers them."""

    def __init__(self, limits: BudgetConfig, short: Callable[[], None]) -> None:
        super().__init__(limits)
        self._short = short
        self._lease = Amount()
        self._unreported = Amount()
        self._queue: deque[tuple[asyncio.Future[None], Amount]] = deque()
        self._needed: Amount | None = None
        self._scarce = False
        self._failed: Exception | None = None

    @property
    def waits(self) -> bool:
        """Whether to contact the coordinator: a call waits here, or other workers wait for amounts not needed here."""
        return any(not turn.done() for turn, _ in self._queue) or (self._scarce and self._lease != self._reserved)

    async def reserve(self, amount: Amount) -> None:
        if self._failed is not None:
            raise self._failed
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((turn, amount))
        self._serve()
        if not turn.done():
            self._short()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and not turn.exception():  # cancelled just as it was covered
                self.settle(amount, Amount())
            raise

    def settle(self, reserved: Amount, spent: Amount) -> None:
        self._lease = (self._lease - spent).no_less()
        self._unreported += spent
        super().settle(reserved, spent)
        self._serve()
        if self._scarce:
            self._short()

    def use(self, *, last: bool = False) -> LeaseUse:
        """Return the use since the last report.

        When scarce, unreserved amounts are returned; at the end everything is spent.
        """
        while self._queue and self._queue[0][0].done():
            self._queue.popleft()
        waiting = [amount for turn, amount in self._queue if not turn.done()]
        in_use = sum(waiting, self._reserved)
        if waiting or self._scarce:
            self._lease = self._lease.least(self._reserved)
        spent, self._unreported = self._unreported, Amount()
        if last:
            return LeaseUse(spent + self._reserved, Amount())
        ahead = Amount(in_use.requests * AHEAD, in_use.tokens * AHEAD, in_use.usd * AHEAD)
        free = self._lease - self._reserved
        self._needed = waiting[0] if waiting else None
        return LeaseUse(spent, self._lease, self._needed, (ahead - free).no_less())

    def take(self, grant: LeaseGrant) -> None:
        """Apply an answer of the coordinator."""
        self._lease += grant.granted
        self._scarce = grant.scarce
        self._serve()
        refused = self._needed or _NOTHING
        for turn, amount in self._queue if grant.refused else ():
            if not turn.done() and amount.least(refused) == refused:  # this call may need as much or more
                turn.set_exception(BudgetError(grant.refused))

    def fail(self, error: Exception) -> None:
        """Raise an error in all waiting and future calls."""
        self._failed = error
        while self._queue:
            turn, _ = self._queue.popleft()
            if not turn.done():
                turn.set_exception(error)

    def _serve(self) -> None:
        while self._queue:
            turn, amount = self._queue[0]
            if not turn.done():
                if (self._reserved + amount - self._lease).no_less() != Amount():
                    return
                self._reserved += amount
                self._holders += 1
                turn.set_result(None)
            self._queue.popleft()
