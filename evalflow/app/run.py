"""One run, from settings to exit code."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, Protocol

from evalflow.app.calibration.calibrating import standing_calibration
from evalflow.app.calibration.certificates import certified
from evalflow.app.calibration.certify import certify
from evalflow.app.comparison.baseline import baseline_problems
from evalflow.app.logs import log_to, secrets_of
from evalflow.app.results.derive import Derived, derive, report
from evalflow.app.results.facts import facts_of
from evalflow.app.results.recipe import Recipe
from evalflow.app.results.saved import Saved
from evalflow.app.setup.assemble import Parts, assemble
from evalflow.app.setup.begin import finished_before, open_folder, open_manifest
from evalflow.app.setup.inspect import Inspection, inspect
from evalflow.app.setup.known import answered, remembering
from evalflow.app.setup.order import Order
from evalflow.app.setup.prepare import prepare
from evalflow.app.setup.settings import settings_of
from evalflow.app.trusted import agree
from evalflow.errors import EvalflowError, IncompleteError, InfrastructureError, UserError, command
from evalflow.protocols import Sink
from evalflow.records import ScoreRecord
from evalflow.redaction import Redactor
from evalflow.run import manifest as manifests
from evalflow.run.finished import read_finished
from evalflow.run.folder import RunFolder, point_latest, telling_full_disks
from evalflow.run.interrupt import interruptible
from evalflow.run.journal import Journal
from evalflow.run.pipeline import Pipeline, Plan
from evalflow.run.tally import Tally
from evalflow.run.watched import WatchedSink

log = logging.getLogger("evalflow")
_NAMED = 5


class Watcher(Protocol):
    """Who shows a run to people."""

    def starts(self, inspection: Inspection, folder: RunFolder) -> None:
        """Everything was checked; the first request comes next."""

    def prepared(self, metric: str, entry: Mapping[str, Any], folder: RunFolder) -> None:
        """Something was made that the run keeps to from now on; `entry` is that of prepared.json."""

    def nothing_left(self, tally: Tally, folder: RunFolder) -> None:
        """A run that is resumed has all its scores already."""

    def stopping(self, in_progress: int) -> None:
        """The run was asked to stop, and finishes so many cases first."""

    async def follow(self, tally: Tally) -> None:
        """Show the progress until cancelled."""

    def scored(self, record: ScoreRecord) -> None:
        """A score of a metric that is `verbose` is written."""

    def ends(self, folder: RunFolder, manifest: dict[str, Any], recipe: Recipe, derived: Derived) -> None:
        """All files are written."""


def run(order: Order, watcher: Watcher) -> int:
    """Check, run, write everything, and say how it went.

    Returns:
        The exit code: 0, 1 or 3.

    Raises:
        UserError: The configuration or the data is wrong; nothing was sent and nothing written.
        InfrastructureError, BudgetError: A call could not be made any more; what was finished is written.
        IncompleteError: It came to its end without all scores; likewise.
        KeyboardInterrupt: Likewise.
    """
    inspection, opening = _checked(order)
    folder = open_folder(order)
    tally = Tally(expected=inspection.cells)
    started = time.monotonic()
    secrets = secrets_of(inspection.parts.settings)
    redactor, log_file = Redactor(secrets), log_to(folder.log, secrets)
    with telling_full_disks(folder), log_file, closing(Journal(folder, tally, redactor)) as journal:
        folder.write_manifest(opening)
        agree(opening)
        if order.latest:
            point_latest(order.latest)
        watcher.starts(inspection, folder)
        status, code, incomplete = "failed", EvalflowError.exit_code, None
        try:
            _score(order, inspection, journal, tally, watcher)
            status = "done"
        except UserError as error:
            # Everything was checked before, so it is the data that have changed; and exit 2 would say nothing was sent.
            code = InfrastructureError.exit_code
            raise InfrastructureError(f"the data changed while the run was going: {error}", _kept(folder)) from None
        except KeyboardInterrupt:
            status, code = "interrupted", 130
            raise
        except EvalflowError as error:
            code = error.exit_code
            error.args = (redactor.text(str(error)),)
            log.error("%s", error)
            raise
        finally:
            recipe = inspection.recipe()
            derived = derive(folder, recipe)
            if status == "done" and derived.cells < inspection.cells:
                incomplete = _incomplete(order, inspection)
                status, code = "failed", incomplete.exit_code
            code = derived.exit_code if status == "done" else code
            ended = manifests.closing(opening, status, code, tally, derived.states, time.monotonic() - started)
            if status == "done":
                derived = _calibrated(Saved(folder, ended, recipe), derived)
            ended = certified(ended, folder)
            folder.write_manifest(ended)
            _report(folder, recipe, derived, inspection, ended)
        if incomplete:
            raise incomplete
        watcher.ends(folder, ended, recipe, derived)
    return derived.exit_code


def _checked(order: Order) -> tuple[Inspection, dict[str, Any]]:
    """What is run, and the manifest with which it begins.

    Raises:
        UserError: The configuration or the data is wrong.
    """
    parts = assemble(settings_of(order.composed), order.run_id)
    inspection = inspect(parts)
    facts = facts_of(inspection)
    problems = baseline_problems(inspection.gates, parts.settings.run, facts)
    if problems:
        raise UserError(problems)
    return inspection, open_manifest(order, facts)


def _calibrated(saved: Saved, derived: Derived) -> Derived:
    """The run's judges held against the labels that the data bring along, where they do."""
    found = standing_calibration(saved)
    if found is None:
        return derived
    for one in certify(found, derived.scores, saved.folder):
        log.info("certificate of %s for %s: %s", one.judge, one.metric, one.path or one.why)
    return replace(derived, calibration=found)


