from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.records import Case, Context, Message
from evalflow.targets.recorded import RecordedTarget

pytestmark = pytest.mark.anyio
MESSAGES = (Message("user", "Why?"),)
CALLED = METRIC_KINDS.config("check").model_validate(
    {
        "kind": "check",
        "needs": ["metadata"],
        "field": "metadata",
        "checks": [{"op": "jsonpath", "path": "$.tool", "equals": "search"}],
    }
)


def _case(**fields: Any) -> Case:
    return Case(dataset="d", index=3, id="c", messages=MESSAGES, **fields)


async def test_gives_what_stands_in_the_data() -> None:
    contexts = (Context("text"),)
    case = _case(answer="Because.", actual=True, contexts=contexts, metadata={"a": 1})
    answer = await RecordedTarget("recorded").answer(case, 2)
    assert (answer.dataset, answer.index, answer.case_id, answer.target, answer.target_repeat) == (
        "d",
        3,
        "c",
        "recorded",
        2,
    )
    assert (answer.status, answer.answer, answer.actual, answer.contexts) == ("answered", "Because.", True, contexts)
    assert (answer.metadata, answer.messages) == ({"a": 1}, MESSAGES)
    assert (answer.usage, answer.cost_usd, answer.latency_s) == (None, None, None)


@pytest.mark.parametrize(
    ("fields", "status"),
    [({}, "absent"), ({"answer": ""}, "answered"), ({"actual": False}, "answered"), ({"reference": "r"}, "absent")],
)
async def test_a_case_without_an_answer_is_absent_and_an_empty_answer_is_one(fields: Any, status: str) -> None:
    assert (await RecordedTarget("recorded").answer(_case(**fields), 0)).status == status


async def test_demo_gives_the_example_answer_with_its_metadata_only() -> None:
    case = _case(answer="Because.", actual=True, metadata={"a": 1}, demo_answer=Message("assistant", "Demo.", {"b": 2}))
    answer = await RecordedTarget("demo", demo=True).answer(case, 0)
    assert (answer.status, answer.answer, answer.actual, answer.metadata) == ("answered", "Demo.", None, {"b": 2})


async def test_demo_without_an_example_is_absent() -> None:
    answer = await RecordedTarget("demo", demo=True).answer(_case(answer="Because."), 0)
    assert (answer.status, answer.answer) == ("absent", None)


async def test_an_example_without_metadata_does_not_pass_for_the_recorded_answer() -> None:
    metric = build_metric("called", CALLED, Prompts(()))
    target = RecordedTarget("demo", demo=True)
    recorded = _case(answer="Because.", metadata={"tool": "search"})
    for example, found in ((Message("assistant", "Demo."), ("scored", 0.0)), (None, ("skipped", None))):
        case = replace(recorded, demo_answer=example)
        outcome = await metric.score(case, await target.answer(case, 0), None, 0)
        assert (outcome.status, outcome.score) == found
    outcome = await metric.score(recorded, await RecordedTarget("recorded").answer(recorded, 0), None, 0)
    assert outcome.score == 1.0
