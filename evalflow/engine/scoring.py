"""Scores cells by the metric alone, one judge, or several, and counts the cost of their calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from evalflow.config.judges import CascadeConfig, PanelConfig
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.deadline import Deadlines, Failed
from evalflow.errors import CallError
from evalflow.llm.logprobs import choices
from evalflow.llm.panel import Panel, with_probabilities
from evalflow.metrics.combine import settle, vote
from evalflow.protocols import Judge, Metric
from evalflow.records import NOTHING, Answer, Ask, Case, Outcome, Reply, Spend


class MeteredJudge:
    """A Judge around another one that adds up the calls of one cell.

    `total` is the cost of its replies, cached ones with their original tokens; None if the judge was not asked. `bill`
    is the cost of its calls in this run: a cached reply took no tokens.
    """

    def __init__(self, judge: Judge, tally: Tally) -> None:
        self.info = judge.info
        self.total: Spend | None = None
        self.bill = NOTHING
        self._judge = judge
        self._tally = tally
        self._all_cached = True

    async def ask(self, ask: Ask) -> Reply:
        try:
            reply = await self._judge.ask(ask)
        except CallError as error:
            if error.spend and error.spend.requests:
                self._count(error.spend)
            raise
        self._count(reply.spend)
        return reply

    async def close(self) -> None:
        """Do nothing: the judge outlives the cell."""

    def fill(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the cost of its calls; unchanged if the judge was not asked."""
        took = self.total
        if took is None:
            return outcome
        usage, cost_usd, latency_s = took.usage, took.cost_usd, took.latency_s
        return replace(outcome, usage=usage, cost_usd=cost_usd, latency_s=latency_s, cached=self._all_cached)

    def _count(self, spend: Spend) -> None:
        self._tally.count(spend)
        billed = spend
        if spend.cached and not spend.requests:
            billed = Spend(
                cost_usd=spend.cost_usd, latency_s=spend.latency_s, cached=spend.cached, saved_usd=spend.saved_usd
            )
        else:
            self._all_cached = False
        if self.total is None:
            self.total, self.bill = spend, billed
        else:
            self.total, self.bill = self.total + spend, self.bill + billed


@dataclass(slots=True)  # not enforced, as in `CallCosts`
class Pair:
    """A metric and the judges for its asks: `embedder` if it compares meanings, `both` if a score needs both."""

    metric: Metric
    judge: Judge | None
    embedder: Judge | None = None
    both: Judge | None = None

    def bound(self, case: Case, judge_repeats: int) -> list[tuple[Pair, int]]:
        """Return the metrics that score a case, each with the judge it uses and its number of scores per answer."""
        pairs: list[tuple[Pair, int]] = []
        for metric in self.metric.bind(case):
            asks, embeds = metric.asks, metric.embeds
            judge = (self.both if embeds else self.judge) if asks else self.embedder if embeds else None
            pairs.append((Pair(metric, judge), judge_repeats if judge and asks else 1))
        return pairs


@dataclass(slots=True)  # not enforced, as in `CallCosts`
class Cell:
    """The identity of a score: a metric with the judge that it uses, an answer, and the judge's repeat."""

    pair: Pair
    case: Case
    answer: Answer
    repeat: int


class ConfidenceMeter(MeteredJudge):
    """Requests probabilities with every verdict, and keeps the lowest one of a chosen verdict.

    A verdict is a choice among few values: a label, yes or no, a grade. Free text has no probability here.
    """

    def __init__(self, judge: Judge, tally: Tally, config: CascadeConfig) -> None:
        super().__init__(judge, tally)
        self._config = config
        self._lowest: float | None = None
        self._silent = False

    @property
    def confidence(self) -> float | None:
        return None if self._silent else self._lowest

    async def ask(self, ask: Ask) -> Reply:
        reply = await super().ask(with_probabilities(ask, self._config))
        if not ask.embeds:
            self._note(reply, listed=ask.items is not None)
        return reply

    def _note(self, reply: Reply, *, listed: bool) -> None:
        verdicts = cast("Any", reply.parsed).results if listed else [reply.parsed]
        for place, verdict in enumerate(verdicts):
            for field in choices(type(verdict)):
                chances = reply.probabilities[place].get(field) if reply.probabilities else None
                if not chances:
                    self._silent = True
                    continue
                chance = chances.get(getattr(verdict, field), 0.0)
                self._lowest = chance if self._lowest is None else min(self._lowest, chance)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a cell by one judge, by a member of a panel, or by several, whose own bills have the cost."""

    outcome: Outcome
    judge: str | None
    bill: Spend = NOTHING
    member_of: str | None = None


class Scorer:
    """Scores cells."""

    def __init__(self, tally: Tally, deadlines: Deadlines) -> None:
        self._tally = tally
        self._deadlines = deadlines

    async def by_one(self, cell: Cell, meter: MeteredJudge | None, member_of: str | None = None) -> Judgement:
        """Return the judgement of one judge, or of a metric without a judge."""
        work = cell.pair.metric.score(cell.case, cell.answer, meter, cell.repeat)
        outcome = await self._deadlines.attempt(work)
        if isinstance(outcome, Failed):
            outcome = Outcome(status="error", error_type=outcome.error_type, error=outcome.error, remedy=outcome.remedy)
        if meter is None:
            return Judgement(outcome, None)
        return Judgement(meter.fill(outcome), meter.info.name, meter.bill, member_of)

    async def by_several(self, cell: Cell, panel: Panel) -> list[Judgement]:
        """Return the judgements of the members of a panel or a cascade, then the combined one. Raises as `by_one`."""
        if isinstance(panel.config, CascadeConfig):
            return await self._cascade(cell, panel, panel.config)
        assert isinstance(panel.config, PanelConfig)
        return await self._panel(cell, panel, panel.config)

    async def _panel(self, cell: Cell, panel: Panel, config: PanelConfig) -> list[Judgement]:
        name = panel.info.name
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.by_one(cell, MeteredJudge(member, self._tally), name))
                for member in panel.members
            ]
        judgements = [task.result() for task in tasks]
        weights = [(config.weights or {}).get(member, 1.0) for member in config.asked]
        return [
            *judgements,
            Judgement(vote(_parts(judgements), weights, config, cell.pair.metric.config.direction), name),
        ]

    async def _cascade(self, cell: Cell, cascade: Panel, config: CascadeConfig) -> list[Judgement]:
        """Ask the members in order, until one is confident enough or is the last."""
        judgements: list[Judgement] = []
        confidences: dict[str, float | None] = {}
        for member in cascade.members[:-1]:
            meter = ConfidenceMeter(member, self._tally, config)
            judgements.append(await self.by_one(cell, meter, cascade.info.name))
            confidence = confidences[member.info.name] = meter.confidence
            status = judgements[-1].outcome.status
            confident = status == "scored" and confidence is not None and confidence >= config.escalate_below
            if confident or status == "skipped":
                break
        else:
            last = MeteredJudge(cascade.members[-1], self._tally)
            judgements.append(await self.by_one(cell, last, cascade.info.name))
        return [*judgements, Judgement(settle(_parts(judgements), confidences), cascade.info.name)]


def _parts(judgements: Sequence[Judgement]) -> dict[str, Outcome]:
    return {str(judgement.judge): judgement.outcome for judgement in judgements}
