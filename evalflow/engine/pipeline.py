"""The pipeline: for each case get the target's answer, then every metric's score, and write each record to the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.deadline import Deadlines, Failed, Owner
from evalflow.engine.journal import KnownAnswers, cell_digest
from evalflow.engine.scoring import Cell, Judgement, MeteredJudge, Pair, Scorer
from evalflow.errors import EvalflowError, first_of
from evalflow.llm.panel import Panel
from evalflow.protocols import Judge, Sink, Target
from evalflow.records import Answer, Case, Outcome, ScoreRecord
from evalflow.targets.recorded import blank


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The work of a run on every case, `width` cases at once; the limiters bound the calls in flight."""

    run_id: str
    target: Target
    pairs: tuple[Pair, ...]
    target_repeats: int = 1
    judge_repeats: int = 1
    width: int = 16
    # Digests of the cells that have a score already; of these with the score 0, where metrics stop.
    finished: Set[int] = frozenset()
    failed: Set[int] = frozenset()
    case_timeout_s: float | None = None  # time limit in seconds for one answer, and for one score; None: no limit
    # Answers that this run has already. They are not generated again, unless they failed.
    answered: KnownAnswers | None = None

    def strands(self, case: Case) -> list[list[tuple[Pair, int]]]:
        """The metrics and repeats to score. Those of one list are scored in sequence, the lists concurrently."""
        strands: list[list[tuple[Pair, int]]] = []
        for pair in self.pairs:
            strand: list[tuple[Pair, int]] = []
            for bound, repeats in pair.bound(case, self.judge_repeats):
                for repeat in range(repeats):
                    if pair.metric.stops:
                        strand.append((bound, repeat))
                    else:
                        strands.append([(bound, repeat)])
            if strand:
                strands.append(strand)
        return strands

    def digest(self, case: Case, target_repeat: int, pair: Pair, repeat: int) -> int:
        target = self.target.name
        return cell_digest(case.dataset, case.id, target, target_repeat, pair.metric.name, _name(pair.judge), repeat)

    def cells(self, case: Case) -> Iterator[tuple[int, Pair, int]]:
        """The cells of a case: each with the target's repeat, and the metric with the judge's repeat."""
        for target_repeat in range(self.target_repeats):
            for strand in self.strands(case):
                for pair, repeat in strand:
                    yield target_repeat, pair, repeat

    def missing(self, cases: Iterable[Case], finished: Set[int]) -> Iterator[tuple[Case, int, Pair, int]]:
        """The cells of the cases that are not finished."""
        for case in cases:
            for cell in self.cells(case):
                if self.digest(case, *cell) not in finished:
                    yield case, *cell


