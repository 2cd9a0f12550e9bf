"""Scores cells by the metric alone, one judge, or several, and counts the cost of their calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from evalflow.config.judges import CascadeConfig, PanelConfig
from evalflow.errors import CallError
from evalflow.frozen import record
from evalflow.llm.logprobs import choices
from evalflow.llm.panel import Panel, sounding
from evalflow.metrics.combine import settle, vote
from evalflow.protocols import Judge, Metric
from evalflow.records import NOTHING, Answer, Ask, Case, Outcome, Reply, Spend, spend_of
from evalflow.run.deadline import Deadlines, Failed
from evalflow.run.manifest import Tally


class MeteredJudge:
    """Implements Judge around another one, and adds up the calls of one cell.

    Args:
        judge: The wrapped judge.
        tally: The run's counts; every call is added to them.
    """

    def __init__(self, judge: Judge, tally: Tally) -> None:
        self.info = judge.info
        self._judge = judge
        self._tally = tally
        self._made: Spend | None = None
        self._remembered: Spend | None = None

    async def ask(self, ask: Ask) -> Reply:
        """Ask the judge and count the call; a failed call is counted too."""
        try:
            reply = await self._judge.ask(ask)
        except CallError as error:
            if error.requests:
                self._count(spend_of(error))
            raise
        self._count(reply.spend)
        return reply

    async def close(self) -> None:
        """Do nothing: the judge outlives the cell."""

    @property
    def total(self) -> Spend | None:
        """The cost of its replies, cached ones at their original cost; None if the judge was not asked."""
        made, remembered = self._made, self._remembered
        return made + remembered if made and remembered else made or remembered

    @property
    def bill(self) -> Spend:
        """The cost of its calls in this run: a cached reply took no tokens."""
        made, remembered = self._made or NOTHING, self._remembered
        return replace(made + remembered, usage=made.usage) if remembered else made

    def fill(self, outcome: Outcome) -> Outcome:
        """The outcome with the cost of its calls; unchanged if the judge was not asked."""
        total = self.total
        return total.fill(outcome, cached=self._made is None) if total else outcome

    def _count(self, spend: Spend) -> None:
        self._tally.count(spend)
        if spend.cached and not spend.requests:
            self._remembered = self._remembered + spend if self._remembered else spend
        else:
            self._made = self._made + spend if self._made else spend


@record()
class Pair:
    """A metric and its judge.

    Attributes:
        metric: The metric.
        judge: Answers its asks; None for a metric without a judge.
        embedder: Takes the judge's place for a metric that compares meanings.
        both: Judge and embedder as one, for a metric that needs both for the same score.
    """

    metric: Metric
    judge: Judge | None
    embedder: Judge | None = None
    both: Judge | None = None

    def bound(self, case: Case, judge_repeats: int) -> list[tuple[Pair, int]]:
        """The metrics that score a case, each with the judge it really uses, and its scores per answer."""
        found: list[tuple[Pair, int]] = []
        for metric in self.metric.bind(case):
            asks, embeds = metric.asks, metric.embeds
            judge = (self.both if embeds else self.judge) if asks else self.embedder if embeds else None
            found.append((Pair(metric, judge), judge_repeats if judge and asks else 1))
        return found


class SoundingMeter(MeteredJudge):
    """Requests probabilities with every verdict, and keeps the lowest one of a chosen verdict.

    A verdict is a choice among few values: a label, yes or no, a grade. Free text has no probability here.

    Args:
        judge: The wrapped judge.
        tally: The run's counts.
        config: How to obtain probabilities.

    Attributes:
        confidence: The lowest probability, 0..1; None if no verdict was requested, or one has no probability.
    """

    def __init__(self, judge: Judge, tally: Tally, config: CascadeConfig) -> None:
        super().__init__(judge, tally)
        self._config = config
        self._lowest: float | None = None
        self._silent = False

    @property
    def confidence(self) -> float | None:
        """The probability of the least certain verdict."""
        return None if self._silent else self._lowest

    async def ask(self, ask: Ask) -> Reply:
        """Ask, and note the judge's confidence."""
        reply = await super().ask(sounding(ask, self._config))
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


