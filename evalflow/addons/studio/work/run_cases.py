"""One case of a run in full: question, answer, and all scores."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from evalflow.addons.studio.store.cases import is_stored
from evalflow.addons.studio.store.scores import CaseAnswer, RunScores
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.runs import run_row
from evalflow.addons.studio.work.scores import Score, answer_scores, case_scores, get_score
from evalflow.addons.studio.work.sent_prompts import SentPrompt, keyless, sent_prompt
from evalflow.addons.studio.work.space import Workspace, not_found
from evalflow.app.core.assemble import Parts, assemble
from evalflow.app.core.cases import answers_of
from evalflow.app.core.saved import SavedRun, open_run
from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession
from evalflow.calls.single_flight import SingleFlight
from evalflow.engine.folder import RunFolder
from evalflow.engine.plan import PreparedFile
from evalflow.engine.scoring import Pair
from evalflow.errors import JudgeError, Problem, UserError
from evalflow.llm.judge import OpenAIJudge
from evalflow.llm.panel import Panel
from evalflow.metrics.kinds.composite import CompositeMetricConfig
from evalflow.paths import from_home
from evalflow.records import Answer, Ask, Case, Reply, numbered_results
from evalflow.report.results_csv import as_answered
from evalflow.values.jsonvalues import as_list, as_map

if TYPE_CHECKING:
    from evalflow.protocols import Judge


@dataclass(frozen=True, slots=True)
class RunCase(CaseAnswer):
    """A case of a run in full.

    Attributes:
        case: The case with recorded values replaced by the answer's; None if its files are gone.
        known: The answer with its thoughts, and why the target ended it; None if it is gone too.
        gone: Why the case is None.
        scores: All its scores, each with the judge's steps; at most 500.
        is_here: Whether a dataset made here still has it, so that it can be changed.
    """

    case: Case | None
    known: Answer | None
    gone: str
    scores: Sequence[Score]
    is_here: bool = False


@requires("read")
def get_run_case(
    space: Workspace, run_id: str, position: int, thresholds: Mapping[str, float] | None = None
) -> RunCase:
    """A case of a run that has ended."""
    cases = _run_cases(space, run_id, {position: answer_scores(space, run_id, position, thresholds)})
    if not cases:
        raise not_found("case", str(position), [])
    return cases[0]


@requires("read")
def get_run_cases(space: Workspace, run_id: str, dataset: str, case_id: str) -> list[RunCase]:
    """A case of a run that has ended, with each of its answers that have scores; empty if the run does not have it."""
    scores: dict[int, list[Score]] = defaultdict(list)
    for score in case_scores(space, run_id, dataset, case_id):
        scores[score.position].append(score)
    return _run_cases(space, run_id, scores) if scores else []


def _run_cases(space: Workspace, run_id: str, scores: Mapping[int, Sequence[Score]]) -> list[RunCase]:
    """A case with each of its answers, whose `scores` are given by position. The run's files are read once."""
    row = run_row(space, run_id)
    with space.database.reading() as connection:
        case_answers = RunScores(connection, row.id).answers(list(scores))
        is_here = bool(case_answers) and is_stored(
            connection, space.project_id, case_answers[0].dataset, case_answers[0].case_id
        )
    known = _whole_cases(RunFolder(row.path), case_answers) if case_answers else []
    return [
        RunCase(**asdict(one), case=case, known=answer, gone=gone, scores=scores[one.position], is_here=is_here)
        for one, (case, answer, gone) in zip(case_answers, known, strict=True)
    ]


def _whole_cases(folder: RunFolder, case_answers: Sequence[CaseAnswer]) -> list[tuple[Case | None, Answer | None, str]]:
    """The case with each of its answers from the run's own files, or why they cannot be read."""
    try:
        case, answers = case_and_answers(open_run(folder), case_answers)
        return [(as_answered(case, answer), answer, "") for answer in answers]
    except UserError as error:
        why = str(error)
    except OSError as error:
        why = f"{folder.path}: {error.strerror}"
    return [(None, None, why)] * len(case_answers)


def case_and_answer(saved: SavedRun, case_answer: CaseAnswer) -> tuple[Case, Answer | None]:
    """A case and its answer, from the run's own files."""
    case, [answer] = case_and_answers(saved, [case_answer])
    return case, answer


