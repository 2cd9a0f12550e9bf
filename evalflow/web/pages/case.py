"""One test case: write it or change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio import cases
from evalflow.app.studio.datasets import own_row
from evalflow.app.studio.space import NotFoundError, Workspace
from evalflow.errors import Problem
from evalflow.web.pages.cases import CaseSearch
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import Saving, State, confirmation
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import button, link_button, tell, text
from evalflow.web.ui.visitor import may


def add() -> None:
    """Register the pages."""

    @guarded_page("/datasets/{dataset}/cases/new", "edit")
    async def new(workspace: Workspace, dataset: str) -> None:
        await to_thread.run_sync(own_row, workspace, dataset)
        with frame("New case", place="Test cases", trail=[(dataset, f"/datasets/{dataset}")]):
            _CaseWriter(workspace, dataset)

    @guarded_page("/datasets/{dataset}/cases/{case}")
    async def edit(workspace: Workspace, dataset: str, case: str, tag: str = "", text: str = "") -> None:
        if not case.isdecimal() or len(case) > 18:
            raise NotFoundError(Problem(f"there is no case {case!r}", "case"))
        search, number = CaseSearch(tag, text), int(case)
        found = await to_thread.run_sync(cases.get_case, workspace, dataset, number)
        place = await to_thread.run_sync(lambda: cases.case_place(workspace, dataset, number, **search.filter))
        back = search.around(place.before, number).path(dataset)
        after = search.around(place.before, place.next or place.previous).path(dataset)

        async def delete() -> None:
            gone = await forms.attempt(lambda: cases.delete_cases(workspace, dataset, [number]))
            if gone is not None:
                forms.leave(f"{after}{'&' if '?' in after else '?'}undo={gone.trash}")

        with frame(f"Case {found.body['id']}", place="Test cases", trail=[(dataset, back)]) as actions:
            with actions:
                _neighbours(dataset, search, place)
                if may("edit"):
                    asked = confirmation("Delete this case?", "Runs keep their own copies.", "Delete", delete)
                    button("Delete", asked.open, kind="danger")
            _CaseEditor(workspace, dataset, found, search, place, back)


def _neighbours(dataset: str, search: CaseSearch, place: cases.CasePlace) -> None:
    text(f"{min(place.before + 1, place.total):,} of {place.total:,}", "span", "muted small")
    for name, case in (("Previous case", place.previous), ("Next case", place.next)):
        if case is not None:
            link_button(name, search.case(dataset, case))


class _CaseEditor:
    def __init__(
        self,
        workspace: Workspace,
        dataset: str,
        case: cases.StoredCase,
        search: CaseSearch,
        place: cases.CasePlace,
        back: str,
    ) -> None:
        self._workspace, self._dataset, self._case = workspace, dataset, case
        with forms.form(locked=not may("edit")):
            self._form = CaseForm(case.body)
        if not may("edit"):
            return
        with ui.element("div").classes("section actions"):
            saving = button("Save", lambda: self._save(saving, back), kind="primary")
            if place.next is not None:
                after = search.case(dataset, place.next)
                going_on = button("Save and go to the next", lambda: self._save(going_on, after))
            link_button("Cancel", back)
        self._saving = Saving[cases.StoredCase](self._stored, case.version, search.case(dataset, case.id))

    def _stored(self) -> State:
        found = cases.get_case(self._workspace, self._dataset, self._case.id)
        return found.body, found.version

    async def _save(self, by: ui.button, after: str) -> None:
        row = self._form.read()
        if row is not None:
            await self._saving.save(
                lambda version: cases.update_case(self._workspace, self._dataset, self._case.id, version, row),
                row,
                self._form.fields,
                by,
                lambda _: forms.leave(after),
            )


class _CaseWriter:
    def __init__(self, workspace: Workspace, dataset: str) -> None:
        self._workspace, self._dataset = workspace, dataset
        with forms.form() as self._place:
            self._form = CaseForm({})
        with ui.element("div").classes("section actions"):
            self._saving = button("Save", self._save, kind="primary")
            self._going_on = button("Save and write another", self._save_on)
            link_button("Cancel", f"/datasets/{dataset}")

    async def _save(self) -> None:
        if added := await self._add(self._saving):
            place = await to_thread.run_sync(cases.case_place, self._workspace, self._dataset, added.id)
            forms.leave(CaseSearch().around(place.before, added.id).path(self._dataset))

    async def _save_on(self) -> None:
        if added := await self._add(self._going_on):
            tell(f"Case {added.body['id']} saved.")
            self._place.clear()
            with self._place:
                self._form = CaseForm({})
            forms.saved()
            self._form.fields["question"].run_method("focus")

    async def _add(self, by: ui.button) -> cases.StoredCase | None:
        row = self._form.read()
        if row is None:
            return None
        return await forms.attempt(lambda: cases.add_case(self._workspace, self._dataset, row), self._form.fields, by)


_TEXTS = {
    "reference": forms.About("Expected answer", "The ideal answer.", "It costs 40 pounds a year."),
    "answer": forms.About(
        "Recorded answer", "An earlier answer of the bot; scored if the bot is not asked.", "40 pounds, I think."
    ),
}
_LABELS = {
    "expected": forms.About(
        "Expected label", "For bots that classify or retrieve: the true label, or a list of ids.", "allowed"
    ),
    "actual": forms.About("Recorded label", "The label or ids that the bot gave.", "refused"),
}
_TAGS = forms.About("Tags", "Separate with ;, sub-tags with >.", "Fees > Refunds; hard")
_GROUP = forms.About("Group", "Related cases, counted together in statistics.", "handbook")
_ID = forms.About("Id", "Shown in every table. Empty: made from the content.", "fees-017", code=True)
_WITHOUT_FIELD = {
    "checks": "checks",
    "labels": "labels",
    "demo_answer": "an example answer",
    "failure": "why it has no answer",
}


class CaseForm:
    """The fields of a case, read as a row of JSON lines; keys without a field are kept."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = dict(body)
        self._fields: dict[str, forms.Field] = {}
        self._messages = MessageFields(body.get("messages") or [])
        with forms.fieldset("A good answer", "group"):
            for name, about in _TEXTS.items():
                self._fields[name] = forms.area(about, body.get(name))
        self._contexts = ContextFields(body.get("contexts"))
        help = "More inputs for prompts, used as vars.NAME."
        self._vars = forms.Pairs("Additional inputs", help, ("plan", "basic"), body.get("vars") or {})
        with forms.fieldset("Tags and group", "group"):
            self._fields["tags"] = forms.line(_TAGS, "; ".join(body.get("tags") or []))
            with forms.pair():
                self._fields["group"] = forms.line(_GROUP, body.get("group"))
                self._fields["id"] = forms.line(_ID, body.get("id"))
        is_open = any(body.get(name) is not None for name in (*_LABELS, "metadata"))
        with ui.expansion("Labels and metadata", value=is_open):
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
        return {**self._fields, "messages": self._messages.last, "question": self._messages.last}

    def read(self) -> dict[str, Any] | None:
        """The row; None if a field is invalid (the error is shown at the field)."""
        messages, inputs, metadata = self._messages.read(), self._vars.read(), self._metadata.read()
        if messages is None or inputs is None or metadata is None:
            return None
        texts = {name: str(self._fields[name].value or "") for name in _TEXTS}
        labels = {name: forms.written(self._fields[name]) for name in _LABELS}
        values: dict[str, Any] = {
            "id": forms.written(self._fields["id"]),
            "messages": messages or None,
            **{name: content if content.strip() else None for name, content in texts.items()},
            **{name: None if label is None else forms.as_value(label) for name, label in labels.items()},
            "contexts": self._contexts.read(),
            "vars": inputs or None,
            "metadata": metadata or None,
            "tags": forms.written(self._fields["tags"]),
            "group": forms.written(self._fields["group"]),
        }
        return {name: value for name, value in {**self._body, **values}.items() if value is not None}


