"""Two texts with their differences marked word by word."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from evalflow.addons.studio.web.ui.parts import text
from evalflow.report.word_changes import Stretch


def marked(stretches: Sequence[Stretch], tag: str, label: str, classes: str = "") -> None:
    """A text with its changes in the element `del` or `ins`, which have a sign besides their colour.

    `label` names it for screen readers and must be unique on the page.
    """
    with ui.element("div").classes(f"text marked {classes}").props("dir=auto tabindex=0 role=region") as box:
        box.props["aria-label"] = label
        for one in stretches:
            text(one.content, tag if one.is_changed else "span")
