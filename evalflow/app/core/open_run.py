"""One run from its first check to its last file: who opens it scores it inside the `with`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from evalflow.app.core.assemble import assemble, observers_of, secrets_of, settings_of
from evalflow.app.core.begin import (
    RunOrder,
    earlier_answers,
    finished_before,
    log_to,
    open_folder,
    open_manifest,
    prepare,
    sharing_target,
)
from evalflow.app.core.cases import count_endings
from evalflow.app.core.certificates import saved_certificates, with_certificates
from evalflow.app.core.derive import Derived, answer_faults, decide, derive, report
from evalflow.app.core.engines import CaseRunner, Engine, EngineJob, ObservedRun, Observer, build_observer, engine_of
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.app.core.kept_labels import has_sources
from evalflow.app.core.saved import SavedRun, agree
from evalflow.app.core.stored_runs import OutgoingCopy, begin_copy
from evalflow.calls.client import CallSession
from evalflow.engine import bookkeeping
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.deadline import interruptible
from evalflow.engine.folder import RunFolder, point_latest, telling_full_disks
from evalflow.engine.gate_looks import GateLooks
from evalflow.engine.journal import JournalSink, WatchedSink, read_finished
from evalflow.engine.pipeline import RunPlan
from evalflow.engine.plan import shuffled
from evalflow.errors import EvalflowError, IncompleteError, InfrastructureError, UserError, WaitingError, command
from evalflow.lazy import expect_memory, load
from evalflow.notes import NOTE, note
from evalflow.protocols import Sink
from evalflow.records import Case
from evalflow.records.manifest import ExportFacts, Manifest, Stop
from evalflow.redaction import Redactor
from evalflow.report.wording import counted

if TYPE_CHECKING:
    from evalflow.app.core.screen import TerminalScreen


log = logging.getLogger("evalflow")
_NAMED = 5
_FIRST_CALLS_S = 0.2  # by then the first calls have been sent, which nothing should delay


@dataclass(frozen=True, slots=True)
class _RunNotes:
    """Prints warnings and notes of a run, and keeps its notes."""

    screen: TerminalScreen
    kept: list[str]

    def tell(self, text: str, level: int) -> None:
        if level >= NOTE and text not in self.kept:
            self.kept.append(text)
        self.screen.noted(text)


@dataclass(slots=True)
class OpenRun:
    """A run that can be scored; `stopped` says why it left cases out, and `derived` is there after the `with`."""

    order: RunOrder
    inspection: Inspection
    opening: Manifest
    engine: Engine
    folder: RunFolder
    journal: JournalSink
    tally: Tally
    screen: TerminalScreen
    redactor: Redactor
    notes: Sequence[str]  # on this part of the run, as far as it has come
    observers: list[Observer] = field(default_factory=list[Observer])
    copy: OutgoingCopy | None = None
    sent: list[ExportFacts] = field(default_factory=list[ExportFacts])  # of this part of the run
    stopped: Stop | None = None
    looks: GateLooks | None = None
    derived: Derived | None = None

    @property
    def exit_code(self) -> int:
        return EvalflowError.exit_code if self.derived is None else self.derived.exit_code

    def score(self) -> None:
        """Score all unfinished cells, or as many as decide the gates if these stop the run.

        An interrupt finishes the cases in progress; a second one stops at once.
        """
        looks = self.looks = self.inspection.rules().looks()
        sink, cases = self.sink(looks), self._cases(looks)

        async def work(resources: ExitStack) -> bool:
            engine = AsyncExitStack()
            following = asyncio.create_task(self.screen.follow(self.tally))
            loading = asyncio.create_task(_load_tables())
            try:
                runner = await self._runner(engine, await self.plan(resources, looks), sink)
                batches, order = self.inspection.parts.session.batches, self.order
                if batches is not None:
                    fresh = order.retry_errors and order.resumed is not None and order.resumed.status == "done"
                    batches.begin(self.folder.path, order.run_id, order.siblings, fresh=fresh)

                def stop() -> None:
                    runner.stop()
                    if batches is not None:
                        batches.stop()
                    self.screen.stopping(self.tally.in_flight)

                return await interruptible(runner.run(cases), stop, self.screen.interrupter)
            finally:
                following.cancel()
                loading.cancel()
                await engine.aclose()
                await self.inspection.parts.close()

        with ExitStack() as resources:
            if asyncio.run(work(resources)):
                raise KeyboardInterrupt
        self.journal.check()
        if looks is not None and looks.stopped:
            self.stopped = "decided"

    def sink(self, looks: GateLooks | None) -> Sink:
        """Where the run's records go: into its journals, out to a receiver, and before the eyes of those who watch."""
        verbose = [
            name for name, metric in self.inspection.parts.metrics.items() if getattr(metric.config, "verbose", False)
        ]
        sink: Sink = self.journal
        for observer in self.observers:
            sink = observer.sink(sink)
        sink = WatchedSink(sink, verbose, self.screen.scored) if verbose else sink
        return sink if looks is None else WatchedSink(sink, looks.metrics, looks.note)

    async def plan(self, resources: ExitStack, looks: GateLooks | None = None) -> RunPlan:
        """Prepare the metrics, and return the plan of the run without the work that earlier parts have finished."""
        order, parts, tally = self.order, self.inspection.parts, self.tally
        run = parts.settings.run
        finished = finished_before(order, parts, self.inspection.rules().bounded, tally, looks)
        if not self.engine.is_here and parts.session.single_flight.settled is None:
            parts.session.single_flight.settled = (
                set()
            )  # the coordinator must know what is paid for here, before it opens
        if self.journal.torn:
            log.warning("cut off %d bytes of a line that was never finished", self.journal.torn)
        if order.resumed is not None and tally.done == self.inspection.cells:
            self.screen.nothing_left(tally, self.folder)
        answered = earlier_answers(order, parts, resources)
        if answered and run.target.runs_here:
            kept = f"{counted(len(answered), 'answer')} of {run.target.calls} from before the run was resumed"
            note(f"{kept} stand, although files, services and values that it reads may have changed since")
        return RunPlan(
            run_id=order.run_id,
            target=sharing_target(order, parts, resources),
            answered=answered,
            pairs=await prepare(parts.pairs, self.folder, tally, self.screen.prepared),
            target_repeats=run.repeats.target,
            judge_repeats=run.repeats.judge,
            width=parts.width(),
            finished=finished.cells,
            failed=finished.failed,
            case_timeout_s=None if parts.session.batches else run.case_timeout_s,
        )

    async def _runner(self, engine: AsyncExitStack, plan: RunPlan, sink: Sink) -> CaseRunner:
        if self.engine.about:
            self.screen.engine_ready(self.engine.about)
        before = self.order.resumed
        is_counted = before is not None and before.requests is not None
        job = EngineJob(plan, sink, self.tally, self.opening, self.inspection.parts, self.folder, is_counted)
        return await engine.enter_async_context(self.engine.open(job))

    def _cases(self, looks: GateLooks | None) -> Iterable[Case]:
        """The cases to ask, in their order; none more of a race that is decided."""
        before, seed = self.order.resumed, self.inspection.parts.settings.run.seed
        if before and before.stopped:
            self.screen.was_decided(self.inspection, before.asked)
        if looks is not None:
            return looks.follow(self.inspection.selected(), seed)
        if before and before.stopped:
            self.stopped, self.tally.asked = before.stopped, Counter(before.asked)
            return ()
        cases = self.inspection.selected()
        return shuffled(cases, seed) if before and before.order.shuffled else cases


