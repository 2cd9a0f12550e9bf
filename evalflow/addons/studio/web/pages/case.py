"""One test case: its conversation, an answer example, and the checks beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.case_conversation import (
    AnswerExample,
    Conversation,
    ReferenceFields,
    ScenarioFields,
)
from evalflow.addons.studio.web.pages.cases import FIELD_TITLES, CaseSearch
from evalflow.addons.studio.web.pages.check_cards import CheckCards
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import UNDO, Edited, Saving, carry_out, confirmation
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.naming import TagField
from evalflow.addons.studio.web.ui.parts import badge, button, link_button, tell, text
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work import cases, tags
from evalflow.addons.studio.work.bots import list_bots
from evalflow.addons.studio.work.checks import Check, list_checks
from evalflow.addons.studio.work.datasets import dataset_id
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.errors import Problem


@guarded_page("/datasets/{dataset}/cases/new", "edit")
async def _new_page(workspace: Workspace, dataset: str) -> None:
    await to_thread.run_sync(dataset_id, workspace, dataset)
    around = await to_thread.run_sync(_surroundings, workspace)
    with frame("New case", place="Test cases", trail=[(title_of("dataset", dataset), f"/datasets/{dataset}")]):
        _CaseWriter(workspace, dataset, around)


@guarded_page("/datasets/{dataset}/cases/{case}")
async def _edit_page(
    workspace: Workspace, dataset: str, case: str, tag: str = "", text: str = "", state: str = ""
) -> None:
    if not case.isdecimal() or len(case) > 18:
        raise NotFoundError(Problem(f"there is no case {case!r}", "case"))
    search, number = CaseSearch(tag, text, state=state), int(case)
    stored = await to_thread.run_sync(cases.get_case, workspace, dataset, number)
    place = await to_thread.run_sync(lambda: cases.case_place(workspace, dataset, number, **search.filter))
    around = await to_thread.run_sync(_surroundings, workspace)
    back = search.around(place.before, number).path(dataset)
    after = search.around(place.before, place.next or place.previous).path(dataset)

    def leave(gone: cases.Deleted) -> None:
        forms.leave(f"{after}{'&' if '?' in after else '?'}{UNDO}={gone.trash}")

    trail = [(title_of("dataset", dataset), back)]
    with frame(case_title(stored.question, stored.body["id"]), place="Test cases", trail=trail) as actions:
        with actions:
            if stored.is_draft:
                badge("draft", "warn").props('title="Runs leave it out"')
            _neighbours(dataset, search, place)
            if may("edit"):
                delete = partial(carry_out, partial(cases.delete_cases, workspace, dataset, [number]), leave)
                asked = confirmation("Delete this case?", "Runs keep their own copies.", "Delete", delete)
                button("Delete", asked.open, kind="danger")
        _CaseEditor(workspace, dataset, stored, search, place, around)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Parts of the project that a case may use: reusable checks, bots whose judges may be asked, and tags."""

    checks: Mapping[str, Check]
    bots: Sequence[str]
    tags: Sequence[str]


def _surroundings(workspace: Workspace) -> _Surroundings:
    checks = {check.name: check for check in list_checks(workspace)}
    bots = [bot.name for bot in list_bots(workspace) if bot.origin == "workspace"]
    return _Surroundings(checks, bots, [tag for tag, _ in tags.project_tags(workspace)])


def _neighbours(dataset: str, search: CaseSearch, place: cases.CasePlace) -> None:
    text(f"{min(place.before + 1, place.total):,} of {place.total:,}", "span", "muted small")
    keys: dict[str, str] = {}
    for name, key, case in (("Previous case", "k", place.previous), ("Next case", "j", place.next)):
        if case is not None:
            keys[key] = search.case(dataset, case)
            link_button(name, keys[key]).props(f'title="Key {key}" aria-keyshortcuts={key}')
    for key, path in keys.items():
        # within a field the key types a letter
        ui.keyboard(
            lambda event, key=key, path=path: _go(event, key, path), ignore=["input", "select", "textarea", "button"]
        )


def _go(event: Any, key: str, path: str) -> None:
    modifiers = event.modifiers
    if event.action.keydown and event.key.name == key and not (modifiers.ctrl or modifiers.alt or modifiers.meta):
        ui.navigate.to(path)


