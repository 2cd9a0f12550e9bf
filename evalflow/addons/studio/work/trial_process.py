"""Trials of metrics and bots, in a limited process: their parts are built, asked and scored there.

The server composes and checks what is tried; the process does the rest, so that nothing is computed with what strangers
wrote in the threads that answer other people. Tasks come pickled from the server; results and errors go back as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import os
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, cast

from pydantic import TypeAdapter

from evalflow.addons.studio.store.rows import Row
from evalflow.addons.studio.work.sent_prompts import PromptPreview, bound_pairs, keyless, previewed
from evalflow.app.core.assemble import Parts, assemble, offered, settings_of
from evalflow.app.core.inspect import refusal_of
from evalflow.app.core.result_rules import ResultRules, RunMetric
from evalflow.calls.budget import Amount, Budget, BudgetConfig, Lease
from evalflow.calls.client import CallSession
from evalflow.calls.connections import Connections
from evalflow.config.validate import Composed, Settings
from evalflow.datasets import HeldDataset
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.pipeline import Pipeline, RunPlan
from evalflow.errors import BudgetError, EvalflowError, InfrastructureError, JudgeError, Problem, UserError
from evalflow.metrics.kinds.g_eval import Steps
from evalflow.paths import prompt_dirs
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, ScoreRecord, Usage
from evalflow.summary.summarise import Threshold
from evalflow.targets.recorded import recorded_answer
from evalflow.targets.registry import TARGET_KINDS, build_target
from evalflow.targets.reply import Form

LONGEST_PROMPT = 1_000_000
"""Maximum characters of a prompt; few models accept as many."""


@dataclass(frozen=True, slots=True)
class WrittenSteps:
    """Steps that a judge wrote from the criteria, and their cost."""

    steps: list[str]
    judge: str
    usage: Usage | None
    cost_usd: float | None
    latency_s: float | None


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The answer to one case, its scores, and the thresholds that decide them, as in a run.

    A metric that binds to checks gives several scores.
    """

    answer: Answer
    scores: list[ScoreRecord]
    thresholds: list[Threshold]


class TrialTask(Protocol):
    """The work of a process for one trial. Its result is a dataclass."""

    async def result(self, session: CallSession) -> object: ...


@dataclass(frozen=True, slots=True)
class TriedCase:
    """A run of one case, by its composed configuration: validated models hold what cannot be sent to a process."""

    composed: Composed
    row: Row

    def opened(self) -> tuple[Settings, Case]:
        """The run's settings, and the case."""
        settings = settings_of(self.composed, programs=False)
        ((name, config),) = settings.run.dataset.items()
        settings = settings.with_datasets({name: HeldDataset.of(config, [self.row])})
        return settings, next(offered(settings.run))


@dataclass(frozen=True, slots=True)
class PreviewTask:
    """Render the prompts of one case; nothing is sent."""

    tried: TriedCase

    async def result(self, session: CallSession) -> PromptPreview:
        settings, case = self.tried.opened()
        return previewed(assemble(keyless(settings), session=session, isolated=True), case)


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """Score one case as a run would; the bot is called if the case has no answer."""

    tried: TriedCase
    longest_s: float

    async def result(self, session: CallSession) -> TrialResult:
        settings, case = self.tried.opened()
        parts = _assembled(settings, session)
        try:
            for metric in parts.metrics.values():
                if metric.parts:
                    what = f"a composite is made of the scores of {', '.join(metric.parts)}, which a run makes"
                    raise UserError(Problem(what, f"metric.{metric.name}.of", "start a run with all of them"))
            _expect_short(parts, case)
            kept = _MemoryPrepared()
            ready = [replace(pair, metric=await pair.metric.prepare(pair.judge, kept)) for pair in parts.pairs]
            sink = _MemorySink()
            plan = RunPlan(case.dataset, parts.target, tuple(ready), width=1, case_timeout_s=self.longest_s)
            await Pipeline(plan, sink, Tally()).run([case])
        finally:
            await parts.close()
        return TrialResult(sink.answers[0], sink.scores, _rules(parts, case).thresholds())


@dataclass(frozen=True, slots=True)
class StepsTask:
    """Have the judge of a G-Eval metric write its steps."""

    tried: TriedCase
    longest_s: float

    async def result(self, session: CallSession) -> WrittenSteps:
        settings, _ = self.tried.opened()
        parts = _assembled(settings, session)
        pair = parts.pairs[0]
        judge = cast("Judge", pair.judge)
        try:
            async with asyncio.timeout(self.longest_s):
                reply = await judge.ask(pair.metric.preparation()[0])
        except TimeoutError:
            what = f"the judge wrote no steps within {self.longest_s:g} s"
            raise UserError(Problem(what, "metric.judge", "is it running? Or write the steps by hand")) from None
        except JudgeError as error:
            what = f"the judge wrote no steps: {error}"
            raise UserError(Problem(what, "metric.steps", "try again, or write them yourself", key="steps")) from None
        finally:
            await parts.close()
        assert isinstance(reply.parsed, Steps)
        return WrittenSteps(list(reply.parsed.steps), judge.info.name, reply.usage, reply.cost_usd, reply.latency_s)


