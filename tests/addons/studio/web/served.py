"""What a process of its own serves at a socket; it is apart from the fixtures, which that process need not import."""

from __future__ import annotations

from dataclasses import replace
from socket import socket

from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.web.application import application
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
    """Serve whoever a request names."""
    space = open_workspace()
    app = application(replace(space, identify=identify), address, None, None)
    app.add_middleware(Known, people=everybody(space))
    answer(app, sock)


def serve_in_public(*words: str) -> None:
    """Be `python -m evalflow serve --public` with these words after it."""
    keep_off_loops(setattr)
    program("serve", "--public", *words)
