"""`serve`: the application on this machine, with a worker process."""

from __future__ import annotations

import gc
import importlib.util
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.addons.studio.web.address import Address, bind, loopback
from evalflow.addons.studio.web.child import Child
from evalflow.errors import Problem, UserError, command
from evalflow.extras import install_command

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from evalflow.addons.studio.web.security.oidc import OidcSettings
    from evalflow.addons.studio.work.space import Workspace


NEEDED = ("nicegui", "fastapi", "uvicorn", "sqlalchemy", "alembic", "webauthn", "prometheus_client")
"""Packages of the extra `web`."""
LARGEST_MESSAGE = 2 * 1024**2
"""Maximum number of bytes of a websocket message; NiceGUI's own pages send at most one million."""
UNGUARDED = (
    "no token is asked for: every account and program that reaches this port can read and change all that is here, and "
    "start runs with your keys"
)
DRAIN_S = 3
"""Seconds for open requests to finish after an interrupt."""
COLLECT_PAGES_AFTER = (20_000, 10, 10)
"""Thresholds of Python's garbage collector. A tenth of a page that was left is in reference cycles. These are as old as
the visit was long, so only a full collection frees them. It blocks everything while it runs; with these thresholds
there is one in some hundred pages."""
SWITCH_INTERVAL_S = 0.001
"""Python's switch interval: seconds that a thread computes while another waits. A page waits like this at each of its
dozens of steps. Beside two computing threads, a page takes six to eleven times as long with Python's default of 5 ms,
and three to five times with 1 ms."""


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

    from evalflow.addons.studio.web.application import application
    from evalflow.addons.studio.web.security.token import load_token, opening_page
    from evalflow.addons.studio.work.space import open_workspace

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

    from evalflow.addons.studio.web.application import application
    from evalflow.addons.studio.web.security.oidc import discover
    from evalflow.addons.studio.work.space import open_workspace

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
            tell(f"evalflow is at {address.url} (listening on {address.listens}; Ctrl-C ends it)")
            if not oidc and not public.user_header:
                _tell_first_links(workspace, public.url, tell)
            answer(app, sock, public.tls)
    return 0


def _tell_first_links(workspace: Workspace, url: str, tell: Callable[[str], None]) -> None:
    """Tell how the owners sign in for the first time, while no owner has a passkey."""
    from evalflow.addons.studio.work.people import list_users, sign_in_link

    owners = [user for user in list_users(workspace) if user.is_owner and not user.is_disabled]
    if any(user.passkeys for user in owners):
        return
    for user in owners:
        link = f"{url}/link?code={sign_in_link(workspace, user.name)}"
        tell(f"{user.name} signs in by this link, once, within a day: {link}")


def _worker_words(database_url: str | None, log: str) -> list[str]:
    return ["worker", "--attached", "--log", log, *(["--database-url", database_url] if database_url else [])]


def _expect_set_up(workspace: Workspace) -> None:
    """Check that the server has an owner and connections, before anything listens."""
    from evalflow.addons.studio.work.connections import list_connections
    from evalflow.addons.studio.work.people import has_owner

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
    gc.collect()
    gc.freeze()  # what is loaded by now stays, so collections need not scan it again
    gc.set_threshold(*COLLECT_PAGES_AFTER)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    files: dict[str, Any] = {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])} if tls else {}
    server(app, log_level="warning", timeout_graceful_shutdown=DRAIN_S, **files).run(sockets=[sock])


def server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """A uvicorn server with the limits of the application."""
    import uvicorn

    from evalflow.addons.studio.web.security.uvicorn_protocol import (
        LONGEST_HEADERS,
        finished_requests,
        unhurried_sockets,
    )

    config = uvicorn.Config(
        app,
        http=finished_requests(),
        ws=unhurried_sockets(),
        h11_max_incomplete_event_size=LONGEST_HEADERS,
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        ws_max_size=LARGEST_MESSAGE,
        **options,
    )
    return uvicorn.Server(config)
