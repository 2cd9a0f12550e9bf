"""Try an unsaved metric on one case: preview its prompts, write its steps, score the case."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from evalflow.addons.studio.store.rows import Row, storable_json
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import get_bot
from evalflow.addons.studio.work.cases import read_rows
from evalflow.addons.studio.work.judges import named_judges, tried_judge, with_judge
from evalflow.addons.studio.work.metrics import MetricDraft, check_draft, get_library
from evalflow.addons.studio.work.own_parts import CountedRows, Own, judge_of
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.sent_prompts import PromptPreview
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.subjects import RunSubjects
from evalflow.addons.studio.work.trial_calls import endpoints, preview_of, result_of
from evalflow.addons.studio.work.trial_process import (
    PreviewTask,
    ScoreTask,
    StepsTask,
    TrialResult,
    TriedCase,
    WrittenSteps,
)
from evalflow.app.core.connections import connection_problems
from evalflow.config.load import compose
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError
from evalflow.limited import in_thread

DATASET, RECORDED = "trial", "recorded"


@dataclass(frozen=True, slots=True)
class TriedJudge:
    """A judge to try: an unsaved configuration, or a saved judge by name."""

    name: str
    config: Mapping[str, object] | None = None


@contextmanager
@requires("edit")
def trial_settings(
    space: Workspace, bot: str, draft: MetricDraft, row: Row, judge: TriedJudge | None = None
) -> Generator[tuple[TriedCase, Settings]]:
    """A run of one case, and its settings. Problems within the context say what they are about.

    `judge`: the run's judge; by default the bot's usual one.
    """
    bot_definition = get_bot(space, bot)
    checked = check_draft(space, draft)
    definition, prompts = checked.definition, checked.prompts or {}
    row = storable_json(row)  # as it would be saved
    list(read_rows(DATASET, [row]))
    own = Own(
        targets={bot: ("", space.resolve(bot_definition.config, "target"))}
        if bot_definition.origin == "workspace"
        else {},
        metrics={draft.name: (with_judge(space, draft.name, definition), prompts)},
        judges=named_judges(space, [judge.name] if judge and judge.config is None else [], [definition])
        | ({judge.name: ("", tried_judge(space, judge.name, judge.config))} if judge and judge.config else {}),
        datasets={DATASET: ({}, CountedRows(lambda: [row]))},
    )
    request = RunRequest(bot, [DATASET], [draft.name])
    request = replace(request, judge=judge.name if judge else judge_of(bot_definition.config, request))
    about = RunSubjects(bot, request.judge or "", {draft.name: definition}, ())
    asked = "false" if bot_definition.config.get("kind") == "recorded" else "missing"
    with about.linked():
        arguments = [*request.words(), f"generate={asked}"]
        tried = TriedCase(compose(arguments, unsaved=own.unsaved()), row)
        settings, _ = tried.opened()
        allowed = space.allowed
        if allowed is not None and (problems := connection_problems(settings, allowed)):
            raise UserError(problems)
        yield tried, settings


LONGEST_S = 300.0
"""Time limit of an answer, of a score, and of writing steps, including retries."""


@requires("try")
def preview_metric(space: Workspace, bot: str, draft: MetricDraft, row: Row) -> PromptPreview:
    """Show the prompts that a judge would get for a case. Nothing is sent, and no key is needed.

    `row`: the case by field names, with an answer; `question` becomes one user message.
    """
    with trial_settings(space, bot, draft, row) as (tried, _):
        return preview_of(space, PreviewTask(tried), LONGEST_S)


@requires("try")
async def write_steps(space: Workspace, bot: str, draft: MetricDraft) -> WrittenSteps:
    """Have the judge of a G-Eval metric write its steps; nothing is saved, and existing steps are ignored."""
    if draft.definition.get("kind") != "g_eval" or not draft.definition.get("criteria"):
        what = "steps are written by criteria, for metrics of the kind g_eval"
        raise UserError(Problem(what, "metric.criteria", "say in words what a good answer is", key="criteria"))
    unwritten = replace(draft, definition={**draft.definition, "steps": None, "steps_from": None})

    def written() -> WrittenSteps:
        with trial_settings(space, bot, unwritten, {"question": "-"}) as (tried, settings):
            return result_of(
                space,
                StepsTask(tried, LONGEST_S),
                WrittenSteps,
                f"trial of {draft.name}",
                endpoints(settings),
                LONGEST_S,
            )

    return await in_thread(written)


@requires("try")
async def try_metric(space: Workspace, bot: str, draft: MetricDraft, row: Row) -> TrialResult:
    """Score one case exactly as a run would; nothing is saved. The bot is called if the case has no answer."""
    return await in_thread(lambda: _scored(space, bot, draft, row))


JUDGED = ("judge", "g_eval", "rubric")
"""The kinds of metrics with which any judge can be tried."""


@requires("try")
async def try_judge(space: Workspace, judge: TriedJudge, metric: str, row: Row) -> TrialResult:
    """Have a judge score one answer with a library metric; nothing is saved.

    Raises UserError if the judge does not support the metric's requests, or its key is missing.
    """
    if not row.get("answer"):
        raise UserError(Problem("there is no answer to grade", "answer", "write one, or take a case that has one"))

    def graded() -> TrialResult:
        definition = {**get_library(space, metric).definition, "judge": None}
        return _scored(space, RECORDED, MetricDraft(metric, definition), row, judge)

    return await in_thread(graded)


def _scored(space: Workspace, bot: str, draft: MetricDraft, row: Row, judge: TriedJudge | None = None) -> TrialResult:
    with trial_settings(space, bot, draft, row, judge) as (tried, settings):
        task, longest = ScoreTask(tried, LONGEST_S), 2 * LONGEST_S  # an answer, then its scores
        return result_of(space, task, TrialResult, f"trial of {draft.name}", endpoints(settings), longest)
