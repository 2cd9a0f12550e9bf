"""Teaching a judge by the labels of a review: what it takes, its measurement as a run, and the metric's new version."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evalflow.addons.studio.store import runs as stored_runs
from evalflow.addons.studio.store.runs import ENDED
from evalflow.addons.studio.work import leases
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import BOTS
from evalflow.addons.studio.work.metrics import (
    MetricDefinition,
    MetricDraft,
    create_metric,
    get_library,
    get_metric,
    update_metric,
)
from evalflow.addons.studio.work.review_results import review_labels
from evalflow.addons.studio.work.review_rows import stored_review
from evalflow.addons.studio.work.reviews import scored_run
from evalflow.addons.studio.work.runs import Run, get_run
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.app.core.assemble import assemble, settings_of
from evalflow.app.core.begin import RunOrder, write_plan
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.app.core.labels import bound_labels
from evalflow.app.core.rederive import searched_text
from evalflow.app.core.saved import SavedRun, declared_meaning, open_run
from evalflow.app.core.teaching import NewVersion, Teaching, expect_prompts, texts_of
from evalflow.calls.budget import Lease
from evalflow.calls.client import CallSession
from evalflow.config.yaml_text import unescaped
from evalflow.engine.folder import RunFolder
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.paths import new_run_id
from evalflow.summary.alignment import Alignment
from evalflow.values.jsonvalues import json_text

RECORDED = "recorded"
"""The bot of a measurement: it scores answers that are there."""

_OPEN = "people are still labelling; close the review first, so that the labels are measured once"


@dataclass(frozen=True, slots=True)
class ShownExample:
    """An answer that the judge would be shown: its texts by name, and the grades of people and of the judge."""

    case_id: str
    texts: Mapping[str, str]
    people: str
    judge: str


@dataclass(frozen=True, slots=True)
class JudgeTeaching:
    """The requirements for teaching the judge of a metric, and the result.

    Attributes:
        why_not: Why it cannot be taught; empty if it can, and then all else is there.
        next_step: What to do if it cannot be taught; may be empty.
        learning, held_out: Labelled answers to learn from, and to measure with.
        calls: All of the judge; `questions` of them are sent at once, before the run. `cost_usd` is at most of the run.
        run: The run of the measurement, if one was started with these labels.
        alignment: What it says, once it has ended.
        version: The version that the metric would have; `is_saved`: it has it.
        not_saved: Why it cannot be saved here; empty if it can.
    """

    metric: str
    why_not: str = ""
    next_step: str = ""
    learning: int = 0
    held_out: int = 0
    examples: Sequence[ShownExample] = ()
    questions: int = 0
    calls: int = 0
    cost_usd: float | None = None
    run: Run | None = None
    alignment: Alignment | None = None
    version: int = 0
    is_saved: bool = False
    not_saved: str = ""


@requires("edit")
def teachings(space: Workspace, review: str) -> list[JudgeTeaching]:
    """Of each metric of a review; nothing is sent. UserError if there is no label yet, or the run was deleted."""
    row = stored_review(space, review)
    run = scored_run(space, row.run_id)
    if row.state == "open":
        return [JudgeTeaching(metric.name, _OPEN) for metric in row.metrics]
    judge_teachings: list[JudgeTeaching] = []
    for metric in row.metrics:
        try:
            judge_teachings.append(_teaching(space, _planned(space, review, run, metric.name)))
        except UserError as error:
            why = "; ".join(dict.fromkeys(problem.what for problem in error.problems))
            hints = "; ".join(dict.fromkeys(problem.hint for problem in error.problems if problem.hint))
            judge_teachings.append(JudgeTeaching(metric.name, why, hints))
    return judge_teachings


@requires("edit")
@takes_turn
def teach(space: Workspace, review: str, metric: str) -> Run:
    """Queue the run that measures the taught judge on the held-out labels; the same labels are measured once.

    If people gave no reasons for some examples, the judge is asked for them first, in one call.
    """
    row = stored_review(space, review)
    if row.state == "open":
        raise TakenError(Problem(_OPEN, "review"))
    titles = {one.name: one.title or one.name for one in row.metrics}
    plan = _planned(space, review, scored_run(space, row.run_id), metric)
    key = _key(space, plan)
    if known := _measurement(space, key):
        return known
    version = plan.version()
    folder = space.runs / new_run_id([f"metric={metric}"])
    try:
        if plan.questions:
            order = plan.order(version, folder=folder)
            with leases.trial_budget(space, f"reasons for {metric}") as budget:
                session = CallSession(connections=space.allowed, budget=budget)
                version = plan.version(plan.ask(_inspected(space, order, session)))
        inspection = _inspected(space, plan.order(version, folder=folder))
        need = leases.need_of(inspection.estimate, inspection.parts.settings.run.budget)
        limits = space.read(leases.read_budget, space.project_id)
        offered = leases.offer(limits, need)
        if offered.short and not offered.waits:
            raise UserError(leases.refusal(limits, offered))
        write_plan(inspection, folder, folder.name)
        values: dict[str, object] = {
            "project_id": space.project_id,
            "run_id": folder.name,
            "title": f"{titles[metric]}: the judge taught by the review {review}",
            "bot": RECORDED,
            "state": "queued",
            "origin": "workspace",
            "composition": {},
            "arguments": [],
            "folder": str(folder),
            "progress": {"expected": inspection.cells},
            "facts": {"searched": searched_text(inspection.parts.settings.run)},
            "need": asdict(need),
            "creation_key": key,
            "created_by": space.identify().name,
        }
        with space.changing("teach", "run", folder.name) as connection:
            stored_runs.create(connection, values)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return get_run(space, folder.name)


@requires("edit")
def save_taught(space: Workspace, review: str, metric: str) -> MetricDefinition:
    """Save the metric's new version for the bot; TakenError unless the held-out labels say that it is better."""
    plan = _planned(space, review, scored_run(space, stored_review(space, review).run_id), metric)
    done = _teaching(space, plan)
    if done.alignment is None or not done.alignment.helps:
        what = f"the held-out labels do not say that the taught judge of {metric} is better"
        raise TakenError(Problem(what, "metric", "the metric stays as it is"))
    if done.not_saved:
        raise TakenError(Problem(done.not_saved, "metric"))
    assert done.run is not None
    bot, current = _current(space, plan)
    draft = MetricDraft(current.name, {**current.definition, **_changes(plan, open_run(RunFolder(done.run.folder)))})
    if current.bot is None:
        return create_metric(space, bot, draft)
    return update_metric(space, bot, draft, current.version)


