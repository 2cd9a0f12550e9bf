"""The frame around every page: navigation, heading, and the pages shown for a wrong address or an error."""

from __future__ import annotations

import functools
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Concatenate, Literal, ParamSpec

from anyio import to_thread
from nicegui import Client, app, ui
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from evalflow.addons.studio.web.ui.dialogs import UNDO, offer_undo
from evalflow.addons.studio.web.ui.faults import tell_fault
from evalflow.addons.studio.web.ui.parts import empty, in_sentences, run_as_typed, text
from evalflow.addons.studio.web.ui.visitor import may, meet, name_here, root_path, visitor, workspace_of
from evalflow.addons.studio.work.access import ForbiddenError, Right, SignedOutError, expect_right
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import EvalflowError, InfrastructureError

log = logging.getLogger("evalflow")
Place = Literal[
    "",
    "Bots",
    "Metrics",
    "Judges",
    "Test cases",
    "Checks",
    "Tags",
    "Runs",
    "Compare",
    "History",
    "Reviews",
    "Tasks",
    "Projects",
    "Users",
    "Connections",
    "Audit",
    "Account",
]
_PLACES: tuple[tuple[str, Right, tuple[tuple[Place, str], ...]], ...] = (
    ("smart_toy", "read", (("Bots", "/"),)),
    ("checklist", "read", (("Test cases", "/datasets"), ("Checks", "/checks"), ("Tags", "/tags"))),
    ("rule", "read", (("Metrics", "/library"), ("Judges", "/judges"))),
    ("play_circle", "read", (("Runs", "/runs"), ("Compare", "/compare"), ("History", "/history"))),
    ("rate_review", "label", (("Reviews", "/reviews"),)),
    ("task_alt", "read", (("Tasks", "/tasks"),)),
)
"""Entries of the navigation: icon, required right, and pages.

The entry leads to the first page; the others are tabs.
"""
_OF_SERVER: tuple[tuple[Place, str, Right], ...] = (
    ("Users", "/users", "own"),
    ("Connections", "/connections", "edit"),
    ("Audit", "/audit", "admin"),
)
"""Entries of the server menu, each with the right that its page needs."""
_LONG = 50
"""Headings from this number of characters on are smaller."""
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
        if not trail:
            _tabs(place)
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


def _rail(place: Place) -> None:
    with ui.context.client.layout, ui.element("header").classes("rail") as rail:
        ui.link("evalflow", _first_page()).classes("brand")
        is_shared = visitor().has_account or len(visitor().projects) > 1
        if is_shared:
            _project_menu(place)
        if any(may(right) for _, right, _ in _PLACES):
            with ui.element("nav").classes("places").props('aria-label="Places"'):
                for icon, right, pages in _PLACES:
                    name, path = pages[0]
                    if may(right):
                        is_here = any(place == page for page, _ in pages)
                        with _entry(name, path, name if is_here else "").classes("place"):
                            ui.icon(icon).props("aria-hidden=true")
                            ui.label(name)
        if is_shared:
            _server_menu(place)
        _colours()
    rail.move(target_index=0)


def _first_page() -> str:
    """The visitor's start page; for people who may only label, the list of reviews."""
    return "/" if may("read") else "/reviews" if may("label") else "/projects"


def _tabs(place: Place) -> None:
    pages = next((pages for _, _, pages in _PLACES if any(place == name for name, _ in pages)), ())
    if len(pages) > 1:
        with ui.element("nav").classes("tabs").props(f'aria-label="{pages[0][0]}"'):
            for name, path in pages:
                _entry(name, path, place, name)


def _entry(name: str, path: str, place: Place, label: str = "") -> ui.link:
    return ui.link(label, path).props('aria-current="page"' if name == place else "")


def _project_menu(place: Place) -> None:
    here, known = visitor().project, visitor().projects
    with _menu("Project", next((project.title for project in known if project.name == here), "none"), "folder"):
        for project in known:
            # Not a link of NiceGUI, which would add the prefix of the present project.
            with ui.element("a").props(f'href="/p/{project.name}/"') as anchor:
                text(project.title, "span")
            if project.name == here:
                anchor.props('aria-current="true"')
        if here and may("admin"):
            _entry("", f"/projects/{here}", place, "Invite somebody").classes("apart")
        _entry("Projects", "/projects", place, "All projects").classes("apart")


