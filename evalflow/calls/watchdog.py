"""Tells a slow endpoint from a dead one, before the first answer only.

A model may take a minute for its first reply; an endpoint that accepts connections and never says anything would keep
a run waiting just as long. So while an endpoint has never answered, a call that waits too long is followed by one cheap
question. Any HTTP status shows that somebody is there. A healthy run never sends it.
"""

from __future__ import annotations

import asyncio

from evalflow.calls.transport import Request, Response, Transport, TransportError
from evalflow.errors import InfrastructureError

PROBE_PATH = "/models"


class Watchdog:
    """Sends requests, and finds out in bounded time when nobody is listening.

    Args:
        transport: The endpoint's connections.
        where: The endpoint, for messages.
        silence_s: Seconds without an answer before the probe.
        probe_s: Seconds that the probe waits.
        address: The key that holds the endpoint's address, for messages.

    Attributes:
        answered: Whether anything was ever answered, the probe included.
        heard: Whether a request that was not the probe was ever answered.
    """

    def __init__(self, transport: Transport, where: str, silence_s: float, probe_s: float, address: str) -> None:
        self._transport = transport
        self._where = where
        self._silence_s = silence_s
        self._probe_s = probe_s
        self._address = address
        self._probing: asyncio.Task[bool] | None = None
        self.answered = False
        self.heard = False

    async def send(self, request: Request) -> Response:
        """Send one request.

        Raises:
            TransportError: No whole response came, this time.
            InfrastructureError: The endpoint accepts connections and answers nothing.
        """
        response = await self._transport.send(request) if self.answered else await self._watched(request)
        self.answered = self.heard = True
        return response

    def stop(self) -> None:
        """End a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None

    async def _watched(self, request: Request) -> Response:
        call = asyncio.create_task(self._transport.send(request))
        try:
            await asyncio.wait({call}, timeout=self._silence_s)
            if not call.done():
                await self._probe(call)
            response = await call
            self.stop()
            return response
        except TransportError as error:
            if error.fault == "timeout":
                await self._probe()
            raise
        finally:
            call.cancel()

    async def _probe(self, call: asyncio.Task[Response] | None = None) -> None:
        """Ask whether anybody is there, once for all calls that wait; return early when `call` is answered."""
        if self.answered:
            return
        probe = self._probing = self._probing or asyncio.create_task(self._alive())
        await asyncio.wait({probe, call} if call else {probe}, return_when=asyncio.FIRST_COMPLETED)
        if self.answered or not probe.done() or probe.cancelled():
            return
        if not probe.result():
            what = f"{self._where} accepts connections and answers nothing"
            raise InfrastructureError(what, f"check {self._address}, and that the server is up")

    async def _alive(self) -> bool:
        try:
            await self._transport.send(Request("GET", PROBE_PATH, None, self._probe_s))
        except TransportError:
            return False
        self.answered = True
        return True