def _planned(space: Workspace, review: str, run: SavedRun, metric: str) -> Teaching:
    return Teaching.of(run, metric, bound_labels(run, list(review_labels(space, review))))


def _teaching(space: Workspace, plan: Teaching) -> JudgeTeaching:
    lesson, halves, version = plan.lesson, plan.halves, plan.version()
    run = _measurement(space, _key(space, plan))
    about = JudgeTeaching(
        lesson.metric,
        learning=halves.learning.height,
        held_out=halves.held_out.height,
        examples=[
            ShownExample(
                one.key[0],
                texts_of(one),
                str(lesson.graded(one.human, one.said)),
                str(lesson.graded(one.judged)),
            )
            for one in plan.examples
        ],
        questions=plan.questions,
        run=run,
        version=version.version,
    )
    if run is None:
        estimate = _estimated(space, plan, version)
        return replace(about, calls=plan.questions + estimate[0], cost_usd=estimate[1])
    if run.state not in ENDED or not run.facts:
        return about
    after = open_run(RunFolder(run.folder))
    changes = _changes(plan, after)
    try:
        _, current = _current(space, plan)
        is_saved = all(current.definition.get(name) == value for name, value in changes.items())
        not_saved = "" if is_saved else _not_saved(plan, current)
    except EvalflowError as error:
        is_saved, not_saved = False, str(error)
    return replace(about, alignment=plan.measured(after), is_saved=is_saved, not_saved=not_saved)


def _estimated(space: Workspace, plan: Teaching, version: NewVersion) -> tuple[int, float | None]:
    """The requests of the measurement, and what they cost at most."""
    folder = space.runs / new_run_id([f"metric={plan.lesson.metric}"])
    try:
        estimate = _inspected(space, plan.order(version, folder=folder)).estimate
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return estimate.requests, estimate.cost_usd_high


def _inspected(space: Workspace, order: RunOrder, session: CallSession | None = None) -> Inspection:
    settings = settings_of(order.composed, programs=False)
    if session is not None:
        return inspect(assemble(settings, order.run_id, session=session, isolated=space.allowed is not None))
    lease = Lease(id=0, **space.read(leases.read_budget, space.project_id).limits.model_dump())
    return inspect(assemble(settings, connections=space.allowed, lease=lease))


def _key(space: Workspace, plan: Teaching) -> str:
    """A key of a measurement, from its answers, the parts of them that the judge is shown, and the labels."""
    held = plan.halves.held_out.select("dataset", "case_id", "target_repeat", "human").rows()
    about = [space.project_id, plan.run.manifest.run_id, plan.lesson.metric, plan.version().config, held]
    return f"teach {hashlib.sha256(json_text(about).encode()).hexdigest()}"


def _measurement(space: Workspace, key: str) -> Run | None:
    row = space.read(stored_runs.by_key, key)
    return get_run(space, row.run_id) if row else None


def _changes(plan: Teaching, after: SavedRun) -> dict[str, Any]:
    """The keys of the metric that the measured version changes, with their values."""
    before, now = plan.run.manifest.metric_config(plan.lesson.metric), after.manifest.metric_config(plan.lesson.metric)
    changed = {name: value for name, value in now.items() if name != "gate" and before.get(name) != value}
    return unescaped(json.loads(json.dumps(changed)))


def _current(space: Workspace, plan: Teaching) -> tuple[str, MetricDefinition]:
    """The run's bot, and its metric as it is now: its own, or that of the library. NotFoundError if there is none."""
    run = get_run(space, plan.run.manifest.run_id)
    bot, key = run.bot, plan.run.manifest.metrics[plan.lesson.metric].key
    BOTS.get(space, bot)
    try:
        return bot, get_metric(space, bot, key)
    except NotFoundError:
        return bot, get_library(space, key)


def _not_saved(plan: Teaching, current: MetricDefinition) -> str:
    """Why the measured version cannot follow the metric as it is now; empty if it can."""
    meaning = json.loads(json.dumps(declared_meaning(plan.run.manifest, plan.lesson.metric)))
    now: Mapping[str, Any] = json.loads(json.dumps(dict(current.definition)))
    other = [name for name, value in meaning.items() if now.get(name) != value]
    if other:
        return f"{', '.join(other)} of {current.name} has changed since the run; run it again, and label those answers"
    try:
        expect_prompts(plan.run, plan.lesson, "run it again, and label those answers")
    except UserError as error:
        return error.problems[0].what
    return ""
