"""`serve`: the application on this machine, with a worker process."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ipaddress
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp


LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """A loopback address with its port.

    Attributes:
        host: An IP address, without brackets.
        port: 0 until the socket is bound to a free one.
    """

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL, without a slash at the end."""
        return f"http://{self._bracketed}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header that name this server; other names may be controlled by an attacker."""
        names = {*LOCAL_NAMES, self._bracketed}
        with_port = {f"{name}:{self.port}" for name in names}
        return frozenset(with_port | names if self.port == 80 else with_port)

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def loopback(host: str, port: int) -> Address:
    """The address to bind; one that other machines can reach is refused."""
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]"))
    except ValueError:
        ip = None
    if ip is None or not ip.is_loopback:
        what = f"{host!r} is not an address of this machine alone; the application has no users and no encryption"
        hint = (
            "leave --host out, or use 127.0.0.1; from elsewhere, through a tunnel: ssh -L 8000:127.0.0.1:8000 MACHINE"
        )
        raise UserError(Problem(what, "--host", hint))
    if not 0 <= port <= 65535:
        raise UserError(Problem(f"{port} is no port", "--port", "1 to 65535, or 0 for any free one"))
    return Address(str(ip), port)


def bind(address: Address) -> tuple[socket.socket, Address]:
    """Bind the port, before anything else starts; returns the socket, and the address with its actual port."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address.host, address.port))
        sock.listen()
    except OSError as error:
        sock.close()
        hint = f"choose another: --port {address.port + 1}, or --port 0 for any free one"
        raise UserError(Problem(f"cannot listen on {address.url}: {error.strerror}", "--port", hint)) from None
    return sock, Address(address.host, sock.getsockname()[1])


NEEDED = ("nicegui", "fastapi", "uvicorn", "sqlalchemy", "alembic")
"""Packages of the extra `web`."""
LARGEST_MESSAGE = 2 * 1024**2
"""Maximum number of bytes of a websocket message; NiceGUI's own pages send at most one million."""
UNGUARDED = (
    "no token is asked for: every account and program that reaches this port can read and change all that is here, and "
    "start runs with your keys"
)
DRAIN_S = 3
"""Seconds for open requests to finish after an interrupt."""


def serve(
    host: str, port: int, database_url: str | None, *, opens: bool, tell: Callable[[str], None], asks_token: bool = True
) -> int:
    """Serve the application until it is interrupted; returns the exit code.

    `port`: 0 for any free one. `opens`: a browser. `tell` shows one line.
    """
    address = loopback(host, port)
    require_packages()
    sock, address = bind(address)

    from evalflow.app.studio.space import open_workspace
    from evalflow.web.application import application
    from evalflow.web.security.token import load_token, opening_page

    words = ["worker", "--attached", *(["--database-url", database_url] if database_url else [])]
    with closing(sock), closing(open_workspace(database_url)) as workspace:
        token = load_token(workspace.root) if asks_token else None
        app = application(workspace, address, Child(words), token)
        url = f"{address.url}/?token={token}" if token else address.url
        tell(f"evalflow is at {url} (on this machine only; Ctrl-C ends it)")
        if token is None:
            tell(UNGUARDED)
        if opens:
            webbrowser.open(opening_page(workspace.root, url).as_uri() if token else url)
        answer(app, sock)
    return 0


def require_packages(needed: Sequence[str] = NEEDED) -> None:
    """Check that the extra `web` is installed."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        what = f"the application needs packages that are not installed: {', '.join(missing)}"
        raise UserError(Problem(what, "serve", "pip install 'evalflow[web]'"))


def answer(app: FastAPI, sock: socket.socket) -> None:
    """Serve requests until a signal."""
    server(app, log_level="warning", timeout_graceful_shutdown=DRAIN_S).run(sockets=[sock])


def server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """A uvicorn server with the limits of the application."""
    import uvicorn

    from evalflow.web.security.guards import LONGEST_HEADERS, finished_requests

    config = uvicorn.Config(
        app,
        http=finished_requests(),
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws_max_size=LARGEST_MESSAGE,
        **options,
    )
    return uvicorn.Server(config)


GRACE_S = 15.0
"""Seconds for a worker to end; the next worker resumes unfinished runs."""
AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before each restart of a dead worker; the last one repeats. A worker that lived longer than the last pause
resets the sequence."""


class Child:
    """A process `python -m evalflow`, restarted if it dies, until the context exits.

    The command must exit when its standard input closes.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._fault = "it has ended"

    @property
    def fault(self) -> str:
        """Why the process does not run; empty if it runs."""
        return "" if self._process is not None and self._process.returncode is None else self._fault

    async def __aenter__(self) -> Self:
        """Start it."""
        await self._start()
        self._watch = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Terminate it; kill it after `GRACE_S`."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(GRACE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _start(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "evalflow", *self._words, stdin=asyncio.subprocess.PIPE
            )
        except Exception as error:  # the server keeps running, and tries again
            self._process, self._fault = None, f"it cannot be started: {error}"

    async def _keep_alive(self) -> None:
        failures = 0
        while True:
            since = time.monotonic()
            if self._process is not None:
                self._fault = f"it ended with code {await self._process.wait()}"
            if time.monotonic() - since > AGAIN_S[-1]:
                failures = 0
            pause = AGAIN_S[min(failures, len(AGAIN_S) - 1)]
            failures += 1
            sys.stderr.write(f"the worker does not run, {self._fault}; it is started again in {pause:g} s\n")
            await asyncio.sleep(pause)
            await self._start()
