"""Add test cases from a file or pasted text."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyio import to_thread
from nicegui import ui
from nicegui.events import UploadEventArguments

from evalflow.addons.studio.web.pages.cases import FIELD_TITLES, case_table, declared_row
from evalflow.addons.studio.web.security.guards import LARGEST_UPLOAD
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.faults import FaultSummary, reveal
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import Latest, button, clipped, link_button, message, text
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work import uploads
from evalflow.addons.studio.work.cases import Fields
from evalflow.addons.studio.work.datasets import dataset_id
from evalflow.addons.studio.work.space import Workspace
from evalflow.config.schema import FieldSource, FieldValue
from evalflow.errors import Problem, UserError
from evalflow.report.wording import counted
from evalflow.values.cells import CellType

LARGEST_PASTE = 1_000_000
"""Maximum number of characters; the page's websocket accepts messages of at most twice as many bytes."""
_PASTE = forms.About(
    "Questions, or a table",
    "One question per line, or a table copied from a spreadsheet with column names in the first row.",
    "What does the licence cost?\nCan I pay by card?\nHow do I get my money back?",
    required=True,
)
_FILE = (
    "An Excel sheet or CSV with column names in the first row, JSON lines, or a JSON list. You see a preview before "
    "anything is saved."
)


@guarded_page("/datasets/{dataset}/add", "edit")
async def _new_page(workspace: Workspace, dataset: str) -> None:
    await to_thread.run_sync(dataset_id, workspace, dataset)
    folder = TemporaryDirectory(prefix="evalflow-")
    ui.context.client.on_delete(folder.cleanup)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI
    with frame("Add cases", place="Test cases", trail=[(title_of("dataset", dataset), f"/datasets/{dataset}")]):
        _ImportPage(workspace, dataset, Path(folder.name))


class _ImportPage:
    def __init__(self, workspace: Workspace, dataset: str, folder: Path) -> None:
        self._workspace, self._dataset, self._folder = workspace, dataset, folder
        with forms.unsaved(kept=True) as self._place:
            self._choose()

    def _choose(self) -> None:
        self._place.clear()
        with self._place, ui.element("div").classes("ways"):
            with ui.element("div").classes("card stack"):
                text("Paste", "h2")
                self._pasted = forms.area(_PASTE).props(f"maxlength={LARGEST_PASTE}")
                with ui.element("div").classes("actions"):
                    button("Continue", self._take_pasted, kind="primary")
            with ui.element("div").classes("card stack"):
                text("A file", "h2")
                text(_FILE, "p", "muted small")
                drop_zone(self._take_file)
        with self._place, ui.element("p").classes("aside"):
            text("One by one? ", "span", "muted")
            ui.link("Write a case", f"/datasets/{self._dataset}/cases/new")

    async def _take_pasted(self) -> None:
        content = self._pasted.value or ""
        if forms.required(self._pasted) is None:
            return
        if len(content) >= LARGEST_PASTE:
            self._pasted.error = (
                f"at most {LARGEST_PASTE:,} characters can be pasted; save the text as a file and upload it"
            )
        else:
            await self._review(await to_thread.run_sync(pasted_file, content, self._folder), "Pasted text")

    async def _take_file(self, event: UploadEventArguments) -> None:
        ending = Path(event.file.name).suffix.lower()
        path = self._folder / f"cases{'.csv' if ending == '.tsv' else ending}"
        await event.file.save(path)
        await self._review(path, event.file.name)

    async def _review(self, path: Path, name: str) -> None:
        self._place.clear()
        with self._place:
            review = ImportReview(self._workspace, self._dataset, path, name, self._choose)
        await review.begin()


def pasted_file(content: str, folder: Path) -> Path:
    """Write pasted text to a file: a table with tabs unchanged, otherwise each line as a question."""
    lines = content.strip("\r\n").splitlines()
    if "\t" in lines[0]:
        path = folder / "pasted.csv"
        path.write_text(content.strip("\r\n") + "\n", encoding="utf-8", newline="")
        return path
    path = folder / "pasted.jsonl"
    # Keep empty lines, so that errors name the right line.
    rows = (json.dumps({"question": question}) if (question := line.strip()) else "" for line in lines)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


