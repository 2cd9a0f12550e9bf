"""The budget of a run: a call's maximum cost is reserved before it, its actual cost is settled after it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from math import ceil

from evalflow.calls.http import HttpRequest
from evalflow.config.judges import Price
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError
from evalflow.frozen import record
from evalflow.records import Usage

BYTES_A_TOKEN = 2.5  # bytes of a request per token, at the low end: prose has four or more, JSON about three
REPLY_TOKENS = 1024  # tokens reserved for a reply without a maximum length


@record()
class Amount:
    """What calls take: requests sent (each try counts), tokens in and out, US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.requests - other.requests, self.tokens - other.tokens, self.usd - other.usd)


class Budget:
    """Spending limits of a run, over all its judges and targets. Calls known to be free use up no dollars."""

    def __init__(self, limits: BudgetConfig, spent: Amount | None = None) -> None:
        self.limits = limits
        self.spent = spent or Amount()
        self._reserved = Amount()
        self._holders = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def reserve(self, amount: Amount) -> None:
        """Reserve an amount, waiting for calls in flight that cost less than reserved; BudgetError if it cannot fit."""
        while not self._fits(amount):
            if not self._holders:
                raise BudgetError(self._refusal(amount))
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._reserved += amount
        self._holders += 1

    def settle(self, reserved: Amount, spent: Amount) -> None:
        self._reserved -= reserved
        self._holders -= 1
        if not self._holders:
            self._reserved = Amount()  # sums of dollars leave rounding errors
        self.spent += spent
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def _fits(self, amount: Amount) -> bool:
        limits, wanted = self.limits, self.spent + self._reserved + amount
        return (
            (limits.requests is None or wanted.requests <= limits.requests)
            and (limits.tokens is None or wanted.tokens <= limits.tokens)
            and (limits.usd is None or wanted.usd <= limits.usd)
        )

    def _refusal(self, amount: Amount) -> str:
        rows: tuple[tuple[str, float | None, float, float], ...] = (
            ("usd", self.limits.usd, self.spent.usd, amount.usd),
            ("requests", self.limits.requests, self.spent.requests, amount.requests),
            ("tokens", self.limits.tokens, self.spent.tokens, amount.tokens),
        )
        short = [
            f"budget.{name}={limit:g}: {spent:.6g} is spent, and the next call may take {wanted:.6g}"
            for name, limit, spent, wanted in rows
            if limit is not None and spent + wanted > limit
        ]
        return f"the budget ran out; {'; '.join(short)}\n  hint: raise it, and resume the run: what is done is kept"


@dataclass(frozen=True, slots=True)
class Account:
    """Charges calls to one model to the budget; without a price they count as 0 dollars."""

    budget: Budget
    price: Price | None
    max_tokens: int | None

    async def reserve(self, request: HttpRequest) -> Amount:
        """Reserve the likely maximum of a request; settle it when its try has ended."""
        reply = REPLY_TOKENS if self.max_tokens is None else self.max_tokens
        amount = self._amount(ceil(len(request.body or b"") / BYTES_A_TOKEN), reply)
        await self.budget.reserve(amount)
        return amount

    def actual(self, usage: Usage) -> Amount:
        return self._amount(usage.input_tokens, usage.output_tokens)

    def _amount(self, input_tokens: int, output_tokens: int) -> Amount:
        usd = self.price.cost(input_tokens, output_tokens) if self.price else 0.0
        return Amount(1, input_tokens + output_tokens, usd)
