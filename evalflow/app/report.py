"""The commands `report` and `open`."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from evalflow.app.derive import derive, report
from evalflow.app.locate import find_folder, jobs_of
from evalflow.app.saved import load
from evalflow.app.screen import shown
from evalflow.app.sweep import write_sweep
from evalflow.errors import Problem, UserError
from evalflow.run.folder import RunFolder


def report_again(folders: Sequence[str], console: Console) -> int:
    """Write everything that is derived again: of runs, and of sweeps with all their runs.

    Args:
        folders: Folders of runs or sweeps; the latest where there is none.
        console: Says what was written.
    """
    for path in [find_folder(folder) for folder in folders] or [find_folder(None)]:
        jobs = jobs_of(path)
        for run in jobs if jobs is not None else [path]:
            _again(run)
        if jobs is not None:
            write_sweep(path, jobs)
        console.print(shown(path / "report.html"), soft_wrap=True)
    return 0


def open_report(folder: str | None, console: Console) -> int:
    """Show a report in the browser; where none can be started, say where the page is."""
    page = find_folder(folder) / "report.html"
    if not page.is_file():
        raise UserError(Problem("there is no report", str(page), f"write it: python -m evalflow report {page.parent}"))
    console.print(shown(page), soft_wrap=True)
    if not webbrowser.open(page.as_uri()):
        sys.stderr.write("no browser could be started; open the file yourself\n")
    return 0


def _again(path: Path) -> None:
    saved = load(RunFolder(path))
    derived = derive(saved.folder, saved.recipe, saved.manifest["scores"])
    report(saved.folder, saved.recipe, derived, saved.cases(), saved.manifest)
