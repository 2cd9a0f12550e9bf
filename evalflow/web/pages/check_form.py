"""The form of a reusable check: what it demands, and beside it its examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from evalflow.app.studio import checks
from evalflow.app.studio.checks import Check, CheckDraft
from evalflow.app.studio.space import Workspace
from evalflow.web.pages.check_examples import ExampleCards
from evalflow.web.pages.check_fields import ParamFields, offered_kinds, reusable_labels
from evalflow.web.ui import forms
from evalflow.web.ui.dialogs import Saving, State
from evalflow.web.ui.parts import button, link_button, text
from evalflow.web.ui.title_field import TitleField
from evalflow.web.ui.visitor import may

_DESCRIPTION = forms.About("Description", "When to use it.", "For every bot of the British branches.")
_RULE_TIPS = "One behaviour a rule. {{name}} stands for an input or the metadata of each case."
_TYPE = forms.About("Type", "What it looks at.", required=True)


class CheckForm:
    """The form of a check; of a new one if `stored` is None.

    `bots`: those whose judge may be asked; `known`: the reusable checks, which a group may have.
    """

    def __init__(self, workspace: Workspace, stored: Check | None, bots: Sequence[str], known: Sequence[Check]) -> None:
        self._workspace, self._stored = workspace, stored
        self._reusable = reusable_labels(one for one in known if stored is None or one.name != stored.name)
        self._given: dict[str, Mapping[str, Any]] = {stored.type: stored.params} if stored else {}
        self._examples: ExampleCards | None = None
        with forms.form(locked=not may("edit")) as page, ui.element("div").classes("studio"):
            with ui.element("div").classes("stack-wide"):
                title, name = (stored.title or stored.name, stored.name) if stored else ("", "")
                taken = {*offered_kinds(), *(one.name for one in known)}
                self._title = TitleField("check", "Answers in English", taken, title, name)
                self._build()
            with ui.element("div").classes("stack"):
                examples = stored.examples if stored else ()
                self._examples = ExampleCards(workspace, examples, bots, self._checked, self._changed)
        name, version = (stored.name, stored.version) if stored else ("", 0)
        if may("edit"):
            with ui.element("div").classes("section actions save-bar"):
                self._button = button("Save" if stored else "Create", self._save, kind="primary")
                self._button.props["title"] = "Ctrl+S"
                if stored is None:
                    link_button("Cancel", "/checks")
                self._state = text("Saved" if stored else "", "span", "muted small").props("role=status")
            page.on("keydown.ctrl.s.prevent", self._save, args=[])
            page.on("keydown.meta.s.prevent", self._save, args=[])
        self._saving = Saving[Check](partial(check_state, workspace, name), version, f"/checks/{name}")

    def _build(self) -> None:
        stored = self._stored
        self._description = forms.line(_DESCRIPTION, stored.description if stored else "").props("dir=auto")
        self._type = forms.pick(_TYPE, offered_kinds(), stored.type if stored else "conformity")
        self._kind = str(self._type.value)
        self._place = ui.element("div").classes("stack params")
        self._show_params()
        self._type.on_value_change(self._retyped)
        self._title.on_change(self._changed)
        self._description.on_value_change(lambda _: self._changed())

    def _show_params(self) -> None:
        self._place.clear()
        with self._place:
            given = self._given.get(self._kind, {})
            self._params = ParamFields(self._kind, given, self._params_changed, _RULE_TIPS, self._reusable)

    def _retyped(self) -> None:
        """Show the fields of another kind; what was written for the kind before is kept."""
        self._given[self._kind] = self._params.read()
        self._kind = str(self._type.value)
        self._show_params()
        self._changed()
        if self._examples:
            self._examples.kind_changed()

    def _checked(self) -> tuple[str, dict[str, Any]]:
        return self._kind, self._params.read()

    def _params_changed(self) -> None:
        self._changed()
        if self._examples:
            self._examples.try_soon()

    def _changed(self) -> None:
        if may("edit") and self._examples:
            self._state.set_text("Not saved yet")

    def _fields(self) -> dict[str, forms.Field]:
        own = {**self._title.fields, "check.description": self._description, "check.type": self._type}
        fields = self._params.fields
        group = {"checks": fields["params"]} if "params" in fields else {}
        return {**own, **fields, **group}

    async def _save(self) -> None:
        with forms.faults_shown(self._fields()):
            name, title = self._title.read(self._fields())
            await self._save_as(name, title)

    async def _save_as(self, name: str, title: str) -> None:
        examples = self._examples.read() if self._examples else []
        if examples is None:
            return
        kind, params = self._checked()
        draft = CheckDraft(name, kind, params, title, forms.written(self._description) or "", examples)

        def work(version: int) -> Check:
            if self._stored is None:
                return checks.create_check(self._workspace, draft)
            return checks.update_check(self._workspace, version, draft)

        def done(saved: Check) -> None:
            if self._stored is None:
                forms.leave(f"/checks/{saved.name}")
                return
            self._saving.renew(saved.version)
            self._state.set_text("Saved")
            forms.saved()

        await self._saving.save(work, check_content(draft), self._fields(), self._button, done)


def check_content(one: Check | CheckDraft) -> dict[str, Any]:
    """A check as people compare two versions of it."""
    examples = [f"{one.answer} ({'should pass' if one.passes else 'should fail'})" for one in one.examples]
    return {
        **{"name": one.title, "description": one.description, "type": one.type, "parameters": dict(one.params)},
        "examples": "\n".join(examples),
    }


def check_state(workspace: Workspace, name: str) -> State:
    """The stored check, for a comparison, and its version."""
    found = checks.get_check(workspace, name)
    return check_content(found), found.version
