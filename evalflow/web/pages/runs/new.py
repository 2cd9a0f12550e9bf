"""A new run: chosen, checked, and started once it is known what it will take."""

from __future__ import annotations

import asyncio
import uuid

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.run_types import RunEstimate, RunRequest
from evalflow.app.workspace.runs import changed_request, create_run, estimate_run, get_run
from evalflow.errors import EvalflowError
from evalflow.report.wording import cost
from evalflow.web.pages.address import page
from evalflow.web.pages.faults import attempt, place
from evalflow.web.pages.frame import frame
from evalflow.web.pages.parts import button, facts, link_button, message, text
from evalflow.web.pages.runs.form import Offer, RunForm, read_offer
from evalflow.web.pages.runs.words import name_of
from evalflow.web.pages.unsaved import form, leave

SETTLE_S = 0.4
"""How long nothing may change before a look is taken at what the run would take."""


def add(workspace: Workspace) -> None:
    """Register the page."""

    @page("/runs/new")
    async def new(source: str = "", bot: str = "", dataset: str = "") -> None:
        run = await to_thread.run_sync(get_run, workspace, source) if source else None
        given = RunRequest(bot, [dataset] if dataset else [], [])
        request = changed_request(run) if run else given
        offer = await to_thread.run_sync(read_offer, workspace)
        title = f"{name_of(run)}, again" if run else "New run"
        with frame(title, place="Runs", trail=[("Runs", "/runs")]):
            _New(workspace, offer, request)


class _New:
    """The form with what the run would take beside it."""

    def __init__(self, workspace: Workspace, offer: Offer, request: RunRequest) -> None:
        self._workspace = workspace
        self._changes = 0
        self._key = uuid.uuid4().hex
        with ui.element("div").classes("beside"):
            with form():
                self._form = RunForm(workspace, offer, request, self._look)
            with ui.element("aside").classes("card stack estimate").props('aria-label="What it will take"'):
                text("What it will take", "h2")
                self._told = ui.element("div").classes("stack").props("aria-live=polite")
                with ui.element("div").classes("actions"):
                    self._starting = button("Start the run", self._start, kind="primary", icon="play_arrow")
                    link_button("Cancel", "/runs")
        if not self._form.is_complete():
            self._say_incomplete()
        ui.timer(0, self._begin, once=True)

    async def _begin(self) -> None:
        await self._form.load()
        await self._look()

    def _say_incomplete(self) -> None:
        self._told.classes(remove="looking").clear()
        with self._told:
            text("Choose a bot, test cases and a metric. Nothing is sent before you start it.", "p", "muted")

    async def _look(self) -> None:
        """Check what is chosen and say what it would take; of several changes in a row only the last counts."""
        self._changes += 1
        change = self._changes
        if not self._form.is_complete():
            self._say_incomplete()
            return
        self._told.classes("looking")
        await asyncio.sleep(SETTLE_S)
        if change != self._changes:
            return
        request = self._form.read()
        try:
            found = await to_thread.run_sync(estimate_run, self._workspace, request)
        except EvalflowError as error:
            if change == self._changes:
                self._show_faults(error)
            return
        if change == self._changes:
            self._clear_faults()
            self._told.classes(remove="looking").clear()
            with self._told:
                _estimate(found)

    async def _start(self) -> None:
        request, key = self._form.read(), self._key
        run = await attempt(
            lambda: create_run(self._workspace, request, f"page-{key}"), self._form.fields, self._starting
        )
        if run is not None:
            self._key = uuid.uuid4().hex
            leave(f"/runs/{run.run_id}")

    def _clear_faults(self) -> None:
        for field in self._form.fields.values():
            field.error = None

    def _show_faults(self, error: EvalflowError) -> None:
        self._clear_faults()
        elsewhere, _ = place(error, self._form.fields)
        self._told.classes(remove="looking").clear()
        with self._told:
            message("It cannot be started yet.", "See the fields that are marked." if not elsewhere else "", "warn")
            for problem in elsewhere:
                message(problem.what, problem.hint, "fail")


def _estimate(found: RunEstimate) -> None:
    cases = sum(found.cases.values())
    low, high = found.cost_usd
    price = (
        "free" if found.requests == 0 else "unknown" if low is None or high is None else _between(cost(low), cost(high))
    )
    facts([
        ("Cases", f"{cases:,}"),
        ("Scores", f"{found.scores:,}"),
        ("Calls", f"{found.requests:,}" if found.requests else "none"),
        ("Tokens sent", _between(*(f"{number:,}" for number in found.input_tokens)) if found.requests else ""),
        ("Tokens received", _between(*(f"{number:,}" for number in found.output_tokens)) if found.requests else ""),
        ("Price", price),
    ])  # fmt: skip
    for notice in found.notices:
        message(notice, tone="warn")


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
