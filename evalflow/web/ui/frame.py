"""The frame around every page: navigation, heading, and the pages shown for a wrong address or an error."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Concatenate, Literal, ParamSpec

from nicegui import Client, app, ui
from nicegui.page import page
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from evalflow.app.studio.access import ForbiddenError
from evalflow.app.studio.space import NotFoundError, Workspace
from evalflow.errors import EvalflowError, InfrastructureError
from evalflow.web.ui.parts import empty, link_button, tell_fault, text

log = logging.getLogger("evalflow")
Place = Literal["", "Bots", "Metrics", "Test cases", "Runs", "Compare", "History"]
_PLACES: tuple[tuple[Place, str, str], ...] = (
    ("Bots", "/", "smart_toy"),
    ("Metrics", "/library", "rule"),
    ("Test cases", "/datasets", "checklist"),
    ("Runs", "/runs", "play_circle"),
    ("Compare", "/compare", "compare_arrows"),
    ("History", "/history", "timeline"),
)
_COLOURS = (("system", "contrast"), ("light", "light_mode"), ("dark", "dark_mode"))


@contextmanager
def frame(title: str, *, place: Place, about: str = "", trail: Sequence[tuple[str, str]] = ()) -> Generator[ui.element]:
    """A context manager for the frame: build the content below the heading inside.

    `place` is its navigation entry, `trail` the parent pages as (name, path). Yields the element next to the heading,
    for the page's main actions.
    """
    ui.page_title(f"{title} · evalflow")
    _rail(place)
    with ui.element("div").classes("page") as main:  # within the landmark `main` that NiceGUI builds
        with ui.element("div").classes("heading"):
            with ui.element("div"):
                for name, path in trail:
                    with ui.element("div").classes("trail"):
                        ui.link(f"← {name}", path)
                text(title, "h1")
                if about:
                    text(about, "p").classes("muted")
            actions = ui.element("div").classes("actions")
        content = ui.element("div")
    ui.skip_link("Skip to the page", target=main)
    with content:
        yield actions


def _rail(place: Place) -> None:
    with ui.context.client.layout, ui.element("header").classes("rail") as rail:
        ui.link("evalflow", "/").classes("brand")
        with ui.element("nav").classes("places").props('aria-label="Places"'):
            for name, path, icon in _PLACES:
                with ui.link(target=path).classes("place") as anchor:
                    ui.icon(icon).props("aria-hidden=true")
                    ui.label(name)
                if name == place:
                    anchor.props('aria-current="page"')
        _colours()
    rail.move(target_index=0)


def _colours() -> None:
    """The switch between system, light and dark colours; theme.js handles it."""
    with ui.element("div").classes("colours").props('role="group" aria-label="Colours"'):
        for choice, icon in _COLOURS:
            button = ui.element("button").props(f'type=button data-colours-choice="{choice}"')
            with button.props(f'aria-label="{choice} colours" title="{choice.capitalize()} colours"'):
                ui.icon(icon).props("aria-hidden=true")


def workspace_of(request: HTTPConnection) -> Workspace:
    """The workspace of a request: its project, and the person who sent it."""
    return request.state.workspace


def root_path() -> str:
    """The prefix of the project's addresses. Links of NiceGUI add it by themselves, others must name it."""
    return ui.context.client.request.scope.get("root_path", "")


P = ParamSpec("P")
RETRY_S = 3.0
"""Seconds after which a page that could not be read is loaded again."""
PAGE_TIMEOUT_S = 30
"""Time-out for building a page in seconds, enough for a busy machine."""


def guarded_page(path: str) -> Callable[[Callable[Concatenate[Workspace, P], Awaitable[None]]], None]:
    """A decorator that registers a function as the builder of the page at a path.

    It gets the workspace of the request, and parameters of path and query. Our own errors are shown as a page: 404 for
    what does not exist, 403 for what the person may not see, 503 if the database does not answer, else 422.
    """

    def register(build: Callable[Concatenate[Workspace, P], Awaitable[None]]) -> None:
        @functools.wraps(build)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            client = ui.context.client
            try:
                await build(workspace_of(client.request), *args, **kwargs)
            except EvalflowError as error:
                client.status_code, title = next(
                    (shown for kind, shown in _ERRORS.items() if isinstance(error, kind)), (422, "Request failed")
                )
                instead(title, str(error))
                if isinstance(error, InfrastructureError):
                    ui.timer(RETRY_S, ui.navigate.reload, once=True)

        _, *parameters = inspect.signature(build).parameters.values()
        setattr(guarded, "__signature__", inspect.Signature(parameters))  # noqa: B010 - not declared for functions
        ui.page(path, response_timeout=PAGE_TIMEOUT_S)(guarded)

    return register


_ERRORS: Mapping[type[EvalflowError], tuple[int, str]] = {
    NotFoundError: (404, "Not found"),
    ForbiddenError: (403, "Not allowed"),
    InfrastructureError: (503, "Not available now"),
}


def instead(title: str, about: str) -> None:
    """Build an error page with a link to continue."""
    with frame(title, place=""), empty("explore_off", title, about):
        link_button("To the bots", "/", primary=True)


def add() -> None:
    """Register the error pages with NiceGUI."""

    async def missing(request: Request, _: Exception) -> Response:
        with Client(page(""), request=request) as client:
            instead("Page not found", f"No page has the address {request.url.path}.")
        return client.build_response(request, 404)

    app.add_exception_handler(404, missing)
    app.on_exception(_tell)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI
    app.on_page_exception(_failed)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI


def _tell(error: Exception) -> None:
    """Show an error of a button or a field that nothing else shows."""
    if isinstance(error, EvalflowError):
        with suppress(RuntimeError):  # the page is gone
            tell_fault(str(error))


def _failed(error: Exception) -> None:
    log.error("a page failed", exc_info=error)
    instead("Internal error", "This is a bug in evalflow, not your mistake; the server's output has the details.")
