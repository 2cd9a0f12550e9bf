"""Runs: created, cancelled, resumed and deleted; a worker executes them."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from evalflow.addons.studio.store import definitions, runs
from evalflow.addons.studio.store.rows import from_row
from evalflow.addons.studio.store.runs import ENDED, State, StoredRun
from evalflow.addons.studio.work import leases
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.case_checks import keep_notices, read_notices
from evalflow.addons.studio.work.case_choice import LeftOutCases, count_left_out, keep_left_out, read_left_out
from evalflow.addons.studio.work.intake import Intake, results_of, save_results
from evalflow.addons.studio.work.planned_runs import PlannedRun, plan
from evalflow.addons.studio.work.process import working_on
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import (
    Page,
    TakenError,
    Workspace,
    not_found,
    refuse_elsewhere,
    row_number,
    run_folder,
    stale,
)
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.addons.studio.work.validate import NO_PROGRAMS
from evalflow.app.core.assemble import assemble
from evalflow.app.core.begin import write_plan
from evalflow.app.core.case_kinds import CaseKinds
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.app.core.rederive import MetricInRun, changed_at, metrics_in, searched_text
from evalflow.app.core.saved import expect_agreed, programs_of_metrics
from evalflow.app.core.selection import TakenCases, chosen_cases
from evalflow.calls.budget import Lease
from evalflow.config.validate import Settings
from evalflow.engine.folder import RunFolder
from evalflow.errors import ConflictError, InfrastructureError, Problem, UserError, command
from evalflow.paths import new_run_id, shown
from evalflow.summary.rows import SummaryRow

MAX_PAGE = 200


@dataclass(frozen=True, slots=True)
class Progress:
    """A run's progress.

    Attributes:
        done, expected: Finished scores, and their final number; expected is None until it is known.
        rate: Scores per second, recently.
        cost_usd: Cost so far; None if a price is unknown.
        latest: The last finished scores, newest first: metric, dataset, case_id, target_repeat, status, score, reason,
            question; and position, the answer's position in the run, if it can be shown already.
        loaded: Answers in the database while a finished run is being loaded; 0 before.
    """

    done: int = 0
    expected: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    answers: Mapping[str, int] = field(default_factory=dict[str, int])
    rate: float | None = None
    seconds_left: float | None = None
    cost_usd: float | None = None
    latest: Sequence[Mapping[str, object]] = ()
    loaded: int = 0

    @property
    def errors(self) -> int:
        """Scores in state error."""
        return self.counts.get("error", 0)


@dataclass(frozen=True, slots=True)
class Run:
    """A run.

    Attributes:
        state: queued, running, done, failed (refused, an endpoint gone, a bug), cancelled (from here), or interrupted
            (killed, or stopped by hand elsewhere).
        origin: workspace, or command line for a run opened from its folder.
        request: The request, for running it again with changes; None for a run from its folder that no request says.
        repeat: The command line that repeats it; empty until available.
        exit_code: Of its process; None until it has ended, or if no worker saw it end.
        message: Why it failed, in words.
        filled_examples: The number of cases that had no answer example and got this run's answer; None until it
            begins to fill them, or if it does not.
        facts: What its scores mean, once it has ended: `metrics` (see `MetricInRun`), `summary` (rows of all cases
            together, as in summary.json), `excluded` (the details of results that people took out), `gates`,
            `too_many_errors` (whether they make it inconclusive), `followed` (other runs whose labels are of equal
            answers: dataset, metric, run), `datasets`, `taken` (see `TakenCases`), `target`, `kept` (the overrides
            that changed declared thresholds), `seed`, `provider_savings` (in words what providers' own caches saved).
    """

    run_id: str
    title: str
    bot: str
    state: State
    origin: str
    request: RunRequest | None
    folder: Path
    repeat: str
    progress: Progress
    exit_code: int | None
    message: str
    cost_usd: float | None
    filled_examples: int | None
    facts: Mapping[str, Any]
    cancelling: bool
    version: int
    created_at: str
    started_at: str | None
    finished_at: str | None

    @property
    def summary(self) -> list[SummaryRow]:
        """The rows of its summary over all tags; empty until it has ended."""
        return [SummaryRow(**row) for row in self.facts.get("summary", ())]

    @property
    def metrics(self) -> dict[str, MetricInRun]:
        """Its metrics by name; empty until they are known."""
        return metrics_in(self.facts)

    @property
    def taken(self) -> TakenCases:
        """Which cases of its datasets it took, once it has ended; before, those that its request chooses."""
        known = TakenCases(**self.facts.get("taken", {}))
        return replace(known, **chosen_cases(self.request.dataset_values)) if self.request else known


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The estimate of a run, as from `check`. Costs are None if a price is unknown.

    Attributes:
        left_out: What the run leaves out of each dataset.
        notices: Warnings about the results, e.g. a judge that grades answers of its own model.
    """

    cases: Mapping[str, int]
    left_out: Mapping[str, LeftOutCases]
    scores: int
    requests: int
    input_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    cost_usd: tuple[float | None, float | None]
    notices: Sequence[str]


@requires("edit")
@takes_turn
def estimate_run(space: Workspace, request: RunRequest) -> RunEstimate:
    """Check a run and estimate it; nothing is sent or written."""
    planned = plan(space, request)
    inspection, need, budget = _inspected(space, planned, planned.settings, planned.kinds())
    estimate = inspection.estimate
    return RunEstimate(
        cases=dict(inspection.cases),
        left_out=_left_out(space, planned, inspection),
        scores=inspection.cells,
        requests=estimate.requests,
        input_tokens=(estimate.input_tokens_low, estimate.input_tokens_high),
        output_tokens=(estimate.output_tokens_low, estimate.output_tokens_high),
        cost_usd=(estimate.cost_usd_low, estimate.cost_usd_high),
        notices=[*leases.shortfall(budget, need), *planned.notices, *inspection.notices()],
    )


@requires("edit")
@takes_turn
def create_run(space: Workspace, request: RunRequest, creation_key: str | None = None) -> Run:
    """Freeze the run's configuration and data, check the run, and queue it for a worker.

    Repeating a call with the same `creation_key` returns the existing run. After an error no files remain.
    """
    key = None if creation_key is None else space.personal_key(creation_key)
    known = _created(space, request, key)
    if known is not None:
        return known
    planned = plan(space, request)
    folder = space.runs / _new_id(request)
    try:
        with planned.subjects.linked():
            kinds = planned.kinds()
            frozen = planned.freeze(folder / "snapshot")
        is_same = planned.kinds() is kinds  # else the cases have changed since, and are read again
        inspection, need, budget = _inspected(space, planned, frozen, kinds if is_same else CaseKinds())
        keep_left_out(folder / "snapshot", _left_out(space, planned, inspection))
        keep_notices(folder / "snapshot", planned.notices)
        offered = leases.offer(budget, need)
        if offered.short and not offered.waits:
            raise UserError(leases.refusal(budget, offered))
        write_plan(inspection, folder, folder.name)
        values = {
            "project_id": space.project_id,
            "run_id": folder.name,
            "title": request.title,
            "bot": request.bot,
            "bot_id": space.read(definitions.id_of, "bot", request.bot, space.project_id),
            "state": "queued",
            "origin": "workspace",
            "composition": asdict(request),
            "arguments": ["--config-dir", shown(folder / "snapshot" / "conf"), *planned.request.words()],
            "folder": shown(folder),
            "progress": {"expected": inspection.cells},
            "facts": {"searched": searched_text(inspection.parts.settings.run)},
            "need": asdict(need),
            "creation_key": key,
            "created_by": space.identify().name,
        }
        with space.changing("create", "run", folder.name) as connection:
            runs.create(connection, values)
    except InfrastructureError:
        raise  # the run may be in the queue anyway, if the database was lost while it answered
    except ConflictError:
        shutil.rmtree(folder, ignore_errors=True)
        known = _created(space, request, key)  # by another request meanwhile
        if known is None:
            raise
        return known
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return get_run(space, folder.name)


@requires("read")
def get_run(space: Workspace, run_id: str) -> Run:
    """One run."""
    return _as_run(run_row(space, run_id))


@requires("read")
def list_runs(
    space: Workspace,
    cursor: str | None = None,
    limit: int = 50,
    *,
    bot: str | None = None,
    state: str | None = None,
    text: str | None = None,
) -> Page[Run]:
    """Runs, the newest first.

    `text`: only those with each of its words in their title, id, bot, datasets, metrics or models. `cursor` is `next`
    of the previous page. `limit`: at most 200.
    """
    limit = max(1, min(limit, MAX_PAGE))
    stored_runs = space.read(runs.page, space.project_id, row_number(cursor), limit + 1, bot, state, text)
    more = str(stored_runs[limit - 1].id) if len(stored_runs) > limit else None
    return Page([_as_run(_up_to_date(space, row)) for row in stored_runs[:limit]], more)


@requires("edit")
def cancel_run(space: Workspace, run_id: str, expected: int | None = None) -> Run:
    """Stop a run. Finished scores are kept, and `resume_run` continues it.

    `expected` is the version that was seen; None accepts any, since an active run changes every second.
    """
    run_row(space, run_id)
    with space.changing("cancel", "run", run_id) as connection:
        if not runs.cancel(connection, run_id, expected):
            raise _refusal(space, run_id, expected, ENDED, "it is over")
    return get_run(space, run_id)


@requires("edit")
def resume_run(space: Workspace, run_id: str, expected: int | None = None) -> Run:
    """Finish a run that was cancelled, interrupted or failed. Finished calls are not repeated."""
    return _queue(space, run_id, "resume", expected)


@requires("edit")
def retry_errors(space: Workspace, run_id: str, expected: int | None = None) -> Run:
    """Repeat only what ended in error."""
    return _queue(space, run_id, "retry", expected)


@requires("admin")
def delete_run(space: Workspace, run_id: str, expected: int | None = None) -> None:
    """Delete a run that has ended from the database; its folder stays."""
    run_row(space, run_id)
    with space.changing("delete", "run", run_id) as connection:
        if not runs.delete_run(connection, run_id, expected):
            raise _refusal(space, run_id, expected, ("queued", "running"), "cancel it first")


def changed_request(run: Run, **changes: object) -> RunRequest:
    """The request of a run with changes, for running it again."""
    if run.request is None:
        hint = f"run it in a terminal: {run.repeat}"
        raise UserError(Problem(f"run {run.run_id} was made on the command line", "run", hint))
    return replace(run.request, **changes)


@requires("read")
def next_request(space: Workspace, bot: str) -> RunRequest:
    """A run of the bot like its latest one that is done, but of all cases, and without its thresholds and title."""
    known = list_runs(space, bot=bot, state="done", limit=20).items
    latest = next((run.request for run in known if run.request), RunRequest(bot, [], []))
    options = {key: value for key, value in latest.options.items() if key not in ("limit", "sample")}
    return replace(latest, dataset_values={}, thresholds={}, options=options, title="")


@requires("read")
def run_row(space: Workspace, run_id: str) -> StoredRun:
    """The row of a run."""
    return _up_to_date(space, _row(space, run_id))


def _row(space: Workspace, run_id: str) -> StoredRun:
    row = space.read(runs.get, run_id)
    if row is None or row.project_id != space.project_id:
        raise not_found("run", run_id, [])
    return row


def _up_to_date(space: Workspace, row: StoredRun) -> StoredRun:
    """The row of a run. If the command line has changed the results of an ended run, they are read again.

    If it has added scores, a worker reads them.
    """
    folder, known = RunFolder(row.path), row.facts.get("changed_at")
    try:
        if row.state not in ENDED or known is None or known == changed_at(folder):
            return row
        with working_on(run_folder(space, row).path):
            manifest = folder.read_manifest()
            if manifest.status == "running":
                return row
            refuse_elsewhere(space, manifest.config)
            results = None if Intake(row).lags else results_of(row)
            with space.database.writing() as connection:
                if results is None:
                    runs.queue(connection, row.run_id, "load", row.version)
                else:
                    save_results(connection, row, results)
    except BlockingIOError:  # something here works on it
        return row
    except (OSError, UserError) as error:
        what = f"run {row.run_id} is shown as it was before its files changed: {error}"
        space.database.log_fault(what, logging.WARNING)
        return row
    return _row(space, row.run_id)


def _as_run(row: StoredRun) -> Run:
    facts = {name: value for name, value in row.facts.items() if name != "changed_at"}
    return from_row(
        Run,
        vars(row),
        folder=row.path,
        repeat=command(*repeating(row)) if row.arguments else "",
        request=RunRequest(**row.composition) if row.composition else None,
        progress=from_row(Progress, {**row.progress, "loaded": row.loaded}),
        facts=facts if "summary" in facts else {},  # until then, facts only hold what decides passing
    )


def repeating(row: StoredRun) -> list[str]:
    """The arguments that repeat a run, including generated steps and changed thresholds that were saved with it."""
    facts = row.facts
    steps = [f"metric.{metric}.steps_from={row.folder}" for metric in facts.get("wrote_steps", ())]
    return [*row.arguments, *steps, *(f"++{override}" for override in facts.get("kept", ()))]


def _queue(space: Workspace, run_id: str, task: Literal["resume", "retry"], expected: int | None) -> Run:
    _expect_own(space, run_row(space, run_id))
    with space.changing(task, "run", run_id) as connection:
        if not runs.queue(connection, run_id, task, expected):
            raise _refusal(space, run_id, expected, ("queued", "running"), "wait until it has ended, or cancel it")
    return get_run(space, run_id)


def _expect_own(space: Workspace, row: StoredRun) -> None:
    """Check that a resumed run uses files below the working directory only, and only an allowed program."""
    folder = run_folder(space, row)
    if folder.manifest.is_file():
        manifest = folder.read_manifest()
        refuse_elsewhere(space, manifest.config)
        if any(programs_of_metrics(manifest)):
            raise UserError(
                Problem(NO_PROGRAMS, str(folder.path), f"resume it there: {command('resume', folder.path)}")
            )
        expect_agreed(manifest, str(folder.path), "resume it on the command line, where you are asked", space.root)


def _refusal(space: Workspace, run_id: str, expected: int | None, unfit: Sequence[State], hint: str) -> UserError:
    """Why an operation on a run was refused: its state does not allow it, or its version is not the expected one."""
    row = _row(space, run_id)
    if row.state in unfit or expected is None:
        return TakenError(Problem(f"run {run_id} is {row.state}", "run", hint))
    return stale("run", run_id, expected, row.version)


def _inspected(
    space: Workspace, planned: PlannedRun, settings: Settings, kinds: CaseKinds
) -> tuple[Inspection, leases.Need, leases.ProjectBudget]:
    """The inspection of a run, as in `check`; what it needs, and what its project has."""
    budget = space.read(leases.read_budget, space.project_id)
    lease = Lease(id=0, **budget.limits.model_dump())
    with planned.subjects.linked():
        inspection = inspect(assemble(settings, connections=space.allowed, lease=lease), kinds)
    return inspection, leases.need_of(inspection.estimate, inspection.parts.settings.run.budget), budget


def _left_out(space: Workspace, planned: PlannedRun, inspection: Inspection) -> dict[str, LeftOutCases]:
    taken = {key: inspection.cases[name] for (group, name), key in planned.settings.keys.items() if group == "dataset"}
    return count_left_out(space, planned.request, planned.counts, taken)


@requires("read")
def left_out_of(space: Workspace, run_id: str) -> dict[str, LeftOutCases]:
    """What a run left out, by dataset; empty for runs of the command line."""
    return read_left_out(run_row(space, run_id).path / "snapshot")


@requires("read")
def notices_of(space: Workspace, run_id: str) -> list[str]:
    """The notices when a run was planned, such as checks that its judge cannot decide."""
    return read_notices(run_row(space, run_id).path / "snapshot")


def _new_id(request: RunRequest) -> str:
    return new_run_id([f"dataset={'-'.join(request.datasets)}", f"metric={'-'.join(request.metrics)}"])


def _created(space: Workspace, request: RunRequest, key: str | None) -> Run | None:
    if key is None:
        return None
    row = space.read(runs.by_key, key)
    return _same(row, request) if row else None


def _same(row: StoredRun, request: RunRequest) -> Run:
    """The run created with the same key. Raises if its request is a different one."""
    run = _as_run(row)
    if run.request is None or asdict(run.request) != json.loads(json.dumps(asdict(request))):
        raise TakenError(
            Problem("this idempotency key was used for another request", "Idempotency-Key", "draw a new one")
        )
    return run
