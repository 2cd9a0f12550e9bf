"""What a comparison of two runs found: the verdict in words, and a line for each metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nicegui import ui

from evalflow.app.studio.comparing import leading_row, passing_metrics
from evalflow.app.studio.runs import Run
from evalflow.report.comparison import VERDICTS, Comparison
from evalflow.report.verdict import verdict_in_words
from evalflow.report.wording import method, number, p_value, signed
from evalflow.web.pages.runs import in_a_sentence, name_of, when
from evalflow.web.ui.parts import (
    Tone,
    across,
    badge,
    cell,
    counted,
    fold,
    joined,
    message,
    picture,
    section,
    shape,
    table,
    text,
)
from evalflow.web.ui.visitor import title_of

if TYPE_CHECKING:
    from evalflow.summary.compare import ComparisonRow


_TONES: dict[str, Tone] = {"better": "pass", "worse": "fail", "cannot_tell": ""}
_HEADS = ("Metric", "A", "B", "B minus A, with its 95 % interval", "Verdict")
_MARGIN_VERDICTS: dict[bool | None, tuple[str, Tone]] = {
    True: ("not worse", "pass"),
    False: ("worse", "fail"),
    None: ("cannot tell whether worse", "warn"),
}
_MIDDLE = 13
"""Distance in pixels from the top to the line of an interval."""
_LEGEND = (
    "A difference is clear if its adjusted p-value is below 0.05 and its interval excludes 0. “Could detect” is the "
    "true difference that this many cases would find four times in five."
)
_SIGNS = {"better": "▲", "worse": "▼", "cannot_tell": "="}


def verdict(found: Comparison, runs: tuple[Run, Run]) -> None:
    """The verdict in a sentence, the two runs, and a line for each metric."""
    rows = [replace(one, metric=title_of("metric", one.metric, runs[1].bot)) for one in found.rows]
    row, passing = leading_row(found.rows, runs[1]), passing_metrics(runs[1])
    [flips] = found.flips
    with ui.element("section").classes("verdict-first"):
        said = [replace(one, metric=in_a_sentence(one.metric, runs[1])) for one in found.rows if one is not row]
        first = replace(row, metric=in_a_sentence(row.metric, runs[1]))
        text(verdict_in_words(first, said), "h2", f"verdict-in-words {row.verdict}")
        if passing:
            better, worse = flips.improved, flips.worsened
            what, several = ("result", " over all metrics") if len(passing) > 1 else ("case", "")
            said = f"{counted(better, what)} flipped to pass, {worse:,} to fail{several}."
            text(said if better or worse else "No case flipped between pass and fail.", "p", "flips-in-words")
        with ui.element("div").classes("sides"):
            for side, run in zip("AB", runs, strict=True):
                _side(side, run)
        for note in found.notes:
            message(_with_titles(note, found.rows, runs[1].bot))
    with section("Metric by metric", "B minus A, over the cases scored in both runs."):
        _table(rows)
        if found.margin is not None:
            _against(rows, found.margin)
        with fold("How this was tested").classes("tested"):
            _statistics(replace(found, rows=rows))


def _with_titles(note: str, rows: Sequence[ComparisonRow], bot: str) -> str:
    """A note on a metric of a dataset, with what people call both."""
    for dataset, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        start = f"{dataset}, {metric}"
        if note.startswith((f"{start}:", f"{start},")):
            return f"{title_of('dataset', dataset)}, {title_of('metric', metric, bot)}{note.removeprefix(start)}"
    return note


def _side(side: str, run: Run) -> None:
    with ui.element("div").classes("side"):
        badge(side, "accent")
        ui.link(name_of(run), f"/runs/{run.run_id}")
        text(f"{title_of('bot', run.bot)} · {when(run.created_at)}", "span", "small muted")


def _table(rows: Sequence[ComparisonRow]) -> None:
    span = _span([row for row in rows if _is_small(row)])
    several = len({row.dataset for row in rows}) > 1
    with table(_HEADS, "table stacked"):
        for row in rows:
            _row(row, span if _is_small(row) else _span([row]), several)


def _row(row: ComparisonRow, span: float, several: bool) -> None:
    found = row.found
    with ui.element("tr"):
        with ui.element("th").props("scope=row"):
            text(row.metric, classes="name")
            text(_about(row, several), classes="small muted")
        cell("A", number(found.value_a))
        cell("B", number(found.value_b))
        with cell(_HEADS[3], classes="drawn"):
            _interval(row, span)
            ends = "no interval" if found.low is None else f"{signed(found.low)} to {signed(found.high)}"
            with ui.element("div").classes("said"):
                text(signed(found.difference), "strong")
                text(ends, "span", "small muted")
        with cell("Verdict", classes=""):
            badge(f"{_SIGNS[row.verdict]} {VERDICTS[row.verdict]}", _TONES[row.verdict])


def _statistics(found: Comparison) -> None:
    with table(("Metric", found.p_name, "Could detect", "Cases", "Interval by"), "table stacked"):
        for row in found.rows:
            cases = f"{row.found.n:,}"
            if row.found.clusters != row.found.n:
                cases += f" in {row.found.clusters:,} clusters"
            with ui.element("tr"):
                text(joined(row.metric, row.called, row.tag), "th").props("scope=row")
                cell(found.p_name, p_value(row.p_adjusted))
                cell("Could detect", number(row.detectable))
                cell("Cases", cases)
                cell("Interval by", method(row.found.method), "")
    with ui.element("div").classes("legend small muted"):
        for note in (*found.judges, f"A {found.family}.", _LEGEND):
            text(note, "p")


def _against(rows: Sequence[ComparisonRow], margin: float) -> None:
    """Whether B is not worse by more than the margin, metric by metric."""
    with ui.element("ul").classes("card margins"):
        for row in rows:
            found = row.document(margin)
            words, tone = _MARGIN_VERDICTS[found["not_worse"]]
            needed = found["cases_needed"]
            more = f"About {needed:,} cases would decide, if the difference stays the same." if needed else ""
            with ui.element("li"):
                badge(words, tone)
                text(f"{row.metric}, {_about(row, several=True)}", "span")
                text(f"by more than {margin:g}. {more}", "span", "small muted")


def _about(row: ComparisonRow, several: bool) -> str:
    lower = "" if row.higher_is_better else "lower is better"
    return ", ".join(
        part
        for part in (row.called.replace("_", " ") or "mean", row.dataset if several else "", row.judge, lower)
        if part
    )


def _interval(row: ComparisonRow, span: float) -> None:
    found = row.found
    with picture(
        f"difference {signed(found.difference)}, interval {signed(found.low)} to {signed(found.high)}", "difference"
    ):
        shape("line", "zero", x1="50%", x2="50%", y1=0, y2=2 * _MIDDLE)
        if found.low is not None and found.high is not None:
            ends = {"x1": across(_across(found.low, span)), "x2": across(_across(found.high, span))}
            shape("line", f"line {row.verdict}", y1=_MIDDLE, y2=_MIDDLE, **ends)
        if found.difference is not None:
            shape("circle", f"dot {row.verdict}", cx=across(_across(found.difference, span)), cy=_MIDDLE, r=5)


def _across(value: float, span: float) -> float:
    return 0.5 + 0.48 * value / span


def _span(rows: Sequence[ComparisonRow]) -> float:
    ends = [abs(end) for row in rows for end in (row.found.low, row.found.high, row.found.difference) if end]
    return max(ends, default=1.0)


def _is_small(row: ComparisonRow) -> bool:
    """Whether the row fits the common scale; rows in other units get a separate scale."""
    found = row.found
    return all(end is None or abs(end) <= 1 for end in (found.low, found.high, found.difference))
