"""Contents of elements as HTML, for tables with many cells.

NiceGUI draws a whole page again at each change of any element, so each cell that is an element slows down all others.
"""

from __future__ import annotations

from markupsafe import Markup, escape
from nicegui import ui


def markup(tag: str, *content: str, cls: str = "", **attributes: str) -> Markup:
    """An element of that class as HTML. Texts are escaped, Markup is not. An attribute without a value is left out."""
    named = {"class": cls.strip(), **attributes}
    shown = "".join(f' {name}="{escape(value)}"' for name, value in named.items() if value)
    inside = "" if tag == "input" else f"{''.join(map(escape, content))}</{tag}>"
    return Markup(f"<{tag}{shown}>{inside}")  # noqa: S704 - all parts are escaped


def filled(tag: str, *content: Markup, classes: str = "") -> ui.element:
    """An element with HTML as its content, which cannot have other elements inside."""
    made = ui.element(tag).classes(classes)
    made.props["innerHTML"] = "".join(content)
    return made
