"""Vega-Lite specifications to inline SVG that follows the page's theme."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The page's style sheet defines these; an SVG inside the page sees them, so one picture serves light and dark.
INK, MUTED, LINE = "var(--ink)", "var(--muted)", "var(--line)"
MAIN, PASS, FAIL, PAPER = "var(--accent)", "var(--pass)", "var(--fail)", "var(--paper)"

_FONT = "system-ui, sans-serif"
_CONFIG: Mapping[str, Any] = {
    "aria": False,  # the whole picture has one label; a label per bar would be read out one by one
    "background": None,
    # Labels are measured here and drawn in the reader's font, which may be wider.
    "padding": {"left": 14, "right": 8, "top": 4, "bottom": 4},
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "tickColor": LINE,
        "domainColor": LINE,
        "gridColor": LINE,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 150,
        "labelFlush": False,
    },
    "header": {"labelColor": MUTED, "labelFontSize": 11, "title": None, "labelLimit": 280},
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and what it says.

    Attributes:
        title: What is shown, in a few words.
        sentence: What it shows, plainly, with the count of cases that are not in it.
        svg: Markup that is safe to place in a page.
    """

    title: str
    sentence: str
    svg: str


def draw(title: str, sentence: str, spec: Mapping[str, Any]) -> Picture:
    """Render a specification; nothing is fetched while doing so.

    Args:
        title: What is shown, in a few words.
        sentence: What it shows, plainly; with the title it is the label that a screen reader reads.
        spec: Vega-Lite, with its data inline. Names and labels of others stand in the data alone: a list of them to
            sort by, or a domain, would become part of an expression.
    """
    import vl_convert

    svg = vl_convert.vegalite_to_svg({**spec, "config": _CONFIG}, allowed_base_urls=[])
    label = html.escape(f"{title}. {sentence}")
    # Width and height stay, as the natural size; the style sheet lets the picture shrink.
    return Picture(title, sentence, svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1))
