"""The budget of a run: what a call may cost is reserved before it, what it did cost is settled after it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from math import ceil

from evalflow.calls.transport import HttpRequest
from evalflow.config.endpoints import Price
from evalflow.config.schema import BudgetConfig
from evalflow.errors import BudgetError
from evalflow.frozen import record
from evalflow.records import Usage

BYTES_A_TOKEN = 2.5
"""Bytes of a request for each of its tokens, at the least that is usual: prose has four or more, JSON about three."""
REPLY_TOKENS = 1024
"""Tokens reserved for a reply whose length nothing bounds."""


@record()
class Amount:
    """What calls take: tries that were sent, tokens in and out, US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.requests - other.requests, self.tokens - other.tokens, self.usd - other.usd)


class Budget:
    """What a run may spend, over all its judges and targets. What is known to be free is never held against it.

    Args:
        limits: The limits; null sets none.
        spent: What an earlier part of the same run has spent.
    """

    def __init__(self, limits: BudgetConfig, spent: Amount | None = None) -> None:
        self.limits = limits
        self.spent = spent or Amount()
        self._reserved = Amount()
        self._holders = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def reserve(self, amount: Amount) -> None:
        """Hold an amount. Where it does not fit, wait until calls in flight have turned out cheaper than feared.

        Raises:
            BudgetError: It does not fit, and nothing is in flight any more.
        """
        while not self._fits(amount):
            if not self._holders:
                raise BudgetError(self._refusal(amount))
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._reserved += amount
        self._holders += 1

    def settle(self, reserved: Amount, spent: Amount) -> None:
        """Give a reservation back, and count what was spent instead."""
        self._reserved -= reserved
        self._holders -= 1
        if not self._holders:
            self._reserved = Amount()  # sums of dollars leave dust
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
        """What does not fit, with the key to raise."""
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
    """What calls to one model are held against the budget for.

    Attributes:
        budget: The run's.
        price: The model's; None: its calls cost 0 in dollars, as far as is known.
        max_tokens: The most that a reply can have; None where nothing bounds it.
    """

    budget: Budget
    price: Price | None
    max_tokens: int | None

    async def reserve(self, request: HttpRequest) -> Amount:
        """Hold what a request may take, at the most that is likely; to be settled when its try has ended.

        Raises:
            BudgetError: The budget does not cover it.
        """
        reply = REPLY_TOKENS if self.max_tokens is None else self.max_tokens
        amount = self._amount(ceil(len(request.body or b"") / BYTES_A_TOKEN), reply)
        await self.budget.reserve(amount)
        return amount

    def actual(self, usage: Usage) -> Amount:
        """What a request took that was answered."""
        return self._amount(usage.input_tokens, usage.output_tokens)

    def _amount(self, input_tokens: int, output_tokens: int) -> Amount:
        price = self.price
        usd = (
            (input_tokens * price.input_per_million + output_tokens * price.output_per_million) / 1e6 if price else 0.0
        )
        return Amount(1, input_tokens + output_tokens, usd)