@record()
class Judgement:
    """The judgement of a cell by one judge, or by several together.

    Attributes:
        outcome: The score, or why there is none.
        judge: The judge's name; None for a metric without a judge.
        bill: The cost of its calls; nothing for several together, since the members' own bills have it.
        member_of: The panel that the judge is a member of; the panel's judgement counts.
    """

    outcome: Outcome
    judge: str | None
    bill: Spend = NOTHING
    member_of: str | None = None


class Scorer:
    """Scores cells.

    Args:
        tally: Counts every call.
        deadlines: Time limit for one score by one judge, or without a judge.
    """

    def __init__(self, tally: Tally, deadlines: Deadlines) -> None:
        self._tally = tally
        self._deadlines = deadlines

    async def score(self, pair: Pair, case: Case, answer: Answer, repeat: int) -> Sequence[Judgement]:
        """Score one cell. The last judgement is the cell's; those before it are by the members of its judge.

        Raises:
            InfrastructureError, BudgetError: No further call can be made.
        """
        if pair.judge is None:
            found = await self._deadlines.attempt(pair.metric.score(case, answer, None, repeat))
            return [Judgement(_outcome(found), None)]
        if not isinstance(pair.judge, Panel):
            meter = MeteredJudge(pair.judge, self._tally)
            found = await self._deadlines.attempt(pair.metric.score(case, answer, meter, repeat))
            return [Judgement(meter.fill(_outcome(found)), pair.judge.info.name, meter.bill)]
        if isinstance(pair.judge.config, CascadeConfig):
            return await self._cascade(pair.judge, pair.judge.config, pair, case, answer, repeat)
        assert isinstance(pair.judge.config, PanelConfig)
        return await self._panel(pair.judge, pair.judge.config, pair, case, answer, repeat)

    async def _panel(
        self, panel: Panel, config: PanelConfig, pair: Pair, case: Case, answer: Answer, repeat: int
    ) -> Sequence[Judgement]:
        """Ask all members concurrently."""
        async with asyncio.TaskGroup() as sitting:
            tasks = [
                sitting.create_task(
                    self._by(MeteredJudge(member, self._tally), pair, case, answer, repeat, panel.info.name)
                )
                for member in panel.members
            ]
        said = [task.result() for task in tasks]
        weights = [(config.weights or {}).get(name, 1.0) for name in config.asked]
        parts = {member.info.name: one.outcome for member, one in zip(panel.members, said, strict=True)}
        return [*said, Judgement(vote(parts, weights, config, pair.metric.config.direction), panel.info.name)]

    async def _cascade(
        self, cascade: Panel, config: CascadeConfig, pair: Pair, case: Case, answer: Answer, repeat: int
    ) -> Sequence[Judgement]:
        """Ask the members in order, until one is confident enough or is the last."""
        said: list[Judgement] = []
        confidences: dict[str, float | None] = {}
        for member in cascade.members:
            last = member is cascade.members[-1]
            meter = MeteredJudge(member, self._tally) if last else SoundingMeter(member, self._tally, config)
            one = await self._by(meter, pair, case, answer, repeat, cascade.info.name)
            said.append(one)
            if isinstance(meter, SoundingMeter):
                confidences[member.info.name] = meter.confidence
            if one.outcome.status == "skipped" or _sure(one.outcome, meter, config):
                break
        parts = {member.info.name: one.outcome for member, one in zip(cascade.members, said, strict=False)}
        return [*said, Judgement(settle(parts, confidences), cascade.info.name)]

    async def _by(
        self, meter: MeteredJudge, pair: Pair, case: Case, answer: Answer, repeat: int, member_of: str | None = None
    ) -> Judgement:
        outcome = _outcome(await self._deadlines.attempt(pair.metric.score(case, answer, meter, repeat)))
        return Judgement(meter.fill(outcome), meter.info.name, meter.bill, member_of)


def _outcome(found: Outcome | Failed) -> Outcome:
    if isinstance(found, Failed):
        return Outcome(status="error", error_type=found.error_type, error=found.error)
    return found


def _sure(outcome: Outcome, meter: MeteredJudge, config: CascadeConfig) -> bool:
    """Whether a member's score is confident enough to skip the next member."""
    sure = meter.confidence if isinstance(meter, SoundingMeter) else None
    return outcome.status == "scored" and sure is not None and sure >= config.escalate_below
