"""The report of a whole sweep: every metric under every judge and target, how far judges agree, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.report.choice import choice_pictures, choice_tables, split_sentence
from evalflow.report.costs import cost_pictures, full_cost
from evalflow.report.header import Fact, facts
from evalflow.report.intervals import interval_pictures
from evalflow.report.judge_matrix import judge_matrices
from evalflow.report.judges import judge_lines
from evalflow.report.leaderboard import board_lines
from evalflow.report.page import write_page
from evalflow.report.wording import series_name, varying

if TYPE_CHECKING:
    import polars as pl

_STYLES = ("page.css", "tables.css", "sweep.css")
_SHARED = ("Dataset", "Target", "Metrics", "Versions")
Run = tuple[str, Mapping[str, Any], "pl.DataFrame"]


def write_sweep_report(
    path: Path,
    *,
    manifest: Mapping[str, Any],
    runs: Sequence[Run],
    agreement: pl.DataFrame,
    boards: Sequence[Mapping[str, Any]],
    choice: Mapping[str, Any] | None = None,
) -> None:
    """Write one self-contained page over all runs of a sweep.

    Args:
        path: The file; replaced once the new one is complete. Links lead to `<name>/report.html` beside it.
        manifest: run.json of the sweep.
        runs: Name (the run's folder), run.json and summary of each.
        agreement: As `evalflow.report.agreement` gives it.
        boards: Who leads, as under `details` in the sweep's summary.json.
        choice: Which judge agrees most with people: the sweep's calibration.json; None where nobody asked.
    """
    rows = [
        {**row, "run": name}
        for name, _, summary in runs
        for row in summary.filter(summary["tag"].is_null()).iter_rows(named=True)
    ]
    columns, parts = _columns(rows)
    costs = {name: full_cost(about) for name, about, _ in runs}
    context = {
        "title": f"Sweep of {len(runs)} runs",
        "run_id": manifest["run_id"],
        "facts": _facts(manifest, runs),
        "judges": list(dict.fromkeys(line for _, about, _ in runs for line in judge_lines(about))),
        "columns": columns,
        "lines": _lines(rows, columns, parts),
        "pictures": [*interval_pictures(_numbered(rows, parts)), *cost_pictures(rows, costs)],
        "boards": board_lines(boards),
        "choice": choice_tables(choice["choice"]) if choice else [],
        "choice_notes": choice["notes"] if choice else [],
        "split": split_sentence(split=choice["split"]) if choice else "",
        "choice_pictures": choice_pictures(choice["choice"]) if choice else [],
        "agreement": agreement.to_dicts(),
        "matrices": judge_matrices(agreement.to_dicts(), rows),
        "runs": [_cost(name, about) for name, about, _ in runs],
    }
    write_page(path, "sweep.html.jinja", context, styles=_STYLES, scripts=())


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], tuple[str, ...]]:
    """The table's columns and what they stand for: what varies; the runs where that does not tell all cells apart."""
    varied = varying(rows)
    parts = varied or ("judge",)
    cells = [(row["metric"], row["statistic"], series_name(row, parts)) for row in rows]
    if len(set(cells)) < len(cells):
        parts = (*varied, "run")
    return list(dict.fromkeys(series_name(row, parts) or "no judge" for row in rows)), parts


def _lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], parts: Sequence[str]) -> list[dict[str, Any]]:
    """One line per metric and statistic, with a cell (or None) per column."""
    lines: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["metric"], row["statistic"]), {})[series_name(row, parts) or "no judge"] = row
    return [
        {"metric": metric, "statistic": statistic, "cells": [cells.get(column) for column in columns]}
        for (metric, statistic), cells in lines.items()
    ]


def _numbered(rows: Sequence[Mapping[str, Any]], parts: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows, metric by metric, with the run's name in the place of the target where only runs tell them apart."""
    order = list(dict.fromkeys(row["metric"] for row in rows))
    by_metric = sorted(rows, key=lambda row: order.index(row["metric"]))
    return [{**row, "target": row["run"]} for row in by_metric] if "run" in parts else by_metric


def _facts(manifest: Mapping[str, Any], runs: Sequence[Run]) -> list[Fact]:
    """The facts about the sweep, and those about its runs that are the same in all of them."""
    every = [facts(about) for _, about, _ in runs]
    shared = [fact for fact in every[0] if all(fact in other for other in every)] if every else []
    own = facts({**manifest, "overrides": ["-m", *manifest.get("overrides", ())]})
    return [*own[:-1], *(fact for fact in shared if fact[0] in _SHARED), *own[-1:]]


def _cost(name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("status", "requests", "input_tokens", "output_tokens", "cost_usd")
    return {"name": name} | {key: manifest.get(key) for key in keys}
