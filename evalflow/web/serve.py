"""`serve`: the application on this machine, with a worker process."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ipaddress
import logging
import socket
import ssl
import sys
import time
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from evalflow.errors import Problem, UserError, command
from evalflow.extras import install_command

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from evalflow.app.studio.space import Workspace
    from evalflow.web.security.oidc import OidcProvider, OidcSettings
    from evalflow.web.security.proxy import UserHeader


LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class PublicMode:
    """How a server is reached by others than the person at its machine.

    Attributes:
        url: https://NAME, with a port if it is not 443, without a slash at the end.
        tls: The files of its certificate and key; None if a reverse proxy speaks TLS.
        proxies: The networks of the reverse proxies; empty with TLS of its own.
        provider: Where people sign in by OpenID Connect; None: nowhere.
        user_header: The header in which the proxies name who is signed in; None: they do not.
        metrics_from: The networks that may read /metrics without signing in.
    """

    url: str
    tls: tuple[Path, Path] | None
    proxies: Sequence[str]
    provider: OidcProvider | None = None
    user_header: UserHeader | None = None
    metrics_from: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Address:
    """An address with its port; of loopback, except in public mode.

    Attributes:
        host: An IP address, without brackets.
        port: 0 until the socket is bound to a free one.
    """

    host: str
    port: int
    public: PublicMode | None = None

    @property
    def url(self) -> str:
        """The URL for browsers, without a slash at the end."""
        return self.public.url if self.public else self.bound_url

    @property
    def bound_url(self) -> str:
        """The URL of the socket."""
        tls = self.public is not None and self.public.tls is not None
        return f"{'https' if tls else 'http'}://{self._bracketed}:{self.port}"

    @property
    def scheme(self) -> str:
        """Of the URL for browsers."""
        return self.url.partition(":")[0]

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header that name this server; other names may be controlled by an attacker."""
        if self.public:
            return frozenset({self.url.partition("://")[2]})
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
        what = f"{host!r} is not an address of this machine alone; without --public there are no accounts"
        hint = (
            "leave --host out, or use 127.0.0.1; from elsewhere, through a tunnel: ssh -L 8000:127.0.0.1:8000 MACHINE; "
            "for several people: --public https://NAME"
        )
        raise UserError(Problem(what, "--host", hint))
    if not 0 <= port <= 65535:
        raise UserError(_wrong_port(port))
    return Address(str(ip), port)


def public_address(
    url: str,
    host: str | None,
    port: int | None,
    tls: Sequence[str],
    proxies: Sequence[str],
    metrics_from: Sequence[str] = (),
) -> Address:
    """The address of a public server. `tls`: the files of certificate and key, or nothing.

    With them it listens on all addresses of the machine and on the port of `url`, else behind a proxy on loopback and
    port 8000, if `host` and `port` say nothing.

    Raises:
        UserError: Every setting that is missing or wrong.
    """
    problems: list[Problem] = []
    parts = urlsplit(url)
    name = (parts.hostname or "").rstrip(".")
    if (
        parts.scheme != "https"
        or not name
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or "@" in url
    ):
        problems.append(
            Problem(f"{url!r} is not the address of a server", "--public", "such as https://evalflow.example")
        )
    if not tls and not proxies:
        hint = "--tls-cert FILE --tls-key FILE, or --proxy NETWORK of the reverse proxy that speaks TLS"
        problems.append(Problem("passwords would travel unencrypted", "--public", hint))
    if tls and proxies:
        problems.append(Problem("a proxy and TLS files exclude each other", "--proxy", "leave out one of them"))
    problems += [found for network in proxies if (found := _wrong_network(network, "--proxy"))]
    problems += [found for network in metrics_from if (found := _wrong_network(network, "--metrics-from"))]
    problems += _wrong_files(tls)
    host = host or ("0.0.0.0" if tls else "127.0.0.1")  # noqa: S104 - meant for other machines
    try:
        own_port = parts.port or 443
    except ValueError as error:
        own_port = 443
        problems.append(Problem(f"{url!r}: {error}", "--public", "such as https://evalflow.example"))
    port = port if port is not None else own_port if tls else 8000
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host.lower() == "localhost" else host.strip("[]"))
    except ValueError:
        ip = None
        problems.append(Problem(f"{host!r} is no IP address", "--host", "such as 0.0.0.0 for all of this machine"))
    if not 0 <= port <= 65535:
        problems.append(_wrong_port(port))
    if problems or ip is None:
        raise UserError(problems)
    given = (Path(tls[0]), Path(tls[1])) if tls else None
    public = PublicMode(f"https://{parts.netloc.lower()}", given, tuple(proxies), metrics_from=tuple(metrics_from))
    return Address(str(ip), port, public)


def _wrong_network(network: str, option: str) -> Problem | None:
    try:
        ipaddress.ip_network(network)
    except ValueError as error:
        return Problem(f"{network!r} is no network: {error}", option, "such as 10.0.0.0/8, or 127.0.0.1")
    return None


