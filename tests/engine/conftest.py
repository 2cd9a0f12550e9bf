"""Small stand-ins for what a pipeline runs: a target, a judge, a metric and a sink that keep book."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from evalflow.config.schema import MetricConfig
from evalflow.protocols import Judge, Prepared
from evalflow.records import Answer, Ask, Case, JudgeInfo, Outcome, Reply, ScoreRecord


class Grade(BaseModel):
    grade: float


@dataclass
class FakeTarget:
    """Answers after `steps(case)` turns of the event loop; `fault(case)` raises, or gives the answer to give.

    `asked` are the cases in the order of asking, `widest` is how many were under way at once.
    """

    steps: Callable[[Case], int] = lambda _: 0
    fault: Callable[[Case], Answer | None] = lambda _: None
    name: str = "fake"
    identity: str = "fake"
    asked: list[tuple[str, int]] = field(default_factory=list)
    under_way: int = 0
    widest: int = 0

    async def answer(self, case: Case, repeat: int) -> Answer:
        self.asked.append((case.id, repeat))
        self.under_way += 1
        self.widest = max(self.widest, self.under_way)
        for _ in range(self.steps(case)):
            await asyncio.sleep(0)
        self.under_way -= 1
        return self.fault(case) or answer_to(case, target_repeat=repeat)

    async def close(self) -> None: ...


@dataclass
class FakeJudge:
    """Gives its replies in turn; an exception among them is raised, and the last one stays."""

    replies: Sequence[Reply | BaseException] = ()
    name: str = "judge"
    nature: str = "a fake"
    identity: str = "judge"
    calibrated: bool = True
    weighted: bool = False
    tasks: frozenset[str] | None = None
    remote: bool = True
    asked: list[Ask] = field(default_factory=list)

    @property
    def info(self) -> JudgeInfo:
        return JudgeInfo(
            name=self.name,
            nature=self.nature,
            identity=self.identity,
            calibrated=self.calibrated,
            remote=self.remote,
            weighted=self.weighted,
            tasks=self.tasks,
        )

    async def ask(self, ask: Ask) -> Reply:
        reply = self.replies[min(len(self.asked), len(self.replies) - 1)]
        self.asked.append(ask)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    async def close(self) -> None:
        raise AssertionError("the judge outlives the cell")


@dataclass
class FakeMetric:
    """Scores 1, or what the judge says; `asks_of` is how many questions one cell takes."""

    name: str = "metric"
    asks_of: int = 1
    binds: int = 1
    config: MetricConfig = field(default_factory=lambda: MetricConfig(kind="fake", version=3))
    asks: bool = True
    embeds: bool = False
    bounded: bool = True
    figures: None = None
    reads_scores: bool = False
    stops: bool = False
    tasks: Mapping[str, str | None] = field(default_factory=dict)
    prompts: tuple[str, ...] = ()

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        return ()

    def preparation(self) -> Sequence[Ask]:
        return ()

    async def prepare(self, judge: Judge | None, prepared: Prepared) -> FakeMetric:
        return self

    def bind(self, case: Case) -> Sequence[FakeMetric]:
        return [self] * self.binds

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        if answer.status == "error":
            return Outcome(status="error", error_type=f"target: {answer.error_type}")
        if judge is None:
            return Outcome(status="scored", score=1.0)
        for _ in range(self.asks_of):
            await judge.ask(question(repeat))
        return Outcome(status="scored", score=0.5)


@dataclass
class MemorySink:
    """Keeps what is written, in order."""

    written: list[Answer | ScoreRecord] = field(default_factory=list)

    def write(self, record: Answer | ScoreRecord) -> None:
        self.written.append(record)

    @property
    def answers(self) -> list[Answer]:
        return [record for record in self.written if isinstance(record, Answer)]

    @property
    def scores(self) -> list[ScoreRecord]:
        return [record for record in self.written if isinstance(record, ScoreRecord)]


def answer_to(case: Case, **changes: Any) -> Answer:
    known: dict[str, Any] = {"dataset": case.dataset, "index": case.index, "case_id": case.id, "target": "fake"}
    return Answer(**{**known, "answer": f"about {case.id}", "latency_s": 0.1, "requests": 1, **changes})


def question(repeat: int = 0) -> Ask:
    return Ask(metric="m", step="s", task=None, messages=(), reply_model=Grade, variables={}, repeat=repeat)


def reply(**changes: Any) -> Reply:
    return Reply(**{"parsed": Grade(grade=0.5), "raw": "{}", **changes})


@dataclass(frozen=True)
class Kit:
    """The stand-ins by their kinds."""

    target: type[FakeTarget] = FakeTarget
    judge: type[FakeJudge] = FakeJudge
    metric: type[FakeMetric] = FakeMetric
    sink: type[MemorySink] = MemorySink
    answer: Callable[..., Answer] = answer_to
    question: Callable[..., Ask] = question
    reply: Callable[..., Reply] = reply

    def cases(self, count: int) -> list[Case]:
        return [Case(dataset="d", index=i, id=f"c{i}", group=f"g{i % 2}", tags=("t",)) for i in range(count)]


@pytest.fixture
def kit() -> Kit:
    return Kit()