async def _load_tables() -> None:
    """Load what the results need while the first replies are under way; a run that is over sooner loads it itself."""
    await asyncio.sleep(_FIRST_CALLS_S)
    await asyncio.to_thread(load)


def inspected(order: RunOrder, session: CallSession | None = None) -> Inspection:
    """Check a run; nothing is sent or written. `session` is for its calls; without it, it has its own."""
    return inspect(assemble(settings_of(order.composed), order.run_id, session))


@contextmanager
def opened(order: RunOrder, inspection: Inspection, screen: TerminalScreen) -> Generator[OpenRun]:
    """Open a run's folder and, when the block ends or fails, write all files and report the outcome.

    UserError if the folder cannot be written, or the run has changed since it began: nothing was sent. With
    InfrastructureError, BudgetError, and IncompleteError for missing scores, finished results are written.
    """
    expect_memory()
    opening = open_manifest(order, inspection)
    engine = engine_of(inspection.parts.settings.run.engine)
    inspection.parts.session.single_flight.open_shared()
    copy = begin_copy(order.folder, inspection.parts.settings.run.copy_to)
    folder = open_folder(order)
    tally = Tally(expected=inspection.cells, waits=inspection.parts.session.waits)
    started, secrets = time.monotonic(), secrets_of(inspection.parts.settings)
    notes = _RunNotes(screen, [*inspection.reading, *inspection.unread])
    redactor, log_file = Redactor(secrets), log_to(folder.log, secrets, notes.tell)
    with (
        telling_full_disks(folder),
        log_file,
        closing(JournalSink(folder, tally, redactor)) as journal,
        ExitStack() as resources,
    ):
        folder.write_manifest(opening)
        agree(opening)
        if order.latest:
            point_latest(order.latest)
        screen.starts(inspection, folder)
        known = (order, inspection, opening, engine, folder, journal, tally, screen, redactor, notes.kept)
        one = OpenRun(*known, copy=copy)
        observed = ObservedRun(folder, inspection.rules(), redactor, inspection.parts.session.connections)
        for _, config in observers_of(inspection.parts.settings.run):
            one.observers.append(resources.enter_context(closing(build_observer(config, observed))))
        status, code = "failed", EvalflowError.exit_code
        try:
            yield one
            status = "done"
        except UserError as error:
            # All checks passed before, so the data must have changed; and exit 2 would mean that nothing was sent.
            code = InfrastructureError.exit_code
            raise InfrastructureError(f"the data changed while the run was going: {error}", _restore(folder)) from None
        except KeyboardInterrupt:
            status, code = "interrupted", 130
            raise
        except WaitingError as error:
            status, code = "waiting", error.exit_code
            raise
        except EvalflowError as error:
            code = error.exit_code
            error.args = (redactor.text(str(error)),)
            log.error("%s", error)
            raise
        finally:
            incomplete, ended = _end(one, opening, status, code, time.monotonic() - started)
            if status != "done" or incomplete:
                _tell_exports(one)
        if incomplete:
            raise incomplete
        assert one.derived is not None  # by _end
        screen.ends(folder, ended, inspection.rules(), one.derived)
        _tell_exports(one)


