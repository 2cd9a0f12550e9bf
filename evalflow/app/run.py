"""The commands `run` and `resume`: a run or a sweep, from a command line to an exit code."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evalflow.app.core.assemble import assemble, secrets_of, settings_of, with_default_judge
from evalflow.app.core.begin import (
    RunOrder,
    earlier_answers,
    facts_of,
    finished_before,
    log_to,
    open_folder,
    open_manifest,
    prepare,
    sharing_target,
)
from evalflow.app.core.certificates import with_certificates
from evalflow.app.core.derive import Derived, decide, derive, report
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.app.core.saved import ProgramError, SavedRun, agree, composed_of, expect_agreed, find_run, read_manifest
from evalflow.config.load import HydraJob, launch
from evalflow.config.schema import BudgetConfig
from evalflow.errors import (
    EvalflowError,
    IncompleteError,
    InfrastructureError,
    Problem,
    UserError,
    command,
    did_you_mean,
)
from evalflow.paths import conf_dirs, new_run_id
from evalflow.records import Case
from evalflow.redaction import Redactor
from evalflow.run import manifest as manifests
from evalflow.run.deadline import interruptible
from evalflow.run.folder import RunFolder, point_latest, refuse_links, telling_full_disks
from evalflow.run.journal import JournalSink, WatchedSink, read_finished
from evalflow.run.manifest import Tally
from evalflow.run.pipeline import Pipeline, RunPlan

if TYPE_CHECKING:
    from evalflow.app.core.screen import TerminalScreen


log = logging.getLogger("evalflow")
_NAMED = 5


def run(order: RunOrder, screen: TerminalScreen) -> int:
    """Check the run, execute it, write all files, and report the outcome; returns the exit code: 0, 1 or 3.

    Raises:
        UserError: The configuration or the data are invalid; nothing was sent or written.
        InfrastructureError, BudgetError: No further calls could be made; finished results are written.
        IncompleteError: The run ended without all scores; finished results are written.
        KeyboardInterrupt: Stopped by hand; finished results are written.
    """
    inspection = inspect(assemble(settings_of(order.composed), order.run_id))
    opening = open_manifest(order, facts_of(inspection))
    folder = open_folder(order)
    tally = Tally(expected=inspection.cells)
    started = time.monotonic()
    hint = f"the scores are kept; put the data back, then: {command('report', folder.path)}"
    secrets = secrets_of(inspection.parts.settings)
    redactor, log_file = Redactor(secrets), log_to(folder.log, secrets)
    with telling_full_disks(folder), log_file, closing(JournalSink(folder, tally, redactor)) as journal:
        folder.write_manifest(opening)
        agree(opening)
        if order.latest:
            point_latest(order.latest)
        screen.starts(inspection, folder)
        status, code, incomplete, decided = "failed", EvalflowError.exit_code, None, False
        try:
            decided = _score(order, inspection, journal, tally, screen)
            status = "done"
        except UserError as error:
            # All checks passed before, so the data must have changed; and exit 2 would mean that nothing was sent.
            code = InfrastructureError.exit_code
            raise InfrastructureError(f"the data changed while the run was going: {error}", hint) from None
        except KeyboardInterrupt:
            status, code = "interrupted", 130
            raise
        except EvalflowError as error:
            code = error.exit_code
            error.args = (redactor.text(str(error)),)
            log.error("%s", error)
            raise
        finally:
            rules = inspection.rules()
            derived = derive(folder, rules)
            if status == "done" and derived.cells < inspection.cells and not decided:
                incomplete = _incomplete(order, inspection)
                status, code = "failed", incomplete.exit_code
            saved = SavedRun(folder, {**opening, "status": status})
            derived = _calibrated(saved, derived, in_data=inspection.labels_apply)
            derived = decide(saved, rules, derived, inspection.selected)
            code = derived.exit_code if status == "done" else code
            ended = manifests.closing(opening, status, code, tally, derived.states, time.monotonic() - started)
            ended = with_certificates({**ended, "stopped": "decided" if decided else None}, folder)
            folder.write_manifest(ended)
            try:
                report(folder, rules, derived, inspection.selected(), ended)
            except UserError as error:
                raise InfrastructureError(f"the reports cannot be written: {error}", hint) from None
        if incomplete:
            raise incomplete
        screen.ends(folder, ended, rules, derived)
    return derived.exit_code


def _calibrated(run: SavedRun, derived: Derived, *, in_data: bool) -> Derived:
    """Compare a finished run's judges with human labels, if it was calibrated before, or some are in its data."""
    if run.manifest["status"] != "done" or not (in_data or run.folder.calibration.is_file()):
        return derived
    from evalflow.app.core.calibration import certify, saved_calibration

    found = saved_calibration(run)
    if found is None:
        return derived
    for one in certify(found, derived.scores, run.folder):
        log.info("certificate of %s for %s: %s", one.judge, one.metric, one.path or one.why)
    return replace(derived, calibration=found)


