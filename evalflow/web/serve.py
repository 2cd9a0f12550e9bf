"""`serve`: the application on this machine, and the worker beside it, until it is interrupted."""

from __future__ import annotations

import importlib.util
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from evalflow.errors import Problem, UserError
from evalflow.web.address import Address, bind, loopback

if TYPE_CHECKING:
    import socket

    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp

NEEDED = ("nicegui", "fastapi", "uvicorn", "sqlalchemy", "alembic")
"""Packages of the extra `web`."""
LARGEST_MESSAGE = 2 * 1024**2
"""Bytes of one message of a page's websocket; NiceGUI's own pages send at most one million."""
UNGUARDED = (
    "no token is asked for: every account and program that reaches this port can read and change all that is here, and "
    "start runs with your keys"
)
DRAIN_S = 3
"""How long what is being answered may still take after an interrupt."""


def serve(
    host: str,
    port: int,
    database_url: str | None,
    *,
    opens: bool,
    tell: Callable[[str], None],
    asks_token: bool = True,
) -> int:
    """Serve the application until it is interrupted.

    Args:
        host: A loopback address.
        port: 0 for any free one.
        database_url: None: the file below `.evalflow/`.
        opens: Whether a browser is pointed at it.
        tell: Shows one line.
        asks_token: Whether only those who bring the token are answered.

    Returns:
        The exit code.

    Raises:
        UserError: The address is not this machine's alone, or taken; a package is missing; the database is unusable.
    """
    address = loopback(host, port)
    require_packages()
    sock, address = bind(address)
    try:
        return _serve(sock, address, database_url, opens=opens, tell=tell, asks_token=asks_token)
    finally:
        sock.close()


def require_packages(needed: Sequence[str] = NEEDED) -> None:
    """Refuse where the extra is not installed.

    Raises:
        UserError: It names the packages, and the line that installs them.
    """
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        what = f"the application needs packages that are not installed: {', '.join(missing)}"
        raise UserError(Problem(what, "serve", "pip install 'evalflow[web]'"))


def _serve(
    sock: socket.socket,
    address: Address,
    database_url: str | None,
    *,
    opens: bool,
    tell: Callable[[str], None],
    asks_token: bool,
) -> int:
    from evalflow.app.workspace import open_workspace
    from evalflow.web.application import application
    from evalflow.web.child import Child
    from evalflow.web.security.token import kept_token, opening_page

    words = ["worker", "--attached", *(["--database-url", database_url] if database_url else [])]
    with closing(open_workspace(database_url)) as workspace:
        token = kept_token(workspace.root) if asks_token else None
        app = application(workspace, address, Child(words), token)
        url = f"{address.url}/?token={token}" if token else address.url
        tell(f"evalflow is at {url} (on this machine only; Ctrl-C ends it)")
        if token is None:
            tell(UNGUARDED)
        if opens:
            webbrowser.open(opening_page(workspace.root, url).as_uri() if token else url)
        answer(app, sock)
    return 0


def answer(app: FastAPI, sock: socket.socket) -> None:
    """Answer requests until a signal ends it."""
    server(app, log_level="warning", timeout_graceful_shutdown=DRAIN_S).run(sockets=[sock])


def server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """What answers requests, within the bounds of the application."""
    import uvicorn

    from evalflow.web.security.unfinished import LONGEST_HEADERS, finished_requests

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
