"""Who scores a cell: nobody but the metric, one judge, or several whose scores are taken together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from evalflow.bill import NOTHING, Bill
from evalflow.config.panels import CascadeConfig, PanelConfig
from evalflow.frozen import record
from evalflow.llm.panel import Panel
from evalflow.metrics.combine import settle, vote
from evalflow.records import Answer, Case, Outcome
from evalflow.run.deadline import Deadlines, Failed
from evalflow.run.meter import Meter
from evalflow.run.pair import Pair
from evalflow.run.sounding import SoundingMeter
from evalflow.run.tally import Tally


@record()
class Judgement:
    """What one judge, or several together, say of a cell.

    Attributes:
        outcome: What.
        judge: The name of who says it; None for a metric that asks nobody.
        bill: What its calls took; nothing for several together, since the members' own bills tell it.
        member_of: Of whom the judge is a member, whose judgement is the one that counts.
    """

    outcome: Outcome
    judge: str | None
    bill: Bill = NOTHING
    member_of: str | None = None


class Scorer:
    """Has cells scored.

    Args:
        tally: Counts every call.
        deadlines: What one score may take, by one judge or without any.
    """

    def __init__(self, tally: Tally, deadlines: Deadlines) -> None:
        self._tally = tally
        self._deadlines = deadlines

    async def score(self, pair: Pair, case: Case, answer: Answer, repeat: int) -> Sequence[Judgement]:
        """Score one cell; the last judgement is the cell's, those before it are its judge's members'.

        Raises:
            InfrastructureError, BudgetError: No further call can be made.
        """
        if pair.judge is None:
            found = await self._deadlines.attempt(pair.metric.score(case, answer, None, repeat))
            return [Judgement(_outcome(found), None)]
        if not isinstance(pair.judge, Panel):
            return [await self._by(Meter(pair.judge, self._tally), pair, case, answer, repeat)]
        if isinstance(pair.judge.config, CascadeConfig):
            return await self._cascade(pair.judge, pair.judge.config, pair, case, answer, repeat)
        assert isinstance(pair.judge.config, PanelConfig)
        return await self._panel(pair.judge, pair.judge.config, pair, case, answer, repeat)

    async def _panel(
        self, panel: Panel, config: PanelConfig, pair: Pair, case: Case, answer: Answer, repeat: int
    ) -> Sequence[Judgement]:
        """All members at once."""
        async with asyncio.TaskGroup() as sitting:
            tasks = [
                sitting.create_task(self._by(Meter(member, self._tally), pair, case, answer, repeat, panel.name))
                for member in panel.members
            ]
        said = [task.result() for task in tasks]
        weights = [(config.weights or {}).get(name, 1.0) for name in config.asked]
        parts = {member.name: one.outcome for member, one in zip(panel.members, said, strict=True)}
        return [*said, Judgement(vote(parts, weights, config, pair.metric.config.direction), panel.name)]

    async def _cascade(
        self, cascade: Panel, config: CascadeConfig, pair: Pair, case: Case, answer: Answer, repeat: int
    ) -> Sequence[Judgement]:
        """One member after the other, until one is sure enough or is the last."""
        said: list[Judgement] = []
        confidences: dict[str, float | None] = {}
        for member in cascade.members:
            last = member is cascade.members[-1]
            meter = Meter(member, self._tally) if last else SoundingMeter(member, self._tally, config)
            one = await self._by(meter, pair, case, answer, repeat, cascade.name)
            said.append(one)
            if isinstance(meter, SoundingMeter):
                confidences[member.name] = meter.confidence
            if one.outcome.status == "skipped" or _sure(one.outcome, meter, config):
                break
        parts = {member.name: one.outcome for member, one in zip(cascade.members, said, strict=False)}
        return [*said, Judgement(settle(parts, confidences), cascade.name)]

    async def _by(
        self, meter: Meter, pair: Pair, case: Case, answer: Answer, repeat: int, member_of: str | None = None
    ) -> Judgement:
        """What one judge says."""
        outcome = _outcome(await self._deadlines.attempt(pair.metric.score(case, answer, meter, repeat)))
        return Judgement(meter.fill(outcome), meter.name, meter.bill(), member_of)


def _outcome(found: Outcome | Failed) -> Outcome:
    if isinstance(found, Failed):
        return Outcome(status="error", error_type=found.error_type, error=found.error)
    return found


def _sure(outcome: Outcome, meter: Meter, config: CascadeConfig) -> bool:
    """Whether a member's score counts without asking the next one."""
    sure = meter.confidence if isinstance(meter, SoundingMeter) else None
    return outcome.status == "scored" and sure is not None and sure >= config.escalate_below
