"""Drawing in SVG: shapes and text, linear scales and their axes, plots of intervals and matrices.

Colours are CSS variables of the page, so a picture works in light and dark mode.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

INK, MUTED, LINE = "var(--ink)", "var(--muted)", "var(--line)"
MAIN, PASS, FAIL, PAPER = "var(--accent)", "var(--pass)", "var(--fail)", "var(--paper)"

SIZE = 11  # font size of labels, in pixels
_PADDING = 6
_CHARACTER = 0.56  # approximate width of a character in font sizes; the actual font is unknown
_CARD = 330  # width of a picture next to others on the page; wider ones are shrunk to it, text included
_POINT_LABEL, _POINT_HEIGHT = 210, 26  # maximum width of a label, and height of a row, in pixels
_MATRIX_LABEL = 110  # maximum width of a matrix label, in pixels


def text_width(text: str, size: float = SIZE) -> float:
    """Approximate width of a text in pixels."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return size * (_CHARACTER * (len(text) - wide) + wide)


def shortened(text: str, limit: float, size: float = SIZE) -> str:
    """Cut a text to about `limit` pixels, with an ellipsis if it was cut."""
    most = (
        int(limit / (size * _CHARACTER)) + 1
    )  # characters that can fit, so that a long text is not measured again and again
    if len(text) <= most and text_width(text, size) <= limit:
        return text
    text = text[:most]
    while text and text_width(text + "…", size) > limit:
        text = text[:-1]
    return text.rstrip() + "…"


@dataclass(slots=True)
class Drawing:
    """Shapes, in painting order. The picture grows to contain them."""

    _parts: list[str] = field(default_factory=list[str])
    _left: float = 0
    _top: float = 0
    _right: float = 0
    _bottom: float = 0

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, *, opacity: float = 1, radius: float = 0
    ) -> None:
        """A filled rectangle from its upper left corner."""
        self._cover(x, y, x + width, y + height)
        self._add("rect", x=x, y=y, width=width, height=height, rx=radius or None, fill=fill, fill_opacity=opacity)

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        stroke: str = LINE,
        *,
        width: float = 1,
        dash: str | None = None,
        opacity: float = 1,
        cap: str | None = None,
    ) -> None:
        """A straight line; `dash` is SVG's stroke-dasharray."""
        (x1, y1), (x2, y2) = start, end
        self._cover(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
        self._add(
            "line",
            x1=x1,
            y1=y1,
            x2=x2,
            y2=y2,
            stroke=stroke,
            stroke_width=width,
            stroke_dasharray=dash,
            stroke_opacity=opacity,
            stroke_linecap=cap,
        )

    def dot(self, x: float, y: float, radius: float = 5.4, *, opacity: float = 1) -> None:
        """A filled circle with an edge in the background colour."""
        self._cover(x - radius, y - radius, x + radius, y + radius)
        self._add("circle", cx=x, cy=y, r=radius, fill=MAIN, fill_opacity=opacity, stroke=PAPER, stroke_width=1.5)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "middle",
        size: float = SIZE,
        fill: str = MUTED,
        bold: bool = False,
        angle: float = 0,
    ) -> None:
        """One line of text: anchor (start, middle or end) at x, base line at y, turned clockwise by degrees."""
        if not text:
            return
        width = text_width(text, size) * (1.06 if bold else 1)
        left = {"start": 0.0, "middle": -width / 2, "end": -width}[anchor]
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        corners = [(u * cos - v * sin, u * sin + v * cos) for u in (left, left + width) for v in (-size, size * 0.3)]
        across, down = zip(*corners, strict=True)
        self._cover(x + min(across), y + min(down), x + max(across), y + max(down))
        turn = f"rotate({_short(angle)} {_short(x)} {_short(y)})" if angle else None
        self._add(
            "text",
            text,
            x=x,
            y=y,
            text_anchor=None if anchor == "start" else anchor,
            font_size=size,
            fill=fill,
            font_weight="bold" if bold else None,
            transform=turn,
        )

    def markup(self, label: str) -> str:
        """The `svg` element in its natural size; a screen reader reads the label instead of the picture's texts."""
        x, y = self._left - _PADDING, self._top - _PADDING
        width, height = self._right - x + _PADDING, self._bottom - y + _PADDING
        box = " ".join(_short(value) for value in (x, y, width, height))
        return (
            f'<svg role="img" aria-label="{html.escape(label)}" width="{_short(width)}" height="{_short(height)}" '
            f'viewBox="{box}">{"".join(self._parts)}</svg>'
        )

    def _cover(self, left: float, top: float, right: float, bottom: float) -> None:
        self._left, self._top = min(self._left, left), min(self._top, top)
        self._right, self._bottom = max(self._right, right), max(self._bottom, bottom)

    def _add(self, tag: str, text: str | None = None, **attributes: str | float | None) -> None:
        shown = "".join(
            f' {name.replace("_", "-")}="{value if isinstance(value, str) else _short(value)}"'
            for name, value in attributes.items()
            if value is not None and not (name.endswith("opacity") and value == 1)
        )
        self._parts.append(f"<{tag}{shown}/>" if text is None else f"<{tag}{shown}>{html.escape(text)}</{tag}>")