def _wrong_files(tls: Sequence[str]) -> list[Problem]:
    """Why certificate and key cannot be used."""
    if not tls:
        return []
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*tls)
    except (OSError, ssl.SSLError) as error:
        names = " and ".join(tls)
        return [Problem(f"{names} cannot be used: {error}", "--tls-cert", "PEM files of a certificate and its key")]
    return []


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
        raise UserError(Problem(f"cannot listen on {address.bound_url}: {error.strerror}", "--port", hint)) from None
    return sock, replace(address, port=sock.getsockname()[1])


def _wrong_port(port: int) -> Problem:
    return Problem(f"{port} is no port", "--port", "1 to 65535, or 0 for any free one")


NEEDED = ("nicegui", "fastapi", "uvicorn", "sqlalchemy", "alembic", "pwdlib", "prometheus_client")
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
    host: str,
    port: int,
    database_url: str | None,
    *,
    opens: bool,
    tell: Callable[[str], None],
    asks_token: bool = True,
    log: str = "text",
) -> int:
    """Serve the application until it is interrupted; returns the exit code.

    `port`: 0 for any free one. `opens`: a browser. `tell` shows one line. `log`: of the worker, text or json.
    """
    address = loopback(host, port)
    require_packages()
    sock, address = bind(address)

    from evalflow.app.studio.space import open_workspace
    from evalflow.web.application import application
    from evalflow.web.security.token import load_token, opening_page

    with closing(sock), closing(open_workspace(database_url)) as workspace:
        token = load_token(workspace.root) if asks_token else None
        app = application(workspace, address, Child(_worker_words(database_url, log)), token)
        url = f"{address.url}/?token={token}" if token else address.url
        tell(f"evalflow is at {url} (on this machine only; Ctrl-C ends it)")
        if token is None:
            tell(UNGUARDED)
        if opens:
            webbrowser.open(opening_page(workspace.root, url).as_uri() if token else url)
        answer(app, sock)
    return 0


def serve_public(
    address: Address,
    database_url: str | None,
    *,
    tell: Callable[[str], None],
    oidc: OidcSettings | None = None,
    log: str = "text",
) -> int:
    """Serve the application to people with accounts until it is interrupted; returns the exit code.

    `oidc`: where they can sign in by OpenID Connect. Nothing listens unless that provider answers at the start.
    """
    require_packages()

    from evalflow.app.studio.space import open_workspace
    from evalflow.web.application import application
    from evalflow.web.security.oidc import discover

    assert address.public is not None
    public = address.public

    with closing(open_workspace(database_url)) as workspace:
        _expect_set_up(workspace)
        if oidc is not None:
            require_packages(["authlib"], extra="oidc")
            address = replace(address, public=replace(public, provider=discover(oidc, public.url)))
        sock, address = bind(address)
        with closing(sock):
            app = application(workspace, address, Child(_worker_words(database_url, log)), None)
            tell(f"evalflow is at {address.url} (listening on {address.bound_url}; Ctrl-C ends it)")
            answer(app, sock, public.tls)
    return 0


def _worker_words(database_url: str | None, log: str) -> list[str]:
    return ["worker", "--attached", "--log", log, *(["--database-url", database_url] if database_url else [])]


def _expect_set_up(workspace: Workspace) -> None:
    """Check that the server has an owner and connections, before anything listens."""
    from evalflow.app.studio.connections import list_connections
    from evalflow.app.studio.people import has_owner

    problems: list[Problem] = []
    if not has_owner(workspace):
        hint = f"add one: {command('users', 'add', 'NAME', '--owner')}"
        problems.append(Problem("nobody owns this server yet", "--public", hint))
    if not list_connections(workspace):
        address = "https://api.openai.com/v1"
        hint = f"list what they may call: {command('connections', 'add', 'openai', address, '--key', 'OPENAI_API_KEY')}"
        problems.append(Problem("bots and judges may call nothing yet", "--public", hint))
    if problems:
        raise UserError(problems)


def require_packages(needed: Sequence[str] = NEEDED, extra: str = "web") -> None:
    """Check that an extra is installed."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        what = f"the application needs packages that are not installed: {', '.join(missing)}"
        raise UserError(Problem(what, "serve", install_command(extra)))


def answer(app: FastAPI, sock: socket.socket, tls: tuple[Path, Path] | None = None) -> None:
    """Serve requests until a signal. `tls`: the files of certificate and key."""
    files: dict[str, Any] = {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])} if tls else {}
    server(app, log_level="warning", timeout_graceful_shutdown=DRAIN_S, **files).run(sockets=[sock])


def server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """A uvicorn server with the limits of the application."""
    import uvicorn

    from evalflow.web.security.guards import LONGEST_HEADERS, finished_requests

    config = uvicorn.Config(
        app,
        http=finished_requests(),
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        access_log=False,
        log_config=None,
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
            logging.getLogger("evalflow").warning(
                "the worker does not run, %s; it is started again in %g s", self._fault, pause
            )
            await asyncio.sleep(pause)
            await self._start()