def _score(order: RunOrder, found: Inspection, journal: JournalSink, tally: Tally, screen: TerminalScreen) -> bool:
    """Score all unfinished cells, and return whether cases were left out because all gates were decided.

    An interrupt finishes the cases in progress; a second one stops at once.
    """
    parts, run = found.parts, found.parts.settings.run
    looks = found.rules().looks()
    finished = finished_before(order, parts, found.rules().bounded, tally, looks)
    if journal.torn:
        log.warning("cut off %d bytes of a line that was never finished", journal.torn)
    if order.resumed is not None and tally.done == found.cells:
        screen.nothing_left(tally, RunFolder(order.folder))

    verbose = [name for name, metric in parts.metrics.items() if getattr(metric.config, "verbose", False)]
    sink = WatchedSink(journal, verbose, screen.scored) if verbose else journal
    cases: Iterable[Case] = found.selected()
    if looks is not None:
        sink = WatchedSink(sink, looks.metrics, looks.note)
        cases = looks.follow(cases, run.seed)
    if order.resumed and order.resumed.get("stopped"):
        screen.was_decided(found, order.resumed["asked"])

    async def work(resources: ExitStack) -> bool:
        following = asyncio.create_task(screen.follow(tally))
        try:
            plan = RunPlan(
                run_id=order.run_id,
                target=sharing_target(order, parts, resources),
                answered=earlier_answers(order, parts, resources),
                pairs=await prepare(parts.pairs, RunFolder(order.folder), tally, screen.prepared),
                target_repeats=run.repeats.target,
                judge_repeats=run.repeats.judge,
                width=parts.width(),
                finished=finished.cells,
                failed=finished.failed,
                case_timeout_s=run.case_timeout_s,
            )
            pipeline = Pipeline(plan, sink, tally)

            def stop() -> None:
                pipeline.stop()
                screen.stopping(tally.in_flight)

            return await interruptible(pipeline.run(cases), stop)
        finally:
            following.cancel()
            await parts.close()

    with ExitStack() as resources:
        if asyncio.run(work(resources)):
            raise KeyboardInterrupt
    journal.check()
    return looks is not None and looks.stopped


def _incomplete(order: RunOrder, found: Inspection) -> IncompleteError:
    """The error that lists the missing scores of a run that was not stopped."""
    parts, repeats = found.parts, found.parts.settings.run.repeats
    plan = RunPlan(order.run_id, parts.target, tuple(parts.pairs), repeats.target, repeats.judge)
    finished = read_finished(RunFolder(order.folder), Tally(), found.rules().bounded, errors_too=True).cells
    names: list[str] = []
    for case, answer, pair, repeat in plan.missing(found.selected(), finished):
        which = f" (answer {answer}, repeat {repeat})" if answer or repeat else ""
        names.append(f"{case.dataset}/{case.id} {pair.metric.name}{which}")
    log.error("missing scores: %s", "; ".join(names))
    more = f" and {len(names) - _NAMED} more, which evalflow.log names" if len(names) > _NAMED else ""
    what = f"{len(names)} of {found.cells} scores are missing at the end: {'; '.join(names[:_NAMED])}{more}"
    return IncompleteError(f"{what}\n  hint: make them: {command('resume', order.folder)}")


WORST_FIRST = (130, 5, 4, 2, 3, 1, 0)


def execute(
    arguments: Sequence[str], config_dir: Path | None, screen: TerminalScreen, run_id: str | None = None
) -> int:
    """Execute a run or a sweep from overrides and Hydra's flags.

    A worker sets `run_id`, to find the run that it starts. The exit code of a sweep is the worst of its runs.

    Raises:
        UserError: The configuration could not be composed.
    """
    arguments = with_default_judge(arguments, config_dir)
    overrides = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    jobs = _Jobs(run_id or new_run_id(overrides), overrides, screen)
    try:
        launch(arguments, jobs.run, config_dir, jobs.run_id, settings_of)
    except KeyboardInterrupt:
        jobs.codes.append(130)
        screen.interrupted(jobs.folders[-1] if jobs.folders else None)
    finally:
        jobs.end_sweep()
    return next((code for code in WORST_FIRST if code in jobs.codes), 0)


