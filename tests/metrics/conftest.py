"""A judge that says what a test wrote down, and short ways to build metrics, cases and answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import JudgeError
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.protocols import Metric
from evalflow.records import Answer, Ask, Case, Context, JudgeInfo, Message, Outcome, Reply, Usage, numbered_results

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "conf" / "metric").glob("*.yaml"))


@dataclass
class ScriptedJudge:
    """Answers by step id; an exception is raised. `chances` holds distributions by step id."""

    script: Mapping[str, Any]
    chances: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    weighted: bool = False
    reasks: int = 0
    samples: int = 1
    failed: int = 0
    mass: Mapping[str, float] | None = None
    asked: list[Ask] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    name: str = "scripted"
    nature: str = "a script"
    identity: str = "scripted"
    calibrated: bool = True
    tasks: frozenset[str] | None = None
    remote: bool = False

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
        self.asked.append(ask)
        said = self.script[ask.step]
        if isinstance(said, Exception):
            raise said
        listed = {"results": said} if ask.embeds else numbered_results(said) if ask.items is not None else said
        parsed = ask.reply_model.model_validate(listed)
        raw = parsed.model_dump_json()
        reply = Reply(
            parsed=parsed,
            raw=raw,
            probabilities=self.chances.get(ask.step),
            samples=self.samples,
            failed=self.failed,
            mass=self.mass,
            reasks=self.reasks,
            usage=Usage(100, 10),
            cost_usd=0.5,
        )
        self.replies.append(reply)
        return reply

    async def close(self) -> None: ...


@dataclass
class Notes:
    """Implements Prepared in memory."""

    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def get(self, key: str) -> Mapping[str, Any] | None:
        return self.entries.get(key)

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        self.entries[key] = entry


@cache
def shipped_prompts() -> Prompts:
    """The prompts that ship, each compiled once for all tests."""
    return Prompts([ROOT / "prompts"])


@cache
def shipped_values(name: str) -> Mapping[str, Any]:
    return safe_yaml((ROOT / "conf" / "metric" / f"{name}.yaml").read_text())


@dataclass
class Bench:
    """What the tests of a metric need."""

    prompts: Prompts = field(default_factory=shipped_prompts)
    judge: type[ScriptedJudge] = ScriptedJudge
    error: type[JudgeError] = JudgeError
    notes: Notes = field(default_factory=Notes)

    def verdicts(self, labels: Sequence[str]) -> list[dict[str, str]]:
        """Replies of a one_per step: these labels in this order, each with a reason."""
        return [{"reason": f"because {i}", "verdict": label} for i, label in enumerate(labels, 1)]

    def case(self, **changes: Any) -> Case:
        known: dict[str, Any] = {
            "messages": (Message("user", "Who wrote it, and when?"),),
            "reference": "Anna wrote it in 1999.",
            "contexts": (Context("Anna wrote it in 1999.", title="The book"),),
            "expected": True,
        }
        return Case(**{"dataset": "d", "index": 0, "id": "1", **known, **changes})

    def answer(self, **changes: Any) -> Answer:
        known: dict[str, Any] = {"answer": "Anna, in 1998.", "actual": True}
        return Answer(**{"dataset": "d", "index": 0, "case_id": "1", "target": "t", **known, **changes})

    def shipped(self, name: str, **changes: Any) -> Metric:
        return self.build(name, {**shipped_values(name), **changes})

    def build(self, name: str, values: Mapping[str, Any], prompts: Prompts | None = None) -> Metric:
        config = METRIC_KINDS.config(values["kind"]).model_validate(values)
        return build_metric(name, config, prompts or self.prompts)

    def prepare(self, metric: Metric, judge: ScriptedJudge) -> Metric:
        return asyncio.run(metric.prepare(judge, self.notes))

    def score(
        self, metric: Metric, judge: ScriptedJudge | None = None, *, case: Any = None, answer: Any = None
    ) -> Outcome:
        return asyncio.run(metric.score(case or self.case(), answer or self.answer(), judge, 0))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shipped_name" in metafunc.fixturenames:
        metafunc.parametrize("shipped_name", [path.stem for path in SHIPPED])
