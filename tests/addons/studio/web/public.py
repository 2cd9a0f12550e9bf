"""A public server over TLS in a process of its own, with an owner and a viewer, and how people ask it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest

from evalflow.addons.studio.web.security.sign_in import COOKIE
from evalflow.addons.studio.work import connections, people, projects
from evalflow.addons.studio.work.connections import ConnectionDraft
from tests.addons.studio.signing_in import session_key
from tests.addons.studio.web.conftest import working_in
from tests.addons.studio.web.served import serve_in_public
from tests.forked import Forked


@dataclass(frozen=True)
class PublicServer:
    """A server, and the certificate that it shows; its database is a file in its folder without a URL."""

    url: str
    certificate: Path
    folder: Path
    database: str | None = None

    @property
    def tls(self) -> ssl.SSLContext:
        """Trusts the server's certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def client(self, **headers: str) -> httpx2.Client:
        """A browser's or a program's client; close it."""
        return httpx2.Client(base_url=self.url, verify=self.tls, headers=headers, timeout=60)

    def sign_in(self, name: str) -> str:
        """The session cookie of somebody who has signed in."""
        with working_in(self.folder, self.database) as space:
            return f"{COOKIE}={session_key(space, name)}"

    def let_in(self, context: Any, name: str) -> None:
        """Give a browser the session of somebody."""
        name, _, value = self.sign_in(name).partition("=")
        context.add_cookies([{"name": name, "value": value, "url": self.url, "secure": True, "httpOnly": True}])

    def open(self, cookie: str, path: str = "/runs") -> str:
        """The id of a page that somebody opens."""
        with self.client(Cookie=cookie) as client:
            found = re.search(r'client_id["\']?: ?["\']([0-9a-f-]{36})', client.get(path).text)
            assert found
            return found[1]

    @asynccontextmanager
    async def socket(
        self, cookie: str, query: str = "", origin: str | None = None
    ) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
        """A browser's websocket, connected."""
        url = f"{self.url}/_nicegui_ws/socket.io/?EIO=4&transport=websocket{query}"
        headers = {"Cookie": cookie, "Origin": origin or self.url}
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(url, ssl=self.tls, headers=headers) as connection:
                taken = connection._response.connection
                transport = None if taken is None else taken.transport
                assert transport is not None
                await connection.receive_str()
                await connection.send_str("40")
                assert (await connection.receive_str()).startswith("40")
                yield connection
            transport.abort()  # without the end of TLS, for which its event loop may not wait
            await asyncio.sleep(0)


async def emit(connection: aiohttp.ClientWebSocketResponse, event: str, content: dict[str, Any]) -> Any:
    """What the server acknowledges an event with."""
    await connection.send_str(f"421{json.dumps([event, content])}")
    return json.loads((await received(connection, "431"))[3:])


async def received(connection: aiohttp.ClientWebSocketResponse, part: str) -> str:
    """The next message with that text in it; pings are answered meanwhile."""
    async with asyncio.timeout(60):
        while True:
            message = await connection.receive_str()
            if message == "2":
                await connection.send_str("3")
            elif part in message:
                return message


@contextmanager
def serving_in_public(folder: Path, database: str | None = None) -> Iterator[PublicServer]:
    """A server at work in a folder."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    try:
        subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl, to make a certificate")
    with working_in(folder, database) as space:
        connections.create_connection(space, "openai", ConnectionDraft("https://api.openai.com/v1"))
        for name, is_owner in (("olga", True), ("vera", False)):
            people.add_user(space, name, is_owner=is_owner)
        projects.set_role(space, "vera", "viewer")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"https://localhost:{port}"
    words = [url, "--host", "127.0.0.1", "--tls-cert", str(certificate), "--tls-key", str(key)]
    words += ["--database-url", database] if database else []
    output, written = os.pipe()
    process = Forked(words, folder, written, does=serve_in_public)
    os.close(written)
    try:
        with os.fdopen(output, encoding="utf-8") as told:
            assert "evalflow is at" in told.readline()
            yield PublicServer(url, certificate, folder, database)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