def _restore(folder: RunFolder) -> str:
    return f"the scores are kept; put the data back, then: {command('report', folder.path)}"


def _end(
    one: OpenRun, opening: Manifest, status: str, code: int, seconds: float
) -> tuple[IncompleteError | None, Manifest]:
    """Derive the results, and write run.json and the reports; returns the error if scores are missing, and run.json."""
    folder, inspection, rules = one.folder, one.inspection, one.inspection.rules()
    derived, incomplete = derive(folder, opening.run_id, rules), None
    if status == "done" and derived.cells < inspection.cells and not one.stopped:
        incomplete = _incomplete(one.order, inspection)
        status, code = "failed", incomplete.exit_code
    about = opening.model_copy(update={"status": status, "stopped": one.stopped})
    saved = SavedRun(folder, about, in_memory=inspection.selected)
    derived = _calibrated(saved, derived, in_data=inspection.labels_apply)
    # A run that stopped early is looked at again, up to the deciding case: those under way then were finished too.
    looks = one.looks if status == "done" and not one.stopped else None
    derived = decide(saved, rules, derived, inspection.selected, looks)
    code = derived.exit_code if status == "done" else code
    endings: Mapping[str, int] = {}
    if inspection.scenarios:
        endings = count_endings(folder, rules.settings.run, inspection.selected(), inspection.parts.target.name)
    faults = answer_faults(derived.scores)
    ended = bookkeeping.closing(opening, status, code, one.tally, derived.states, seconds, one.stopped, endings, faults)
    if one.notes:
        ended = ended.model_copy(update={"notes": list(dict.fromkeys([*opening.notes, *one.notes]))})
    ended = with_certificates(ended, folder)
    folder.write_manifest(ended)
    try:
        listed = report(folder, rules, derived, inspection.selected(), ended)
    except UserError as error:
        raise InfrastructureError(f"the reports cannot be written: {error}", _restore(folder)) from None
    for observer in one.observers:  # at last: all files are written, whatever becomes of it
        if (facts := observer.finish(SavedRun(folder, ended))) is not None:
            one.sent.append(facts)
            folder.write_manifest(ended := ended.exported(facts))
    if one.copy is not None and not incomplete and status == "done":
        one.sent.append(one.copy.finish())
        folder.write_manifest(ended := ended.exported(one.sent[-1]))
    one.derived = replace(derived, texts_apart=not listed)
    return incomplete, ended


def _tell_exports(one: OpenRun) -> None:
    for facts in one.sent:
        one.screen.exported(facts, one.folder)


def _calibrated(run: SavedRun, derived: Derived, *, in_data: bool) -> Derived:
    """Compare a finished run's judges with human labels: its own, those in its data, or those of equal answers."""
    if run.manifest.status != "done" or not (in_data or run.folder.calibration.is_file() or has_sources(run)):
        return derived
    from evalflow.app.core.calibration import certify, saved_calibration

    calibration = saved_calibration(run)
    if calibration is None:
        return derived
    for one in certify(calibration, derived.scores, run.folder, known=saved_certificates()):
        log.info("certificate of %s for %s: %s", one.judge, one.metric, one.path or one.why)
    return replace(derived, calibration=calibration)


def _incomplete(order: RunOrder, inspection: Inspection) -> IncompleteError:
    parts, repeats = inspection.parts, inspection.parts.settings.run.repeats
    plan = RunPlan(order.run_id, parts.target, tuple(parts.pairs), repeats.target, repeats.judge)
    bounded = inspection.rules().bounded
    finished = read_finished(RunFolder(order.folder), order.run_id, Tally(), bounded, errors_too=True).cells
    names: list[str] = []
    for case, answer, pair, repeat in plan.missing(inspection.selected(), finished):
        which = f" (answer {answer}, repeat {repeat})" if answer or repeat else ""
        names.append(f"{case.dataset}/{case.id} {pair.metric.name}{which}")
    log.error("missing scores: %s", "; ".join(names))
    more = f" and {len(names) - _NAMED} more, which evalflow.log names" if len(names) > _NAMED else ""
    what = f"{len(names)} of {inspection.cells} scores are missing at the end: {'; '.join(names[:_NAMED])}{more}"
    return IncompleteError(f"{what}\n  hint: make them: {command('resume', order.folder)}")
