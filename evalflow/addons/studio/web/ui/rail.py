"""The rail of every page: the places of the application, the menus of project and server, and the colours.

It is one element of HTML. Every page has it, and as fifty elements it took a fifth of the CPU of all pages.
"""

from __future__ import annotations

from typing import Literal

from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.ui.parts import filled, markup
from evalflow.addons.studio.web.ui.visitor import may, root_path, visitor
from evalflow.addons.studio.work.access import Right

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
_COLOURS = (("system", "contrast"), ("light", "light_mode"), ("dark", "dark_mode"))


def rail(place: Place) -> None:
    """Build the rail before the content of the page; `place` is the entry that the page belongs to."""
    is_shared = visitor().has_account or len(visitor().projects) > 1
    parts = [_link("evalflow", path=first_page(), cls="brand")]
    if is_shared:
        parts.append(_project_menu(place))
    if entries := [_group(icon, pages, place) for icon, right, pages in _PLACES if may(right)]:
        parts.append(markup("nav", *entries, cls="places", **{"aria-label": "Places"}))
    if is_shared:
        parts.append(_server_menu(place))
    with ui.context.client.layout:
        filled("header", *parts, _colours(), classes="rail").move(target_index=0)


def first_page() -> str:
    """The visitor's start page; for people who may only label, the list of reviews."""
    return "/" if may("read") else "/reviews" if may("label") else "/projects"


def tabs(place: Place) -> None:
    """Build the links to the other pages of the entry that a page belongs to, if it has several."""
    pages = next((pages for _, _, pages in _PLACES if any(place == name for name, _ in pages)), ())
    if len(pages) > 1:
        links = [_entry(name, path=path, is_here=name == place) for name, path in pages]
        filled("nav", *links, classes="tabs").props(f'aria-label="{pages[0][0]}"')


def _group(icon: str, pages: tuple[tuple[Place, str], ...], place: Place) -> Markup:
    name, path = pages[0]
    content = [_icon(icon), markup("div", name, dir="auto")]
    return _entry(*content, path=path, is_here=any(place == page for page, _ in pages), cls="place")


def _project_menu(place: Place) -> Markup:
    here, known = visitor().project, visitor().projects
    links: list[Markup] = []
    for project in known:
        # Without the prefix of the present project.
        is_here = {"aria-current": "true"} if project.name == here else {}
        links.append(markup("a", _words(project.title), href=f"/p/{project.name}/", **is_here))
    if here and may("admin"):
        links.append(_link("Invite somebody", path=f"/projects/{here}", cls="apart"))
    links.append(_entry("All projects", path="/projects", is_here=place == "Projects", cls="apart"))
    return _menu("Project", next((project.title for project in known if project.name == here), "none"), "folder", links)


def _server_menu(place: Place) -> Markup:
    """The menu of server pages, and who is signed in."""
    actor = visitor().actor if visitor().has_account else None
    links = [_entry(name, path=path, is_here=name == place) for name, path, right in _OF_SERVER if may(right)]
    if actor is None:
        return _menu("Server", "Server", "dns", links)
    links.append(_entry("Account", path="/account", is_here=place == "Account", cls="apart"))
    leaving = {"method": "post", "action": "/sign-out", "data-signs-out": actor.name}
    links.append(markup("form", markup("button", _words("Sign out")), **leaving))
    return _menu("Account and server", actor.name, "person", links)


def _menu(label: str, shown: str, icon: str, links: list[Markup]) -> Markup:
    """A menu of the rail, which theme.js closes."""
    unseen = markup("span", f"{label}: ", cls="unseen", dir="auto")
    content = [_icon(icon), unseen, markup("span", shown, cls="line", dir="auto"), _icon("unfold_more")]
    summary = markup("summary", *content, title=label)
    panel = markup("nav", *links, cls="panel", **{"aria-label": label})
    return markup("details", summary, panel, cls="menu", name="menu")


def _colours() -> Markup:
    """The switch between system, light and dark colours; theme.js handles it."""
    buttons = [
        markup(
            "button",
            _icon(icon),
            type="button",
            title=f"{choice.capitalize()} colours",
            **{"data-colours-choice": choice, "aria-label": f"{choice} colours"},
        )
        for choice, icon in _COLOURS
    ]
    return markup("div", *buttons, cls="colours", role="group", **{"aria-label": "Colours"})


def _entry(*content: str, path: str, is_here: bool, cls: str = "") -> Markup:
    return _link(*content, path=path, cls=cls, **({"aria-current": "page"} if is_here else {}))


def _link(*content: str, path: str, cls: str = "", **attributes: str) -> Markup:
    return markup("a", *content, cls=f"nicegui-link {cls}", href=f"{root_path()}{path}", dir="auto", **attributes)


def _words(content: str) -> Markup:
    return markup("span", content, dir="auto")


def _icon(name: str) -> Markup:
    """An icon as Quasar writes it."""
    return markup("i", name, cls="q-icon notranslate material-icons", role="img", **{"aria-hidden": "true"})
