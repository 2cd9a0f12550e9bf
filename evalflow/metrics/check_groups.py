"""Several checks of a case as one score."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalflow.config.schema import MetricConfig
from evalflow.errors import first_of
from evalflow.metrics.base import BaseMetric, blocked_by
from evalflow.metrics.reasons import REMARK, one_line
from evalflow.protocols import Judge, Metric
from evalflow.records import Answer, Ask, Case, Outcome, Status, passes

_AT_ONCE = 8
"""Maximum checks of a group that are scored at once: each slow pattern takes a thread."""
_BLOCKING: tuple[Status, ...] = ("error", "skipped", "undefined")
"""States of a check that leave its group without a score, most severe first."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """A check of a group. With weight 0 it is shown but not counted."""

    name: str
    metric: Metric
    weight: float


class GroupCheck(BaseMetric[MetricConfig]):
    """The weighted share of checks that pass; with a threshold, 1 if the share reaches it, else 0.

    The value is the share. If one check has no score, neither has the group: the check counts neither as passed nor as
    failed.
    """

    def __init__(
        self,
        name: str,
        config: MetricConfig,
        members: Sequence[Weighted],
        threshold: float | None,
        prompts: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, config)
        self._members = members
        self._threshold = threshold
        self.asks = any(member.metric.asks for member in members)
        self.embeds = any(member.metric.embeds for member in members)
        self.prompts = prompts if self.asks else ()  # all checks, so that groups of one name share a digest
        self.tasks = {step: task for member in members for step, task in member.metric.tasks.items()}

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        return [ask for member in self._members for ask in member.metric.preview(case, answer)]

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Score several members at the same time; errors as in `Judge.ask`."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def outcome(metric: Metric) -> Outcome:
            async with places:
                return await metric.score(case, answer, judge, repeat)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(outcome(member.metric)) for member in self._members]
        except ExceptionGroup as failures:
            raise first_of(failures) from None
        outcomes = [task.result() for task in tasks]
        steps = tuple(_steps(self._members, outcomes))
        counted = [(member, one) for member, one in zip(self._members, outcomes, strict=True) if member.weight]
        for state in _BLOCKING:
            for member, one in counted:
                if one.status == state:
                    return blocked_by(member.name, one, steps)
        total = sum(member.weight for member, _ in counted)
        share = min(1.0, sum(member.weight * (one.score or 0.0) for member, one in counted) / total)
        score = share if self._threshold is None else float(passes(share, self._threshold))
        wanted = "" if self._threshold is None else f", required: {self._threshold:g}"
        failed = [f"{member.name}: {one_line(one.reason or '', REMARK)}" for member, one in counted if one.score != 1]
        reason = f"{share:.3g} of the weight of {len(counted)} checks{wanted}"
        return Outcome(
            status="scored", score=score, value=share, reason="; ".join([reason, *failed]), steps=steps, path="direct"
        )


def _steps(members: Sequence[Weighted], outcomes: Sequence[Outcome]) -> Iterator[Mapping[str, object]]:
    """Each check with its weight and score, followed by its own steps."""
    for member, one in zip(members, outcomes, strict=True):
        about = {"check": member.name, "weight": member.weight, "status": one.status, "score": one.score}
        reason = one.error if one.status == "error" else one.reason
        yield {"id": member.name, "check": about, "passed": one.score == 1, "reason": reason or ""}
        for step in one.steps:
            yield {**step, "id": f"{member.name}.{step.get('id')}"}
