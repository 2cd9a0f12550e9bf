"""Start a run: choose, check, and see the estimate."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.case_choice import Arrived, cases_in_words
from evalflow.addons.studio.web.pages.run_form import RunForm, RunOptions, read_options
from evalflow.addons.studio.web.pages.runs import name_of
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.budget import left_in_words
from evalflow.addons.studio.web.ui.faults import FaultSummary, unfold
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import Latest, after_paint, button, facts, link_button, message, text
from evalflow.addons.studio.web.ui.ticks import unpacked
from evalflow.addons.studio.work.cases import ids_of_rows
from evalflow.addons.studio.work.leases import ProjectBudget
from evalflow.addons.studio.work.reruns import KnownCases, fault_of, known_cases, request_with_metric
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import (
    Run,
    RunEstimate,
    changed_request,
    create_run,
    estimate_run,
    get_run,
    next_request,
)
from evalflow.addons.studio.work.scores import answered_cases, failed_cases
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.spending import budget_left
from evalflow.errors import EvalflowError, Problem
from evalflow.report.wording import cost

SETTLE_S = 0.4
"""Seconds without a change after which the run is estimated."""


@guarded_page("/runs/new", "edit")
async def _new_page(
    workspace: Workspace,
    source: str = "",
    bot: str = "",
    dataset: str = "",
    cases: str = "",
    answers: str = "",
    failed_in: str = "",
    metric: str = "",
    instead: str = "",
) -> None:
    run = await to_thread.run_sync(get_run, workspace, source or failed_in) if source or failed_in else None
    if run and metric:
        request = await to_thread.run_sync(request_with_metric, workspace, run.run_id, metric, instead or metric)
    elif run:
        request = changed_request(run)
    else:
        request = await to_thread.run_sync(next_request, workspace, bot) if bot else RunRequest("", [], [])
        request = replace(request, datasets=[dataset]) if dataset else request
    arrived = await to_thread.run_sync(_arrived, workspace, request.datasets, run, cases, answers, failed_in)
    if arrived:
        request = _of_cases(request, arrived.known)
    offer = await to_thread.run_sync(read_options, workspace)
    fault = await to_thread.run_sync(fault_of, workspace, run.run_id) if run else None
    title = f"{name_of(run)}, again" if run else "New run"
    with frame(title, place="Runs", trail=[("Runs", "/runs")]):
        if run and fault:
            message(f"{name_of(run)} failed: {fault.what}", fault.hint, "warn")
        _NewRun(workspace, offer, request, arrived, fault)


def _arrived(
    workspace: Workspace, datasets: Sequence[str], run: Run | None, cases: str, answers: str, failed_in: str
) -> Arrived | None:
    """The cases named in the address: rows of a dataset, answers of a run, or a run's failed cases."""
    if failed_in and run:
        return Arrived(known_cases(workspace, failed_cases(workspace, run.run_id)), failed_in)
    if answers and run:
        return Arrived(known_cases(workspace, answered_cases(workspace, run.run_id, unpacked(answers))))
    if cases and datasets:
        rows = unpacked(cases)
        ids = ids_of_rows(workspace, datasets[0], rows)
        return Arrived(KnownCases({datasets[0]: ids} if ids else {}, len(rows) - len(ids)))
    return None


def _of_cases(request: RunRequest, known: KnownCases) -> RunRequest:
    """The request for only these cases, so without limit and sample."""
    values = {name: {"ids": list(ids)} for name, ids in known.ids.items()}
    options = {key: value for key, value in request.options.items() if key not in ("limit", "sample")}
    return replace(request, datasets=list(values) or request.datasets, dataset_values=values, options=options)


