"""The guard around calls on this machine: so many at a time, under the run's budget, each within its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from evalflow.calls.session import CallSession
from evalflow.calls.transport import Request
from evalflow.config.targets import ReplyConfig
from evalflow.errors import CallError, TargetError
from evalflow.targets.service import Heard, account


class Slots:
    """Lets calls through.

    Args:
        key: What is called; calls of the same share their slots.
        config: How many at a time, and how long each may take.
        session: Shared by all clients of a run.

    Raises:
        UserError: A budget in dollars is set.
    """

    def __init__(self, key: tuple[str, ...], config: ReplyConfig, session: CallSession) -> None:
        self._limiter = session.limiters.get(key, config.concurrency.start, config.concurrency.max)
        self._account = account(session)
        self._timeout_s = config.timeout_s

    async def run(
        self, data: bytes, call: Callable[[bytes], Awaitable[bytes]], ready: Callable[[], Awaitable[None]] | None = None
    ) -> Heard:
        """The reply of a call, which is cancelled when its time is over.

        Args:
            data: What is sent.
            call: Sends it.
            ready: Waits until there is room for a call; its time does not count.

        Raises:
            TargetError: It took too long.
            BudgetError: The budget does not cover it.
        """
        reserved = await self._account.reserve(Request("POST", "", data, self._timeout_s)) if self._account else None
        try:
            async with self._limiter.slot() as slot:
                if ready is not None:
                    await ready()
                begun = time.monotonic()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        body = await call(data)
                except CallError as error:
                    error.latency_s = time.monotonic() - begun
                    raise
                latency_s = time.monotonic() - begun
                self._limiter.succeeded(slot, latency_s)
                return Heard(body, latency_s)
        except TimeoutError:
            what = f"no reply within {self._timeout_s:g} s"
            raise TargetError("timeout", what, requests=1, latency_s=self._timeout_s) from None
        finally:
            if self._account and reserved:
                self._account.budget.settle(reserved, reserved)
