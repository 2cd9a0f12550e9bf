"""The tags of all test cases: their uses, and renaming a tag everywhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import dialog, open_once, undo_bar
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import (
    Latest,
    address,
    button,
    cell,
    empty,
    link_button,
    message,
    table,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.tags import ProjectTag, TagRename, list_tags, plan_rename, rename_tag, spellings
from evalflow.errors import EvalflowError
from evalflow.report.wording import counted

_ABOUT = "Names on test cases, to filter, run and compare by. A sub-tag belongs to the tag before its >."
_SEARCH = forms.About("Search", "Part of a tag.", "refund")
_SEARCHED = 12
"""A search field is shown from this number of tags on."""
_SHOWN = 200
"""Maximum number of rows."""


@guarded_page("/tags")
async def _listed_page(workspace: Workspace) -> None:
    tags = await to_thread.run_sync(list_tags, workspace)
    with frame("Tags", place="Tags", about=_ABOUT):
        _TagList(workspace, tags)


class _TagList:
    """The tags as a table. `tags` are those of the project."""

    def __init__(self, workspace: Workspace, tags: Sequence[ProjectTag]) -> None:
        self._workspace, self._tags = workspace, tags
        self._search: ui.input | None = None
        self._place = ui.element("div")
        self._alike = ui.element("div").classes("alike")
        if len(tags) >= _SEARCHED:
            with ui.element("div").classes("filters"):
                self._search = forms.line(_SEARCH)
            self._search.props("debounce=300 clearable type=search").on_value_change(lambda _: self._show())
        self._rows = ui.element("div")
        self._show()

    async def refresh(self) -> None:
        """Read the tags again and show them."""
        self._tags = await to_thread.run_sync(list_tags, self._workspace)
        self._show()

    def _show(self) -> None:
        self._alike.clear()
        self._rows.clear()
        with self._alike:
            self._show_alike()
        wanted = str(self._search.value or "").strip().casefold() if self._search else ""
        matches = [one for one in self._tags if wanted in one.tag.casefold()]
        with self._rows:
            if not self._tags:
                with empty("sell", "No tags yet", "Tag test cases on their pages, many at once on a dataset's page."):
                    link_button("To the test cases", "/datasets")
                return
            if not matches:
                text("No matching tags.", "p", "muted").props("role=status")
                return
            with table(("Tag", "Cases", "Datasets", ""), "table stacked tag-list"):
                for one in matches[:_SHOWN]:
                    self._row(one)
            if len(matches) > _SHOWN:
                text(f"The first {_SHOWN} of {len(matches):,} tags. Search for the others.", "p", "muted small")

    def _show_alike(self) -> None:
        alike = spellings(self._tags) if may("edit") else []
        if not alike:
            return
        with ui.element("section").classes("card stack"):
            text("Spelled in several ways", "h2")
            for most, *others in alike:
                for other in others:
                    with ui.element("div").classes("spelled"):
                        text(f"{other.tag} ({counted(other.cases)}), {most.tag} ({counted(most.cases)})", "span")
                        button(f"Merge into {most.tag}", partial(self._rename, other.tag, most.tag))

    def _row(self, one: ProjectTag) -> None:
        *parents, name = one.tag.split(" > ")
        with ui.element("tr"):
            with ui.element("th").props("scope=row") as head:
                head.style(f"--level: {len(parents)}")
                if parents:
                    text(f"{' > '.join(parents)} > ", "span", "muted small")
                text(name, "span", "name")
            cell("Cases", f"{one.cases:,}")
            with cell("Datasets", classes=""), ui.element("div").classes("badges"):
                for dataset, number in one.datasets.items():
                    path = address(f"/datasets/{dataset}", {"tag": one.tag})
                    ui.link(f"{title_of('dataset', dataset)} ({number:,})", path)
            with cell("", classes="row-actions"):
                if may("edit"):
                    made = button("Rename", partial(self._rename, one.tag, one.tag), kind="quiet")
                    made.props["aria-label"] = f"Rename {one.tag}"

    def _rename(self, tag: str, proposed: str) -> None:
        with self._place:
            _RenameDialog(self._workspace, tag, proposed, self._renamed)

    async def _renamed(self, done: TagRename) -> None:
        await self.refresh()
        what = f"{done.old} is now {done.new}: {counted(done.cases)} changed."

        async def undo(by: ui.button) -> bool:
            reverted = await forms.attempt(lambda: rename_tag(self._workspace, done.new, done.old), by=by)
            if reverted is not None:
                await self.refresh()
            return reverted is not None

        with self._place:  # the dialog with the button is gone
            if done.merged:
                tell(what)
            else:
                undo_bar(what, undo)


class _RenameDialog:
    """Asks for a tag's new name and shows the effect during typing; a merge must be confirmed."""

    def __init__(
        self, workspace: Workspace, tag: str, proposed: str, on_done: Callable[[TagRename], Awaitable[None]]
    ) -> None:
        self._workspace, self._tag, self._on_done = workspace, tag, on_done
        self._latest = Latest()
        self._asked_to_merge = ""
        with dialog(f"Rename {tag}") as self._dialog:
            about = forms.About("New name", "Sub-tags move with it. Separate levels with >.", tag, required=True)
            self._field = forms.line(about, proposed)
            self._field.props("autofocus debounce=250 dir=auto")
            self._feedback = ui.element("div").classes("stack").props("aria-live=polite")
            with ui.element("div").classes("actions"):
                self._button = button("Rename", self._confirmed, kind="primary")
                button("Cancel", self._dialog.close)
        self._field.on_value_change(self._typed)
        self._field.on("keydown.enter", self._confirmed)
        self._dialog.on("show", self._typed, args=[])
        open_once(self._dialog)

    async def _typed(self) -> None:
        is_latest, name = self._latest.begin(), str(self._field.value or "")
        self._field.error = None
        self._asked_to_merge = ""
        plan: TagRename | None = None
        if name.strip() and name != self._tag:
            try:
                plan = await to_thread.run_sync(plan_rename, self._workspace, self._tag, name)
            except EvalflowError as error:
                forms.show(error, {"new": self._field})
        if is_latest():
            self._show(plan)

    def _show(self, plan: TagRename | None) -> None:
        self._feedback.clear()
        self._button.set_text("Merge" if plan and plan.merged else "Rename")
        if plan is None:
            return
        self._asked_to_merge = plan.new if plan.merged else ""
        with self._feedback:
            others = len(plan.tags) - 1
            below = f", with {counted(others, 'sub-tag')}" if others else ""
            text(f"{counted(plan.cases)} will have {plan.new}{below}. Runs keep the tags that they had.", "p", "small")
            if plan.merged:
                there = ", ".join(f"{name} ({counted(number)})" for name, number in plan.merged.items())
                message(f"There already is {there}. The tags become one, which cannot be undone.", tone="warn")
            if plan.metrics:
                hint = "Change it there too."
                message(f"These metrics name the old tag in their YAML: {', '.join(plan.metrics)}.", hint, "warn")

    async def _confirmed(self) -> None:
        if forms.required(self._field) is None:
            return
        name, may_merge = str(self._field.value), self._asked_to_merge
        fields = {"new": self._field}
        plan = await forms.attempt(partial(plan_rename, self._workspace, self._tag, name), fields)
        if plan is None:
            return
        if plan.merged and may_merge != plan.new:
            self._show(plan)
            return
        work = partial(rename_tag, self._workspace, self._tag, name, merge=bool(plan.merged))
        done = await forms.attempt(work, fields, self._button)
        if done is not None:
            self._dialog.close()
            await self._on_done(done)
