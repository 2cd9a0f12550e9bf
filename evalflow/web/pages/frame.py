"""The frame that every page stands in: the rail with the places, the heading, the landmarks.

How a page is added:

1. A module `pages/PLACE/NAME.py` with a function `add(workspace)` that registers its addresses with `address.page`.
   Each page function is short: it reads from the workspace, opens `frame`, and calls one function for each part.
2. Its name in `pages/PLACE/__init__.py`, before a module whose addresses would catch its own. The rail shows those of
   `PLACES` below whose pages there are.
3. A file `assets/NAME.css` where the page has something that no other has, and its name in `STYLES` of
   `pages/register.py`. Colours are the variables of `assets/theme.css` and no others, so both themes hold.
4. A test in `tests/web/pages/` that goes through it in a real browser, at 1280 and at 390 px.

What all pages share: `forms` (a field with its label, its help and its error), `faults` (where an error is shown) and
`parts` (sections, buttons, badges, messages, empty states). Text of a bot, a judge or a file goes through `parts.text`
or `ui.label`, which escape; never into `ui.html` or `ui.markdown`. What waits for the database runs in a thread
(`faults.attempt`, or anyio's `to_thread.run_sync`), so that no page holds up another.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from nicegui import Client, ui

from evalflow.web.pages.parts import text


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the rail."""

    name: str
    path: str
    icon: str


PLACES = (
    Place("Bots", "/", "smart_toy"),
    Place("Metrics", "/library", "rule"),
    Place("Test cases", "/datasets", "checklist"),
    Place("Runs", "/runs", "play_circle"),
    Place("Compare", "/compare", "compare_arrows"),
    Place("History", "/history", "timeline"),
)
_COLOURS = (("system", "contrast"), ("light", "light_mode"), ("dark", "dark_mode"))


@contextmanager
def frame(title: str, *, place: str, about: str = "", trail: Sequence[tuple[str, str]] = ()) -> Generator[ui.element]:
    """Build the frame; what is built inside goes below the heading.

    Args:
        title: The page's heading, and the window's title.
        place: The entry of the rail that it belongs to.
        about: One sentence below the heading.
        trail: Pages above this one, as (name, path).

    Yields:
        The element beside the heading, for the page's main actions.
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


def _rail(place: str) -> None:
    with ui.context.client.layout, ui.element("header").classes("rail") as rail:
        ui.link("evalflow", "/").classes("brand")
        with ui.element("nav").classes("places").props('aria-label="Places"'):
            for entry in _places():
                with ui.link(target=entry.path).classes("place") as anchor:
                    ui.icon(entry.icon).props("aria-hidden=true")
                    ui.label(entry.name)
                if entry.name == place:
                    anchor.props('aria-current="page"')
        _colours()
    rail.move(target_index=0)


def _places() -> list[Place]:
    """Those whose pages there are."""
    there = set(Client.page_routes.values())  # pyright: ignore - its keys are untyped in NiceGUI
    return [place for place in PLACES if place.path in there]


def _colours() -> None:
    """The switch between the system's colours, light and dark; theme.js does what it says."""
    with ui.element("div").classes("colours").props('role="group" aria-label="Colours"'):
        for choice, icon in _COLOURS:
            button = ui.element("button").props(f'type=button data-colours-choice="{choice}"')
            with button.props(f'aria-label="{choice} colours" title="{choice.capitalize()} colours"'):
                ui.icon(icon).props("aria-hidden=true")
