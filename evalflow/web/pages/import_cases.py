"""Add test cases from a file or pasted text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyio import to_thread
from nicegui import ui
from nicegui.events import UploadEventArguments

from evalflow.app.studio.datasets import own_row
from evalflow.app.studio.space import Workspace
from evalflow.app.studio.uploads import (
    SHOWN,
    Column,
    Examined,
    columns_of,
    examine_upload,
    faulty_rows,
    placed,
    upload_cases,
)
from evalflow.errors import Problem, UserError
from evalflow.web.pages.cases import case_table, clipped, declared_row
from evalflow.web.pages.datasets import PLACE, counted
from evalflow.web.ui.dialogs import leave, saved, unsaved
from evalflow.web.ui.files import dropping
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import About, area, attempt, button, link_button, message, text


def pasted_file(said: str, folder: Path) -> Path:
    """Write it down: a table of tabs as it stands, else each line as a question.

    Args:
        said: One question a line, or what a spreadsheet copies: rows of cells with tabs between them.
        folder: Where.
    """
    lines = said.strip("\r\n").splitlines()
    if "\t" in lines[0]:
        path = folder / "pasted.csv"
        path.write_text(said.strip("\r\n") + "\n", encoding="utf-8", newline="")
        return path
    path = folder / "pasted.jsonl"
    rows = (json.dumps({"question": said}) if (said := line.strip()) else "" for line in lines)  # faults name the line
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


NAMES = {
    "question": "Question",
    "messages": "Conversation",
    "reference": "Expected answer",
    "answer": "Recorded answer",
    "contexts": "Context",
    "tags": "Tags",
    "group": "Group",
    "id": "Id",
    "expected": "Expected label",
    "actual": "Recorded label",
    "metadata": "Metadata",
    "checks": "Checks",
    "labels": "Human labels",
    "demo_answer": "Example answer",
    "failure": "Why it has no answer",
    "vars": "Additional inputs, as an object",
}
_OTHER = "Additional input"
_RIVALS = {"question": "messages", "messages": "question"}
"""Either makes the conversation: who names one leaves the other."""


class Mapping:
    """A row for each column: its name, what stands in it, and what it is.

    Args:
        columns: Of the file.
        on_change: After something else was chosen.
    """

    def __init__(self, columns: Sequence[Column], on_change: Callable[[], Any]) -> None:
        self._picks: dict[str, ui.select] = {}
        with ui.element("div").classes("mapping"):
            for column in columns:
                self._row(column, on_change)

    def read(self) -> dict[str, str] | None:
        """Case field to column; None where that cannot be, which is shown beside the column."""
        fields: dict[str, str] = {}
        faults: dict[str, str] = {}
        for column, picked in self._picks.items():
            field = picked.value
            if field and field in fields:
                faults[column] = f"already used for column {fields[field]}"
            elif field:
                fields[field] = column
        for column, picked in self._picks.items():
            if column in NAMES and not picked.value and column not in fields and _RIVALS.get(column) not in fields:
                faults[column] = "a column with this name is always that field; rename the column in the file"
        for column, picked in self._picks.items():
            picked.error = faults.get(column)
        return None if faults else fields

    def _row(self, column: Column, on_change: Callable[[], Any]) -> None:
        with ui.element("div").classes("mapped"):
            with ui.element("div"):
                text(column.name or "(no name)", classes="mono")
                text(clipped(column.example) or "(empty)", classes="small muted line")
            picked = ui.select({"": _OTHER, **NAMES}, value=column.field or "", on_change=on_change)
            picked.props("outlined dense")
            picked.props["aria-label"] = f"What {column.name} is"
        self._picks[column.name] = picked


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
        self._columns = ui.element("div").props('tabindex=-1 role=group aria-label="Columns"')
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
            self._refused(UserError(Problem("the file has no rows")))
            return
        with self._columns, ui.element("div").classes("card stack"):
            text(self._name, "h2")
            text("Choose what each column is. Other columns are kept as additional inputs.", "p", "muted small")
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
                text("Preview of the first cases", "h3")
                with case_table(selectable=False):
                    for row in examined.first:
                        declared_row(row)
            with ui.element("div").classes("actions"):
                if examined.good:
                    taking = button(
                        f"Import {counted(examined.good)}", lambda: self._take(examined, fields, taking), kind="primary"
                    )
                if examined.faulty:
                    button("Download the rows to fix", lambda: self._download(examined))
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
                button("Download the rows to fix", lambda: self._download(examined))
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
        return f"{counted(examined.good)} ready"
    return f"{counted(examined.good)} ready, {counted(len(examined.faulty), 'row')} with errors"


def _faults(examined: Examined) -> None:
    """Each row that is wrong, what is, and how to mend it."""
    place = ui.element("div").classes("faults")
    place.props('tabindex=0 role=region aria-label="Rows with errors"')
    with place, ui.element("table"), ui.element("tbody"):
        for problem in examined.problems:
            with ui.element("tr"):
                text(problem.where, "th").props("scope=row")
                with ui.element("td"):
                    text(problem.what)
                    if problem.hint:
                        text(problem.hint, classes="small muted")
    if len(examined.problems) >= SHOWN:
        text(f"The first {SHOWN} are shown.", classes="small muted")


LARGEST_PASTE = 1_000_000
"""Characters; a page's websocket takes no longer message than twice as many bytes."""
_PASTE = About(
    "Questions, or a table",
    "One question per line, or a table copied from a spreadsheet with column names in the first row.",
    "What does the licence cost?\nCan I pay by card?\nHow do I get my money back?",
    required=True,
)
_FILE = (
    "CSV with column names in the first line, JSON lines, or a JSON list. You see a preview before anything is saved."
)


