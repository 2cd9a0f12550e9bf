"""Restrict the openai SDK's connections to networks: resolve names here and connect to the checked address."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from evalflow.calls.networks import ForbiddenAddressError, Networks

if TYPE_CHECKING:
    from evalflow.llm.sdk_http import httpcore, httpx


def within(networks: Networks, limits: httpx.Limits, trust: ssl.SSLContext) -> httpx.AsyncBaseTransport:
    """Return a transport that connects only to the networks; its errors are httpcore's."""
    from evalflow.llm.sdk_http import httpcore, httpx

    pool = httpcore.AsyncConnectionPool(
        ssl_context=trust,
        max_connections=limits.max_connections,
        max_keepalive_connections=limits.max_keepalive_connections,
        keepalive_expiry=limits.keepalive_expiry,
        network_backend=_backend(networks),
    )

    class Body(httpx.AsyncByteStream):
        def __init__(self, parts: Any) -> None:
            self._parts = parts

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self._parts:
                yield part

        async def aclose(self) -> None:
            await self._parts.aclose()

    class Guarded(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            url = request.url
            made = await pool.handle_async_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=cast("httpx.AsyncByteStream", request.stream),
                    extensions=request.extensions,
                )
            )
            body, extensions = Body(made.stream), cast("Any", made).extensions
            return httpx.Response(made.status, headers=made.headers, stream=body, extensions=extensions)

        async def aclose(self) -> None:
            await pool.aclose()

    return Guarded()


def _backend(networks: Networks) -> httpcore.AsyncNetworkBackend:
    from evalflow.llm.sdk_http import httpcore

    plain = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    class Backend(httpcore.AsyncNetworkBackend):
        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, *rest: Any, **options: Any
        ) -> httpcore.AsyncNetworkStream:
            try:
                async with asyncio.timeout(timeout):
                    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except TimeoutError:
                raise httpcore.ConnectTimeout from None
            except OSError as error:
                raise httpcore.ConnectError(str(error)) from error
            failed: Exception | None = None
            for *_, place in addresses:
                address = str(place[0])
                try:
                    networks.expect(address)
                    return await plain.connect_tcp(address, port, timeout, *rest, **options)
                except ForbiddenAddressError as error:
                    failed = failed or error
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    failed = error
            raise failed or httpcore.ConnectError(f"{host} has no address")

    return Backend()