def _kept(folder: RunFolder) -> str:
    return f"the scores are kept; put the data back, then: {command('report', folder.path)}"


def _report(folder: RunFolder, recipe: Recipe, derived: Derived, found: Inspection, manifest: dict[str, Any]) -> None:
    try:
        report(folder, recipe, derived, found.selected(), manifest)
    except UserError as error:
        raise InfrastructureError(f"the reports cannot be written: {error}", _kept(folder)) from None


def _score(order: Order, found: Inspection, journal: Journal, tally: Tally, watcher: Watcher) -> None:
    """Ask and score what is not finished. An interrupt finishes the cases under way, a second one stops at once."""
    parts, run = found.parts, found.parts.settings.run
    finished = finished_before(order, parts, found.recipe().bounded, tally)
    if journal.torn:
        log.warning("cut off %d bytes of a line that was never finished", journal.torn)
    if order.resumed is not None and tally.done == found.cells:
        watcher.nothing_left(tally, RunFolder(order.folder))

    async def work(known: ExitStack) -> bool:
        following = asyncio.create_task(watcher.follow(tally))
        try:
            plan = Plan(
                run_id=order.run_id,
                target=remembering(order, parts, known),
                answered=answered(order, parts, known),
                pairs=await prepare(parts.pairs, RunFolder(order.folder), tally, watcher),
                target_repeats=run.repeats.target,
                judge_repeats=run.repeats.judge,
                width=parts.width(),
                finished=finished.cells,
                failed=finished.failed,
                case_timeout_s=run.case_timeout_s,
            )
            pipeline = Pipeline(plan, _watched(journal, parts, watcher), tally)

            def stop() -> None:
                pipeline.stop()
                watcher.stopping(tally.in_flight)

            return await interruptible(pipeline.run(found.selected()), stop)
        finally:
            following.cancel()
            await parts.close()

    with ExitStack() as known:
        if asyncio.run(work(known)):
            raise KeyboardInterrupt
    journal.check()


def _incomplete(order: Order, found: Inspection) -> IncompleteError:
    """Which scores a run lacks though it was not stopped."""
    parts, repeats = found.parts, found.parts.settings.run.repeats
    plan = Plan(order.run_id, parts.target, tuple(parts.pairs), repeats.target, repeats.judge)
    finished = read_finished(RunFolder(order.folder), Tally(), found.recipe().bounded, errors_too=True).cells
    names = [
        f"{case.dataset}/{case.id} {pair.metric.name}"
        + (f" (answer {answer}, repeat {repeat})" if answer or repeat else "")
        for case, answer, pair, repeat in plan.missing(found.selected(), finished)
    ]
    log.error("missing scores: %s", "; ".join(names))
    more = f" and {len(names) - _NAMED} more, which evalflow.log names" if len(names) > _NAMED else ""
    what = f"{len(names)} of {found.cells} scores are missing at the end: {'; '.join(names[:_NAMED])}{more}"
    return IncompleteError(f"{what}\n  hint: make them: {command('resume', order.folder)}")


def _watched(journal: Journal, parts: Parts, watcher: Watcher) -> Sink:
    """The journal, with a look at the scores of verbose metrics."""
    verbose = [name for name, metric in parts.metrics.items() if getattr(metric.config, "verbose", False)]
    return WatchedSink(journal, verbose, watcher.scored) if verbose else journal
