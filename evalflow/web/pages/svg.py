"""Pictures drawn as elements: across in percent, so that they fit any width, and down in pixels."""

from __future__ import annotations

from nicegui import ui

from evalflow.web.pages.parts import text


def shape(tag: str, classes: str = "", **attributes: float | str) -> ui.element:
    """An element of SVG; an attribute's `_` stands for `-`."""
    made = ui.element(tag).classes(classes)
    for name, value in attributes.items():
        made.props[name.rstrip("_").replace("_", "-")] = value
    return made


def picture(about: str, classes: str = "") -> ui.element:
    """A picture that is one thing; `about` says what is seen, for those who do not see it."""
    return shape("svg", classes, role="img", aria_label=about)


def caption(content: str, classes: str = "", **attributes: float | str) -> None:
    """A text within a picture."""
    made = text(content, "text", classes)
    for name, value in attributes.items():
        made.props[name.replace("_", "-")] = value


def percent(share: float) -> str:
    """A place across, from 0 (left) to 1 (right)."""
    return f"{100 * share:.3f}%"
