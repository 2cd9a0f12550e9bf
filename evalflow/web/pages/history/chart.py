"""A number over runs as a picture: dots on their intervals, the gates, and breaks where nothing can be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from nicegui import ui

from evalflow.app.workspace.history import Point
from evalflow.report.wording import number
from evalflow.web.pages.parts import text
from evalflow.web.pages.runs.words import when
from evalflow.web.pages.svg import caption, percent, shape

_TOP, _BOTTOM = 26, 226
"""Pixels down to the ends of the scale."""
_HIGH = 236
_MARKS = 5
_CROWDED = 14
"""Points from which on breaks are drawn without a word; the table says what they are."""


class _Scale:
    """Values to pixels, with round marks."""

    def __init__(self, points: Sequence[Point], *, bounded: bool) -> None:
        ends = [end for point in points for end in (point.value, point.low, point.high) if end is not None]
        ends += [held.condition.limit for point in points for held in point.gates]
        low, high = min(ends), max(ends)
        step = _round_step((high - low or abs(high) or 1.0) / (_MARKS - 1))
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if first == last:
            first, last = first - 1, last + 1
        if bounded:
            first, last = max(first, 0), min(last, round(1 / step))
        self.marks = [round(i * step, 10) for i in range(first, last + 1)]

    def down(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.marks[0], self.marks[-1]
        return round(_BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP), 2)


def chart(points: Sequence[Point], *, bounded: bool) -> None:
    """Draw points that all have a value, the oldest first."""
    scale = _Scale(points, bounded=bounded)
    with ui.element("figure").classes("card chart"):
        with ui.element("div").classes("drawing"):
            with shape("svg", "axis", width=44, height=_HIGH, aria_hidden="true"):
                for mark in scale.marks:
                    caption(f"{mark:g}", x=36, y=scale.down(mark) + 4, text_anchor="end")
            with shape("svg", "plot", height=_HIGH, role="group", aria_label=_in_words(points)):
                for mark in scale.marks:
                    shape("line", "grid", x1=0, x2="100%", y1=scale.down(mark), y2=scale.down(mark))
                _gates(points, scale)
                _links(points, scale)
                for i, point in enumerate(points):
                    _point(point, _across(i, len(points)), scale)
        with ui.element("div").classes("ends small muted"):
            for point in points[:1] if len(points) == 1 else (points[0], points[-1]):
                text(when(point.at), "span")
        _key(points)


def _gates(points: Sequence[Point], scale: _Scale) -> None:
    """Each run's gates, as wide as its place."""
    for i, point in enumerate(points):
        for held in point.gates:
            y = scale.down(held.condition.limit)
            shape("line", "gate", x1=percent(i / len(points)), x2=percent((i + 1) / len(points)), y1=y, y2=y)


def _links(points: Sequence[Point], scale: _Scale) -> None:
    """From each point to the next where they can be compared; else a break between them."""
    for i, (one, other) in enumerate(pairwise(points)):
        if other.breaks:
            middle = percent((i + 1) / len(points))
            shape("line", "break", x1=middle, x2=middle, y1=_TOP - 8, y2=_BOTTOM)
            if len(points) <= _CROWDED:
                caption(f"other {other.breaks[0].kind}", "break", x=middle, y=_TOP - 14, text_anchor="middle")
            continue
        ends = {"x1": _across(i, len(points)), "x2": _across(i + 1, len(points))}
        shape("line", "link", y1=scale.down(one.value or 0.0), y2=scale.down(other.value or 0.0), **ends)


def _point(point: Point, across: str, scale: _Scale) -> None:
    """A dot on its interval, which leads to its run; a diamond where a gate failed."""
    assert point.value is not None
    y, failed = scale.down(point.value), any(held.passed is False for held in point.gates)
    around = shape("svg", "point failed" if failed else "point", x=across, overflow="visible")
    with around, shape("a", href=f"/runs/{point.run_id}", aria_label=_said(point)):
        text(_said(point), "title")
        shape("rect", "hit", x=-10, y=_TOP, width=20, height=_BOTTOM - _TOP)
        if point.low is not None and point.high is not None:
            shape("line", "interval", x1=0, x2=0, y1=scale.down(point.low), y2=scale.down(point.high))
        if failed:
            shape("path", "dot", d=f"M0 {y - 7.5} L7.5 {y} L0 {y + 7.5} L-7.5 {y} Z")
        else:
            shape("circle", "dot", cx=0, cy=y, r=5.5)


def _key(points: Sequence[Point]) -> None:
    """What the signs mean, of those that are there."""
    signs = ["A dot is a run’s value, its line the 95 % interval; it leads to the run."]
    if any(point.gates for point in points):
        signs.append("The dashed line is the gate.")
    if any(held.passed is False for point in points for held in point.gates):
        signs.append("A diamond failed it.")
    if any(point.breaks for point in points[1:]):
        signs.append("Across an upright line nothing can be compared.")
    text(" ".join(signs), "figcaption", "small muted")


def _in_words(points: Sequence[Point]) -> str:
    first, last = points[0], points[-1]
    return f"{len(points)} runs, from {number(first.value)} to {number(last.value)}; the table below has all of them"


def _said(point: Point) -> str:
    interval = "" if point.low is None else f", interval {number(point.low)} to {number(point.high)}"
    failed = ", a gate failed" if any(held.passed is False for held in point.gates) else ""
    return f"{point.title or point.run_id}, {when(point.at)}: {number(point.value)}{interval}{failed}"


def _across(i: int, count: int) -> str:
    return percent((i + 0.5) / count)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * (1 - 1e-9))