class _NewRun:
    def __init__(
        self,
        workspace: Workspace,
        options: RunOptions,
        request: RunRequest,
        arrived: Arrived | None,
        fault: Problem | None,
    ) -> None:
        self._workspace, self._fault = workspace, fault
        self._latest = Latest()
        self._key = uuid.uuid4().hex
        with ui.element("div").classes("beside"):
            with forms.form():
                self._form = RunForm(workspace, options, request, arrived, self._estimate)
            with ui.element("aside").classes("card stack estimate").props('aria-label="Estimate"'):
                text("Estimate", "h2")
                self._result = ui.element("div").classes("stack").props("aria-live=polite")
                with ui.element("div").classes("actions"):
                    self._starting = button("Start the run", self._start, kind="primary", icon="play_arrow")
                    link_button("Cancel", "/runs")
        if not self._form.is_complete():
            self._show_incomplete()
        after_paint(self._begin)

    async def _begin(self) -> None:
        await self._form.load()
        await self._estimate()
        if self._fault is not None:
            self._form.show_fault(self._fault)

    async def _estimate(self) -> None:
        """Check the choice and estimate the run; of several changes in a row only the last is estimated."""
        is_latest = self._latest.begin()
        if not self._form.is_complete():
            self._show_incomplete()
            return
        self._result.classes("looking")
        await asyncio.sleep(SETTLE_S)
        if not is_latest():
            return
        request = self._form.read()
        try:
            run_estimate = await to_thread.run_sync(estimate_run, self._workspace, request)
            left = await to_thread.run_sync(budget_left, self._workspace)
        except EvalflowError as error:
            if is_latest():
                self._show_faults(error)
            return
        if is_latest():
            with self._cleared():
                _estimate(run_estimate, left)

    def _show_incomplete(self) -> None:
        self._result.classes(remove="looking").clear()
        with self._result:
            text("Choose a bot, test cases and a metric. Nothing is sent before you start it.", "p", "muted")

    def _show_faults(self, error: EvalflowError) -> None:
        with self._cleared():
            elsewhere, _ = forms.place(error, self._form.fields)
            for field in self._form.fields.values():
                if field.error:
                    unfold(field)
            message("The run cannot be started yet.", "" if elsewhere else "See the marked fields.", "warn")
            if elsewhere:
                FaultSummary([forms.in_words(problem) for problem in elsewhere])

    def _cleared(self) -> ui.element:
        for field in self._form.fields.values():
            field.error = None
        self._result.classes(remove="looking").clear()
        return self._result

    async def _start(self) -> None:
        request, key = self._form.read(), f"page-{self._key}"
        run = await forms.attempt(lambda: create_run(self._workspace, request, key), self._form.fields, self._starting)
        if run is not None:
            self._key = uuid.uuid4().hex
            forms.leave(f"/runs/{run.run_id}")
        else:
            self._result.clear()  # which may be equal


def _estimate(run_estimate: RunEstimate, left: ProjectBudget) -> None:
    cases = sum(run_estimate.cases.values())
    low, high = run_estimate.cost_usd
    price = (
        "free"
        if run_estimate.requests == 0
        else "unknown"
        if low is None or high is None
        else _between(cost(low), cost(high))
    )
    if any(one.unselected or one.drafts for one in run_estimate.left_out.values()):
        text(f"{cases_in_words(run_estimate.cases, run_estimate.left_out)}.", "p")
    facts(
        [
            ("Cases", f"{cases:,}"),
            ("Scores", f"{run_estimate.scores:,}"),
            ("Calls", f"{run_estimate.requests:,}" if run_estimate.requests else "none"),
            (
                "Tokens sent",
                _between(*(f"{number:,}" for number in run_estimate.input_tokens)) if run_estimate.requests else "",
            ),
            (
                "Tokens received",
                _between(*(f"{number:,}" for number in run_estimate.output_tokens)) if run_estimate.requests else "",
            ),
            ("Price", price),
            (f"Left of the project's budget for {left.month}", left_in_words(left)),
        ]
    )
    for notice in run_estimate.notices:
        message(notice, tone="warn")


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
