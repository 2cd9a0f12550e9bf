"""The one pipeline: for each case, the target's answer, then every metric's score of it, each record to the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from evalflow.bill import NOTHING, Bill
from evalflow.errors import EvalflowError
from evalflow.frozen import record
from evalflow.protocols import Judge, Metric, Sink, Target
from evalflow.records import Answer, Case, Outcome, ScoreRecord
from evalflow.run.answers import AnswerBook
from evalflow.run.deadline import Deadlines, LateError
from evalflow.run.finished import cell_digest
from evalflow.run.meter import Meter
from evalflow.run.tally import Tally


@record()
class Pair:
    """A metric and who judges for it.

    Attributes:
        metric: The metric.
        judge: Who answers its asks; None for a metric that asks nobody.
        embedder: Who answers the asks of a metric that compares meanings, in the place of a judge.
    """

    metric: Metric
    judge: Judge | None
    embedder: Judge | None = None

    def bound(self, case: Case, judge_repeats: int) -> Iterator[tuple[Pair, int]]:
        """The metrics that score a case, each with whom it really asks, and how often it scores an answer."""
        for metric in self.metric.bind(case):
            judge = self.embedder if metric.embeds else self.judge if metric.asks else None
            noisy = judge is not None and not metric.embeds
            yield Pair(metric, judge), judge_repeats if noisy else 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with every case.

    Attributes:
        run_id: Stands in every record.
        target: Who answers.
        pairs: The metrics with their judges.
        target_repeats: Answers a case.
        judge_repeats: Scores an answer and metric; one that asks nobody, or the embedder, is scored once.
        width: Cases under way at once; the calls in flight are bounded by the limiters, not here.
        finished: Digests of the cells that are scored already and not scored again.
        case_timeout_s: Seconds for one answer, and for one score, whatever it takes; None: without limit.
        answered: Answers of this very run, which are not asked for, counted or written again; failed ones are.
    """

    run_id: str
    target: Target
    pairs: tuple[Pair, ...]
    target_repeats: int = 1
    judge_repeats: int = 1
    width: int = 16
    finished: Set[int] = frozenset()
    case_timeout_s: float | None = None
    answered: AnswerBook | None = None


class Pipeline:
    """Runs a plan over cases.

    Args:
        plan: What to do.
        sink: Where answers and scores go as they finish.
        tally: Counts for the progress bar and the manifest.
    """

    def __init__(self, plan: Plan, sink: Sink, tally: Tally) -> None:
        self._plan = plan
        self._sink = sink
        self._tally = tally
        self._stopping = False
        self._deadlines = Deadlines(plan.case_timeout_s)

    def stop(self) -> None:
        """Begin no further case; those under way are finished."""
        self._stopping = True

    async def run(self, cases: Iterable[Case]) -> None:
        """Work through the cases, reading the next one only when there is room for it.

        Raises:
            InfrastructureError, BudgetError: A call cannot be made any more; what is finished is in the sink.
        """
        queue = iter(cases)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._plan.width):
                    workers.create_task(self._work(queue))
        except* EvalflowError as failures:
            raise _first(failures) from None
        finally:
            self._deadlines.close()

    async def _work(self, queue: Iterator[Case]) -> None:
        for case in queue:
            if self._stopping:
                return
            self._tally.in_flight += 1
            for repeat in range(self._plan.target_repeats):
                await self._case(case, repeat)
            self._tally.in_flight -= 1

    async def _case(self, case: Case, target_repeat: int) -> None:
        cells = self._remaining(case, target_repeat)
        if not cells:
            return
        answer = self._answered(case, target_repeat)
        if answer is None:
            answer = await self._ask_target(case, target_repeat)
            self._sink.write(answer)
        if len(cells) == 1:  # the common case, without the cost of a task for it
            await self._cell(case, answer, *cells[0])
            return
        async with asyncio.TaskGroup() as scoring:
            for pair, repeat in cells:
                scoring.create_task(self._cell(case, answer, pair, repeat))

    async def _ask_target(self, case: Case, target_repeat: int) -> Answer:
        target = self._plan.target
        try:
            return await self._deadlines.within(target.answer(case, target_repeat))
        except LateError:
            return Answer(
                dataset=case.dataset,
                index=case.index,
                case_id=case.id,
                target=target.name,
                target_repeat=target_repeat,
                status="error",
                messages=case.messages,
                error_type="timeout",
                error=self._late(),
            )

    def _late(self) -> str:
        return f"not done within {self._plan.case_timeout_s:g} s (case_timeout_s), all tries and waits included"

    def _answered(self, case: Case, target_repeat: int) -> Answer | None:
        book = self._plan.answered
        known = book.get(case.dataset, case.id, self._plan.target.name, target_repeat) if book else None
        if known is not None and known.status == "error":
            self._tally.retract_answer(known)
            return None
        return known and replace(known, index=case.index)

    def _remaining(self, case: Case, target_repeat: int) -> list[tuple[Pair, int]]:
        """The cells of the case that are not finished."""
        cells = list(self._cells(case))
        finished = self._plan.finished
        if not finished:
            return cells
        target = self._plan.target.name
        return [
            (pair, repeat)
            for pair, repeat in cells
            if cell_digest(case.dataset, case.id, target, target_repeat, pair.metric.name, _name(pair.judge), repeat)
            not in finished
        ]

    def _cells(self, case: Case) -> Iterator[tuple[Pair, int]]:
        for pair in self._plan.pairs:
            for bound, repeats in pair.bound(case, self._plan.judge_repeats):
                for repeat in range(repeats):
                    yield bound, repeat

    async def _cell(self, case: Case, answer: Answer, pair: Pair, repeat: int) -> None:
        bill = NOTHING
        if pair.judge is None:
            outcome = await pair.metric.score(case, answer, None, repeat)
        else:
            meter = Meter(pair.judge, self._tally)
            try:
                outcome = await self._deadlines.within(pair.metric.score(case, answer, meter, repeat))
            except LateError:
                outcome = Outcome(status="error", error_type="timeout", error=self._late())
            outcome = meter.fill(outcome)
            bill = meter.bill()
        record = self._record(case, answer, pair, repeat, outcome, bill)
        self._sink.write(record)
        self._tally.count_score(record)

    def _record(self, case: Case, answer: Answer, pair: Pair, repeat: int, outcome: Outcome, bill: Bill) -> ScoreRecord:
        usage = outcome.usage
        return ScoreRecord(
            run_id=self._plan.run_id,
            dataset=case.dataset,
            index=case.index,
            case_id=case.id,
            group=case.group,
            tags=case.tags,
            target=answer.target,
            target_repeat=answer.target_repeat,
            metric=pair.metric.name,
            metric_version=pair.metric.config.version,
            judge=_name(pair.judge),
            repeat=repeat,
            status=outcome.status,
            score=outcome.score,
            value=outcome.value,
            reason=outcome.reason,
            steps=outcome.steps,
            error_type=outcome.error_type,
            error=outcome.error,
            path=outcome.path,
            input_tokens=usage.input_tokens if usage else None,
            output_tokens=usage.output_tokens if usage else None,
            cost_usd=outcome.cost_usd,
            latency_s=outcome.latency_s,
            cached=outcome.cached,
            bill=bill,
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )


def _name(judge: Judge | None) -> str | None:
    return judge.name if judge else None


def _first(failures: ExceptionGroup[EvalflowError]) -> EvalflowError:
    """The first single error in a group of groups; the others are the same fault seen by other workers."""
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, ExceptionGroup) else inner