class ImportReview:
    """The editable mapping of columns, and a preview of its result."""

    def __init__(
        self, workspace: Workspace, dataset: str, path: Path, name: str, start_over: Callable[[], object]
    ) -> None:
        self._workspace, self._dataset, self._name = workspace, dataset, name
        self._source = uploads.CaseFile(path)
        self._start_over = start_over
        self._latest = Latest()
        self._mapping: ColumnMapping | None = None
        self._parts = ui.element("div").classes("stack")
        with self._parts:
            self._columns = ui.element("div").props('tabindex=-1 role=group aria-label="Columns"')
        self._result = ui.element("div").props("aria-live=polite")

    async def begin(self) -> None:
        """Read the columns and show the result of the likely mapping; in a workbook, of the first sheet."""
        if self._source.path.suffix == ".xlsx":
            try:
                sheets = await to_thread.run_sync(uploads.sheets_of, self._workspace, self._source.path)
            except UserError as error:
                self._show_refusal(error)
                return
            self._source = replace(self._source, sheet=sheets[0])
            if len(sheets) > 1:
                self._offer(sheets)
        await self._read_columns()

    def _offer(self, sheets: Sequence[str]) -> None:
        async def choose() -> None:
            self._source = replace(self._source, sheet=picked.value)
            self._columns.clear()
            await self._read_columns()

        with self._parts, ui.element("div").classes("card stack") as card:
            picked = ui.select(list(sheets), label="Sheet", value=sheets[0], on_change=choose).props("outlined dense")
        card.move(target_index=0)

    async def _read_columns(self) -> None:
        is_latest = self._latest.begin()
        focus = f'requestAnimationFrame(() => document.getElementById("{self._columns.html_id}").focus())'
        with self._columns:  # the pressed button, and with it the focus, is gone
            ui.run_javascript(focus)
        try:
            columns = await to_thread.run_sync(uploads.columns_of, self._workspace, self._source)
            if not columns:
                raise UserError(Problem("the file has no rows"))
        except UserError as error:
            if is_latest():
                self._show_refusal(error)
            return
        if not is_latest():
            return
        with self._columns, ui.element("div").classes("card stack"):
            text(self._name, "h2")
            text("Choose what each column is. Other columns are kept as additional inputs.", "p", "muted small")
            self._mapping = ColumnMapping(columns, self.refresh)
        await self.refresh()

    async def refresh(self) -> None:
        """Show the result of the mapping."""
        fields = self._mapping.read() if self._mapping else None
        is_latest = self._latest.begin()
        self._result.clear()
        if fields is None:
            return
        with self._result:
            text("Reading…", "p", "muted section")
        try:
            examined = await to_thread.run_sync(
                uploads.examine_upload, self._workspace, self._dataset, self._source, fields
            )
        except UserError as error:
            if is_latest():
                self._show_refusal(error)
            return
        if is_latest():
            self._show(examined, fields)

    def _show_refusal(self, error: UserError) -> None:
        self._result.clear()
        with self._result, ui.element("div").classes("section stack"):
            problems = map(uploads.at_place_in_file, error.problems)
            named = [replace(one, where=": ".join(filter(None, (self._name, one.where)))) for one in problems]
            wrong = FaultSummary(named)
            with ui.element("div").classes("actions"):
                button("Start over", self._start_over)
        reveal(wrong, focus=True)

    def _show(self, examined: uploads.Examined, fields: Fields) -> None:
        self._result.clear()
        with self._result, ui.element("div").classes("section stack"):
            errors = f", {counted(len(examined.faulty), 'row')} with errors" if examined.faulty else ""
            text(f"{counted(examined.good)} ready{errors}", "h2")
            if examined.faulty:
                _row_errors(examined.problems)
            for note in examined.notes:
                text(note[0].upper() + note[1:], "p", "muted small")
            if examined.first:
                text("Preview of the first cases", "h3")
                with case_table():
                    for row in examined.first:
                        declared_row(row)
            with ui.element("div").classes("actions"):
                if examined.good:
                    label = f"Import {counted(examined.good)}"
                    importing = button(label, lambda: self._import(examined, fields, importing), kind="primary")
                if examined.faulty:
                    self._download_button(examined)
                button("Start over", self._start_over)

    async def _import(self, examined: uploads.Examined, fields: Fields, by: ui.button) -> None:
        skip = bool(examined.faulty)
        added = await forms.attempt(
            lambda: uploads.upload_cases(self._workspace, self._dataset, self._source, fields, skip_faulty=skip), by=by
        )
        if added is None:
            return
        if not skip:
            forms.leave(f"/datasets/{self._dataset}")
            return
        forms.saved()
        self._parts.clear()
        self._result.clear()
        with self._result, ui.element("div").classes("stack"):
            what = f"{counted(added)} {'was' if added == 1 else 'were'} added."
            message(what, f"{counted(len(examined.faulty), 'row')} of {self._name} left out.")
            with ui.element("div").classes("actions"):
                link_button("See the cases", f"/datasets/{self._dataset}", primary=True)
                self._download_button(examined)
                button("Add more", self._start_over)

    def _download_button(self, examined: uploads.Examined) -> None:
        async def download() -> None:
            ending = ".csv" if self._source.path.suffix in (".csv", ".xlsx") else ".jsonl"
            file = self._source.path.with_name(f"to_mend{ending}")

            def write() -> None:
                with file.open("w", encoding="utf-8", newline="") as opened:
                    opened.writelines(uploads.faulty_rows(self._workspace, self._source, examined.faulty))

            await to_thread.run_sync(write)
            ui.download.file(file, f"{self._dataset}_to_mend{ending}")

        button("Download the rows to fix", download)


