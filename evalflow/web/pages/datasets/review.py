"""What a file would give: its columns as case fields, the first cases, and the rows that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.uploads import (
    SHOWN,
    Examined,
    columns_of,
    examine_upload,
    faulty_rows,
    placed,
    upload_cases,
)
from evalflow.errors import Problem, UserError
from evalflow.web.pages.datasets.case_rows import case_table, declared_row
from evalflow.web.pages.datasets.index import counted
from evalflow.web.pages.datasets.mapping import Mapping
from evalflow.web.pages.faults import attempt
from evalflow.web.pages.parts import button, link_button, message, text
from evalflow.web.pages.unsaved import leave, saved


class Review:
    """The mapping, which can be changed, and below it what comes of it.

    Args:
        workspace: Where.
        dataset: Which.
        path: The file.
        name: What people know it as.
        start_over: Takes this away.
    """

    def __init__(
        self, workspace: Workspace, dataset: str, path: Path, name: str, start_over: Callable[[], object]
    ) -> None:
        self._workspace, self._dataset, self._path, self._name = workspace, dataset, path, name
        self._start_over = start_over
        self._asked = 0
        self._mapping: Mapping | None = None
        self._columns = ui.element("div").props('tabindex=-1 role=group aria-label="What was brought"')
        self._found = ui.element("div").props("aria-live=polite")

    async def begin(self) -> None:
        """Read the columns, and show what comes of the likely mapping; the cursor comes here from what asked for it."""
        go = f'requestAnimationFrame(() => document.getElementById("{self._columns.html_id}").focus())'
        with self._columns:  # the button that asked for it is gone
            ui.run_javascript(go)
        try:
            columns = await to_thread.run_sync(columns_of, self._path)
        except UserError as error:
            self._refused(error)
            return
        if not columns:
            self._refused(UserError(Problem("there is no row in it")))
            return
        with self._columns, ui.element("div").classes("card stack"):
            text(self._name, "h2")
            text("Say what each column is. What is no case field is kept as an additional input.", "p", "muted small")
            self._mapping = Mapping(columns, self.refresh)
        await self.refresh()

    async def refresh(self) -> None:
        """Show what comes of the mapping as it stands."""
        fields = self._mapping.read() if self._mapping else None
        self._asked += 1
        asked = self._asked
        self._found.clear()
        if fields is None:
            return
        with self._found:
            text("Reading…", "p", "muted section")
        try:
            examined = await to_thread.run_sync(examine_upload, self._workspace, self._dataset, self._path, fields)
        except UserError as error:
            if asked == self._asked:
                self._refused(error)
            return
        if asked == self._asked:
            self._show(examined, fields)

    def _refused(self, error: UserError) -> None:
        """The file can be read no further; nothing of it is taken."""
        self._found.clear()
        with self._found, ui.element("div").classes("section stack"):
            for problem in map(placed, error.problems):
                where = f"{problem.where}: " if problem.where else ""
                message(f"{self._name}: {where}{problem.what}", problem.hint, "fail")
            with ui.element("div").classes("actions"):
                button("Start over", self._start_over)

    def _show(self, examined: Examined, fields: dict[str, str]) -> None:
        self._found.clear()
        with self._found, ui.element("div").classes("section stack"):
            text(_verdict(examined), "h2")
            if examined.faulty:
                _faults(examined)
            if examined.first:
                text("The first of them, as they would be kept", "h3")
                with case_table(selectable=False):
                    for row in examined.first:
                        declared_row(row)
            with ui.element("div").classes("actions"):
                if examined.good:
                    taking = button(
                        f"Take {counted(examined.good)}", lambda: self._take(examined, fields, taking), kind="primary"
                    )
                if examined.faulty:
                    button("Download the rows to mend", lambda: self._download(examined))
                button("Start over", self._start_over)

    async def _take(self, examined: Examined, fields: dict[str, str], by: ui.button) -> None:
        skip = bool(examined.faulty)

        def work() -> int:
            return upload_cases(self._workspace, self._dataset, self._path, fields, skip_faulty=skip)

        taken = await attempt(work, by=by)
        if taken is None:
            return
        if not skip:
            leave(f"/datasets/{self._dataset}")
            return
        saved()
        self._columns.clear()
        self._found.clear()
        with self._found, ui.element("div").classes("stack"):
            what = f"{counted(taken)} {'was' if taken == 1 else 'were'} added."
            message(what, f"{counted(len(examined.faulty), 'row')} of {self._name} left out.")
            with ui.element("div").classes("actions"):
                link_button("See the cases", f"/datasets/{self._dataset}", primary=True)
                button("Download the rows to mend", lambda: self._download(examined))
                button("Add more", self._start_over)

    async def _download(self, examined: Examined) -> None:
        ending = ".csv" if self._path.suffix == ".csv" else ".jsonl"
        file = self._path.with_name(f"to_mend{ending}")

        def write() -> None:
            with file.open("w", encoding="utf-8", newline="") as opened:
                opened.writelines(faulty_rows(self._path, examined.faulty))

        await to_thread.run_sync(write)
        ui.download.file(file, f"{self._dataset}_to_mend{ending}")


def _verdict(examined: Examined) -> str:
    if not examined.faulty:
        return f"{counted(examined.good)} can be taken"
    return f"{counted(examined.good)} can be taken, {counted(len(examined.faulty), 'row')} cannot"


def _faults(examined: Examined) -> None:
    """Each row that is wrong, what is, and how to mend it."""
    place = ui.element("div").classes("faults")
    place.props('tabindex=0 role=region aria-label="Rows that cannot be taken"')
    with place, ui.element("table"), ui.element("tbody"):
        for problem in examined.problems:
            with ui.element("tr"):
                text(problem.where, "th").props("scope=row")
                with ui.element("td"):
                    text(problem.what)
                    if problem.hint:
                        text(problem.hint, classes="small muted")
    if len(examined.problems) >= SHOWN:
        text(f"These are the first {SHOWN}.", classes="small muted")
