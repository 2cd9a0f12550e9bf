"""How a run begins, or goes on: its folder, its manifest, and what an earlier part of it has finished and spent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from evalflow.app.setup.assemble import Parts
from evalflow.app.setup.order import Order
from evalflow.calls.budget import Amount
from evalflow.calls.entry import Entry
from evalflow.errors import Problem, UserError, command
from evalflow.files import write_atomically
from evalflow.paths import private_folder
from evalflow.records import Usage
from evalflow.run import manifest as manifests
from evalflow.run.finished import Finished, read_finished
from evalflow.run.folder import RunFolder
from evalflow.run.tally import Tally


def open_folder(order: Order) -> RunFolder:
    """The run's folder, made where it is missing.

    Raises:
        UserError: It cannot be written, or holds another run.
    """
    folder = RunFolder(order.folder)
    if order.resumed is None and folder.manifest.exists():
        hint = f"choose another folder, or go on with that run: {command('resume', order.folder)}"
        raise UserError(Problem("this folder holds a run already", str(order.folder), hint))
    try:
        private_folder(folder.path)
        if not folder.prepared.exists():
            write_atomically(folder.prepared, "{}\n")
    except OSError as error:
        raise UserError(Problem(f"cannot write there: {error.strerror}", str(folder.path))) from None
    return folder


def open_manifest(order: Order, facts: dict[str, Any]) -> dict[str, Any]:
    """The manifest with which the run begins, or goes on.

    Raises:
        UserError: What is to be resumed is not what was begun.
    """
    if order.resumed is None:
        known = {**facts, "spent_before": asdict(_spent_before(order))}
        return manifests.opening(order.run_id, order.composed.overrides, known)
    changes = manifests.changes(order.resumed, facts)
    if changes:
        hint = "put it back as it was, or start a new run"
        raise UserError(
            [Problem(f"{change} has changed since the run began", str(order.folder), hint) for change in changes]
        )
    return manifests.reopening(order.resumed)


def finished_before(order: Order, parts: Parts, bounded: Collection[str], tally: Tally) -> Finished:
    """What an earlier part of this run has finished; what that took is counted into the tally and the budget."""
    session = parts.session
    before = _spent_before(order)
    if session.budget:
        session.budget.spent = before
    if order.resumed is None:
        return Finished()
    finished = read_finished(
        RunFolder(order.folder),
        tally,
        bounded,
        errors_too=not order.retry_errors,
        failed_too=any(metric.stops for metric in parts.metrics.values()),
    )
    told = manifests.take_up(tally, order.resumed)
    if session.budget:
        own = Amount(tally.requests, tally.input_tokens + tally.output_tokens, tally.cost_usd)
        session.budget.spent = before + own

    def claimed(entry: Entry, cost_usd: float | None) -> None:
        if told:
            tally.retract_call(entry.requests, entry.usage, cost_usd)
        elif session.budget:
            usage = entry.usage or Usage()
            session.budget.spent += Amount(entry.requests, usage.input_tokens + usage.output_tokens, cost_usd or 0.0)

    if session.once:
        session.once.settled, session.once.claimed = finished.paid, claimed
    return finished


def _spent_before(order: Order) -> Amount:
    """What earlier runs of the same sweep have spent: the budget of a sweep is one for all its runs."""
    if order.resumed:
        return Amount(**order.resumed["spent_before"])
    spent = Amount()
    for path in order.siblings:
        ended = RunFolder(path).read_manifest()
        requests, sent, received, usd = (
            ended.get(key) or 0 for key in ("requests", "input_tokens", "output_tokens", "cost_usd")
        )
        spent += Amount(requests, sent + received, usd)
    return spent
