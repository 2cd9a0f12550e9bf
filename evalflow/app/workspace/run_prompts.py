"""What a judge was sent for a score of a run that has ended, and what it replied; nobody is asked anything.

A run keeps the judge's replies, step by step, and not the prompts, which would be many times as large. They are
rendered again: by the metric and its templates, frozen with the run, from the case and the answer, with the replies
that the run kept standing where they came. Where the metric, its templates or the judge are not what the run had, that
is said instead. The text of a reply is that of the cache of replies, as long as it has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from evalflow.app.results.saved import Saved, load
from evalflow.app.setup.assemble import Parts, assemble
from evalflow.app.workspace.draft import keyless
from evalflow.app.workspace.metric_trial import SentPrompt, sent_prompt
from evalflow.app.workspace.run_cases import case_and_answer
from evalflow.app.workspace.runs import run_row
from evalflow.app.workspace.score_types import Score
from evalflow.app.workspace.scores import get_score
from evalflow.app.workspace.space import Workspace
from evalflow.calls.cache import Cache
from evalflow.calls.once import Once
from evalflow.calls.session import CallSession
from evalflow.errors import JudgeError, Problem, UserError
from evalflow.llm.openai import OpenAIJudge
from evalflow.llm.panel import Panel
from evalflow.metrics.composition import CompositeMetricConfig
from evalflow.records import Answer, Ask, Case, Reply
from evalflow.run.folder import RunFolder
from evalflow.run.pair import Pair
from evalflow.run.prepared import PreparedFile

if TYPE_CHECKING:
    from evalflow.protocols import Judge


@dataclass(frozen=True, slots=True)
class Call:
    """One ask of a judge.

    Attributes:
        prompt: What was sent, rendered again.
        replies: The texts that came back, as the cache has them; empty where it has them no more.
    """

    prompt: SentPrompt
    replies: Sequence[str]


def score_prompts(space: Workspace, run_id: str, score_id: str) -> list[Call]:
    """The prompts that led to a score, in order; none where no judge was asked.

    Blocks; not for a thread with an event loop.

    Raises:
        NotFoundError: There is no such run or score.
        UserError: The prompts cannot be rendered as they were sent, with the reason.
    """
    score = get_score(space, run_id, score_id)
    if score.judge is None or not score.steps:
        return []
    folder = RunFolder(Path(run_row(space, run_id)["folder"]))
    try:
        saved = load(folder)
        if isinstance(saved.recipe.metrics[score.metric].config, CompositeMetricConfig):
            return []  # its parts asked, and their prompts stand with them
        position = {name: getattr(score, name) for name in ("dataset", "case_id", "target", "target_repeat")}
        case, answer = case_and_answer(saved, position)
    except OSError as error:
        raise UserError(Problem(f"{folder.path}: {error.strerror}", "run")) from None
    if answer is None:
        return []
    return asyncio.run(_calls(saved, case, answer, score))


async def _calls(saved: Saved, case: Case, answer: Answer, score: Score) -> list[Call]:
    parts = _parts(saved, score.metric)
    try:
        pair = next(
            bound for own in parts.pairs for bound, _ in own.bound(case, 1) if bound.metric.name == score.metric
        )
        if isinstance(pair.judge, Panel):
            what = f"{pair.judge.name} is made of {len(pair.judge.members)} judges, and what each was sent is not kept"
            raise UserError(Problem(what, "run", "the run's report has the steps of each"))
        _expect_the_same(saved, parts, pair, score)
        replayed = _Replayed(pair.judge, score.steps or ())
        judge = cast("Judge", replayed)
        ready = await pair.metric.prepare(judge, _Frozen(PreparedFile(saved.folder)))
        replayed.asks.clear()
        await ready.score(case, answer, judge, score.repeat)
        return [_call(pair, ask) for ask in replayed.asks]
    finally:
        await parts.close()


def _parts(saved: Saved, metric: str) -> Parts:
    """The metric and its judge alone, as the run had them, with the cache to be looked into."""
    settings = keyless(saved.recipe.settings)
    run = settings.run
    declared = saved.manifest["metrics"][metric]["declared"]
    kept = Path(run.cache.path).expanduser()
    cache = Cache(kept, "read", run_id=saved.manifest["run_id"], max_bytes=run.cache.max_bytes)
    session = CallSession(once=Once(cache) if kept.is_file() else None)
    only = run.model_copy(update={"metric": {declared: run.metric[declared]}, "gate": None})
    judges = {name: judge for name, judge in settings.judges.items() if name == declared}
    return assemble(replace(settings, run=only, judges=judges), session=session)


def _expect_the_same(saved: Saved, parts: Parts, pair: Pair, score: Score) -> None:
    """See that what renders the prompts is what the run had."""
    facts = saved.manifest["metrics"][score.metric]
    known = saved.manifest["judges"].get(score.judge, {}).get("identity")
    digest = parts.prompts.digest(pair.metric.prompts) if pair.metric.prompts else None
    if facts["prompt_sha256"] != digest:
        what = f"the templates of {score.metric} have changed since the run, which did not freeze them"
    elif pair.judge is None or pair.judge.identity != known:
        what = f"the judge of {score.metric} is not configured as it was in the run"
    else:
        return
    raise UserError(Problem(f"{what}: its prompts cannot be shown as they were sent", "run"))


def _call(pair: Pair, ask: Ask) -> Call:
    replies = pair.judge.remembered(ask) if isinstance(pair.judge, OpenAIJudge) else []
    return Call(sent_prompt(pair, ask), replies)


@dataclass(slots=True)
class _Frozen:
    """Implements Prepared: what the run made, and nothing new in its folder."""

    file: PreparedFile

    def get(self, key: str) -> Mapping[str, Any] | None:
        return self.file.get(key)

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """What another run had made is borrowed again each time."""


@dataclass(slots=True)
class _Replayed:
    """Implements Judge: notes what it is asked, and says again what the run kept of the reply."""

    judge: Any
    steps: Sequence[Mapping[str, Any]]
    asks: list[Ask] = field(default_factory=list[Ask])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.judge, name)

    async def ask(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        step = next((one for one in self.steps if one.get("id") == ask.step), None)
        said = step.get("reply") if step else None
        if said is None:
            raise JudgeError("schema", "the run kept no reply")
        try:
            parsed = ask.reply_model.model_validate(said if ask.items is None else {"results": said})
        except ValueError:
            raise JudgeError("schema", "the reply is not one to this ask") from None
        return Reply(parsed=parsed, raw="", probabilities=None, identity=self.judge.identity)
