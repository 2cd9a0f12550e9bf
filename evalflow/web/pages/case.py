"""One test case: write it or change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.cases import CasePlace, StoredCase, add_case, case_place, delete_cases, get_case, update_case
from evalflow.app.studio.datasets import own_row
from evalflow.app.studio.space import NotFoundError, Workspace
from evalflow.errors import Problem
from evalflow.web.pages.case_fields import Pieces, Turns
from evalflow.web.pages.cases import Sought
from evalflow.web.pages.datasets import PLACE
from evalflow.web.ui.dialogs import Saving, confirmation, form, leave, saved
from evalflow.web.ui.fields import Pairs, as_text, as_value
from evalflow.web.ui.frame import frame, guarded_page
from evalflow.web.ui.parts import About, Field, area, attempt, button, fieldset, line, link_button, tell, text, written

_TEXTS = {
    "reference": About("Expected answer", "The ideal answer.", "It costs 40 pounds a year."),
    "answer": About(
        "Recorded answer",
        "An earlier answer of the bot; scored if the bot is not asked.",
        "40 pounds, I think.",
    ),
}
_LABELS = {
    "expected": About(
        "Expected label", "For bots that classify or retrieve: the true label, or a list of ids.", "allowed"
    ),
    "actual": About("Recorded label", "The label or ids that the bot gave.", "refused"),
}
_TAGS = About("Tags", "Separate with ;, sub-tags with >.", "Fees > Refunds; hard")
_GROUP = About("Group", "Related cases, counted together in statistics.", "handbook")
_ID = About("Id", "Shown in every table. Empty: made from the content.", "fees-017", code=True)
_UNSEEN = {
    "checks": "checks",
    "labels": "labels",
    "demo_answer": "an example answer",
    "failure": "why it has no answer",
}


class CaseForm:
    """The fields, and what they say as a row of JSON lines.

    Args:
        body: To begin with. Fields that have no place here are kept as they are.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = dict(body)
        self.fields: dict[str, Field] = {}
        self._turns = Turns(body.get("messages") or [])
        with fieldset("A good answer", "group"):
            for name, about in _TEXTS.items():
                self.fields[name] = area(about, body.get(name))
        self._contexts = Pieces(body.get("contexts"))
        help = "More inputs for prompts, used as vars.NAME."
        self._vars = Pairs("Additional inputs", help, ("plan", "basic"), body.get("vars") or {})
        with fieldset("Tags and group", "group"):
            self.fields["tags"] = line(_TAGS, "; ".join(body.get("tags") or []))
            with ui.element("div").classes("pair"):
                self.fields["group"] = line(_GROUP, body.get("group"))
                self.fields["id"] = line(_ID, body.get("id"))
        with ui.expansion(
            "Labels and metadata", value=any(body.get(name) is not None for name in (*_LABELS, "metadata"))
        ):
            with ui.element("div").classes("pair"):
                for name, about in _LABELS.items():
                    value = body.get(name)
                    self.fields[name] = line(about, None if value is None else as_text(value))
            help = "Extra data that the bot returned; JSONPath checks read it."
            self._metadata = Pairs("Metadata", help, ("language", "en"), body.get("metadata") or {})
        kept = [said for name, said in _UNSEEN.items() if body.get(name) is not None]
        if kept:
            text(f"It also has {' and '.join(kept)}, which are kept as they are.", "p", "aside")

    def read(self) -> dict[str, Any] | None:
        """The row; None where something cannot be read, which is shown beside it."""
        messages, inputs, metadata = self._turns.read(), self._vars.read(), self._metadata.read()
        if messages is None or inputs is None or metadata is None:
            return None
        values: dict[str, Any] = {
            "id": written(self.fields["id"]),
            "messages": messages or None,
            **{name: self._text(name) for name in _TEXTS},
            **{name: self._label(name) for name in _LABELS},
            "contexts": self._contexts.read(),
            "vars": inputs or None,
            "metadata": metadata or None,
            "tags": written(self.fields["tags"]),
            "group": written(self.fields["group"]),
        }
        return {name: value for name, value in {**self._body, **values}.items() if value is not None}

    def focus(self) -> None:
        """Go to what is asked with the cursor."""
        self._turns.last.run_method("focus")

    @property
    def places(self) -> Mapping[str, Field]:
        """The field of each key, for faults."""
        return {**self.fields, "messages": self._turns.last, "question": self._turns.last}

    def _text(self, name: str) -> str | None:
        said = str(self.fields[name].value or "")
        return said if said.strip() else None

    def _label(self, name: str) -> Any:
        said = written(self.fields[name])
        return None if said is None else as_value(said)


