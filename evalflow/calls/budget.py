"""The budget of a run: reserve a call's maximum cost before it, settle the actual cost after it."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import Literal

from evalflow.calls.http import HttpRequest
from evalflow.config.judges import Price
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError, Problem, UserError
from evalflow.paths import private_file
from evalflow.records import Usage

BYTES_A_TOKEN = 2.5  # bytes of a request per token, at the low end: prose has four or more, JSON about three
REPLY_TOKENS = 1024  # tokens reserved for a reply without a maximum length


@dataclass(frozen=True, slots=True)
class Amount:
    """The usage of calls: requests sent (each try counts), tokens in and out, US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.requests - other.requests, self.tokens - other.tokens, self.usd - other.usd)

    def least(self, other: Amount) -> Amount:
        """Return the minimum of each unit."""
        return Amount(min(self.requests, other.requests), min(self.tokens, other.tokens), min(self.usd, other.usd))

    def no_less(self) -> Amount:
        """Return the amount with 0 for negative values."""
        return Amount(max(0, self.requests), max(0, self.tokens), max(0.0, self.usd))

    @property
    def text(self) -> str:
        """Return the amount as JSON. Written before each call, and five times as fast as json.dumps."""
        return f'{{"requests": {self.requests}, "tokens": {self.tokens}, "usd": {self.usd!r}}}'


Unit = Literal["usd", "requests", "tokens"]
UNITS: tuple[Unit, ...] = ("usd", "requests", "tokens")


VARIABLE = "EVALFLOW_LEASE"
"""The environment variable with the lease of a run's process, as JSON."""


class Lease(BudgetConfig):
    """The part of a project's budget that one process may spend, over all its calls.

    Attributes:
        id: The lease's id.
        folder: The folder of its note; None: no note is written.
    """

    id: int
    folder: Path | None = None

    @classmethod
    def of_process(cls) -> Lease | None:
        """Return the lease of a run's process; None if only its own budget limits it."""
        text = os.environ.get(VARIABLE)
        return None if text is None else cls.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class LeaseNote:
    """The amount that a process has spent of its lease, noted before and after each call.

    Attributes:
        used: Calls under way count as their maximum.
        wanted: The maximum cost of the next call, if more than was left.
    """

    used: Amount
    wanted: Amount | None = None


NOTE = "lease.json"
"""The note's file, in the run's folder."""
_LENGTH = 400  # notes are padded to this size, so that a shorter one fully overwrites a longer one


