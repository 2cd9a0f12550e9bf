"""The address of a page, and what is shown in its place where what it is about is not there."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

from nicegui import ui

from evalflow.app.workspace import NotFoundError
from evalflow.errors import EvalflowError, InfrastructureError
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import empty, link_button

P = ParamSpec("P")
PATIENCE_S = 30
"""How long a page may take on a busy machine before it is given up."""


def page(path: str) -> Callable[[Callable[P, Awaitable[None]]], Callable[P, Awaitable[None]]]:
    """Register a function that builds the page of an address.

    What it raises of our own is shown as a page with what to do next: 404 for what is not there, 503 where the database
    does not answer, else 422.
    """

    def registered(build: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
        @functools.wraps(build)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                await build(*args, **kwargs)
            except EvalflowError as error:
                lost = isinstance(error, NotFoundError)
                ui.context.client.status_code = 404 if lost else 503 if isinstance(error, InfrastructureError) else 422
                instead("There is no such thing" if lost else "That did not work", str(error))

        return ui.page(path, response_timeout=PATIENCE_S)(guarded)

    return registered


def instead(title: str, about: str) -> None:
    """Build a page that says why the other one is not there, and where to go on."""
    with frame(title, place=""), empty("explore_off", title, about):
        link_button("To the bots", "/", primary=True)
