"""The commands `report` and `open`."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from evalflow.app.core.calibration import rank_again
from evalflow.app.core.rederive import rewrite
from evalflow.app.core.saved import find_folder, is_override, jobs_of
from evalflow.app.core.screen import shown
from evalflow.app.core.sweep import write_sweep
from evalflow.errors import Problem, UserError, command
from evalflow.lazy import pl
from evalflow.report.wording import literal, number, percent
from evalflow.run.folder import RunFolder


def report_again(words: Sequence[str], console: Console) -> int:
    """Rewrite all derived files of runs, and of sweeps with all their runs.

    Args:
        words: Folders of runs or sweeps (by default the latest), and overrides of derived results, such as
            `metric.faithfulness.threshold=0.9`, which are saved in run.json.
        console: Where to print.

    Raises:
        UserError: There is no such run, or an override would need new scores.
    """
    overrides = [word for word in words if is_override(word)]
    folders = [find_folder(word) for word in words if word not in overrides] or [find_folder(None)]
    for path in folders:
        jobs = jobs_of(path)
        for run in jobs if jobs is not None else [path]:
            before = _numbers(run)
            rewrite(RunFolder(run), overrides)
            for line in _changes(before, _numbers(run)):
                console.print(literal(line if jobs is None else f"{run.name}: {line}"), soft_wrap=True)
        if jobs is not None:
            rank_again(path, jobs)
            write_sweep(path, jobs)
        console.print(literal(shown(path / "report.html")), soft_wrap=True)
    return 0


def _numbers(run: Path) -> dict[str, str]:
    """The numbers of a run's summary, and its exit code; empty without a summary."""
    folder = RunFolder(run)
    table = run / "summary.parquet"
    if not table.is_file():
        return {}
    found: dict[str, str] = {}
    for row in pl.read_parquet(table).filter(pl.col("tag").is_null()).iter_rows(named=True):
        name = " ".join(row[key] for key in ("dataset", "target", "metric", "statistic", "judge") if row[key])
        found[name] = number(row["value"])
        if row["pass_rate"] is not None:
            found[f"{name}, pass rate"] = percent(row["pass_rate"])
    return {**found, "exit code": str(folder.read_manifest().get("exit_code"))}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    names = dict.fromkeys([*before, *after]) if before else {}
    return [
        f"{name}: {before.get(name, '–')} → {after.get(name, '–')}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def open_report(folder: str | None, console: Console) -> int:
    """Open a report in the browser; without a browser, print the page's path."""
    page = find_folder(folder) / "report.html"
    if not page.is_file():
        raise UserError(Problem("there is no report", str(page), f"write it: {command('report', page.parent)}"))
    console.print(literal(shown(page)), soft_wrap=True)
    if not webbrowser.open(page.as_uri()):
        sys.stderr.write("no browser could be started; open the file yourself\n")
    return 0
