"""Changes that are not saved: who is about to leave a page that has some is asked first, by assets/unsaved.js."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager

from nicegui import ui

_SAVED = 'document.dispatchEvent(new Event("saved"))'


@contextmanager
def unsaved() -> Generator[ui.element]:
    """A place for fields whose content is to be saved; changes that are taken back are none."""
    with ui.element("div").props("data-unsaved") as place:
        yield place


@contextmanager
def form() -> Generator[ui.element]:
    """The same, laid out as a form."""
    with unsaved() as place:
        yield place.classes("form")


def saved() -> None:
    """Say that what the page's forms hold is kept now."""
    ui.run_javascript(_SAVED)


def leave(path: str) -> None:
    """Go to another page after saving, or where what was written is given up on purpose."""
    # In one script: NiceGUI may send a navigation of its own before the script that stands above it.
    ui.run_javascript(f"{_SAVED}; location.assign({json.dumps(path)})")
