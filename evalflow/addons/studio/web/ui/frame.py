"""The frame around every page: rail, heading, and the pages shown for a wrong address or an error."""

from __future__ import annotations

import functools
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Concatenate, ParamSpec

from anyio import to_thread
from nicegui import Client, app, ui
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from evalflow.addons.studio.web.api.problems import status_of
from evalflow.addons.studio.web.ui.dialogs import UNDO, offer_undo
from evalflow.addons.studio.web.ui.faults import tell_fault
from evalflow.addons.studio.web.ui.parts import empty, in_sentences, run_as_typed, text
from evalflow.addons.studio.web.ui.rail import Place, first_page, rail, tabs
from evalflow.addons.studio.web.ui.visitor import may, meet, name_here, root_path, workspace_of
from evalflow.addons.studio.work.access import Right, expect_right
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import EvalflowError, InfrastructureError

log = logging.getLogger("evalflow")
_LONG = 50
"""Headings from this number of characters on are smaller."""


@contextmanager
def frame(title: str, *, place: Place, about: str = "", trail: Sequence[tuple[str, str]] = ()) -> Generator[ui.element]:
    """A context manager for the frame: build the content below the heading inside.

    `place` is its navigation entry, `trail` the parent pages as (name, path). Yields the element next to the heading,
    for the page's main actions.
    """
    ui.page_title(f"{title} · evalflow")
    rail(place)
    with ui.element("div").classes("page") as main:  # within the landmark `main` that NiceGUI builds
        if not trail:
            tabs(place)
        with ui.element("div").classes("heading"):
            with ui.element("div"):
                for name, path in trail:
                    with ui.element("div").classes("trail"):
                        ui.link(f"← {name}", path)
                text(title, "h1", "long" if len(title) > _LONG else "")
                if about:
                    text(about, "p").classes("muted")
            actions = ui.element("div").classes("actions")
        content = ui.element("div")
    ui.skip_link("Skip to the page", target=main)
    with content:
        yield actions
    request = ui.context.client.request
    deleted = request.query_params.get(UNDO, "")
    if deleted.isdecimal() and len(deleted) < 10 and may("edit"):
        offer_undo(workspace_of(request), int(deleted))


P = ParamSpec("P")
RETRY_S = 3.0
"""Seconds after which an unavailable page is reloaded."""
PAGE_TIMEOUT_S = 30
"""Time-out for building a page in seconds, enough for a busy machine."""


def guarded_page(
    path: str, needs: Right = "read"
) -> Callable[[Callable[Concatenate[Workspace, P], Awaitable[None]]], DeclaredPage]:
    """A decorator that makes a function the page at a path, in its module; see `register_pages`.

    The function gets the workspace of the request (or of `{project}` in the path) and the parameters of path and
    query. `needs` is the required right. evalflow's errors become pages with the status of `status_of`.
    """

    def declare(build: Callable[Concatenate[Workspace, P], Awaitable[None]]) -> DeclaredPage:
        @functools.wraps(build)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> Response | None:
            client = ui.context.client
            workspace = workspace_of(client.request)
            try:
                await meet(client.request)
                if path == "/" and first_page() == "/reviews":
                    return RedirectResponse(f"{root_path()}/reviews")
                if "{project}" in path:
                    workspace = await to_thread.run_sync(workspace.in_project, str(kwargs["project"]))
                if "{project}" in path or not may(needs):
                    await to_thread.run_sync(expect_right, workspace, needs)
                await build(workspace, *args, **kwargs)
            except EvalflowError as error:
                client.status_code = status_of(error)
                instead(_ERRORS.get(client.status_code, "Request failed"), in_sentences(error))
                if isinstance(error, InfrastructureError):
                    ui.timer(RETRY_S, ui.navigate.reload, once=True)
            return None

        _, *parameters = inspect.signature(build).parameters.values()
        setattr(guarded, "__signature__", inspect.Signature(parameters))  # noqa: B010 - not declared for functions
        return DeclaredPage(path, needs, guarded)

    return declare


@dataclass(frozen=True, slots=True)
class DeclaredPage:
    """A page that a module declares: its path, the right that it needs, and its builder."""

    path: str
    needs: Right
    build: Callable[..., Awaitable[Response | None]]


def pages_of(module: ModuleType) -> list[DeclaredPage]:
    """The pages that a module declares, in order."""
    return [one for one in vars(module).values() if isinstance(one, DeclaredPage)]


def register_pages(module: ModuleType) -> None:
    """Register the pages of a module with NiceGUI. Of two paths that match an address, the first one counts."""
    for page in pages_of(module):
        ui.page(page.path, response_timeout=PAGE_TIMEOUT_S)(page.build)


_ERRORS: Mapping[int, str] = {401: "Signed out", 403: "Not allowed", 404: "Not found", 503: "Not available now"}


def instead(title: str, about: str) -> None:
    """Build an error page with a link to continue."""
    labels = {"/": "To the bots", "/reviews": "To your reviews", "/projects": "To your projects"}
    with frame(title, place=""):
        empty("explore_off", title, about, (labels[first_page()], first_page()))


def add() -> None:
    """Register the error pages with NiceGUI, and make every page show texts as typed."""
    run_as_typed()

    async def missing(request: Request, _: Exception) -> Response:
        with suppress(EvalflowError):
            await meet(request)
        with Client(ui.page(""), request=request) as client:
            instead("Page not found", f"No page has the address {request.url.path}.")
        return client.build_response(request, 404)

    app.add_exception_handler(404, missing)
    logging.getLogger("nicegui").addFilter(_is_bug_of_an_open_page)
    app.on_exception(_tell)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI
    app.on_page_exception(_failed)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI


def _tell(error: Exception) -> None:
    """Show an unhandled error of a button or a field, and log it in one line; NiceGUI logs bugs."""
    if isinstance(error, EvalflowError):
        page, person = "a page that was left", ""
        with suppress(RuntimeError):  # the page is gone
            page, person = ui.context.client.request.url.path, name_here()
            tell_fault(error)
        log.warning("%s: %s: %s", page, person or "nobody", " ".join(in_sentences(error).split()))


def _is_bug_of_an_open_page(record: logging.LogRecord) -> bool:
    """Drop errors that a page shows, see `_tell`, and those of work whose page was left and deleted by NiceGUI."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, EvalflowError):
        return False
    if not isinstance(error, RuntimeError) or error.__traceback__ is None:
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return not (frame.f_globals["__name__"].startswith("nicegui.") and _is_page_deleted())


def _is_page_deleted() -> bool:
    for slot in reversed(ui.context.slot_stack):
        with suppress(RuntimeError):  # that element is gone, perhaps without its page
            return slot.parent.client.is_deleted
    return False


def _failed(error: Exception) -> None:
    log.error("a page failed", exc_info=error)
    instead("Internal error", "This is a bug in evalflow, not your mistake; the server's output has the details.")