@dataclass(frozen=True, slots=True)
class AnswerTask:
    """Ask a bot about one case."""

    name: str
    config: Mapping[str, Any]
    case: Case
    longest_s: float

    async def result(self, session: CallSession) -> Answer:
        prompts = Prompts(prompt_dirs(), isolated=True)
        forms = {self.case.dataset: Form()}
        config = TARGET_KINDS.config(str(self.config["kind"])).model_validate(self.config)
        target = build_target(config, self.name, prompts, forms, generate=True, session=session)
        try:
            async with asyncio.timeout(self.longest_s):
                return await target.answer(self.case, 0)
        except TimeoutError:
            what = f"no answer came within {self.longest_s:g} s"
            raise UserError(Problem(what, "question", "is it running?")) from None
        finally:
            await target.close()


@dataclass(frozen=True, slots=True)
class Trial:
    """A task, and what it may call and spend. Without a lease it calls nothing."""

    task: TrialTask
    connections: Connections | None
    lease: Lease | None


def packed(trial: Trial) -> str:
    """A trial as text, for `carried_out`."""
    return base64.b64encode(pickle.dumps(trial)).decode()


def carried_out(trial: str, root: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The result of a trial in the working directory `root`, as JSON text, or its error; and what it has spent."""
    known: Trial = pickle.loads(base64.b64decode(trial))  # noqa: S301 - of the server
    budget = Budget(BudgetConfig(), lease=known.lease)
    session = CallSession(connections=known.connections, budget=budget) if known.lease else CallSession()
    os.chdir(root)
    os.environ.update(environment)
    try:
        result = asyncio.run(known.task.result(session))
        reply = {"result": TypeAdapter(type(result)).dump_json(result).decode()}
    except EvalflowError as error:
        reply = {"error": _packed_error(error)}
    finally:
        os.environ.clear()  # the next trial may be another person's
    return {**reply, "sent": asdict(budget.sent)}


def expect_result(reply: Mapping[str, Any], kind: type[Any]) -> Any:
    """The result in a reply of `carried_out`; raises its error."""
    if "error" in reply:
        raise _unpacked_error(reply["error"])
    return TypeAdapter(kind).validate_json(reply["result"], strict=True)


def spent(reply: Mapping[str, Any]) -> Amount:
    """The amount of calls that a trial has sent, from a reply of `carried_out`."""
    return Amount(**reply["sent"])


def _packed_error(error: EvalflowError) -> dict[str, Any]:
    match error:
        case UserError():
            return {"problems": [asdict(problem) for problem in error.problems]}
        case BudgetError():
            return {"budget": str(error)}
        case _:
            return {"fault": str(error), "hint": getattr(error, "hint", "")}


def _unpacked_error(error: Mapping[str, Any]) -> EvalflowError:
    if "problems" in error:
        return UserError(TypeAdapter(list[Problem]).validate_python(error["problems"]))
    if "budget" in error:
        return BudgetError(error["budget"])
    return InfrastructureError(error["fault"], error["hint"])


def _assembled(settings: Settings, session: CallSession) -> Parts:
    """The parts of a run, with a judge that supports all requests of its metrics."""
    parts = assemble(settings, session=session, isolated=True)
    for pair in parts.pairs:
        if refused := refusal_of(pair.metric, pair.judge):
            what, hint = f"step {refused[0]}: {refused[1]}", "name a model that judges"
            raise UserError(Problem(what, "metric.judge", hint, key="judge.model"))
    return parts


def _rules(parts: Parts, case: Case) -> ResultRules:
    metrics: dict[str, RunMetric] = {}
    for pair in parts.pairs:
        for one, _ in pair.bound(case, 1):
            metric, judge = one.metric, one.judge.info.name if one.judge else None
            about = (metric.config, metric.bounded, metric.figures)
            metrics[metric.name] = RunMetric(*about, pair.metric.name, judge, metric.asks, metric.embeds)
    return ResultRules(parts.settings, metrics, ())


def _expect_short(parts: Parts, case: Case) -> None:
    """Check that no prompt is too long, before anything is sent."""
    answer = recorded_answer(case, parts.target.name, 0)
    for pair in bound_pairs(parts, case):
        for ask in pair.metric.preview(case, answer):
            length = len(ask.text)
            if length > LONGEST_PROMPT:
                what = f"the prompt of step {ask.step} has {length:,} characters, of at most {LONGEST_PROMPT:,}"
                raise UserError(Problem(what, f"metric.{ask.metric}", "show the judge less"))


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