def add_case_edit(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/datasets/{dataset}/cases/{case}")
    async def edit(dataset: str, case: str, tag: str = "", text: str = "") -> None:
        if not case.isdecimal() or len(case) > 18:
            raise NotFoundError(Problem(f"there is no case {case!r}", "case"))
        sought, number = Sought(tag, text), int(case)
        found = await to_thread.run_sync(get_case, workspace, dataset, number)
        place = await to_thread.run_sync(lambda: case_place(workspace, dataset, number, **sought.wanted))
        back = sought.around(place.before, number).path(dataset)
        with frame(f"Case {found.body['id']}", place=PLACE, trail=[(dataset, back)]) as actions:
            with actions:
                _neighbours(dataset, sought, place)
                _deletion(workspace, dataset, found, sought.around(place.before, place.next or place.previous))
            _Edit(workspace, dataset, found, sought, place)


def _neighbours(dataset: str, sought: Sought, place: CasePlace) -> None:
    text(f"{min(place.before + 1, place.total):,} of {place.total:,}", "span", "muted small")
    for name, case in (("Previous case", place.previous), ("Next case", place.next)):
        if case is not None:
            link_button(name, sought.case(dataset, case))


class _Edit:
    """The form with what can be done with it."""

    def __init__(self, workspace: Workspace, dataset: str, case: StoredCase, sought: Sought, place: CasePlace) -> None:
        self._workspace, self._dataset, self._case, self._sought, self._place = workspace, dataset, case, sought, place
        with form():
            self._form = CaseForm(case.body)
        with ui.element("div").classes("section actions"):
            self._save = button("Save", lambda: self._keep(self._save, self._back), kind="primary")
            if place.next is not None:
                self._go_on = button("Save and go to the next", lambda: self._keep(self._go_on, self._next))
            link_button("Cancel", self._back())
        self._saving = Saving[StoredCase](self._there, case.version, sought.case(dataset, case.id))

    def _there(self) -> tuple[Mapping[str, Any], int]:
        found = get_case(self._workspace, self._dataset, self._case.id)
        return found.body, found.version

    def _back(self) -> str:
        return self._sought.around(self._place.before, self._case.id).path(self._dataset)

    def _next(self) -> str:
        return self._sought.case(self._dataset, self._place.next or self._case.id)

    async def _keep(self, by: ui.button, where: Any) -> None:
        row = self._form.read()
        if row is not None:
            await self._saving.save(
                lambda version: update_case(self._workspace, self._dataset, self._case.id, version, row),
                row,
                self._form.places,
                by,
                lambda _: leave(where()),
            )


def _deletion(workspace: Workspace, dataset: str, case: StoredCase, after: Sought) -> None:
    async def delete() -> None:
        if await attempt(lambda: delete_cases(workspace, dataset, [case.id]) or True):
            leave(after.path(dataset))

    asked = confirmation("Delete this case?", "Runs keep their own copies.", "Delete", delete)
    button("Delete", asked.open, kind="danger")


def add_case_new(workspace: Workspace) -> None:
    """Register the page."""

    @guarded_page("/datasets/{dataset}/cases/new")
    async def new(dataset: str) -> None:
        await to_thread.run_sync(own_row, workspace, dataset)
        with frame("New case", place=PLACE, trail=[(dataset, f"/datasets/{dataset}")]):
            _New(workspace, dataset)


class _New:
    """A form for one case after another."""

    def __init__(self, workspace: Workspace, dataset: str) -> None:
        self._workspace, self._dataset = workspace, dataset
        with form() as self._place:
            self._form = CaseForm({})
        with ui.element("div").classes("section actions"):
            self._saving = button("Save", self._save, kind="primary")
            self._going_on = button("Save and write another", self._save_on)
            link_button("Cancel", f"/datasets/{dataset}")

    async def _save(self) -> None:
        if made := await self._kept(self._saving):
            place = await to_thread.run_sync(case_place, self._workspace, self._dataset, made.id)
            leave(Sought().around(place.before, made.id).path(self._dataset))

    async def _save_on(self) -> None:
        if made := await self._kept(self._going_on):
            tell(f"Case {made.body['id']} saved.")
            self._place.clear()
            with self._place:
                self._form = CaseForm({})
            saved()
            self._form.focus()

    async def _kept(self, by: ui.button) -> StoredCase | None:
        row = self._form.read()
        if row is None:
            return None
        return await attempt(lambda: add_case(self._workspace, self._dataset, row), self._form.places, by)