MessageRow = Mapping[str, Any]
_WAYS = (
    forms.FormOption("question", "A question", "One message to answer.", "help_outline"),
    forms.FormOption("conversation", "A conversation", "Turns of user and bot; the bot answers the last one.", "forum"),
)
_QUESTION = forms.About(
    "Question", "The question, as a user would ask it.", "What does the licence cost?", required=True
)
_SAYS = forms.About("Says", "The text of the message.", "What does the licence cost?", required=True)
_ROLES = {"user": "User", "assistant": "Bot", "system": "System"}


@dataclass(frozen=True, slots=True)
class _Turn:
    row: ui.element
    role: ui.select | None
    content: forms.Field
    before: MessageRow

    def read(self) -> MessageRow:
        """The message; keys other than role and content are kept."""
        role = self.role.value if self.role else "user"
        return {**self.before, "role": role, "content": self.content.value or ""}


class MessageFields:
    """The fields of a question or a conversation."""

    def __init__(self, messages: Sequence[MessageRow]) -> None:
        self._before = list(messages)
        self._messages = list(messages) or [{"role": "user", "content": ""}]
        self._turns: list[_Turn] = []
        is_single = len(messages) < 2 and all(message["role"] == "user" for message in messages)
        self._way = "question" if is_single else "conversation"
        forms.choices("What is asked", _WAYS, self._way, self._choose)
        self._place = ui.element("div").classes("stack")
        self._fill()

    @property
    def last(self) -> forms.Field:
        """The field of the last turn."""
        return self._turns[-1].content

    def read(self) -> list[MessageRow] | None:
        """The messages; None if one is invalid (the error is shown at its field)."""
        messages = [turn.read() for turn in self._turns]
        for turn in self._turns:
            turn.content.error = None
        if messages == self._before:  # a file may have them in an unusual order
            return messages
        empty = [(i, "is required") for i, message in enumerate(messages) if not message["content"].strip()]
        faults = empty or cases.irregular_turns(messages)
        for number, what in faults:
            self._turns[number].content.error = what
        if faults:
            self._turns[faults[0][0]].content.run_method("focus")
            return None
        return messages

    def _choose(self, way: str) -> None:
        messages = [turn.read() for turn in self._turns]
        if self._way == "question":  # the turns before the question are kept
            messages = [*self._messages[: self._question_at()], *messages]
        self._messages, self._way = messages, way
        self._fill()

    def _question_at(self) -> int:
        return max((i for i, message in enumerate(self._messages) if message["role"] == "user"), default=0)

    def _fill(self) -> None:
        self._turns.clear()
        self._place.clear()
        with self._place:
            if self._way == "question":
                message = self._messages[self._question_at()]
                self._turns.append(_Turn(self._place, None, forms.area(_QUESTION, message["content"]), message))
                return
            self._rows = ui.element("div").classes("stack")
            for message in self._messages:
                self._add(message)
            with ui.element("div").classes("actions"):
                button("Add a turn", self._add_next, icon="add")

    def _add(self, message: MessageRow) -> None:
        with self._rows, ui.element("div").classes("turn") as row:
            roles = {message["role"]: message["role"], **_ROLES}
            role = forms.pick(forms.About("Who", "Whose turn it is.", required=True), roles, message["role"])
            turn = _Turn(row, role, forms.area(_SAYS, message["content"]), message)
            remove = button("", lambda: self._remove(turn), kind="quiet", icon="close")
            remove.props('aria-label="Remove this turn"')
        self._turns.append(turn)

    def _add_next(self) -> None:
        is_bots = self._turns[-1].read()["role"] == "user"
        self._add({"role": "assistant" if is_bots else "user", "content": ""})
        self.last.run_method("focus")

    def _remove(self, turn: _Turn) -> None:
        if len(self._turns) > 1:
            self._turns.remove(turn)
            turn.row.delete()


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
