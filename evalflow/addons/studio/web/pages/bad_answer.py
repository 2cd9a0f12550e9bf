"""Makes a test from a bad answer: the question, the answer, and a check that it fails; then runs only that case."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.case_conversation import Conversation
from evalflow.addons.studio.web.pages.check_cards import CheckCards
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import button, link_button, text
from evalflow.addons.studio.work.bad_answers import COLLECTED, BadAnswer, bad_answer, save_test
from evalflow.addons.studio.work.bots import Bot, list_bots
from evalflow.addons.studio.work.checks import Check, list_checks
from evalflow.addons.studio.work.datasets import list_datasets
from evalflow.addons.studio.work.runs import create_run
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import Problem
from evalflow.records import texts_of
from evalflow.report.wording import counted

_ABOUT = "Say what a good answer must do. The case is saved with this check, and the bot is asked again."
_ANSWER = forms.About(
    "Bad answer", "What the bot said. Checks are tried on it: one of them should fail.", required=True
)
_BOT = forms.About("Bot", "Who is asked when the case runs.", required=True)
_DATASET = forms.About("Saved in", required=True)


@guarded_page("/bad-answer", "edit")
async def _write_page(workspace: Workspace, run: str = "", position: str = "") -> None:
    if run and not (position.isdecimal() and len(position) < 10):
        raise NotFoundError(Problem(f"there is no case {position!r}", "case", "cases are counted from 0"))
    answer = (
        await to_thread.run_sync(bad_answer, workspace, run, int(position))
        if run
        else BadAnswer({}, {"role": "assistant", "content": ""})
    )
    around = await to_thread.run_sync(_read, workspace)
    trail = [("Back to the run", f"/runs/{run}")] if run else [("Test cases", "/datasets")]
    with frame("Make a test of a bad answer", place="Test cases", about=_ABOUT, trail=trail):
        _TestWriter(workspace, answer, around, trail[0][1])


@dataclass(frozen=True, slots=True)
class _ForTests:
    """What a test may use: bots, reusable checks, and the datasets made here by name."""

    bots: Mapping[str, Bot]
    checks: Mapping[str, Check]
    datasets: Mapping[str, str]


def _read(workspace: Workspace) -> _ForTests:
    bots = {bot.name: bot for bot in list_bots(workspace)}
    checks = {check.name: check for check in list_checks(workspace)}
    own = {one.name: one.title for one in list_datasets(workspace) if one.origin == "workspace"}
    return _ForTests(bots, checks, own)


class _TestWriter:
    def __init__(self, workspace: Workspace, bad: BadAnswer, around: _ForTests, back: str) -> None:
        self._workspace, self._bad, self._key = workspace, bad, uuid.uuid4().hex
        self._checks: CheckCards | None = None
        own = [name for name, bot in around.bots.items() if bot.origin == "workspace"]
        judging = [name for name in own if around.bots[name].config.get("kind") == "openai"]
        live = [name for name, bot in around.bots.items() if bot.config.get("kind") != "recorded"]
        chosen = bad.bot or next(iter([*(name for name in own if name in live), *live, *around.bots]), "")
        with forms.form(kept=True) as page:
            with ui.element("div").classes("studio"):
                with ui.element("div").classes("stack"):
                    text("What was asked", "h2")
                    self._turns = Conversation(bad.row.get("messages") or [], self._changed, lambda: False)
                    self._answer = forms.area(_ANSWER, str(bad.example.get("content") or ""))
                    self._answer.on_value_change(lambda _: self._changed())
                with ui.element("div").classes("stack"):
                    if bad.checks:
                        text(f"This case already has {counted(bad.checks, 'check')}, which it keeps.", "p", "aside")
                    given = [_first_check(bad, is_judged=chosen in judging)]
                    self._checks = CheckCards(workspace, given, around.checks, judging, self._row, self._changed)
            with forms.pair():
                self._bot = forms.pick(_BOT, {name: bot.title for name, bot in around.bots.items()}, chosen or None)
                new = {} if COLLECTED in around.datasets.values() else {"": f"{COLLECTED} (new)"}
                collected = next((name for name, title in around.datasets.items() if title == COLLECTED), "")
                options = {**new, **around.datasets}
                self._dataset = forms.pick(_DATASET, options, bad.dataset or collected)
            with forms.save_bar(page, self._save):
                self._saving = button("Save and run this case", self._save, kind="primary", icon="play_arrow")
                link_button("Cancel", back)
        self._changed()
        if bad.row:
            self._checks.focus()
        else:
            self._turns.last.run_method("focus")

    @property
    def _fields(self) -> Mapping[str, forms.Field]:
        last = self._turns.last
        known = {"messages": last, "question": last, "demo_answer": self._answer}
        return {**known, "bot": self._bot, "dataset": self._dataset}

    def _changed(self) -> None:
        if self._checks is not None:
            self._checks.try_soon()

    def _example(self) -> dict[str, Any]:
        return {**self._bad.example, "content": str(self._answer.value or "")}

    def _row(self) -> dict[str, Any] | None:
        example = self._example()
        return {
            **self._bad.row,
            "messages": self._turns.messages(),
            **({"demo_answer": example} if example["content"] else {}),
        }

    async def _save(self) -> None:
        messages = self._turns.read()
        if messages is None or self._checks is None:
            return
        bad = replace(self._bad, row={**self._bad.row, "messages": messages}, example=self._example())
        dataset, bot, checks = str(self._dataset.value or ""), str(self._bot.value or ""), self._checks.read()

        def work() -> str:
            request = save_test(self._workspace, bad, dataset, bot, checks)
            return create_run(self._workspace, request, f"test-{self._key}").run_id

        run = await forms.attempt(work, self._fields, self._saving)
        if run is not None:
            forms.leave(f"/runs/{run}")


def _first_check(bad: BadAnswer, *, is_judged: bool) -> dict[str, Any]:
    """The initial check of a test: the expected answer if there is one, else a rule in words, or a keyword."""
    references: Sequence[str] = texts_of(bad.row.get("reference"))
    if is_judged and references:
        return {"identifier": "correctness", "enabled": True, "params": {"reference": references[0]}}
    return {"identifier": "conformity" if is_judged else "string_matching", "enabled": True, "params": {}}
