"""Text that is there to be copied."""

from __future__ import annotations

from nicegui import ui

from evalflow.web.pages.faults import tell
from evalflow.web.pages.parts import button, text


def copyable(words: str, tag: str = "code") -> None:
    """A command line, or with the tag `pre` a longer text, with a button that copies it."""

    def copy() -> None:
        ui.clipboard.write(words)
        tell("Copied.")

    with ui.element("div").classes("command"):
        text(words, tag).props("tabindex=0")
        button("Copy", copy, icon="content_copy")
