"""The prompts that judges are sent, as pages and REST show them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evalflow.addons.studio.work.validate import without_key
from evalflow.app.core.assemble import Parts
from evalflow.config.judges import each_judge
from evalflow.config.validate import Settings
from evalflow.engine.scoring import Pair
from evalflow.llm.judge import OpenAIJudge
from evalflow.llm.panel import single
from evalflow.metrics.case_fields import blocked_outcome, fields_of
from evalflow.records import Answer, Ask, Case
from evalflow.targets.recorded import recorded_answer


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """The request that a judge would be sent for one step.

    Attributes:
        messages: (role, text) as sent, including the added instructions on the reply format.
        request: The rest of the request, such as model, temperature and the schema of the reply. None for a judge that
            gets a task instead of a prompt.
        times: The number of such requests, if replies are sampled.
    """

    metric: str
    step: str
    messages: Sequence[tuple[str, str]]
    request: Mapping[str, object] | None
    times: int = 1


@dataclass(frozen=True, slots=True)
class PromptPreview:
    """All that a judge would be sent for one case.

    Attributes:
        prompts: In order. Text that a later step takes from an earlier reply is a placeholder.
        nothing: Why nothing would be sent; empty if something would be.
    """

    judge: str | None
    nature: str
    prompts: Sequence[SentPrompt]
    nothing: str = ""


def keyless(settings: Settings) -> Settings:
    """The settings without API keys, which are not needed as nothing is sent, and without programs of metrics."""
    target = without_key(settings.run.target)
    judges = {name: each_judge(judge, without_key) for name, judge in settings.judges.items()}
    embedder = without_key(settings.run.embedder)
    metrics = {name: metric.without_programs() for name, metric in settings.run.metric.items()}
    run = settings.run.model_copy(update={"target": target, "embedder": embedder, "metric": metrics})
    return replace(settings, run=run, judges=judges)


def previewed(parts: Parts, case: Case) -> PromptPreview:
    """The prompts that the judges of a run would be sent for a case with an answer."""
    answer = recorded_answer(case, parts.target.name, 0)
    pairs = bound_pairs(parts, case)
    prompts = [sent_prompt(pair, ask) for pair in pairs for ask in pair.metric.preview(case, answer)]
    judge = next((pair.judge for pair in pairs if pair.judge), None)
    nothing = "" if prompts else _why_nothing(pairs, case, answer)
    name, nature = (judge.info.name, judge.info.nature) if judge else (None, "")
    return PromptPreview(name, nature, prompts, nothing)


def bound_pairs(parts: Parts, case: Case) -> list[Pair]:
    """The metrics of a run as they apply to a case, with their judges."""
    return [bound for pair in parts.pairs for bound, _ in pair.bound(case, 1)]


def sent_prompt(pair: Pair, ask: Ask) -> SentPrompt:
    """The request that a judge would get for an ask; of several samples, the first."""
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
    return next(
        (outcome.reason or outcome.error or "" for outcome in blocked if outcome), "there is nothing to ask about"
    )
