"""The actions on a run: cancel, resume, start again, run again with changes, review, delete."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

from nicegui import ui

from evalflow.addons.studio.web.pages.runs import ACTIVE
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import confirmation
from evalflow.addons.studio.web.ui.parts import address, button, link_button, tell
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work import runs
from evalflow.addons.studio.work.opened_runs import make_repeatable
from evalflow.addons.studio.work.space import Workspace


def run_actions(workspace: Workspace, run: runs.Run) -> None:
    """The buttons of a run, for editors."""

    def act(work: Callable[[Workspace, str], runs.Run], done: str) -> Callable[[], object]:
        async def acted() -> None:
            if await forms.succeeds(partial(work, workspace, run.run_id)):
                tell(done)
                ui.navigate.reload()

        return acted

    if run.state in ACTIVE:
        if not run.cancelling:
            button("Cancel the run", act(runs.cancel_run, "Stopping."), kind="danger")
        return
    starts_again = run.state == "failed" and run.request is not None
    if starts_again:
        _start_again_button(workspace, run)
    if run.request is not None:
        link_button("Run again with changes", _again_path(run), primary=run.state == "done")
    else:
        _repeatable_button(workspace, run)
    if run.facts:
        link_button("New review", address("/reviews/new", {"run": run.run_id}))
    if run.state == "done" and run.progress.errors and run.origin == "workspace":
        errors = "error" if run.progress.errors == 1 else f"{run.progress.errors:,} errors"
        button(f"Retry the {errors}", act(runs.retry_errors, "Retrying what failed."))
    if run.state != "done":
        button("Resume", act(runs.resume_run, "Resumed."), kind="" if starts_again else "primary")
    if may("admin"):
        _delete_button(workspace, run)


def _delete_button(workspace: Workspace, run: runs.Run) -> None:
    async def delete() -> None:
        if await forms.succeeds(partial(runs.delete_run, workspace, run.run_id)):
            ui.navigate.to("/runs")

    about = (
        "It disappears from these pages, with people's verdicts on its scores. Its folder stays, to be opened again; "
        "its labels still follow equal answers into other runs, which lose them when they are next calibrated if you "
        "remove the folder too. Save the calibration of its reviews first."
    )
    button("Delete", confirmation("Delete this run?", about, "Delete", delete).open, kind="danger")


def _start_again_button(workspace: Workspace, run: runs.Run) -> None:
    key = f"again-{uuid.uuid4().hex}"

    async def start() -> None:
        started = await forms.attempt(lambda: runs.create_run(workspace, runs.changed_request(run), key), by=starting)
        if started is not None:
            ui.navigate.to(f"/runs/{started.run_id}")

    starting = button("Start again", start, kind="primary")


def _again_path(run: runs.Run) -> str:
    return f"/runs/new?source={run.run_id}"


def _repeatable_button(workspace: Workspace, run: runs.Run) -> None:
    """For a run of the command line with parts unknown here when it was opened: try again, or name them."""

    async def again() -> None:
        if await forms.succeeds(partial(make_repeatable, workspace, run.run_id), by=pressed):
            ui.navigate.to(_again_path(run))

    pressed = button("Run again with changes", again)
