"""The checks of a case as cards, each tried on the answer example during typing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import background_tasks, ui

from evalflow.addons.studio.web.pages.check_fields import (
    ParamFields,
    about_kind,
    in_words,
    offered_kinds,
    reusable_labels,
)
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.faults import tell_fault
from evalflow.addons.studio.web.ui.parts import Latest, Tone, badge, button, capitalised, icon_button, text
from evalflow.addons.studio.web.ui.rows import RowList
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work.check_trial import CheckTrial, judge_check, try_checks
from evalflow.addons.studio.work.checks import Check
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import EvalflowError
from evalflow.metrics.case_checks import PARAMS, asks_judge
from evalflow.values.jsonvalues import as_map

WAIT_S = 0.35
"""Seconds without typing before the checks are tried."""
_STATES: Mapping[str, tuple[str, Tone]] = {
    "passed": ("passed", "pass"),
    "failed": ("failed", "fail"),
    "wrong": ("incomplete", "warn"),
    "unscored": ("not tried", ""),
    "judge": ("not tried", ""),
    "off": ("off", ""),
}
_PARAM = re.compile(r"\w+: params\.(\w+):? (.*)", re.DOTALL)
_MISSING = ("is required", "at least 1 ")
Row = Callable[[], dict[str, Any] | None]


class CheckCards:
    """The cards of a case's checks.

    `shared` are the reusable checks by name, `bots` those whose judge may be asked; `row` gives the case without its
    checks to try them on, None if it cannot be tried; `on_change` is called with each change.
    """

    def __init__(
        self,
        workspace: Workspace,
        given: Sequence[Mapping[str, Any]],
        shared: Mapping[str, Check],
        bots: Sequence[str],
        row: Row,
        on_change: Callable[[], object],
    ) -> None:
        self._workspace, self._shared, self._row, self._on_change = workspace, shared, row, on_change
        self.reusable = reusable_labels(shared.values())
        self._latest = Latest()
        self._may_try = may("try")
        with ui.element("div").classes("checks-head"):
            text("Checks", "h2")
            text("What a good answer must do. Each is tried on the answer example.", classes="help")
        self._bot: ui.select | None = None
        self._cards = RowList(self._card, None, "check", self.changed, classes="", foot=self._foot)
        self._none = text("No checks yet. Add one below.", classes="muted")
        if may("edit"):
            self._adding()
        with ui.element("div") as self._judging:
            if bots and may("edit"):
                about = forms.About("Judge of", "“Try” asks the judge of its runs: one call each.", required=True)
                self._bot = forms.pick(about, {bot: title_of("bot", bot) for bot in bots}, bots[0])
        self._cards.show([dict(check) for check in given])
        self._mark()

    def read(self) -> list[dict[str, Any]]:
        """The checks as they are."""
        return self._cards.read()

    def focus(self) -> None:
        """Focus the first field of the first check."""
        if self._cards.rows and (field := self._cards.rows[0].first_field):
            field.run_method("focus")

    def _adding(self) -> None:
        options = {**offered_kinds(), **self.reusable}
        with ui.element("div").classes("actions"), button("Add a check", icon="add"), ui.menu().classes("check-menu"):
            for name, label in options.items():
                ui.menu_item(label, partial(self._add, name))

    def _add(self, name: str) -> None:
        self._cards.change([*self.read(), {"identifier": name, "enabled": True, "params": {}}])

    def _card(self, _: int, check: Any) -> _CheckCard:
        return _CheckCard(self, check, self._shared.get(check["identifier"]))

    def _foot(self, number: int) -> None:
        with self._cards.rows[number].foot:
            for icon, label, work in (
                ("arrow_upward", "Move up", partial(self._cards.move, number, -1)),
                ("arrow_downward", "Move down", partial(self._cards.move, number, 1)),
                ("content_copy", "Duplicate", partial(self._duplicate, number)),
                ("close", "Remove", partial(self._cards.remove, number)),
            ):
                icon_button(icon, f"{label} check {number + 1}", work)

    def _duplicate(self, number: int) -> None:
        checks = self.read()
        self._cards.change([*checks[: number + 1], json.loads(json.dumps(checks[number])), *checks[number + 1 :]])

    def _mark(self) -> None:
        self._none.set_visibility(not self._cards.rows)
        self._judging.set_visibility(any(card.is_judged for card in self._cards.rows))

    def changed(self) -> None:
        """Handle a change of a card or of the list of cards."""
        self._mark()
        self._on_change()

    def try_soon(self) -> None:
        """Try all checks once nothing has changed for a moment."""
        background_tasks.create(self._try_all())  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI

    async def _try_all(self) -> None:
        is_latest = self._latest.begin()
        await asyncio.sleep(WAIT_S)
        row = self._row()
        if not is_latest() or row is None or not self._cards.rows or not self._may_try:
            return
        asked, checks = row.get("demo_answer"), self.read()
        try:
            outcomes = await to_thread.run_sync(try_checks, self._workspace, {**row, "checks": checks})
        except EvalflowError as error:
            outcomes = [CheckTrial("unscored", str(error))] * len(checks)
        if is_latest() and not self._none.is_deleted:  # the page may have been left
            for card, trial in zip(self._cards.rows, outcomes, strict=True):
                card.show(trial, asked)

    async def judge(self, card: _CheckCard, by: ui.button) -> None:
        """Ask the judge about one check."""
        row = self._row()
        if self._bot is None:
            tell_fault("No bot has a judge yet. Define a bot on the page Bots.")
        elif row is not None:
            bot, check = str(self._bot.value), card.read()
            with forms.faults_shown({}, by):
                trial = await self._workspace.ask(lambda: judge_check(self._workspace, bot, row, check))
                card.show_judged(trial, row.get("demo_answer"))


def reason_in_words(reason: str) -> str:
    """The reason of a check's result; a missing or wrong parameter is named without its key path."""
    match = _PARAM.match(reason)
    if match is None:
        return capitalised(reason)
    name, what = match[1].replace("_", " "), match[2].strip()
    return f"Fill in: {name}." if any(word in what for word in _MISSING) else capitalised(f"{name} {what}")


