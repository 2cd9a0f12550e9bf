"""What a run wrote: its report to look at, and tables to take along."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from nicegui import ui

from evalflow.app.workspace.run_files import RunFile
from evalflow.web.pages.parts import section, text

REPORT = "report.html"


def file_path(run: str, name: str) -> str:
    """The address of one of a run's files."""
    return f"/api/v1/runs/{quote(run, safe='')}/files/{name}"


def files(run: str, found: Sequence[RunFile]) -> None:
    """A line for each; nothing where there are none."""
    if not found:
        return
    about = "What the command line wrote, and what scripts and notebooks read."
    with section("Files", about), ui.element("ul").classes("card files"):
        for file in found:
            _file(run, file)


def _file(run: str, file: RunFile) -> None:
    with ui.element("li"):
        link = ui.link(file.name, file_path(run, file.name), new_tab=file.name == REPORT).classes("mono")
        if file.name != REPORT:
            link.props("download")
        text(file.about, "span", "muted small")
        text(_size(file.size), "span", "muted small num")


def _size(count: int) -> str:
    """Bytes as people say them."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
