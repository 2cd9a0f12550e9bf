"""The checkboxes of tables, and the ticked rows as part of an address."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Collection
from typing import Any

from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.ui.parts import markup

LONGEST = 6000
"""Maximum characters of packed numbers in an address; proxies may refuse longer ones."""
_SPAN = 8 * 2**20
"""The largest difference between two packed numbers."""


def tick_box(label: str, on: bool, on_change: Callable[[bool], object]) -> ui.element:
    """A checkbox of a row; screen readers read `label`."""
    box = ui.element("input").props("type=checkbox").classes("tick-box")
    box.props["aria-label"] = label
    box.props["checked"] = on

    def changed(event: Any) -> None:
        box.props["checked"] = bool(event.args)  # otherwise a later change by the page would go unnoticed
        on_change(bool(event.args))

    return box.on("change", changed, js_handler="(e) => emit(e.target.checked)")


def tick_markup(value: str, label: str, *, is_on: bool) -> Markup:
    """A checkbox as HTML, identified by its value. See `tick_box`."""
    checked = {"checked": "checked"} if is_on else {}
    return markup("input", type="checkbox", cls="tick-box", value=value, **{"aria-label": label}, **checked)


def packed(numbers: Collection[int]) -> str | None:
    """Non-negative numbers as a short text for an address; None if it would be too long.

    It has the least number, then one bit per number, compressed: half of 40,000 rows take 6,000 characters.
    """
    if not numbers:
        return ""
    least = min(numbers)
    if max(numbers) - least >= _SPAN:
        return None
    bits = 0
    for number in numbers:
        bits |= 1 << (number - least)
    raw = zlib.compress(bits.to_bytes(-(-bits.bit_length() // 8), "little"), 9)
    made = f"{least}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"
    return made if len(made) <= LONGEST else None


def unpacked(content: str) -> list[int]:
    """The numbers of `packed`, ascending; empty if the text is not one of its results."""
    least, _, code = content.partition(".")
    if not (least.isdecimal() and least.isascii() and len(least) < 12 and len(content) <= LONGEST):
        return []
    try:
        raw = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
        bits = zlib.decompressobj().decompress(raw, _SPAN // 8)
    except (ValueError, zlib.error):
        return []
    return [int(least) + 8 * at + i for at, byte in enumerate(bits) if byte for i in range(8) if byte >> i & 1]