def _short(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale from low..high to the pixels start..end, with about `count` ticks, at least `least_step` apart."""

    low: float
    high: float
    start: float
    end: float
    count: int = 5
    least_step: float = 0

    @classmethod
    def around(
        cls, values: Sequence[float], start: float, end: float, *, count: int = 5, least_step: float = 0
    ) -> Scale:
        """A scale that contains all values and ends at ticks."""
        low, high = min(values), max(values)
        if low == high:
            pad = abs(low) / 10 or 0.5
            low, high = low - pad, high + pad
        for _ in range(2):  # a wider scale can have wider steps
            step = cls(low, high, start, end, count, least_step).step
            low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        return cls(low, high, start, end, count, least_step)

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def step(self) -> float:
        """The distance of two ticks: 1, 2 or 5 times a power of 10."""
        rough = (self.high - self.low) / self.count
        power = 10.0 ** math.floor(math.log10(rough))
        factor = next((f for f, least in ((10, 50), (5, 10), (2, 2)) if (rough / power) ** 2 >= least), 1)
        return max(power * factor, self.least_step)

    def ticks(self) -> list[float]:
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]

    def label(self, value: float) -> str:
        """A tick's label, with enough digits to distinguish it from the next."""
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        text = f"{value:,.{digits}f}" if digits < 7 and abs(value) < 1e9 else f"{value:.4g}"
        return ("0" if float(text.replace(",", "")) == 0 and digits == 0 else text).replace("-", "−")


def x_axis(
    drawing: Drawing,
    scale: Scale,
    bottom: float,
    title: str,
    *,
    top: float | None = None,
    label: Callable[[float], str] | None = None,
) -> None:
    """Labels (formatted by `label`) and a title below the plot; grid lines reach up to `top`, if given."""
    for tick in scale.ticks():
        x = scale(tick)
        if top is not None:
            drawing.line((x, top), (x, bottom))
        drawing.text(x, bottom + 16, (label or scale.label)(tick))
    drawing.text((scale.start + scale.end) / 2, bottom + 34, title)


def y_axis(
    drawing: Drawing, scale: Scale, right: float, title: str, *, label: Callable[[float], str] | None = None
) -> None:
    """Labels and a title left of a plot that begins at 0, and grid lines over it."""
    labels = [(scale(tick), (label or scale.label)(tick)) for tick in scale.ticks()]
    for y, text in labels:
        drawing.line((0, y), (right, y))
        drawing.text(-7, y + 4, text, anchor="end")
    widest = max((text_width(text) for _, text in labels), default=0)
    drawing.text(-widest - 16, (scale.start + scale.end) / 2, title, angle=-90)


@dataclass(frozen=True, slots=True)
class IntervalPoint:
    """A value and its interval (None is not drawn), its label, and a heading above the points that share it."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    heading: str = ""


def interval_chart(
    points: Sequence[IntervalPoint], domain: Sequence[float] | None, title: str, reference: float | None = None
) -> Drawing:
    """Points on their intervals, one below the other, on a scale of at least `domain`, with a line at `reference`."""
    drawing = Drawing()
    width = max(170.0, _CARD - 24 - max(text_width(shortened(point.label, _POINT_LABEL)) for point in points))
    values = [end for point in points for end in (point.value, point.low, point.high) if end is not None]
    if domain is None:
        x = Scale.around((values if reference is None else [*values, reference]) or [0.0, 1.0], 0, width)
    else:
        x = Scale(min([domain[0], *values]), max([domain[1], *values]), 0, width)
    bottom = 0.0
    for heading in dict.fromkeys(point.heading for point in points):
        own = [point for point in points if point.heading == heading]
        top = bottom + (26 if heading and bottom else 0)
        bottom = top + _POINT_HEIGHT * len(own)
        drawing.text(0, top - 8, shortened(heading, 280), anchor="start", bold=True)
        for tick in x.ticks():
            drawing.line((x(tick), top), (x(tick), bottom))
        if reference is not None:
            drawing.line((x(reference), top), (x(reference), bottom), MUTED, dash="3 3")
        for place, point in enumerate(own):
            y = top + (place + 0.5) * _POINT_HEIGHT
            # A dot at the lower end extends beyond the edge; keep the label away from it.
            drawing.text(-10, y + 4, shortened(point.label, _POINT_LABEL), anchor="end")
            if point.low is not None and point.high is not None:
                drawing.line((x(point.low), y), (x(point.high), y), MAIN, width=2.5, opacity=0.45, cap="round")
            if point.value is not None:
                drawing.dot(x(point.value), y)
    x_axis(drawing, x, bottom, title)
    return drawing


@dataclass(frozen=True, slots=True)
class Tile:
    """A cell of a matrix: its text, its share (0..1, shown as shade), and a smaller note below the text."""

    text: str
    share: float
    note: str = ""


def matrix_chart(
    labels: Sequence[str],
    cells: Sequence[Sequence[Tile | None]],
    width: float,
    height: float,
    *,
    down: str = "",
    across: str = "",
    turn: bool = True,
) -> Drawing:
    """A square matrix of cells; None leaves a gap.

    `width` and `height` are those of a cell; `down` and `across` name rows and columns. With `turn`, column labels
    wider than a cell are rotated; otherwise they are cut.
    """
    drawing = Drawing()
    level = not turn or max(map(text_width, labels), default=0) < width - 6
    names = [shortened(label, _MATRIX_LABEL) for label in labels]
    widest = max(map(text_width, names), default=0)
    for place, name in enumerate(names):
        drawing.text(-9, (place + 0.5) * height + 4, name, anchor="end")
        middle = (place + 0.5) * width
        above = shortened(name, width - 6) if level else name
        drawing.text(middle, -9, above, anchor="middle" if level else "start", angle=0 if level else -40)
    drawing.text(-widest - 24, len(labels) * height / 2, down, angle=-90)
    drawing.text(len(labels) * width / 2, -32 if level else -0.65 * widest - 30, across)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if cell:
                x, y = j * width, i * height
                opacity = 0.06 + 0.54 * cell.share  # visible at share 0, and text still readable at share 1
                drawing.rect(x + 1.5, y + 1.5, width - 3, height - 3, MAIN, opacity=opacity, radius=4)
                middle, line = x + width / 2, y + height / 2 + (0 if cell.note else 5)
                drawing.text(middle, line, cell.text, size=14, fill=INK)
                drawing.text(middle, line + 14, cell.note, size=10, fill=INK)
    return drawing


def confusion_chart(labels: Sequence[str], counts: Sequence[Sequence[float]], *, down: str, across: str) -> Drawing:
    """A square matrix of counts, row by row; `down` and `across` name rows and columns."""
    most = max((n for row in counts for n in row), default=0) or 1
    cells = [[Tile(f"{n:,.10g}", n / most) for n in row] for row in counts]
    width, height = max(36, min(96, 300 // max(1, len(labels)))), 52 if len(labels) < 6 else 32
    return matrix_chart(labels, cells, width, height, down=down, across=across)
