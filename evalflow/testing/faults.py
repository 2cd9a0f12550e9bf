"""Faults of endpoints, for scripts."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.testing.replies import Answering, Computed, Exchange, Instances, Step, as_step, reply

if TYPE_CHECKING:
    from aiohttp import web

    from evalflow.testing.replies import Request


@dataclass(frozen=True, kw_only=True)
class Fault(Step):
    """A fault in answering one request."""

    act: Callable[[Exchange], Awaitable[web.StreamResponse]]

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        return await self.act(exchange)


def status(
    code: int,
    *,
    message: str = "scripted",
    retry_after: float | str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Step:
    """An error status with the body that the API sends with it; `retry_after` is seconds, or an HTTP date."""
    error = {"message": message, "type": "scripted", "param": None, "code": None}
    sent = {**(headers or {}), **({} if retry_after is None else {"Retry-After": str(retry_after)})}
    return _page(json.dumps({"error": error}), "application/json", code, sent)


def html() -> Step:
    """A web page with status 200, as from a proxy that requires a sign-in."""
    return _page("<!doctype html><title>Sign in</title>", "text/html")


def _page(text: str, content_type: str, code: int = 200, headers: Mapping[str, str] | None = None) -> Step:
    async def act(_: Exchange) -> web.StreamResponse:
        from aiohttp import web

        return web.Response(text=text, content_type=content_type, status=code, headers=headers)

    return Fault(act=act)


def reset() -> Step:
    """Reset the connection before any byte of the reply."""
    return Fault(act=_abort)


def silence() -> Step:
    """Send no reply, and keep the connection open until the client or the endpoint closes it."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        await exchange.closing.wait()
        return await _abort(exchange)

    return Fault(act=act)


def cut(answer: object = None) -> Step:
    """Send half of the body of a reply, as a script may return it, then close the connection."""
    inner = _answering(answer)

    async def act(exchange: Exchange) -> web.StreamResponse:
        response, body = await _begin(inner, exchange)
        await response.write(body[: len(body) // 2])
        if exchange.http.transport:
            exchange.http.transport.close()
        return response

    return Fault(act=act)


def trickle(answer: object = None, *, bytes_per_second: float = 1.0) -> Step:
    """Send a valid body slowly, byte by byte."""
    inner = _answering(answer)

    async def act(exchange: Exchange) -> web.StreamResponse:
        response, body = await _begin(inner, exchange)
        for index in range(len(body)):
            await response.write(body[index : index + 1])
            await asyncio.sleep(1 / bytes_per_second)
        await response.write_eof()
        return response

    return Fault(act=act)


def malformed() -> Step:
    """A completion whose content is truncated JSON."""

    def completion(request: Request) -> Mapping[str, object]:
        text = json.dumps("text" if request.schema is None else Instances().make(request.schema))
        return reply(text[: len(text) // 2]).body(request)

    return Computed(make=completion)


def off_schema() -> Step:
    """A completion whose content is JSON that does not match the requested schema."""
    return reply({"unexpected": True})


def faulty(
    script: Callable[[Request], object], faults: Sequence[tuple[float, Step]], *, seed: int = 0
) -> Callable[[Request], object]:
    """Mix faults into a script at random, each with its share of all requests. A retried request is drawn again."""

    def with_faults(request: Request) -> object:
        draw = random.Random(f"{seed}:{request.number}").random()  # noqa: S311 - reproducible, not for security
        for share, fault in faults:
            draw -= share
            if draw < 0:
                return fault
        return script(request)

    return with_faults


def _answering(answer: object) -> Answering:
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


async def _abort(exchange: Exchange) -> web.StreamResponse:
    from aiohttp import web

    if transport := exchange.http.transport:
        # With a linger time of zero the kernel sends RST instead of FIN.
        lingering = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
        transport.abort()
    return web.Response()
