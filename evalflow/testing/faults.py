"""What goes wrong with endpoints, on demand."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalflow.testing.steps import Answering, Exchange, ScriptedReply, Step, as_step, auto, reply

if TYPE_CHECKING:
    from aiohttp import web

    from evalflow.testing.request import Request


@dataclass(frozen=True, kw_only=True)
class Status(Step):
    """An error status with the body that the API sends with it. Made by `status`."""

    code: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Send it."""
        from aiohttp import web

        error = {"message": self.message, "type": "scripted", "param": None, "code": None}
        return web.json_response({"error": error}, status=self.code, headers=dict(self.headers))


@dataclass(frozen=True, kw_only=True)
class HtmlPage(Step):
    """A web page where JSON is expected."""

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Send it, with status 200."""
        from aiohttp import web

        return web.Response(text="<!doctype html><title>Sign in</title>", content_type="text/html")


@dataclass(frozen=True, kw_only=True)
class Reset(Step):
    """The connection is reset before a byte is answered."""

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Reset it."""
        return _abort(exchange)


@dataclass(frozen=True, kw_only=True)
class Silence(Step):
    """Nothing is answered, and the connection stays open until the client or the endpoint closes it."""

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Wait."""
        await exchange.closing.wait()
        return _abort(exchange)


@dataclass(frozen=True, kw_only=True)
class Cut(Step):
    """Half of a body, then the connection closes."""

    inner: Answering

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Send half of what is promised."""
        response, body = await _begin(self.inner, exchange)
        await response.write(body[: len(body) // 2])
        _close(exchange)
        return response


@dataclass(frozen=True, kw_only=True)
class Trickle(Step):
    """A body that comes byte by byte."""

    inner: Answering
    bytes_per_second: float

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Send a byte, wait, send the next."""
        response, body = await _begin(self.inner, exchange)
        for index in range(len(body)):
            await response.write(body[index : index + 1])
            await asyncio.sleep(1 / self.bytes_per_second)
        await response.write_eof()
        return response


@dataclass(frozen=True, kw_only=True)
class HalfJson(Answering):
    """A completion whose content is half a JSON document."""

    def body(self, request: Request) -> Mapping[str, Any]:
        """The completion."""
        text = json.dumps(auto().content(request))
        return ScriptedReply(contents=(text[: len(text) // 2],)).body(request)


def status(code: int, *, message: str = "scripted", retry_after: float | str | None = None) -> Step:
    """An error status.

    Args:
        code: 401, 403, 404, 429, 500, ...
        message: Stands in the body.
        retry_after: The header Retry-After: seconds, or a date as HTTP writes it.
    """
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Status(code=code, message=message, headers=headers)


def html() -> Step:
    """A web page with status 200, as from a proxy that wants a sign-in."""
    return HtmlPage()


def reset() -> Step:
    """The connection is reset before a byte is answered."""
    return Reset()


def silence() -> Step:
    """The request is accepted and never answered."""
    return Silence()


def cut(answer: Any = None) -> Step:
    """Half of a body, then the connection closes.

    Args:
        answer: What would have been answered, as a script may return it.
    """
    return Cut(inner=_answering(answer))


def trickle(answer: Any = None, *, bytes_per_second: float = 1.0) -> Step:
    """A good body that comes byte by byte.

    Args:
        answer: What is answered, as a script may return it.
        bytes_per_second: How quickly.
    """
    return Trickle(inner=_answering(answer), bytes_per_second=bytes_per_second)


def malformed() -> Step:
    """A completion whose content is half a JSON document."""
    return HalfJson()


def off_schema() -> Step:
    """A completion whose content is JSON of another shape than the one asked for."""
    return reply({"unexpected": True})


def faulty(
    script: Callable[[Request], Any], faults: Sequence[tuple[float, Step]], *, seed: int = 0
) -> Callable[[Request], Any]:
    """A script with faults strewn in. A request that is sent again draws again.

    Args:
        script: What happens otherwise.
        faults: Each with its share of all requests, 0 to 1; together at most 1.
        seed: Another one strews them differently.
    """

    def strewn(request: Request) -> Any:
        drawn = random.Random(f"{seed}:{request.number}").random()  # noqa: S311 - reproducible, and no secret
        for share, fault in faults:
            drawn -= share
            if drawn < 0:
                return fault
        return script(request)

    return strewn


def _answering(answer: Any) -> Answering:
    step = as_step(answer)
    if not isinstance(step, Answering):
        raise TypeError(f"only a reply has a body to send, {type(step).__name__} has none")
    return step


async def _begin(inner: Answering, exchange: Exchange) -> tuple[web.StreamResponse, bytes]:
    from aiohttp import web

    body = json.dumps(inner.body(exchange.request)).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    response = web.StreamResponse(headers=headers)
    await response.prepare(exchange.http)
    return response, body


def _close(exchange: Exchange) -> None:
    if exchange.http.transport:
        exchange.http.transport.close()


def _abort(exchange: Exchange) -> web.StreamResponse:
    from aiohttp import web

    if transport := exchange.http.transport:
        # Lingering for zero seconds makes the kernel send RST where it would send FIN.
        lingering = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
        transport.abort()
    return web.Response()