class _CaseEditor:
    def __init__(
        self,
        workspace: Workspace,
        dataset: str,
        case: cases.StoredCase,
        search: CaseSearch,
        place: cases.CasePlace,
        around: _Surroundings,
    ) -> None:
        self._workspace, self._dataset, self._case = workspace, dataset, case
        self._may_edit = may("edit")  # asked here: what is removed leaves its handler without a place on the page
        with forms.form(locked=not self._may_edit, kept=True) as page:
            self._form = CaseForm(workspace, dataset, case, around, self._changed)
        if not self._may_edit:
            return
        after = search.case(dataset, place.next) if place.next is not None else ""
        with forms.save_bar(page, lambda: self._save(self._saver)):
            if case.is_draft:
                self._saver = button("Save draft", lambda: self._save(self._saver, draft=True))
                activating = button("Save and activate", lambda: self._save(activating, draft=False), kind="primary")
            else:
                self._saver = button("Save", lambda: self._save(self._saver), kind="primary")
            self._saver.props["title"] = "Ctrl+S"
            if after:
                going_on = button("Save and go to the next", lambda: self._save(going_on, after=after))
            if not case.is_draft:
                drafting = button("Make it a draft", lambda: self._save(drafting, draft=True), kind="quiet")
            self._state = text("Saved", "span", "muted small").props("role=status")
        read = partial(cases.get_case, workspace, dataset, case.id)
        self._saving = Saving(Edited(read, lambda stored: _named(stored.body), case), search.case(dataset, case.id))

    def _changed(self) -> None:
        if self._may_edit:
            self._state.set_text("Not saved yet")

    async def _save(self, by: ui.button, *, draft: bool | None = None, after: str = "") -> None:
        row = self._form.read()
        if row is None:
            return

        def done(saved: cases.StoredCase) -> None:
            if after or saved.is_draft != self._case.is_draft:
                forms.leave(after or f"/datasets/{self._dataset}/cases/{self._case.id}")
                return
            self._saving.renew(saved.version)
            self._state.set_text("Saved")
            forms.saved()

        await self._saving.save(
            lambda version: cases.update_case(self._workspace, self._dataset, self._case.id, version, row, draft=draft),
            _named(row),
            self._form.fields,
            by,
            done,
        )


