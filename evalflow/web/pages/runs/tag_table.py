"""What a run found by tag: a row for each, a column for each metric."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.scores import summary
from evalflow.report.wording import number, series_name, varying, without_means_of_figures
from evalflow.web.pages.parts import section, text

MOST = 200
"""Tags that are shown; all are in the run's report."""


class TagTable:
    """The table; it is filled after the first paint."""

    def __init__(self, workspace: Workspace, run: Run, pick: Callable[..., Awaitable[None]]) -> None:
        self._workspace, self._run, self._pick = workspace, run, pick
        with section("By tag", "The mean of each metric with its 95 % interval. A tag leads to its scores."):
            self._place = ui.element("div").classes("card by-tag").props("tabindex=0 role=region aria-label='By tag'")

    async def load(self) -> None:
        """Fill it."""
        rows = await to_thread.run_sync(summary, self._workspace, self._run.run_id)
        rows = [row for row in without_means_of_figures(rows) if row["tag"] is not None]
        apart = varying(rows)
        table: dict[str, dict[str, Mapping[str, Any]]] = {}
        columns: dict[str, None] = {}
        for row in rows:
            column = " · ".join(part for part in (row["metric"], series_name(row, apart), _statistic(row)) if part)
            columns[column] = None
            table.setdefault(row["tag"], {})[column] = row
        with self._place, ui.element("table"):
            with ui.element("thead"), ui.element("tr"):
                for name in ("Tag", "Cases", *columns):
                    text(name, "th").props("scope=col")
            with ui.element("tbody"):
                for tag in list(table)[:MOST]:
                    self._row(tag, table[tag], list(columns))
        if len(table) > MOST:
            with self._place:
                text(f"{len(table) - MOST:,} more tags are in the run's report.", "p", "muted small")

    def _row(self, tag: str, cells: Mapping[str, Mapping[str, Any]], columns: list[str]) -> None:
        with ui.element("tr"):
            with ui.element("th").props("scope=row"), ui.element("button").props("type=button").classes("tag") as one:
                text(tag, "span")
            one.on("click", lambda _: self._pick(tag=tag), args=[])
            text(f"{max(row['n'] for row in cells.values()):,}", "td", "muted")
            for column in columns:
                row = cells.get(column)
                with ui.element("td"):
                    text(number(row["value"] if row else None, 2), "span", "reading")
                    if row and row["ci_low"] is not None:
                        said = f"{number(row['ci_low'], 2)} to {number(row['ci_high'], 2)}"
                        text(said, "span", "muted small")


def _statistic(row: Mapping[str, Any]) -> str:
    return "" if row["statistic"] == "mean" else str(row["statistic"])