@dataclass(frozen=True, slots=True)
class RunNote:
    """The amount that a run has spent of its budget, noted before each call.

    Attributes:
        used: Calls in flight count as their maximum. Does not include what earlier runs of a sweep have spent.
        reserved: The part of `used` for calls in flight.
        unaccounted: Requests that were in flight when earlier parts of the run were killed.
    """

    used: Amount
    reserved: Amount
    unaccounted: int

    @classmethod
    def read(cls, path: Path) -> RunNote | None:
        """Read the note in a file; None without one, UserError if it is damaged."""
        try:
            text = path.read_bytes()
            if not text:  # the process was killed while creating it
                return None
            note = json.loads(text)
            return cls(Amount(**note["used"]), Amount(**note["reserved"]), int(note["unaccounted"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            hint = "remove it: then only calls that have a record count towards the budget"
            raise UserError(Problem("this is not a record of a run's spending", str(path), hint)) from None


class NoteFile:
    """A file with one note, overwritten in place; it survives if the process is killed."""

    def __init__(self, path: Path) -> None:
        self._file = private_file(path, os.O_WRONLY | os.O_CREAT)

    def write(self, note: str) -> None:
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, note.ljust(_LENGTH).encode())

    def close(self) -> None:
        os.fsync(self._file)
        os.close(self._file)


def read_note(folder: Path, lease: int) -> LeaseNote | None:
    """Read the note of a lease: nothing used if no process has used it yet; None if its file cannot be read."""
    try:
        note = json.loads((folder / NOTE).read_bytes())
        if note["lease"] != lease:  # of an earlier one
            return LeaseNote(Amount())
        return LeaseNote(Amount(**note["used"]), note["wanted"] and Amount(**note["wanted"]))
    except FileNotFoundError:
        return LeaseNote(Amount())
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Budget:
    """Spending limits of a run, over all its judges and targets. Calls known to be free cost no dollars.

    Attributes:
        limits, spent: The run's limits, and what all its parts have spent.
        lease, sent: The lease of this process, if any, and what this process has spent.
        wanted: The last amount that the lease did not cover.
        before: The part of `spent` from earlier runs of the same sweep.
        unaccounted: The part of `spent` missing in the records of earlier parts of the run, because they were killed.
        lost_requests: Maximum number of requests that were in flight when earlier parts were killed.
    """

    def __init__(self, limits: BudgetConfig, spent: Amount | None = None, lease: Lease | None = None) -> None:
        self.limits, self.lease = limits, lease
        self.spent = spent or Amount()
        self.sent = Amount()
        self.wanted: Amount | None = None
        self.before = Amount()
        self.unaccounted = Amount()
        self.lost_requests = 0
        self._notes: NoteFile | None = None
        self._lease_notes: NoteFile | None = None
        self._reserved: Amount = Amount()
        self._holders = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def expect_price(self, what: str, where: str, hint: str) -> None:
        """Raise UserError under a limit in dollars, since `what` has no known price."""
        for limits, whose, allow in (
            (self.limits, "budget.usd is set", "budget.allow_unpriced=true counts its calls as free"),
            (
                self.lease,
                "the project has a budget in US dollars",
                "the owner of the server may allow calls without a price",
            ),
        ):
            if limits and limits.usd is not None and not limits.allow_unpriced:
                raise UserError(Problem(f"{whose}, but {what} is unknown", where, f"{hint}{allow}"))

    def take_up(self, before: Amount, own: Amount, note: RunNote | None) -> None:
        """Count what a run spent before: `own` by its records, `note` by its note, which may be more."""
        self.before = before
        if note is not None:
            self.unaccounted = (note.used - own).no_less()
            self.lost_requests = note.unaccounted + min(note.reserved.requests, self.unaccounted.requests)
        self.spent = before + own + self.unaccounted

    def keep_note(self, path: Path) -> None:
        """From now on note spent and reserved amounts in a file before each call, so that a kill does not lose them."""
        self._notes = NoteFile(path)
        self._note_run()

    def claim(self, amount: Amount) -> None:
        """Count a reply of an earlier part that no record had, without counting its noted cost twice."""
        known = self.unaccounted.least(amount)
        self.unaccounted -= known
        self.lost_requests = max(0, self.lost_requests - known.requests)
        self.spent += amount - known
        self._note_run()

    def close(self) -> None:
        """Note what is spent and close the files."""
        self._note_run()
        for notes in (self._notes, self._lease_notes):
            if notes is not None:
                notes.close()
        self._notes = self._lease_notes = None

    async def reserve(self, amount: Amount) -> None:
        """Reserve an amount, waiting for calls in flight that cost less than reserved; BudgetError if it cannot fit."""
        while short := self.refusal(amount):
            if not self._holders:
                raise BudgetError(short)
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._reserved += amount
        self._holders += 1
        self._note()
        self._note_run()

    def settle(self, reserved: Amount, spent: Amount) -> None:
        self._reserved -= reserved
        self._holders -= 1
        if not self._holders:
            self._reserved = Amount()  # sums of dollars leave rounding errors
        self.spent += spent
        self.sent += spent
        self._note()
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def refusal(self, amount: Amount) -> str:
        """Return why an amount does not fit now; empty if it does."""
        if short := list(_short(self.limits, self.spent + self._reserved, amount)):
            named = "; ".join(f"budget.{limit}" for limit in short)
            return f"the budget ran out; {named}\n  hint: raise it, and resume the run: finished work is kept"
        if self.lease and (short := list(_short(self.lease, self.sent + self._reserved, amount))):
            if not self._holders:
                self.wanted = amount
                self._note()
            return f"this run's part of the project's budget ran out; {'; '.join(short)}\n  hint: finished work is kept"
        return ""

    def left(self, unit: Unit) -> float:
        """Return what is neither spent nor reserved; infinite without a limit."""
        held = getattr(self._reserved, unit)
        shares = [
            getattr(limits, unit) - getattr(spent, unit) - held
            for limits, spent in ((self.limits, self.spent), (self.lease, self.sent))
            if limits is not None and getattr(limits, unit) is not None
        ]
        return max(0, min(shares, default=inf))

    def hold(self, spent: Amount, reserved: Amount, holders: int) -> None:
        """Count other processes: what they spent since the last call, have reserved now, and their number."""
        self.spent += spent
        self.sent += spent
        self._holders = holders
        if spent != Amount() or reserved != self._reserved:
            self._reserved = reserved
            self._note()
            self._note_run()

    def _note(self) -> None:
        """Note what the lease has spent or reserved before a call is sent; so it is known however the process ends."""
        if self.lease is None or self.lease.folder is None:
            return
        if self._lease_notes is None:
            self._lease_notes = NoteFile(self.lease.folder / NOTE)
        wanted = self.wanted.text if self.wanted else "null"
        used = (self.sent + self._reserved).text
        self._lease_notes.write(f'{{"lease": {self.lease.id}, "used": {used}, "wanted": {wanted}}}')

    def _note_run(self) -> None:
        """Note what the run has spent or reserved before a call; an unfinished call counts as its maximum."""
        if self._notes is not None:
            used, reserved = (self.spent - self.before + self._reserved).text, self._reserved.text
            self._notes.write(f'{{"used": {used}, "reserved": {reserved}, "unaccounted": {self.lost_requests}}}')


def _short(limits: BudgetConfig, spent: Amount, amount: Amount) -> Iterator[str]:
    """Return the limits that do not cover another amount."""
    for unit in UNITS:
        limit, used, wanted = getattr(limits, unit), getattr(spent, unit), getattr(amount, unit)
        if limit is not None and used + wanted > limit:
            yield f"{unit}={limit:g}: {used:.6g} is spent, and the next call may take {wanted:.6g}"


@dataclass(frozen=True, slots=True)
class Account:
    """Charges calls to one model to the budget; without a price they count as 0 dollars."""

    budget: Budget
    price: Price | None
    max_tokens: int | None

    async def reserve(self, request: HttpRequest) -> Amount:
        """Reserve the likely maximum of a request; settle it when its try has ended."""
        reply = REPLY_TOKENS if self.max_tokens is None else self.max_tokens
        amount = self._amount(ceil(len(request.body or b"") / BYTES_A_TOKEN), reply * request.replies)
        await self.budget.reserve(amount)
        return amount

    def actual(self, usage: Usage) -> Amount:
        amount = self._amount(usage.input_tokens, usage.output_tokens)
        return replace(amount, usd=amount.usd - (usage.provider_saved_usd or 0.0))

    def _amount(self, input_tokens: int, output_tokens: int) -> Amount:
        usd = self.price.cost(input_tokens, output_tokens) if self.price else 0.0
        return Amount(1, input_tokens + output_tokens, usd)
