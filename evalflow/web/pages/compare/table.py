"""The differences between two runs: a verdict for each, and the interval that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nicegui import ui

from evalflow.app.workspace.run_types import Run
from evalflow.report.comparison import VERDICTS, Comparison, in_words
from evalflow.report.wording import method, number, p_value, signed
from evalflow.web.pages.parts import Tone, badge, message, section, text
from evalflow.web.pages.runs.words import name_of, when
from evalflow.web.pages.svg import percent, picture, shape

if TYPE_CHECKING:
    from evalflow.summary import ComparisonRow

_TONES: dict[str, Tone] = {"better": "pass", "worse": "fail", "cannot_tell": ""}
_HEADS = ("Metric", "A", "B", "B minus A, with its 95 % interval", "Verdict", "p, adjusted", "Could detect", "Cases")
_HELD: dict[bool | None, tuple[str, Tone]] = {
    True: ("not worse", "pass"),
    False: ("worse", "fail"),
    None: ("cannot tell whether worse", "warn"),
}
_MIDDLE = 13
"""Pixels down to the line of an interval."""
_LEGEND = (
    "A difference is told where its adjusted p-value is below 0.05 and its interval leaves 0 out. “Could detect” is "
    "the true difference that this many cases would have found four times in five."
)


def differences(found: Comparison, runs: tuple[Run, Run]) -> None:
    """What the comparison says in a sentence, then each difference."""
    with section("Verdict"):
        text(in_words(found.rows), "p", "verdict-in-words")
        with ui.element("div").classes("sides"):
            for side, run in zip("AB", runs, strict=True):
                _side(side, run)
        for note in found.notes:
            message(note)
    with section("Differences", "B minus A, over the cases that both have scored."):
        _table(found.rows)
        if found.margin is not None:
            _against(found.rows, found.margin)
        with ui.element("div").classes("legend small muted"):
            for line in (*found.judges, f"A {found.family}.", _LEGEND):
                text(line, "p")


def _side(side: str, run: Run) -> None:
    with ui.element("div").classes("side"):
        badge(side, "accent")
        ui.link(name_of(run), f"/runs/{run.run_id}")
        text(f"{run.bot} · {when(run.created_at)}", "span", "small muted")


def _table(rows: Sequence[ComparisonRow]) -> None:
    span = _span([row for row in rows if _is_small(row)])
    several = len({row.dataset for row in rows}) > 1
    with ui.element("table").classes("table stacked"):
        with ui.element("thead"), ui.element("tr"):
            for head in _HEADS:
                text(head, "th").props("scope=col")
        with ui.element("tbody"):
            for row in rows:
                _row(row, span if _is_small(row) else _span([row]), several)


def _row(row: ComparisonRow, span: float, several: bool) -> None:
    found = row.found
    with ui.element("tr"):
        with ui.element("th").props("scope=row"):
            text(row.metric, classes="name")
            text(_about(row, several), classes="small muted")
        _cell("A", number(found.value_a))
        _cell("B", number(found.value_b))
        with ui.element("td").props(f'data-label="{_HEADS[3]}"').classes("drawn"):
            _interval(row, span)
            ends = "no interval" if found.low is None else f"{signed(found.low)} to {signed(found.high)}"
            with ui.element("div").classes("said"):
                text(signed(found.difference), "strong")
                text(f"{ends}, {method(found.method)}", "span", "small muted")
        with ui.element("td").props('data-label="Verdict"'):
            badge(VERDICTS[row.verdict], _TONES[row.verdict])
        _cell("p, adjusted", p_value(row.p_adjusted))
        _cell("Could detect", number(row.detectable))
        cases = f"{found.n:,}" + (f" in {found.clusters:,} clusters" if found.clusters != found.n else "")
        _cell("Cases", cases)


def _against(rows: Sequence[ComparisonRow], margin: float) -> None:
    """Whether B is not worse by more than the margin, metric by metric."""
    with ui.element("ul").classes("card margins"):
        for row in rows:
            told = row.document(margin)
            words, tone = _HELD[told["not_worse"]]
            needed = told["cases_needed"]
            more = f"About {needed:,} cases would decide, if it stayed as it is." if needed else ""
            with ui.element("li"):
                badge(words, tone)
                text(f"{row.metric}, {_about(row, several=True)}", "span")
                text(f"by more than {margin:g}. {more}", "span", "small muted")


def _cell(label: str, content: str) -> None:
    text(content, "td", "num").props(f'data-label="{label}"')


def _about(row: ComparisonRow, several: bool) -> str:
    lower = "" if row.higher_is_better else "lower is better"
    return ", ".join(part for part in (row.called or "mean", row.dataset if several else "", row.judge, lower) if part)


def _interval(row: ComparisonRow, span: float) -> None:
    """The difference as a dot on its interval; 0 is in the middle."""
    found = row.found
    with picture(f"difference {signed(found.difference)}, interval {signed(found.low)} to {signed(found.high)}", "bar"):
        shape("line", "zero", x1="50%", x2="50%", y1=0, y2=2 * _MIDDLE)
        if found.low is not None and found.high is not None:
            ends = {"x1": percent(_across(found.low, span)), "x2": percent(_across(found.high, span))}
            shape("line", f"line {row.verdict}", y1=_MIDDLE, y2=_MIDDLE, **ends)
        if found.difference is not None:
            shape("circle", f"dot {row.verdict}", cx=percent(_across(found.difference, span)), cy=_MIDDLE, r=5)


def _across(value: float, span: float) -> float:
    return 0.5 + 0.48 * value / span


def _span(rows: Sequence[ComparisonRow]) -> float:
    """How far the widest of them reaches from 0."""
    ends = [abs(end) for row in rows for end in (row.found.low, row.found.high, row.found.difference) if end]
    return max(ends, default=1.0)


def _is_small(row: ComparisonRow) -> bool:
    """Whether it lies on the scale that most share; what is measured in other units has one of its own."""
    found = row.found
    return all(end is None or abs(end) <= 1 for end in (found.low, found.high, found.difference))
