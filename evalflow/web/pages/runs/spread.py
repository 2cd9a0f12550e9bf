"""How the scores of a metric lie, and what share of them each threshold would pass: two pictures over one scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from nicegui import ui

from evalflow.app.workspace.score_types import Distribution
from evalflow.report.wording import number, percent
from evalflow.web.pages.parts import text
from evalflow.web.pages.svg import picture, shape

if TYPE_CHECKING:
    from evalflow.summary import Passing

MARKS = 41
"""Thresholds that the line of pass rates is drawn from."""
_WIDE, _HIGH = 1000.0, 100.0
"""Of the picture's own units; it is stretched to any width."""


def thresholds_of(low: float, high: float) -> list[float]:
    """Where the pass rate is looked at, evenly from one end of the scale to the other."""
    return [low + (high - low) * i / (MARKS - 1) for i in range(MARKS)]


def bars(lies: Distribution) -> None:
    """A bar for each part of the scale, in the colours of what passes and fails; a threshold may part a bar."""
    highest = max(lies.counts) or 1
    for place, count in enumerate(lies.counts):
        parts = {"": count}
        if lies.passed is not None:
            parts = {"pass": lies.passed[place], "fail": count - lies.passed[place]}
        with ui.element("span").classes("bin") as bar:
            for side, n in parts.items():
                if n:
                    ui.element("i").classes(side).style(f"height: {max(100 * n / highest, 2):.1f}%")
        told = ", ".join(f"{n:,} {side}" for side, n in parts.items() if n and side)
        span = f"{number(lies.edges[place], 2)} to {number(lies.edges[place + 1], 2)}"
        bar.props["title"] = f"{span}: {told or f'{count:,}'}"


def in_words(lies: Distribution) -> str:
    """The bars, for those who do not see them."""
    filled = [
        f"{count:,} from {number(lies.edges[place], 2)} to {number(lies.edges[place + 1], 2)}"
        for place, count in enumerate(lies.counts)
        if count
    ]
    return f"Scores of {lies.metric}: {'; '.join(filled)}"


def curve(rates: Sequence[Passing], low: float, high: float) -> ui.element:
    """The pass rate by threshold with its interval as a band, a line for each dataset and target.

    Args:
        rates: Of `thresholds_of(low, high)`, as they come.
        low: The left end of the scale.
        high: The right one.

    Returns:
        The mark that stands at a threshold; `mark` moves it.
    """
    with ui.element("div").classes("passing"):
        with picture(_spoken(rates), "curve") as drawn:
            drawn.props(f'viewBox="0 0 {_WIDE:g} {_HIGH:g}" preserveAspectRatio="none"')
            for _, own in groupby(rates, lambda one: (one.dataset, one.target)):
                _line(list(own), low, high)
        marker = ui.element("i").classes("at").props("aria-hidden=true")
        for share, place in ((1, "top"), (0, "bottom")):
            text(percent(share), "span", f"muted {place}").props("aria-hidden=true")
    return marker


def mark(marker: ui.element, threshold: float | None, low: float, high: float) -> None:
    """Move the mark to a threshold; None takes it away."""
    marker.set_visibility(threshold is not None)
    if threshold is not None:
        marker.style(f"left: {100 * _across(threshold, low, high) / _WIDE:.2f}%")


def _line(rates: Sequence[Passing], low: float, high: float) -> None:
    """Steps, since a pass rate only changes where a score lies."""
    banded = [one for one in rates if one.low is not None and one.high is not None]
    if banded:
        upper = _steps([(one.threshold, one.high or 0.0) for one in banded], low, high)
        lower = _steps([(one.threshold, one.low or 0.0) for one in banded], low, high)
        shape("polygon", "band", points=" ".join([*upper, *reversed(lower)]))
    shape("polyline", "rate", points=" ".join(_steps([(one.threshold, one.rate) for one in rates], low, high)))


def _steps(values: Sequence[tuple[float, float]], low: float, high: float) -> list[str]:
    points: list[str] = []
    before = None
    for threshold, share in values:
        x = f"{_across(threshold, low, high):.1f}"
        if before is not None:
            points.append(f"{x},{before}")
        before = f"{_HIGH * (1 - share):.1f}"
        points.append(f"{x},{before}")
    return points


def _across(value: float, low: float, high: float) -> float:
    return _WIDE * min(max((value - low) / (high - low), 0.0), 1.0)


def _spoken(rates: Sequence[Passing]) -> str:
    """Some of the line, for those who do not see it."""
    few = [f"{percent(one.rate)} from {number(one.threshold, 2)}" for one in rates[:: MARKS // 4]]
    return f"Share that passes by threshold, with its 95 % interval: {'; '.join(few)}"