def _server_menu(place: Place) -> None:
    """The menu of server pages, and who is signed in."""
    actor = visitor().actor if visitor().has_account else None
    with _menu(
        "Account and server" if actor else "Server", actor.name if actor else "Server", "person" if actor else "dns"
    ):
        for name, path, right in _OF_SERVER:
            if may(right):
                _entry(name, path, place, name)
        if actor:
            _entry("Account", "/account", place, "Account").classes("apart")
            with ui.element("form").props('method="post" action="/sign-out"') as leaving, ui.element("button"):
                text("Sign out", "span")
            leaving.props["data-signs-out"] = actor.name


@contextmanager
def _menu(label: str, shown: str, icon: str) -> Generator[None]:
    """A menu of the rail: build its links inside. theme.js closes it."""
    with ui.element("details").classes("menu").props('name="menu"'):
        with ui.element("summary").props(f'title="{label}"'):
            ui.icon(icon).props("aria-hidden=true")
            text(f"{label}: ", "span", "unseen")
            text(shown, "span", "line")
            ui.icon("unfold_more").props("aria-hidden=true")
        with ui.element("nav").classes("panel").props(f'aria-label="{label}"'):
            yield


def _colours() -> None:
    """The switch between system, light and dark colours; theme.js handles it."""
    with ui.element("div").classes("colours").props('role="group" aria-label="Colours"'):
        for choice, icon in _COLOURS:
            button = ui.element("button").props(f'type=button data-colours-choice="{choice}"')
            with button.props(f'aria-label="{choice} colours" title="{choice.capitalize()} colours"'):
                ui.icon(icon).props("aria-hidden=true")


P = ParamSpec("P")
RETRY_S = 3.0
"""Seconds after which an unavailable page is reloaded."""
PAGE_TIMEOUT_S = 30
"""Time-out for building a page in seconds, enough for a busy machine."""


def guarded_page(
    path: str, needs: Right = "read"
) -> Callable[[Callable[Concatenate[Workspace, P], Awaitable[None]]], None]:
    """A decorator that declares a function as the builder of the page at a path; see `register_pages`.

    The function gets the workspace of the request (or of `{project}` in the path) and the parameters of path and
    query. `needs` is the required right. evalflow's errors become pages: 404 if something does not exist, 403 without
    permission, 503 if the database does not answer, else 422.
    """

    def declare(build: Callable[Concatenate[Workspace, P], Awaitable[None]]) -> None:
        @functools.wraps(build)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> Response | None:
            client = ui.context.client
            workspace = workspace_of(client.request)
            try:
                await meet(client.request)
                if path == "/" and _first_page() == "/reviews":
                    return RedirectResponse(f"{root_path()}/reviews")
                if "{project}" in path:
                    workspace = await to_thread.run_sync(workspace.in_project, str(kwargs["project"]))
                await to_thread.run_sync(expect_right, workspace, needs)
                await build(workspace, *args, **kwargs)
            except EvalflowError as error:
                client.status_code, title = next(
                    (shown for kind, shown in _ERRORS.items() if isinstance(error, kind)), (422, "Request failed")
                )
                instead(title, in_sentences(error))
                if isinstance(error, InfrastructureError):
                    ui.timer(RETRY_S, ui.navigate.reload, once=True)
            return None

        _, *parameters = inspect.signature(build).parameters.values()
        setattr(guarded, "__signature__", inspect.Signature(parameters))  # noqa: B010 - not declared for functions
        DECLARED.setdefault(build.__module__, []).append(DeclaredPage(path, needs, guarded))

    return declare


@dataclass(frozen=True, slots=True)
class DeclaredPage:
    """A page that a module declares: its path, the right that it needs, and its builder."""

    path: str
    needs: Right
    build: Callable[..., Awaitable[Response | None]]


DECLARED: dict[str, list[DeclaredPage]] = {}
"""The pages by the module that declares them, in order."""


def register_pages(module: str) -> None:
    """Register the pages of a module with NiceGUI. Of two paths that match an address, the first one counts."""
    for page in DECLARED[module]:
        ui.page(page.path, response_timeout=PAGE_TIMEOUT_S)(page.build)


_ERRORS: Mapping[type[EvalflowError], tuple[int, str]] = {
    SignedOutError: (401, "Signed out"),
    NotFoundError: (404, "Not found"),
    ForbiddenError: (403, "Not allowed"),
    InfrastructureError: (503, "Not available now"),
}


def instead(title: str, about: str) -> None:
    """Build an error page with a link to continue."""
    words = {"/": "To the bots", "/reviews": "To your reviews", "/projects": "To your projects"}
    with frame(title, place=""):
        empty("explore_off", title, about, (words[_first_page()], _first_page()))


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
