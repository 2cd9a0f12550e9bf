"""What a process of its own serves at a socket; it is apart from the fixtures, which that process need not import."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from socket import socket

from starlette.routing import BaseRoute

from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.web.application import API, application
from evalflow.addons.studio.web.serve import answer
from evalflow.addons.studio.work.space import open_workspace
from tests.addons.studio.web.people import Known, everybody, identify
from tests.forked import program
from tests.off_loop import keep_off_loops

TOKEN = "a-token-that-the-tests-know-and-nobody-else"


def serve_pages(sock: socket, address: Address, url: str | None = None) -> None:
    """Serve those who know the token, from the database at `url`."""
    keep_off_loops(setattr)
    answer(application(open_workspace(url), address, None, TOKEN), sock)


def serve_everybody(sock: socket, address: Address) -> None:
    """Serve whoever a request names; the file `routes.json` has the paths of all routes but those of the REST API."""
    space = open_workspace()
    app = application(replace(space, identify=identify), address, None, None)
    Path("routes.json").write_text(json.dumps(list(paths_of(app.routes))), encoding="utf-8")
    app.add_middleware(Known, people=everybody(space))
    answer(app, sock)


def paths_of(routes: Iterable[BaseRoute], before: str = "") -> Iterator[str]:
    """The paths of routes, and of those that are mounted or included."""
    for route in routes:
        path = before + getattr(route, "path", "")
        holder = getattr(route, "original_router", route)  # FastAPI's own, of what it has included
        within = [] if path == API else list(paths_of(getattr(holder, "routes", None) or (), path))
        yield from within or [path]


def serve_in_public(*words: str) -> None:
    """Be `python -m evalflow serve --public` with these words after it."""
    keep_off_loops(setattr)
    program("serve", "--public", *words)