def add(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/datasets/{dataset}/add")
    async def new(dataset: str) -> None:
        await to_thread.run_sync(own_row, workspace, dataset)
        folder = TemporaryDirectory(prefix="evalflow-")
        ui.context.client.on_delete(folder.cleanup)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI
        with frame("Add cases", place=PLACE, trail=[(dataset, f"/datasets/{dataset}")]):
            _Add(workspace, dataset, Path(folder.name))


class _Add:
    """Two ways to bring cases; what was brought takes their place."""

    def __init__(self, workspace: Workspace, dataset: str, folder: Path) -> None:
        self._workspace, self._dataset, self._folder = workspace, dataset, folder
        with unsaved() as self._place:
            self._ways()

    def _ways(self) -> None:
        self._place.clear()
        with self._place, ui.element("div").classes("ways"):
            with ui.element("div").classes("card stack"):
                text("Paste", "h2")
                self._pasted = area(_PASTE).props(f"maxlength={LARGEST_PASTE}")
                with ui.element("div").classes("actions"):
                    self._going_on = button("Continue", self._take_pasted, kind="primary")
            with ui.element("div").classes("card stack"):
                text("A file", "h2")
                text(_FILE, "p", "muted small")
                dropping(self._take_file)
        with self._place, ui.element("p").classes("aside"):
            text("One by one? ", "span", "muted")
            ui.link("Write a case", f"/datasets/{self._dataset}/cases/new")

    async def _take_pasted(self) -> None:
        said = self._pasted.value or ""
        self._pasted.error = None
        if not said.strip():
            self._pasted.error = "is required"
        elif len(said) >= LARGEST_PASTE:
            self._pasted.error = (
                f"at most {LARGEST_PASTE:,} characters can be pasted; save the text as a file and upload it"
            )
        else:
            await self._review(await to_thread.run_sync(pasted_file, said, self._folder), "Pasted text")

    async def _take_file(self, event: UploadEventArguments) -> None:
        ending = Path(event.file.name).suffix.lower()
        path = self._folder / f"cases{'.csv' if ending == '.tsv' else ending}"
        await event.file.save(path)
        await self._review(path, event.file.name)

    async def _review(self, path: Path, name: str) -> None:
        self._place.clear()
        with self._place:
            review = Review(self._workspace, self._dataset, path, name, self._ways)
        await review.begin()
