"""All numbers of a run at a glance: a line for each with its interval on one scale, which leads to its metric below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from evalflow.app.workspace.run_types import Run
from evalflow.report.wording import number, percent, series_name, varying, without_means_of_figures
from evalflow.web.pages.parts import Tone, badge, section, text
from evalflow.web.pages.svg import percent as across
from evalflow.web.pages.svg import picture, shape

FEWEST = 3
"""Numbers from which on an overview says more than the cards do."""
_MIDDLE = 11
"""Pixels down to the line of an interval."""
_ABOUT = "A dot is a metric's value from 0 to 1, its line the 95 % interval. A name leads to what lies behind it."


def overview(run: Run) -> None:
    """Draw it; nothing where there are few numbers."""
    metrics: Mapping[str, Mapping[str, Any]] = {one["name"]: one for one in run.facts.get("metrics", [])}
    rows = [row for row in without_means_of_figures(run.facts["summary"]) if row["metric"] in metrics]
    if len(rows) < FEWEST:
        return
    apart = varying(rows)
    with section("At a glance", _ABOUT), ui.element("ul").classes("card glance"):
        for row in rows:
            with ui.element("li"):
                _line(row, metrics[row["metric"]], series_name(row, apart), run.facts.get("gates", []))


def _line(row: Mapping[str, Any], metric: Mapping[str, Any], series: str, gates: Sequence[Mapping[str, Any]]) -> None:
    with ui.element("div").classes("whose"):
        ui.link(row["metric"], f"#{anchor(row['metric'])}")
        marks = [series, "" if row["statistic"] == "mean" else row["statistic"]]
        marks += ["" if metric["direction"] == "higher_is_better" else "lower is better"]
        text(" · ".join(mark for mark in marks if mark), "span", "small muted")
    text(number(row["value"], 2), "span", "reading")
    if metric["bounded"] and row["value"] is not None:
        _drawn(row)
    else:
        text(_in_digits(row), "span", "small muted unlike")
    with ui.element("div").classes("actions small muted"):
        if row["pass_rate"] is not None and row["statistic"] == "mean":
            text(f"{percent(row['pass_rate'])} pass", "span")
        unscored = row["n"] - row["n_scored"]
        if unscored:
            text(f"{unscored:,} unscored", "span", "unscored")
        for word, tone in _held(row, gates):
            badge(word, tone)


def _drawn(row: Mapping[str, Any]) -> None:
    """The value on its interval; the ends and the middle of the scale are marked."""
    with picture(f"{number(row['value'], 2)}, {_in_digits(row)}", "plotted"):
        for at in (0.0, 0.5, 1.0):
            shape("line", "grid", x1=across(at), x2=across(at), y1=0, y2=2 * _MIDDLE)
        if row["ci_low"] is not None:
            ends = {"x1": across(_within(row["ci_low"])), "x2": across(_within(row["ci_high"]))}
            shape("line", "interval", y1=_MIDDLE, y2=_MIDDLE, **ends)
        shape("circle", "dot", cx=across(_within(row["value"])), cy=_MIDDLE, r=4.5)


def _in_digits(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "nothing scored"
    if row["ci_low"] is None:
        return "no interval"
    return f"{number(row['ci_low'], 2)} to {number(row['ci_high'], 2)}"


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _held(row: Mapping[str, Any], gates: Sequence[Mapping[str, Any]]) -> list[tuple[str, Tone]]:
    """What its gates say, in one word."""
    if row["statistic"] != "mean":
        return []
    own = [gate["passed"] for gate in gates if gate.get("metric") == row["metric"] and _is_of(gate, row)]
    if not own:
        return []
    if False in own:
        return [("gate failed", "fail")]
    return [("gate undecided", "warn")] if None in own else [("gate passed", "pass")]


def _is_of(gate: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(gate.get(key) in (None, row[key]) for key in ("dataset", "target"))


def anchor(metric: str) -> str:
    """The name of a metric's card within the page."""
    return f"metric-{metric}"