class _CheckCard:
    def __init__(self, cards: CheckCards, check: Mapping[str, Any], shared: Check | None) -> None:
        self._cards, self._check = cards, dict(check)
        self._judged: tuple[str, CheckTrial] | None = None
        identifier = str(check["identifier"])
        kind = shared.type if shared else identifier
        gone = identifier, "This check does not exist any more.", "help_outline"
        title, about, icon = about_kind(kind) if kind in PARAMS else gone
        self.is_judged = asks_judge(kind, {**as_map(shared and shared.params), **as_map(check.get("params"))})
        self._fields: ParamFields | None = None
        with ui.element("section").classes("card check-card"):
            with ui.element("div").classes("check-title"):
                ui.icon(icon).props("aria-hidden=true")
                text(shared.title or shared.name if shared else str(check.get("name") or title), "h3")
                self._state = ui.element("div").classes("check-state")
            description = (shared.description or in_words(shared.type, shared.params)) if shared else about
            text(description, classes="muted small")
            if shared:
                with ui.element("div").classes("muted small"):
                    text("Reusable check ", "span")
                    ui.link(shared.name, f"/checks/{shared.name}")
            elif identifier in PARAMS:
                given: Mapping[str, Any] = check.get("params") or {}
                self._fields = ParamFields(identifier, given, cards.changed, reusable=cards.reusable)
            self._result = text("", classes="check-reason").props("aria-live=polite dir=auto")
            with ui.element("div").classes("actions check-foot") as self.foot:
                self._on = ui.checkbox("On", value=bool(check.get("enabled", True))).props("dense")
                self._on.on_value_change(lambda _: cards.changed())
                if self.is_judged and may("edit"):
                    self._trying = button("Try", self._judge, icon="gavel")
                    self._trying.props["title"] = "Asks the judge once, which costs money"

    @property
    def first_field(self) -> forms.Field | None:
        """The field of its first parameter."""
        return next(iter(self._fields.fields.values()), None) if self._fields else None

    def read(self) -> dict[str, Any]:
        """The check as it is."""
        params = self._fields.read() if self._fields else self._check.get("params") or {}
        return {**self._check, "enabled": bool(self._on.value), "params": params}

    def show(self, trial: CheckTrial, example: Any) -> None:
        """Show a result; a judge's result is kept while check and example are unchanged."""
        if trial.state == "judge":
            key = self._key(example)
            trial = self._judged[1] if self._judged and self._judged[0] == key else trial
        label, tone = _STATES[trial.state]
        self._state.clear()
        with self._state:
            badge(label, tone)
        asked = "A judge decides this. “Try” asks it once, which costs money."
        self._result.set_text(asked if trial.state == "judge" else reason_in_words(trial.reason))

    def show_judged(self, trial: CheckTrial, example: Any) -> None:
        """Show and keep a judge's result."""
        self._judged = (self._key(example), trial)
        self.show(trial, example)

    def _key(self, example: Any) -> str:
        return json.dumps([self.read(), example], sort_keys=True)

    async def _judge(self) -> None:
        await self._cards.judge(self, self._trying)
