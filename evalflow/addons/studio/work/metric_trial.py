"""Try an unsaved metric on one case: preview its prompts, write its steps, score the case."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from anyio import to_thread

from evalflow.addons.studio.store.rows import Row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import get_bot
from evalflow.addons.studio.work.cases import read_rows
from evalflow.addons.studio.work.judges import named_judges, tried_judge, with_judge
from evalflow.addons.studio.work.leases import trial_budget
from evalflow.addons.studio.work.metrics import MetricDraft, check_draft, get_library
from evalflow.addons.studio.work.own_parts import CountedRows, Own, judge_of
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.subjects import RunSubjects
from evalflow.addons.studio.work.validate import without_key
from evalflow.app.core.assemble import Parts, assemble, offered, settings_of
from evalflow.app.core.connections import connection_problems
from evalflow.app.core.inspect import refusal_of
from evalflow.calls.client import CallSession
from evalflow.config.judges import each_judge
from evalflow.config.load import compose
from evalflow.config.validate import Settings
from evalflow.datasets import HeldDataset
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.pipeline import Pipeline, RunPlan
from evalflow.engine.scoring import Pair
from evalflow.errors import JudgeError, Problem, UserError
from evalflow.llm.judge import OpenAIJudge
from evalflow.llm.panel import single
from evalflow.metrics.kinds.g_eval import Steps
from evalflow.metrics.steps import blocked_outcome, fields_of
from evalflow.protocols import Judge
from evalflow.records import Answer, Ask, Case, ScoreRecord, Usage
from evalflow.targets.recorded import recorded_answer

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
) -> Generator[tuple[Settings, Case]]:
    """Yield the settings of a run of one case, and the case. Errors raised in the block get links to their subjects.

    `judge`: the run's judge; by default the bot's usual one.
    """
    found = get_bot(space, bot)
    checked = check_draft(space, draft)
    definition, prompts = checked.definition, checked.prompts or {}
    list(read_rows(DATASET, [row]))
    own = Own(
        targets={bot: ("", space.resolve(found.config, "target"))} if found.origin == "workspace" else {},
        metrics={draft.name: (with_judge(space, draft.name, definition), prompts)},
        judges=named_judges(space, [judge.name] if judge and judge.config is None else [], [definition])
        | ({judge.name: ("", tried_judge(space, judge.name, judge.config))} if judge and judge.config else {}),
        datasets={DATASET: ({}, CountedRows(lambda: [row]))},
    )
    request = RunRequest(bot, [DATASET], [draft.name])
    request = replace(request, judge=judge.name if judge else judge_of(found.config, request))
    about = RunSubjects(bot, request.judge or "", {draft.name: definition}, ())
    asked = "false" if found.config.get("kind") == "recorded" else "missing"
    with about.linked():
        words = [*request.words(), f"generate={asked}"]
        settings = settings_of(compose(words, unsaved=own.unsaved()), programs=False)
        (config,) = settings.run.dataset.values()
        settings = settings.with_datasets({DATASET: HeldDataset.of(config, [row])})
        allowed = space.allowed
        if allowed is not None and (problems := connection_problems(settings, allowed)):
            raise UserError(problems)
        yield settings, next(offered(settings.run))


@asynccontextmanager
async def _trial(
    space: Workspace, bot: str, draft: MetricDraft, row: Row, judge: TriedJudge | None = None
) -> AsyncGenerator[tuple[Parts, Case]]:
    """Yield the parts of a run, whose judge supports all requests of the metrics, and the case."""
    with ExitStack() as stack:
        settings, case = await to_thread.run_sync(stack.enter_context, trial_settings(space, bot, draft, row, judge))
        budget = stack.enter_context(trial_budget(space, f"trial of {draft.name}"))
        session = CallSession(connections=space.allowed, budget=budget)
        parts = await to_thread.run_sync(lambda: assemble(settings, session=session, isolated=True))
        try:
            for pair in parts.pairs:
                if refused := refusal_of(pair.metric, pair.judge):
                    what, hint = f"step {refused[0]}: {refused[1]}", "name a model that judges"
                    raise UserError(Problem(what, "metric.judge", hint, key="judge.model"))
            yield parts, case
        finally:
            await parts.close()


def keyless(settings: Settings) -> Settings:
    """Remove API keys (nothing is sent) and metrics' programs from the settings."""
    target = without_key(settings.run.target)
    judges = {name: each_judge(judge, without_key) for name, judge in settings.judges.items()}
    embedder = without_key(settings.run.embedder)
    metrics = {name: metric.without_programs() for name, metric in settings.run.metric.items()}
    run = settings.run.model_copy(update={"target": target, "embedder": embedder, "metric": metrics})
    return replace(settings, run=run, judges=judges)


