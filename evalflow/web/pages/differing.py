"""Two states of the same thing, side by side as far as they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nicegui import ui

from evalflow.web.pages.parts import text

Content = Mapping[str, Any]
LONGEST_SHOWN = 2_000
"""Characters of a value."""


def differing(one: tuple[str, Content], other: tuple[str, Content]) -> None:
    """A table of what differs.

    Args:
        one: What the first state is called, and its values by name.
        other: The second.
    """
    (left, before), (right, after) = one, other
    names = [name for name in dict.fromkeys([*before, *after]) if _said(before.get(name)) != _said(after.get(name))]
    if not names:
        text("Both say the same.", "p", "muted")
        return
    place = ui.element("div").classes("differing").props('tabindex=0 role=region aria-label="What differs"')
    with place, ui.element("table"):
        with ui.element("thead"), ui.element("tr"):
            for title in ("Field", left, right):
                text(title, "th").props("scope=col")
        with ui.element("tbody"):
            for name in names:
                with ui.element("tr"):
                    text(name, "th").props("scope=row")
                    for content in (before, after):
                        text(_said(content.get(name)) or "–", "td")


def _said(value: Any) -> str:
    if value is None or value is False or value in ("", [], {}):
        return ""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return said if len(said) <= LONGEST_SHOWN else f"{said[:LONGEST_SHOWN]}…"
