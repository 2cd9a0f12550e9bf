"""What takes too long is given up, and nothing else is."""

from __future__ import annotations

import asyncio
import selectors
from dataclasses import dataclass
from typing import Any

import pytest

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.deadline import Deadlines, Failed
from evalflow.engine.pipeline import Pipeline, RunPlan
from evalflow.engine.scoring import Pair
from evalflow.metrics.kinds.check import CheckMetric, CheckMetricConfig
from evalflow.prompts import Prompts

pytestmark = pytest.mark.anyio


class Leaping(selectors.DefaultSelector):
    """Where only a timer is waited for, the time until then passes at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0
        return super().select(timeout and 0)


class Timeless(asyncio.SelectorEventLoop):
    """Its clock stands still while there is work, however long the machine takes over it."""

    def __init__(self) -> None:
        self.leaping = Leaping()
        super().__init__(self.leaping)

    def time(self) -> float:
        return self.leaping.now


@pytest.fixture
def anyio_backend() -> Any:
    """Nothing is late because the machine is slow."""
    return "asyncio", {"loop_factory": Timeless}


@dataclass
class Stuck:
    """Wraps a judge or a target; questions about some cases get no reply."""

    inner: Any
    hangs: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def ask(self, ask: Any) -> Any:
        if self.hangs(len(self.inner.asked)):
            self.inner.asked.append(ask)
            await asyncio.Event().wait()
        return await self.inner.ask(ask)

    async def answer(self, case: Any, repeat: int) -> Any:
        if self.hangs(case.index):
            await asyncio.Event().wait()
        return await self.inner.answer(case, repeat)


@pytest.mark.parametrize("metrics", [1, 2])
async def test_a_score_that_is_late_is_an_error_with_what_it_took(kit, metrics: int) -> None:
    judge: Any = Stuck(kit.judge([kit.reply(cost_usd=0.5)]), hangs=lambda asked: asked == 2 * metrics - 1)
    pairs = tuple(Pair(kit.metric(f"m{i}", asks_of=2), judge) for i in range(metrics))
    sink, tally = kit.sink(), Tally()
    plan = RunPlan("r", kit.target(), pairs, width=1, case_timeout_s=0.2)
    await Pipeline(plan, sink, tally).run(kit.cases(3))
    late = [score for score in sink.scores if score.status == "error"]
    assert [(score.case_id, score.error_type, score.cost_usd) for score in late] == [("c0", "timeout", 0.5)]
    assert "case_timeout_s" in (late[0].error or "")
    assert len(sink.scores) == 3 * metrics
    assert asyncio.current_task().cancelling() == 0  # pyright: ignore[reportOptionalMemberAccess]


async def test_an_answer_that_is_late_is_an_error_and_so_are_its_scores(kit) -> None:
    target: Any = Stuck(kit.target(), hangs=lambda index: index == 1)
    sink, tally = kit.sink(), Tally()
    await Pipeline(RunPlan("r", target, (Pair(kit.metric(), None),), case_timeout_s=0.2), sink, tally).run(kit.cases(4))
    assert tally.cost is None  # what was answered in time for it was paid, and nobody knows how much
    assert {answer.case_id: answer.error_type for answer in sink.answers if answer.error_type} == {"c1": "timeout"}
    assert {score.case_id: score.error_type for score in sink.scores if score.error_type} == {"c1": "target: timeout"}
    assert len(sink.scores) == 4


async def test_who_stops_the_work_is_not_told_that_it_was_late() -> None:
    deadlines = Deadlines(60)
    work = asyncio.create_task(deadlines.attempt(asyncio.sleep(60)))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    deadlines.close()


async def test_each_work_has_its_own_time() -> None:
    deadlines = Deadlines(0.3)

    async def late_by(seconds: float) -> str:
        await asyncio.sleep(seconds)
        done = await deadlines.attempt(asyncio.sleep(0.2 if seconds else 5))
        return "late" if isinstance(done, Failed) else "in time"

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(late_by(seconds)) for seconds in (0, 0.15, 0.25, 0)]
    assert [task.result() for task in tasks] == ["late", "in time", "in time", "late"]
    assert asyncio.get_running_loop().time() == pytest.approx(0.45)
    deadlines.close()


async def test_without_a_limit_nothing_is_watched() -> None:
    assert await Deadlines(None).attempt(asyncio.sleep(0, "done")) == "done"


async def test_a_check_that_goes_on_without_end_is_late_while_other_scores_are_made(kit) -> None:
    doubled = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)}
    schema = {"$defs": {**doubled, "a60": True}, "$ref": "#/$defs/a0"}
    declared = {"kind": "check", "needs": ["answer"], "checks": [{"op": "json_schema", "schema": schema}]}
    endless = CheckMetric.build("endless", CheckMetricConfig.model_validate(declared), Prompts([]))
    pairs = (Pair(endless, None), Pair(kit.metric(), None))
    target = kit.target(fault=lambda case: kit.answer(case, answer="1"))
    sink = kit.sink()
    await Pipeline(RunPlan("r", target, pairs, width=1, case_timeout_s=0.2), sink, Tally()).run(kit.cases(1))
    assert [(score.metric, score.status, score.error_type) for score in sink.scores] == [
        (kit.metric().name, "scored", None),
        ("endless", "error", "timeout"),
    ]