def _row_errors(problems: Sequence[Problem]) -> None:
    place = ui.element("div").classes("faults")
    place.props('tabindex=0 role=region aria-label="Rows with errors"')
    with place, ui.element("table"), ui.element("tbody"):
        for problem in problems:
            with ui.element("tr"):
                text(problem.where, "th").props("scope=row")
                with ui.element("td"):
                    text(problem.what)
                    if problem.hint:
                        text(problem.hint, classes="small muted")
    if len(problems) >= uploads.SHOWN:
        text(f"The first {uploads.SHOWN} are shown.", classes="small muted")


_TYPED: dict[str, CellType] = {
    "Additional input: number": "number",
    "Additional input: true or false": "boolean",
    "Additional input: list": "list",
    "Additional input: JSON": "json",
}
"""Columns that are neither case fields nor text, by their name on the page."""
_RIVALS = {"question": "messages", "messages": "question"}
"""Both fields give the conversation, so a file can only use one of them."""


class ColumnMapping:
    """A row for each column: its name, an example, and the case field that it fills."""

    def __init__(self, columns: Sequence[uploads.Column], on_change: Callable[[], Any]) -> None:
        self._picks: dict[str, ui.select] = {}
        with ui.element("div").classes("mapping"):
            for column in columns:
                self._row(column, on_change)

    def read(self) -> dict[str, FieldValue] | None:
        """The column of each field and input; None if the choice is invalid (the error is shown at the column)."""
        fields: dict[str, FieldValue] = {}
        faults: dict[str, str] = {}
        for column, picked in self._picks.items():
            field = picked.value
            if field in _TYPED:
                fields[column] = FieldSource(column=column, type=_TYPED[field])
            elif field and field in fields:
                faults[column] = f"already used for column {fields[field]}"
            elif field:
                fields[field] = column
        for column, picked in self._picks.items():
            is_input = not picked.value or picked.value in _TYPED
            is_free = column not in _declared(fields) and _RIVALS.get(column) not in fields
            if column in FIELD_TITLES and is_input and is_free:
                faults[column] = "a column with this name is always that field; rename the column in the file"
            picked.error = faults.get(column)
        return None if faults else fields

    def _row(self, column: uploads.Column, on_change: Callable[[], Any]) -> None:
        with ui.element("div").classes("mapped"):
            with ui.element("div"):
                text(column.name or "(no name)", classes="mono")
                text(clipped(column.example) or "(empty)", classes="small muted line")
            named = {**FIELD_TITLES, "vars": "Additional inputs, as an object"}
            options = {"": "Additional input", **named, **{name: name for name in _TYPED}}
            picked = ui.select(options, value=column.field or "", on_change=on_change).props("outlined dense")
            picked.props["aria-label"] = f"What {column.name} is"
        self._picks[column.name] = picked


def _declared(fields: Mapping[str, FieldValue]) -> set[str]:
    """The case fields that columns are chosen for."""
    return {name for name, column in fields.items() if isinstance(column, str)}


_ENDINGS = (".xlsx", ".csv", ".tsv", ".jsonl", ".json")
_LARGEST = LARGEST_UPLOAD - 64 * 1024
"""Maximum size of a file in bytes; the rest of the request needs room too."""
_LIMIT = f"{LARGEST_UPLOAD >> 20} MB"
_DROP_SLOT = """
<div class="drop">
  <q-icon name="upload_file" aria-hidden="true"></q-icon>
  <q-btn class="button" unelevated no-caps :ripple="false" label="Choose a file" @click="props.pickFiles"></q-btn>
  <div hidden><q-uploader-add-trigger></q-uploader-add-trigger></div>
  <span class="muted small">or drop it here</span>
</div>
"""


def drop_zone(on_upload: Callable[[UploadEventArguments], Awaitable[None]]) -> None:
    """A file upload field; files that are too large or of another type are refused before they are sent."""

    def show_fault(what: str) -> None:
        faults.clear()
        with faults:
            text(what, classes="fault")

    def rejected(event: Any) -> None:
        name, size = event.args
        if size > _LARGEST:
            size_mb = f"{size / 2**20:,.0f} MB"
            show_fault(f"{name} has {size_mb}; at most {_LIMIT} can be uploaded. Split it, and upload the parts.")
        else:
            is_sheet = name.lower().endswith((".xls", ".xlsb", ".xlsm", ".ods", ".numbers"))
            how = " Save it as .xlsx, or copy its cells and paste them." if is_sheet else ""
            show_fault(f"{name} has the wrong file type; use one of {', '.join(_ENDINGS)}.{how}")

    upload = ui.upload(on_upload=on_upload, max_file_size=_LARGEST, max_files=1, auto_upload=True)
    upload.props(f"accept={','.join(_ENDINGS)} flat").classes("dropping")
    upload.add_slot("header", _DROP_SLOT)
    upload.add_slot("list", "<div></div>")
    upload.on("rejected", rejected, js_handler="(found) => emit([found[0].file.name, found[0].file.size])")
    upload.on("failed", lambda: show_fault(f"The upload failed; at most {_LIMIT} can be uploaded."), args=[])
    text(f"At most {_LIMIT}; {', '.join(_ENDINGS)}", classes="muted small")
    faults = ui.element("div").props("aria-live=assertive")
