"""Opening connections to one server: its name looked up, a proxy where the environment names one, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from evalflow.calls.connection import Connection

LOOK_UP_S = 10.0
"""How long an address that was looked up is used for further connections."""
HEAD_START_S = 0.25
"""How long one address of a server may take before the next is tried beside it (RFC 8305)."""
MAX_SAID = 4096
"""Bytes of what a proxy says before a tunnel begins."""
_PORTS = {"http": 80, "https": 443}


class Dialer:
    """Opens connections to one server.

    Proxies are taken from the environment as usual (HTTPS_PROXY, ALL_PROXY, NO_PROXY), once. Those that are spoken to
    in plain HTTP are known, which are nearly all; for others there is `client: sdk`.

    Args:
        base_url: Where the server is.
        silence_s: See `Connection`.

    Attributes:
        prefix: What the target of a request begins with: the server, where a proxy must be told which one is meant.
        head: Header lines that a proxy wants beside the server's own.

    Raises:
        ValueError: The address or the proxy cannot be used.
    """

    def __init__(self, base_url: str, silence_s: float | None) -> None:
        server = urlsplit(base_url)
        proxy = _proxy(server)
        self._silence_s = silence_s
        self._server = place(server)
        self._trust = _trust() if server.scheme == "https" else None
        self._next_stop = place(proxy) if proxy else self._server
        for_proxy = authorization("Proxy-Authorization", proxy) if proxy else b""
        self._tunnel = for_proxy if proxy and self._trust else None
        told = proxy is not None and self._trust is None
        self.prefix = f"http://{host_of(server)}" if told else ""
        self.head = for_proxy if told else b""
        self._addresses: list[Any] = []
        self._fresh_until = 0.0
        self._looking_up = asyncio.Lock()

    async def connect(self) -> Connection:
        """Open a connection.

        Raises:
            OSError: There is none, or no trust in it (ssl.SSLError).
        """
        from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]

        plain = await start_connection(await self._looked_up(), happy_eyeballs_delay=HEAD_START_S, interleave=1)
        try:
            if self._tunnel is not None:
                await _through(plain, self._server, self._tunnel)
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(self._silence_s),
                sock=plain,
                ssl=self._trust,
                server_hostname=self._server[0] if self._trust else None,
            )
        except BaseException:
            plain.close()
            raise
        return connection

    async def _looked_up(self) -> list[Any]:
        """Where to connect to; asked once for all connections that are opened within some seconds."""
        async with self._looking_up:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._fresh_until:
                self._addresses = await loop.getaddrinfo(*self._next_stop, type=socket.SOCK_STREAM)
                self._fresh_until = loop.time() + LOOK_UP_S
            return self._addresses


def place(url: SplitResult) -> tuple[str, int]:
    """Host and port of an address."""
    if url.scheme not in _PORTS or not url.hostname:
        raise ValueError("it does not begin with http:// or https:// and a name")
    return url.hostname, url.port or _PORTS[url.scheme]


def host_of(url: SplitResult) -> str:
    """Host and port as the header `Host` has them."""
    return url.netloc.rpartition("@")[2].encode("idna").decode()


def authorization(name: str, url: SplitResult) -> bytes:
    """The header line for the user and the password of an address; empty where it has none."""
    if url.username is None:
        return b""
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return b"%b: Basic %b\r\n" % (name.encode(), b64encode(pair.encode()))


async def _through(plain: socket.socket, server: tuple[str, int], head: bytes) -> None:
    """Let a proxy make a tunnel to the server (RFC 9110 9.3.6)."""
    loop = asyncio.get_running_loop()
    host, port = server
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n".encode() + head + b"\r\n"
    await loop.sock_sendall(plain, request)
    said = b""
    while b"\r\n\r\n" not in said:
        more = await loop.sock_recv(plain, MAX_SAID)
        said += more
        if not more or len(said) > MAX_SAID:
            raise OSError("the proxy does not answer in HTTP")
    status = said.partition(b"\r\n")[0].decode("latin-1")
    if status.split()[1:2] != ["200"]:
        raise OSError(f"the proxy refuses: {status}")


def _trust() -> ssl.SSLContext:
    """Whom the openai SDK trusts too: SSL_CERT_FILE, SSL_CERT_DIR, or the operating system's authorities."""
    import httpx2

    return httpx2.create_ssl_context()


def _proxy(server: SplitResult) -> SplitResult | None:
    """The proxy that the environment names for a server."""
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(server.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    found = proxies.get(server.scheme) or proxies.get("all")
    if not found:
        return None
    proxy = urlsplit(found if "://" in found else f"http://{found}")
    if proxy.scheme != "http":
        raise ValueError(f"a proxy that is spoken to in {proxy.scheme} needs client: sdk")
    return proxy
