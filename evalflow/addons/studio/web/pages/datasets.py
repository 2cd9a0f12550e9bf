"""The datasets: the list, the form, and one dataset with its test cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.cases import (
    PAGE_SIZE,
    CaseBrowser,
    CaseList,
    CaseSearch,
    case_table,
    declared_row,
    number_of,
)
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Saving, delete_button, edited, work_button
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.naming import TitleField
from evalflow.addons.studio.web.ui.parts import (
    READY_TO_USE,
    Tone,
    badge,
    button,
    card,
    empty,
    link_button,
    section,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work import datasets
from evalflow.addons.studio.work.answer_examples import fill_examples, lacking_examples
from evalflow.addons.studio.work.cases import copy_dataset, dataset_tags
from evalflow.addons.studio.work.definitions import taken_names
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import counted

_TRAIL = [("Test cases", "/datasets")]


@guarded_page("/datasets")
async def _listed_page(workspace: Workspace) -> None:
    available = await to_thread.run_sync(datasets.list_datasets, workspace)
    own = [dataset for dataset in available if dataset.origin == "workspace"]
    about = "The questions for your bots, with what is expected. A dataset is a set of cases."
    with frame("Test cases", place="Test cases", about=about) as actions:
        if may("edit"):
            with actions:
                link_button("Paste a bad answer", "/bad-answer")
                if own:
                    link_button("New dataset", "/datasets/new", primary=True)
        if own:
            _cards(own)
        elif not may("edit"):
            empty("checklist", "No test cases yet", "Editors of the project collect them.")
        else:
            about = "Start with a few real questions. Paste them, upload a file, or write them here."
            empty("checklist", "Collect your first test cases", about, ("New dataset", "/datasets/new"))
        with section("Ready to use", "Samples, and what files of this server declare. Copy one to change it."):
            _cards([dataset for dataset in available if dataset.origin == "conf"])


@guarded_page("/datasets/new", "edit")
async def _new_page(workspace: Workspace, source: str = "") -> None:
    copied = await to_thread.run_sync(datasets.get_dataset, workspace, source) if source else None
    taken = await to_thread.run_sync(taken_names, workspace, datasets.DATASETS)
    with frame(f"Copy of {copied.title}" if copied else "New dataset", place="Test cases", trail=_TRAIL):
        _DatasetEditor(workspace, None, copied, taken)


@guarded_page("/datasets/{dataset}/edit", "edit")
async def _edit_page(workspace: Workspace, dataset: str) -> None:
    details = await to_thread.run_sync(datasets.get_dataset, workspace, dataset)
    trail = [(details.title, f"/datasets/{details.name}")]
    with frame(f"Edit {details.title}", place="Test cases", trail=trail):
        _DatasetEditor(workspace, details, None)


@guarded_page("/datasets/{dataset}")
async def _one_page(
    workspace: Workspace,
    dataset: str,
    tag: str = "",
    text: str = "",
    first: str = "",
    row: str = "",
    state: str = "",
) -> None:
    search = CaseSearch(tag, text, number_of(first), number_of(row) or None, state)
    details = await to_thread.run_sync(datasets.get_dataset, workspace, dataset)
    if details.origin == "conf":
        _declared(workspace, details, search, await to_thread.run_sync(_declared_page, workspace, dataset, search))
        return
    await _own(workspace, details, search)


async def _own(workspace: Workspace, details: datasets.Dataset, search: CaseSearch) -> None:
    tags = await to_thread.run_sync(dataset_tags, workspace, details.name)
    with frame(details.title, place="Test cases", about=details.description, trail=_TRAIL) as actions:
        with actions:
            _actions(workspace, details)
        if details.cases:
            await _offer_examples(workspace, details.name)
            await CaseList(workspace, details.name, tags, search).refresh()
        elif not may("edit"):
            empty("playlist_add", "No test cases yet", "Editors of the project add them.")
        else:
            about = "Paste questions or a table, upload an Excel, CSV or JSON lines file, or write one case by hand."
            steps = (
                ("Paste or upload", f"/datasets/{details.name}/add"),
                ("Write one", f"/datasets/{details.name}/cases/new"),
            )
            empty("playlist_add", "No test cases yet", about, *steps)


async def _offer_examples(workspace: Workspace, dataset: str) -> None:
    """Offer the answers of the latest run to cases without an answer example."""
    missing, latest = await to_thread.run_sync(lacking_examples, workspace, dataset)
    if latest is None or not may("edit"):
        return

    def filled(number: int) -> None:
        tell(f"{counted(number)} got an answer example.")
        offer.delete()

    with ui.element("div").classes("offer") as offer:
        have = "case has" if missing == 1 else "cases have"
        text(f"{missing:,} {have} no answer example to try checks on.", "span")
        fill = partial(fill_examples, workspace, dataset, latest.run_id)
        work_button(f"Take the answers of {latest.title or latest.run_id}", fill, filled)


def _cards(shown: list[datasets.Dataset]) -> None:
    with ui.element("div").classes("cards"):
        for dataset in shown:
            badges: list[tuple[str, Tone]] = [] if dataset.cases is None else [(counted(dataset.cases), "accent")]
            if dataset.drafts:
                badges.append((counted(dataset.drafts, "draft"), "warn"))
            if dataset.origin == "conf":
                badges.append((READY_TO_USE, ""))
            card(dataset.title, f"/datasets/{dataset.name}", dataset.description, badges)


def _declared(
    workspace: Workspace, dataset: datasets.Dataset, search: CaseSearch, page: datasets.FoundCases[datasets.CaseRow]
) -> None:
    with frame(dataset.title, place="Test cases", about=dataset.description, trail=_TRAIL) as actions:
        with actions:
            if may("edit"):
                link_button("Copy", f"/datasets/new?source={dataset.name}", primary=True)
            _export_link(dataset)
        with ui.element("div").classes("origin"):
            badge("from files of this server, read-only")
        DeclaredList(workspace, dataset.name, search, page)


def _actions(workspace: Workspace, dataset: datasets.Dataset) -> None:
    if not may("edit"):
        _export_link(dataset)
        return
    if dataset.cases:
        link_button("Add cases", f"/datasets/{dataset.name}/add", primary=True)
        link_button("Write one", f"/datasets/{dataset.name}/cases/new")
        link_button("Run them", f"/runs/new?dataset={dataset.name}")
        _export_link(dataset)
    link_button("Edit", f"/datasets/{dataset.name}/edit")
    link_button("Copy", f"/datasets/new?source={dataset.name}")
    seen = edited(
        datasets.get_dataset, workspace, lambda now: {**_content(now), "cases": counted(now.cases or 0)}, dataset
    )
    about = f"Its {counted(dataset.cases or 0)} are deleted too; runs keep their own copies."
    delete = partial(datasets.delete_dataset, workspace, dataset.name)
    delete_button(seen, dataset.title, about, delete, "/datasets")


def _content(dataset: datasets.Dataset) -> dict[str, str]:
    return {"title": dataset.title, "description": dataset.description, "reply": _REPLIES[dataset.generates]}


def _export_link(dataset: datasets.Dataset) -> None:
    link = link_button("Export as JSON lines", f"/api/v1/datasets/{dataset.name}/export")
    link.props(f'download="{dataset.name}.jsonl" title="All cases as JSON lines, which load again as a dataset"')


class DeclaredList(CaseBrowser[datasets.CaseRow]):
    """The cases of a dataset of conf/; the first page is passed in."""

    def __init__(
        self, workspace: Workspace, dataset: str, search: CaseSearch, page: datasets.FoundCases[datasets.CaseRow]
    ) -> None:
        self._workspace = workspace
        super().__init__(dataset, page.tags, search)
        self.show(page)

    def _read(self, search: CaseSearch, is_wanted: Callable[[], bool]) -> datasets.FoundCases[datasets.CaseRow]:
        return _declared_page(self._workspace, self._dataset, search, is_wanted)

    def _table(self, items: Sequence[datasets.CaseRow]) -> None:
        with case_table():
            for row in items:
                declared_row(row)


def _declared_page(
    workspace: Workspace, dataset: str, search: CaseSearch, is_wanted: Callable[[], bool] = lambda: True
) -> datasets.FoundCases[datasets.CaseRow]:
    return datasets.declared_page(workspace, dataset, search.first, PAGE_SIZE, **search.arguments, is_wanted=is_wanted)


_REPLIES = {"answer": "A text", "actual": "A label, or a list of ids"}
_DESCRIPTION = forms.About("Description", "One sentence on what the cases ask.", "Questions on fees, from last year.")
_REPLY = forms.About(
    "A bot's reply is",
    "Most bots reply with a text; a bot that classifies or retrieves replies with a label or ids.",
    required=True,
)


class _DatasetEditor:
    """The form of a dataset: a stored one, a copy, or a new one (whose name must not be in `taken`)."""

    def __init__(
        self,
        workspace: Workspace,
        stored: datasets.Dataset | None,
        copied: datasets.Dataset | None,
        taken: Collection[str] = (),
    ) -> None:
        self._workspace, self._stored, self._copied = workspace, stored, copied
        shown = stored or copied
        with forms.form(kept=True):
            title, name = (stored.title, stored.name) if stored else ("", "")
            self._title = TitleField("dataset", "Questions on fees", taken, title, name)
            self._fields = dict(self._title.fields)
            if copied is None:
                self._description = forms.area(_DESCRIPTION, stored.description if stored else "")
                self._reply = forms.pick(_REPLY, _REPLIES, stored.generates if stored else "answer")
                self._fields |= {"dataset.description": self._description, "dataset.generates": self._reply}
            with ui.element("div").classes("actions"):
                label = "Save" if stored else "Copy" if copied else "Create"
                self._button = button(label, self._save, kind="primary")
                link_button("Cancel", f"/datasets/{shown.name}" if shown else "/datasets")
        seen = edited(datasets.get_dataset, workspace, _content, stored)
        self._saving = Saving(seen, f"/datasets/{name}/edit")

    async def _save(self) -> None:
        with forms.faults_shown(self._fields):
            name, title = self._title.read(self._fields)
            work: Callable[[int], datasets.Dataset]
            if self._copied:
                source, mine = self._copied.name, {}
                work = lambda _: copy_dataset(self._workspace, source, name, title)  # noqa: E731
            else:
                about, kind = forms.written(self._description) or "", self._reply.value
                mine = {"title": title, "description": about, "reply": _REPLIES[kind]}
                if self._stored:
                    work = lambda version: datasets.update_dataset(  # noqa: E731
                        self._workspace, name, version, title=title, description=about, generates=kind
                    )
                else:
                    work = lambda _: datasets.create_dataset(self._workspace, name, about, kind, title)  # noqa: E731
            await self._saving.save(
                work, mine, self._fields, self._button, lambda dataset: forms.leave(f"/datasets/{dataset.name}")
            )