@dataclass(slots=True)
class _Jobs:
    """The runs of one command line, and their results so far."""

    run_id: str
    overrides: Sequence[str]
    screen: TerminalScreen
    codes: list[int] = field(default_factory=list[int])
    folders: list[Path] = field(default_factory=list[Path])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    sweep: Path | None = None

    def run(self, job: HydraJob) -> None:
        """Execute one run, which is part of a sweep if it has a number."""
        own_id, latest = self.run_id, job.folder
        if job.number is not None:
            own_id, latest = f"{self.run_id}-{job.number}", job.folder.parent
            if self.sweep is None:
                from evalflow.app.core.sweep import open_sweep

                self.sweep = latest
                open_sweep(latest, self.run_id, self.overrides)
                self.screen.sweeping()
        folder = RunFolder(job.folder)

        def has_begun() -> bool:
            return folder.manifest.exists() and folder.read_manifest()["run_id"] == own_id

        try:
            order = RunOrder(job.read(), job.folder, own_id, latest, tuple(self.folders))
            self.codes.append(run(order, self.screen))
        except EvalflowError as error:
            self.failed[job.folder.name] = "; ".join(" ".join(line.split()) for line in str(error).splitlines())
            self.screen.failed(error, job.folder if has_begun() else None)
            self.codes.append(error.exit_code)
        finally:
            if has_begun():
                self.folders.append(job.folder)
            elif {path.name for path in job.folder.glob("*")} <= {".hydra"}:  # Hydra creates it before any check
                shutil.rmtree(job.folder, ignore_errors=True)

    def end_sweep(self) -> None:
        """Write the report of the sweep, if this is one."""
        if self.sweep and self.folders:
            from evalflow.app.core.sweep import write_sweep

            self.screen.swept(self.sweep, write_sweep(self.sweep, self.folders, self.failed))
        elif self.sweep:
            shutil.rmtree(self.sweep, ignore_errors=True)


def resume(
    given: str | None,
    screen: TerminalScreen,
    *,
    retry_errors: bool,
    changes: Sequence[str] = (),
    agrees: Callable[[str], bool] = lambda _: False,
) -> int:
    """Finish a run: score all cells that its journals lack. The exit code is that of `run`, or 130 if stopped again.

    `changes` is a new budget for all parts of the run together, e.g. `budget.usd=5`. `agrees` asks the user whether to
    start a program that the folder names, if it was never started here before.

    Raises:
        UserError: `changes` has a setting other than the budget, there is no such run, another process works on it, or
            its data or configuration have changed.
        InfrastructureError, BudgetError: No further calls could be made; finished results are written.
    """
    folder = find_run(given, "resume")
    refuse_links(folder)
    manifest = read_manifest(folder)
    try:
        hint = f"if you trust it: {command('resume', folder.path, '--trust-program')}"
        expect_agreed(manifest, str(folder.path), hint)
    except ProgramError as error:
        if not agrees(error.problems[0].what):
            raise
        agree(manifest)
    manifest = _with_budget(manifest, changes)
    order = RunOrder(composed_of(manifest), folder.path, manifest["run_id"], None, (), manifest, retry_errors)
    try:
        return run(order, screen)
    except KeyboardInterrupt:
        screen.interrupted(folder.path)
        return 130


def _with_budget(manifest: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The manifest with another budget, the only setting that can change when a run is resumed."""
    settings = [change for change in changes if not change.startswith("budget.")]
    if settings:
        what = f"{', '.join(settings)}: a run keeps its settings, all but its budget, or its scores would not be alike"
        changed = {change.partition("=")[0].lstrip("+~") for change in changes}
        kept = [word for word in manifest["overrides"] if word.partition("=")[0].lstrip("+~") not in changed]
        own = [folder for folder in manifest["search_folders"]["conf"] if Path(folder) not in conf_dirs(None)]
        again = command(*(["--config-dir", own[0]] if own else []), *kept, *changes)
        raise UserError(Problem(what, "command line", f"start it again; what was asked is remembered: {again}"))
    config = manifest["config"]
    values: dict[str, Any] = {**config.get("budget", {})}
    for change in changes:
        key, _, text = change.removeprefix("budget.").partition("=")
        if key not in BudgetConfig.model_fields:
            hint = did_you_mean(key, BudgetConfig.model_fields)
            raise UserError(Problem(f"the budget has no {key!r}", "command line", hint))
        values[key] = yaml.safe_load(text)
    return {**manifest, "config": {**config, "budget": values}}
