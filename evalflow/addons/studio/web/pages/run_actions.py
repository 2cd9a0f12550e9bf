"""The actions on a run: cancel, resume, start again, run again with changes, review, delete."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

from nicegui import ui

from evalflow.addons.studio.web.pages.runs import ACTIVE
from evalflow.addons.studio.web.ui.dialogs import carry_out, confirmation, work_button
from evalflow.addons.studio.web.ui.parts import Kind, address, button, link_button, tell
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work import runs
from evalflow.addons.studio.work.opened_runs import make_repeatable
from evalflow.addons.studio.work.space import Workspace


def run_actions(workspace: Workspace, run: runs.Run) -> None:
    """The buttons of a run, for editors."""

    def act(label: str, work: Callable[[Workspace, str], runs.Run], message: str, kind: Kind = "") -> None:
        def done(_: runs.Run) -> None:
            tell(message)
            ui.navigate.reload()

        work_button(label, partial(work, workspace, run.run_id), done, kind=kind)

    if run.state in ACTIVE:
        if not run.cancelling:
            act("Cancel the run", runs.cancel_run, "Stopping.", "danger")
        return
    starts_again = run.state == "failed" and run.request is not None
    if starts_again:
        key = f"again-{uuid.uuid4().hex}"
        start = lambda: runs.create_run(workspace, runs.changed_request(run), key)  # noqa: E731
        work_button("Start again", start, lambda made: ui.navigate.to(f"/runs/{made.run_id}"), kind="primary")
    again = address("/runs/new", {"source": run.run_id})
    if run.request is not None:
        link_button("Run again with changes", again, primary=run.state == "done")
    else:  # of the command line, with parts unknown here when it was opened: try again, or name them
        make = partial(make_repeatable, workspace, run.run_id)
        work_button("Run again with changes", make, lambda _: ui.navigate.to(again))
    if run.facts:
        link_button("New review", address("/reviews/new", {"run": run.run_id}))
    if run.state == "done" and run.progress.errors and run.origin == "workspace":
        errors = "error" if run.progress.errors == 1 else f"{run.progress.errors:,} errors"
        act(f"Retry the {errors}", runs.retry_errors, "Retrying what failed.")
    if run.state != "done":
        act("Resume", runs.resume_run, "Resumed.", "" if starts_again else "primary")
    if may("admin"):
        _delete_button(workspace, run)


def _delete_button(workspace: Workspace, run: runs.Run) -> None:
    delete = partial(carry_out, partial(runs.delete_run, workspace, run.run_id), lambda _: ui.navigate.to("/runs"))
    about = (
        "It disappears from these pages, with people's verdicts on its scores. Its folder stays, to be opened again; "
        "its labels still follow equal answers into other runs, which lose them when they are next calibrated if you "
        "remove the folder too. Save the calibration of its reviews first."
    )
    button("Delete", confirmation("Delete this run?", about, "Delete", delete).open, kind="danger")