def case_and_answers(saved: SavedRun, case_answers: Sequence[CaseAnswer]) -> tuple[Case, list[Answer | None]]:
    """A case and these of its answers, from the run's own files; see `case_and_answer`."""
    dataset, case_id = case_answers[0].dataset, case_answers[0].case_id
    case = next(saved.cases({(dataset, case_id)}), None)
    if case is None:
        raise UserError(Problem(f"{saved.folder.path} does not hold case {case_id!r} any more", "case"))
    run = saved.rules.settings.run
    with answers_of(saved.folder, run, {case.id}) as answers:
        return case, [answers(case, one.target, one.target_repeat) for one in case_answers]


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One request to a judge. `replies` are the texts in the cache; empty if they are no longer cached."""

    prompt: SentPrompt
    replies: Sequence[str]


@requires("read")
def score_prompts(space: Workspace, run_id: str, score_id: str) -> list[JudgeCall]:
    """The prompts that led to a score, in order; empty without a judge. A UserError says why they cannot be rendered.

    Blocks: do not call it from a thread with an event loop.
    """
    score = get_score(space, run_id, score_id)
    if score.judge is None or not score.steps:
        return []
    folder = RunFolder(run_row(space, run_id).path)
    try:
        saved = open_run(folder)
        if isinstance(saved.rules.metrics[score.metric].config, CompositeMetricConfig):
            return []  # its parts sent the prompts, and show them
        case, answer = case_and_answer(saved, score)
    except OSError as error:
        raise UserError(Problem(f"{folder.path}: {error.strerror}", "run")) from None
    if answer is None:
        return []
    return asyncio.run(_calls(saved, case, answer, score))


async def _calls(saved: SavedRun, case: Case, answer: Answer, score: Score) -> list[JudgeCall]:
    parts = _parts(saved, score.metric)
    try:
        pair = next(
            bound for own in parts.pairs for bound, _ in own.bound(case, 1) if bound.metric.name == score.metric
        )
        if isinstance(pair.judge, Panel):
            name, members = pair.judge.info.name, pair.judge.members
            what = f"{name} is made of {len(members)} judges, and what each was sent is not kept"
            raise UserError(Problem(what, "run", "the run's report has the steps of each"))
        _expect_the_same(saved, parts, pair, score)
        replayed = _ReplayJudge(pair.judge, score.steps or ())
        judge = cast("Judge", replayed)
        ready = await pair.metric.prepare(judge, _ReadOnlyPrepared(saved.folder))
        replayed.asks.clear()
        await ready.score(case, answer, judge, score.repeat)
        return [_call(pair, ask) for ask in replayed.asks]
    finally:
        await parts.close()


def _parts(saved: SavedRun, metric: str) -> Parts:
    settings = keyless(saved.rules.settings)
    run = settings.run
    declared = saved.manifest.metrics[metric].declared
    kept = from_home(run.cache.path)
    cache = Cache(kept, "read", run_id=saved.manifest.run_id, max_bytes=run.cache.max_bytes)
    session = CallSession(single_flight=SingleFlight(cache if kept.is_file() else None))
    only = run.model_copy(update={"metric": {declared: run.metric[declared]}, "gate": None})
    judges = {name: judge for name, judge in settings.judges.items() if name == declared}
    return assemble(replace(settings, run=only, judges=judges), session=session, isolated=True)


def _expect_the_same(saved: SavedRun, parts: Parts, pair: Pair, score: Score) -> None:
    facts = saved.manifest.metrics[score.metric]
    known = saved.manifest.judges.get(score.judge or "")
    digest = parts.prompts.digest(pair.metric.prompts) if pair.metric.prompts else None
    if facts.prompt_sha256 != digest:
        what = f"the templates of {score.metric} have changed since the run, which did not freeze them"
    elif pair.judge is None or known is None or pair.judge.info.identity != known.identity:
        what = f"the judge of {score.metric} is not configured as it was in the run"
    else:
        return
    raise UserError(Problem(f"{what}: its prompts cannot be shown as they were sent", "run"))


def _call(pair: Pair, ask: Ask) -> JudgeCall:
    replies = pair.judge.remembered(ask) if isinstance(pair.judge, OpenAIJudge) else []
    return JudgeCall(sent_prompt(pair, ask), replies)


class _ReadOnlyPrepared(PreparedFile):
    """Reads the run's entries and writes nothing into its folder."""

    def put(self, key: str, entry: Mapping[str, object]) -> None:
        """Do nothing: entries reused from another run are read again each time."""


@dataclass(slots=True)
class _ReplayJudge:
    """Implements Judge: records the requests, and replies from the run's saved steps."""

    judge: Any
    steps: Sequence[Mapping[str, object]]
    asks: list[Ask] = field(default_factory=list[Ask])

    def __getattr__(self, name: str) -> object:
        return getattr(self.judge, name)

    async def ask(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        step = next((one for one in self.steps if one.get("id") == ask.step), None)
        reply = step.get("reply") if step else None
        if reply is None:
            raise JudgeError("schema", "the run kept no reply")
        try:
            content = reply if ask.items is None else numbered_results(map(as_map, as_list(reply)))
            parsed = ask.reply_model.model_validate(content)
        except ValueError:
            raise JudgeError("schema", "the reply is not one to this ask") from None
        return Reply(parsed=parsed, raw="", probabilities=None, identity=self.judge.info.identity)