class Pipeline:
    """Runs a plan over cases.

    Example:
        >>> def in_this_process(job: EngineJob) -> Pipeline:
        ...     return Pipeline(job.plan, job.sink, job.tally)
    """

    def __init__(self, plan: RunPlan, sink: Sink, tally: Tally) -> None:
        self._plan = plan
        self._sink = sink
        self._tally = tally
        self.width = plan.width
        self.stopping = False

    def stop(self) -> None:
        """Start no further case; those under way are finished."""
        self.stopping = True

    async def run(self, cases: Iterable[Case]) -> None:
        """Process the cases, reading the next one only when there is room for it."""
        await run_turn_by_turn([self], cases)

    def begin(self) -> None:
        self._deadlines = Deadlines(self._plan.case_timeout_s, Owner())
        self._scorer = Scorer(self._tally, self._deadlines)

    def end(self) -> None:
        self._deadlines.close()

    async def process(self, case: Case) -> None:
        self._tally.in_flight += 1
        self._tally.asked[case.dataset] += 1
        for repeat in range(self._plan.target_repeats):
            await self._case(case, repeat)
        self._tally.in_flight -= 1

    def give_up(self, case: Case, finished: Set[int], error_type: str, error: str) -> None:
        """Write an error for each cell of a case that is not finished."""
        for _, target_repeat, pair, repeat in self._plan.missing([case], finished):
            answer = blank(case, self._plan.target.name, target_repeat)
            outcome = Outcome(status="error", error_type=error_type, error=error)
            self._write(Cell(pair, case, answer, repeat), Judgement(outcome, _name(pair.judge)))

    async def _case(self, case: Case, target_repeat: int) -> None:
        plan = self._plan
        strands = plan.strands(case)
        if plan.finished:
            strands = [
                strand
                for strand in strands
                if any(plan.digest(case, target_repeat, *cell) not in plan.finished for cell in strand)
            ]
        if not strands:
            return
        answer = self.known_answer(case, target_repeat) if plan.answered else None
        if answer is None:
            answer = await self._deadlines.attempt(plan.target.answer(case, target_repeat))
            if isinstance(answer, Failed):
                self._tally.unpriced = True  # calls before the failure have been paid for
                begun = blank(case, plan.target.name, target_repeat)
                answer = replace(begun, status="error", error_type=answer.error_type, error=answer.error)
            self._sink.write(answer)
        if len(strands) == len(strands[0]) == 1:  # the common case; saves a task
            await self._score(Cell(strands[0][0][0], case, answer, strands[0][0][1]))
            return
        async with asyncio.TaskGroup() as scoring:
            for strand in strands:
                scoring.create_task(self._strand([Cell(pair, case, answer, repeat) for pair, repeat in strand]))

    def known_answer(self, case: Case, target_repeat: int) -> Answer | None:
        """Return the answer that this run already has; None without one, or if it failed and is generated again."""
        assert self._plan.answered is not None
        answer = self._plan.answered.get(case.dataset, case.id, self._plan.target.name, target_repeat)
        if answer is not None and answer.status == "error":
            self._tally.answers["error"] -= 1  # it is generated again; its cost stays
            return None
        return answer and replace(answer, index=case.index)

    async def _strand(self, cells: Sequence[Cell]) -> None:
        """Score the unfinished cells in order; cells after a failed check are skipped."""
        failed: str | None = None
        for cell in cells:
            name = cell.pair.metric.name
            digest = self._plan.digest(cell.case, cell.answer.target_repeat, cell.pair, cell.repeat)
            if digest in self._plan.finished:
                holds = digest not in self._plan.failed
            elif failed and failed != name:
                reason = f"an earlier check, {failed}, failed; the rest of the case is skipped (stop_on_fail)"
                self._write(cell, Judgement(Outcome(status="skipped", reason=reason), _name(cell.pair.judge)))
                continue
            else:
                holds = await self._score(cell) != 0
            failed = failed or (None if holds else name)

    async def _score(self, cell: Cell) -> float | None:
        """Score one cell and write its record, after those of a panel's members. Returns the score."""
        judge = cell.pair.judge
        if isinstance(judge, Panel):
            *members, judgement = await self._scorer.by_several(cell, judge)
            for member in members:
                self._write(cell, member)
        else:
            judgement = await self._scorer.by_one(cell, MeteredJudge(judge, self._tally) if judge else None)
        return self._write(cell, judgement)

    def _write(self, cell: Cell, judgement: Judgement) -> float | None:
        """Write the record, or an error instead if its score is out of range or its values cannot be stored."""
        case, answer, metric = cell.case, cell.answer, cell.pair.metric
        outcome, usage = judgement.outcome, judgement.outcome.usage
        record = ScoreRecord(
            run_id=self._plan.run_id,
            dataset=case.dataset,
            index=case.index,
            case_id=case.id,
            group=case.group,
            tags=case.tags,
            target=answer.target,
            target_repeat=answer.target_repeat,
            metric=metric.name,
            metric_version=metric.config.version,
            judge=judgement.judge,
            repeat=cell.repeat,
            member_of=judgement.member_of,
            status=outcome.status,
            score=outcome.score,
            value=outcome.value,
            reason=outcome.reason,
            steps=outcome.steps,
            error_type=outcome.error_type,
            error=outcome.error,
            remedy=outcome.remedy,
            path=outcome.path,
            finish_reason=answer.finish_reason,
            extracted=answer.extracted,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            cost_usd=outcome.cost_usd,
            latency_s=outcome.latency_s,
            cached=outcome.cached,
            bill=judgement.bill,
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        try:
            if metric.bounded and record.score is not None and not 0 <= record.score <= 1:
                raise ValueError(f"the score {record.score!r} is not in 0..1")
            self._sink.write(record)
        except (ValueError, TypeError, RecursionError) as error:
            what = f"what the metric gave cannot be kept: {error}"
            bare: dict[str, object] = {"score": None, "value": None, "reason": None, "steps": (), "path": None}
            record = replace(record, **bare, status="error", error_type="unusable", error=what)
            self._sink.write(record)
        if judgement.member_of is None:
            self._tally.scores[record.status] += 1
        return record.score


async def run_turn_by_turn(pipelines: Sequence[Pipeline], cases: Iterable[Case]) -> None:
    """Let each pipeline in turn process each case. The next one is read only when there is room for it."""
    queue = iter(cases)
    for pipeline in pipelines:
        pipeline.begin()
    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(sum(pipeline.width for pipeline in pipelines)):
                workers.create_task(_work(pipelines, queue))
    except* EvalflowError as failures:
        raise first_of(failures) from None
    finally:
        for pipeline in pipelines:
            pipeline.end()


async def _work(pipelines: Sequence[Pipeline], queue: Iterator[Case]) -> None:
    for case in queue:
        if any(pipeline.stopping for pipeline in pipelines):
            return
        for pipeline in pipelines:
            await pipeline.process(case)


def _name(judge: Judge | None) -> str | None:
    return judge.info.name if judge else None