LONGEST_S = 300.0
"""Time limit for an answer, for a score, and for writing steps, including retries."""
LONGEST_PROMPT = 1_000_000
"""Maximum characters of a prompt; few models accept that many."""


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """The request of one step to a judge.

    Attributes:
        messages: (role, text) as sent, including the added instructions on the reply format.
        request: The rest of the request, e.g. model, temperature and reply schema. None for a judge that gets a task
            instead of a prompt.
        times: How often it is sent, if replies are sampled.
    """

    metric: str
    step: str
    messages: Sequence[tuple[str, str]]
    request: Mapping[str, object] | None
    times: int = 1


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """All requests to a judge for one case.

    Attributes:
        prompts: In order. A placeholder stands for text from an earlier step's reply.
        nothing: Why nothing would be sent, or "".
    """

    judge: str | None
    nature: str
    prompts: Sequence[SentPrompt]
    nothing: str = ""


@dataclass(frozen=True, slots=True)
class WrittenSteps:
    """Steps that a judge wrote from the criteria, and their cost."""

    steps: Sequence[str]
    judge: str
    usage: Usage | None
    cost_usd: float | None
    latency_s: float | None


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The answer to one case and its scores. A metric that runs checks gives several."""

    answer: Answer
    scores: Sequence[ScoreRecord]


@requires("try")
def preview_metric(space: Workspace, bot: str, draft: MetricDraft, row: Row) -> PromptPreview:
    """Show the prompts that a judge would get for a case. Nothing is sent, and no key is needed.

    `row`: the case by field names, with an answer; `question` becomes one user message.
    """
    with trial_settings(space, bot, draft, row) as (settings, case):
        parts = assemble(keyless(settings), session=CallSession(), isolated=True)
        answer = recorded_answer(case, parts.target.name, 0)
        pairs = _bound(parts, case)
        prompts = [sent_prompt(pair, ask) for pair in pairs for ask in pair.metric.preview(case, answer)]
        judge = next((pair.judge for pair in pairs if pair.judge), None)
        nothing = "" if prompts else _why_nothing(pairs, case, answer)
        name, nature = (judge.info.name, judge.info.nature) if judge else (None, "")
        return PromptPreview(name, nature, prompts, nothing)


@requires("try")
async def write_steps(space: Workspace, bot: str, draft: MetricDraft) -> WrittenSteps:
    """Have the judge of a G-Eval metric write its steps; nothing is saved, and existing steps are ignored."""
    if draft.definition.get("kind") != "g_eval" or not draft.definition.get("criteria"):
        what = "steps are written by criteria, for metrics of the kind g_eval"
        raise UserError(Problem(what, "metric.criteria", "say in words what a good answer is", key="criteria"))
    unwritten = {**draft.definition, "steps": None, "steps_from": None}
    async with _trial(space, bot, replace(draft, definition=unwritten), {"question": "-"}) as (parts, _):
        pair = parts.pairs[0]
        judge = cast("Judge", pair.judge)
        try:
            async with asyncio.timeout(LONGEST_S):
                reply = await judge.ask(pair.metric.preparation()[0])
        except TimeoutError:
            what = f"the judge wrote no steps within {LONGEST_S:g} s"
            raise UserError(Problem(what, "metric.judge", "is it running? Or write the steps by hand")) from None
        except JudgeError as error:
            what = f"the judge wrote no steps: {error}"
            raise UserError(Problem(what, "metric.steps", "try again, or write them yourself", key="steps")) from None
    assert isinstance(reply.parsed, Steps)
    steps = reply.parsed.steps
    return WrittenSteps(steps, judge.info.name, reply.usage, reply.cost_usd, reply.latency_s)


@requires("try")
async def try_metric(space: Workspace, bot: str, draft: MetricDraft, row: Row) -> TrialResult:
    """Score one case exactly as a run would; nothing is saved. The bot is called if the case has no answer."""
    return await _score(space, bot, draft, row)


JUDGED = ("judge", "g_eval", "rubric")
"""The kinds of metrics with which any judge can be tried."""


@requires("try")
async def try_judge(space: Workspace, judge: TriedJudge, metric: str, row: Row) -> TrialResult:
    """Have a judge score one answer with a library metric; nothing is saved.

    Raises UserError if the judge does not support the metric's requests, or its key is missing.
    """
    if not row.get("answer"):
        raise UserError(Problem("there is no answer to grade", "answer", "write one, or take a case that has one"))
    found = await to_thread.run_sync(get_library, space, metric)
    definition = {**found.definition, "judge": None}
    return await _score(space, RECORDED, MetricDraft(metric, definition), row, judge)


async def _score(
    space: Workspace, bot: str, draft: MetricDraft, row: Row, judge: TriedJudge | None = None
) -> TrialResult:
    async with _trial(space, bot, draft, row, judge) as (parts, case):
        for metric in parts.metrics.values():
            if metric.parts:
                what = f"a composite is made of the scores of {', '.join(metric.parts)}, which a run makes"
                raise UserError(Problem(what, f"metric.{metric.name}.of", "start a run with all of them"))
        await to_thread.run_sync(_expect_short, parts, case)
        ready = [replace(pair, metric=await pair.metric.prepare(pair.judge, _MemoryPrepared())) for pair in parts.pairs]
        sink = _MemorySink()
        plan = RunPlan(DATASET, parts.target, tuple(ready), width=1, case_timeout_s=LONGEST_S)
        await Pipeline(plan, sink, Tally()).run([case])
    return TrialResult(sink.answers[0], sink.scores)


class _MemorySink:
    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.scores: list[ScoreRecord] = []

    def write(self, record: Answer | ScoreRecord) -> None:
        if isinstance(record, Answer):
            self.answers.append(record)
        elif record.member_of is None:
            self.scores.append(record)


@dataclass(slots=True)
class _MemoryPrepared:
    """Implements Prepared, for one trial."""

    entries: dict[str, Mapping[str, object]] = field(default_factory=dict[str, "Mapping[str, object]"])

    def get(self, key: str) -> Mapping[str, object] | None:
        return self.entries.get(key)

    def put(self, key: str, entry: Mapping[str, object]) -> None:
        self.entries[key] = entry


def _bound(parts: Parts, case: Case) -> list[Pair]:
    return [bound for pair in parts.pairs for bound, _ in pair.bound(case, 1)]


def _expect_short(parts: Parts, case: Case) -> None:
    """Raise UserError if a prompt is too long. Renders the prompts: call it from a worker thread."""
    answer = recorded_answer(case, parts.target.name, 0)
    for pair in _bound(parts, case):
        for ask in pair.metric.preview(case, answer):
            length = len(ask.text)
            if length > LONGEST_PROMPT:
                what = f"the prompt of step {ask.step} has {length:,} characters, of at most {LONGEST_PROMPT:,}"
                raise UserError(Problem(what, f"metric.{ask.metric}", "show the judge less"))


def sent_prompt(pair: Pair, ask: Ask) -> SentPrompt:
    """The request that a judge would get for an ask; the first one if replies are sampled."""
    judge = single(pair.judge)[0] if pair.judge else None
    if not isinstance(judge, OpenAIJudge):
        messages = [(message.role, message.content) for message in ask.messages]
        return SentPrompt(ask.metric, ask.step, messages, None)
    request, times = judge.opening(ask)
    body = json.loads(request.body or b"{}")
    messages = [(message["role"], message["content"]) for message in body.pop("messages")]
    return SentPrompt(ask.metric, ask.step, messages, body, times)


def _why_nothing(pairs: Sequence[Pair], case: Case, answer: Answer) -> str:
    if not any(pair.metric.tasks for pair in pairs):
        return "this metric asks no judge"
    fields = fields_of(case, answer)
    blocked = (blocked_outcome(pair.metric.config.needs, fields, answer, blank_is_text=False) for pair in pairs)
    return next((found.reason or found.error or "" for found in blocked if found), "there is nothing to ask about")