def _named(body: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a case by the names of their fields."""
    return {FIELD_TITLES.get(key, key): value for key, value in body.items()}


class _CaseWriter:
    def __init__(self, workspace: Workspace, dataset: str, around: _Surroundings) -> None:
        self._workspace, self._dataset, self._around = workspace, dataset, around
        with forms.form(kept=True) as self._place:
            self._form = CaseForm(workspace, dataset, None, around, lambda: None)
        with forms.save_bar(self._place, lambda: self._save(self._saving)):
            self._saving = button("Save", lambda: self._save(self._saving), kind="primary")
            self._saving.props["title"] = "Ctrl+S"
            drafting = button("Save as draft", lambda: self._save(drafting, draft=True))
            self._going_on = button("Save and write another", self._save_on)
            link_button("Cancel", f"/datasets/{dataset}")

    async def _save(self, by: ui.button, *, draft: bool = False) -> None:
        if added := await self._add(by, draft=draft):
            place = await to_thread.run_sync(cases.case_place, self._workspace, self._dataset, added.id)
            forms.leave(CaseSearch().around(place.before, added.id).path(self._dataset))

    async def _save_on(self) -> None:
        if added := await self._add(self._going_on, draft=False):
            tell(f"“{case_title(added.question, added.body['id'])}” saved.")
            self._place.clear()
            with self._place:
                self._form = CaseForm(self._workspace, self._dataset, None, self._around, lambda: None)
            forms.saved()
            self._form.fields["question"].run_method("focus")

    async def _add(self, by: ui.button, *, draft: bool) -> cases.StoredCase | None:
        row = self._form.read()
        if row is None:
            return None
        work = partial(cases.add_case, self._workspace, self._dataset, row, draft=draft)
        return await forms.attempt(work, self._form.fields, by)


_ANSWER = forms.About(
    "Recorded answer", "An earlier answer of the bot; scored if the bot is not asked.", "40 pounds, I think."
)
_LABELS = {
    "expected": forms.About(
        "Expected label", "For bots that classify or retrieve: the true label, or a list of ids.", "allowed"
    ),
    "actual": forms.About("Recorded label", "The label or ids that the bot gave.", "refused"),
}
_GROUP = forms.About("Group", "Related cases, counted together in statistics.", "handbook")
_ID = forms.About("Id", "Shown in every table. Empty: made from the content.", "fees-017", code=True)
_WITHOUT_FIELD = {"labels": "labels", "failure": "why it has no answer"}


class CaseForm:
    """The form of a case, read as a row of JSON lines; keys without a field are kept."""

    def __init__(
        self,
        workspace: Workspace,
        dataset: str,
        case: cases.StoredCase | None,
        around: _Surroundings,
        on_change: Callable[[], object],
    ) -> None:
        body: Mapping[str, Any] = case.body if case else {}
        self._body, self._on_change = dict(body), on_change
        self._fields: dict[str, forms.Field] = {}
        self._checks: CheckCards | None = None
        self._scenario: ScenarioFields | None = None
        with ui.element("div").classes("studio"):
            with ui.element("div").classes("stack"):
                self._turns = Conversation(body.get("messages") or [], self._changed, self._is_simulated)
                self._references = ReferenceFields(body.get("reference"), self._changed)
                self._fields["reference"] = self._references.first
                self._example = AnswerExample(
                    workspace, dataset, case.id if case else None, body.get("demo_answer"), self._asked, self._changed
                )
                self._tags = TagField(body.get("tags") or [], around.tags, self._changed)
            with ui.element("div").classes("stack"):
                given: Sequence[Mapping[str, Any]] = body.get("checks") or ()
                self._checks = CheckCards(workspace, given, around.checks, around.bots, self._trial_row, self._changed)
        self._more(body)
        for field in self._fields.values():
            field.on_value_change(lambda _: self._changed())
        self._checks.try_soon()

    def _more(self, body: Mapping[str, Any]) -> None:
        """The fields for a simulated user, for metrics, and what is rarely needed."""
        self._scenario = ScenarioFields(body)
        self._scenario.on_change(self._turns.warn)
        self._fields |= self._scenario.fields
        with ui.expansion("Recorded answer and context", value=True).classes("more"):
            self._fields["answer"] = forms.area(_ANSWER, body.get("answer"))
            self._contexts = ContextFields(body.get("contexts"))
            help = "More inputs for prompts, used as vars.NAME."
            self._vars = forms.Pairs("Additional inputs", help, ("plan", "basic"), body.get("vars") or {})
        is_open = any(body.get(name) is not None for name in (*_LABELS, "metadata"))
        with ui.expansion("Id, group, labels and metadata", value=is_open).classes("more"):
            with forms.pair():
                self._fields["group"] = forms.line(_GROUP, body.get("group"))
                self._fields["id"] = forms.line(_ID, body.get("id"))
            with forms.pair():
                for name, about in _LABELS.items():
                    value = body.get(name)
                    self._fields[name] = forms.line(about, None if value is None else forms.as_text(value))
            help = "Extra data that the bot returned; JSONPath checks read it."
            self._metadata = forms.Pairs("Metadata", help, ("language", "en"), body.get("metadata") or {})
        kept = [about for name, about in _WITHOUT_FIELD.items() if body.get(name) is not None]
        if kept:
            text(f"It also has {' and '.join(kept)}, which are kept as they are.", "p", "aside")

    @property
    def fields(self) -> Mapping[str, forms.Field]:
        """The fields by key, to show errors at."""
        last = self._turns.last
        return {**self._fields, **self._example.fields, "tags": self._tags.field, "messages": last, "question": last}

    def _changed(self) -> None:
        self._on_change()
        if self._checks is not None:
            self._checks.try_soon()

    def _is_simulated(self) -> bool:
        return bool(self._body.get("scenario")) if self._scenario is None else self._scenario.is_given

    def _asked(self) -> dict[str, Any] | None:
        """The case to ask a bot about; None if its conversation is wrong, which it then shows."""
        messages = self._turns.read()
        if messages == []:
            self._turns.last.error = forms.REQUIRED
            return None
        kept = {key: value for key, value in self._body.items() if key in ("contexts", "vars", "metadata")}
        return None if messages is None else {**kept, "messages": messages}

    def _trial_row(self) -> dict[str, Any] | None:
        """The case to try checks on; None while the example cannot be read."""
        try:
            example = self._example.read()
        except ValueError:
            return None
        kept = ("contexts", "reference", "expected", "vars", "metadata", "answer")
        row = {key: self._body[key] for key in kept if key in self._body}
        return {**row, "messages": self._turns.messages(), **({"demo_answer": example} if example else {})}

    def read(self) -> dict[str, Any] | None:
        """The row; None if a field is invalid (the error is shown at the field)."""
        scenario, messages = cast("ScenarioFields", self._scenario).read(), self._turns.read()
        inputs, metadata = self._vars.read(), self._metadata.read()
        try:
            example = self._example.read()
        except ValueError:
            return None
        if scenario is None or messages is None or inputs is None or metadata is None:
            return None
        answer = str(self._fields["answer"].value or "")
        labels = {name: forms.written(self._fields[name]) for name in _LABELS}
        values: dict[str, Any] = {
            "id": forms.written(self._fields["id"]),
            "messages": messages or None,
            **scenario,
            "reference": self._references.read(),
            "answer": answer if answer.strip() else None,
            **{name: None if label is None else forms.as_value(label) for name, label in labels.items()},
            "contexts": self._contexts.read(),
            "vars": inputs or None,
            "metadata": metadata or None,
            "tags": self._tags.read() or None,
            "group": forms.written(self._fields["group"]),
            "demo_answer": example,
            "checks": cast("CheckCards", self._checks).read() or None,
        }
        return {name: value for name, value in {**self._body, **values}.items() if value is not None}


_PIECE = {
    "text": forms.About(
        "Text", "A passage, as given to the bot.", "The licence costs 40 pounds a year.", required=True
    ),
    "title": forms.About("Title", "The document's title.", "Fees"),
    "path": forms.About("Source", "A path or a URL.", "/guides/fees"),
}


class ContextFields:
    """The fields of the contexts. None means unknown; an empty list means that there are none."""

    def __init__(self, contexts: Sequence[Mapping[str, Any]] | None) -> None:
        self._is_known_empty = contexts is not None and not contexts
        self._pieces: list[Mapping[str, forms.Field]] = []
        with ui.element("fieldset").classes("field"):
            text("Context", "legend", "label")
            about = "The passages that the bot answers from. Metrics such as faithfulness compare the answer with them."
            text(about, classes="help")
            self._rows = ui.element("div").classes("stack pieces")
            for piece in contexts or ():
                self._add(piece)
            with ui.element("div").classes("actions"):
                button("Add a piece", lambda: self._add({}).run_method("focus"), icon="add")

    def read(self) -> list[dict[str, str]] | None:
        """The contexts that are not empty; None if unknown."""
        pieces: list[dict[str, str]] = []
        for fields in self._pieces:
            if forms.written(fields["text"]):
                piece = {
                    "text": fields["text"].value,
                    "title": forms.written(fields["title"]),
                    "path": forms.written(fields["path"]),
                }
                pieces.append({key: value for key, value in piece.items() if value})
        return pieces or ([] if self._is_known_empty else None)

    def _add(self, piece: Mapping[str, Any]) -> forms.Field:
        with self._rows, ui.element("div").classes("piece card") as row:
            fields: dict[str, forms.Field] = {"text": forms.area(_PIECE["text"], piece.get("text"))}
            with forms.pair():
                for key in ("title", "path"):
                    fields[key] = forms.line(_PIECE[key], piece.get(key))
            with ui.element("div").classes("actions"):
                button("Remove this piece", partial(self._remove, row, fields), kind="quiet", icon="close")
        self._pieces.append(fields)
        return fields["text"]

    def _remove(self, row: ui.element, fields: Mapping[str, forms.Field]) -> None:
        self._pieces.remove(fields)
        self._is_known_empty = False
        row.delete()
