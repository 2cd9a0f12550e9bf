"""What endpoints and clocks do now and then, all at once: no call is lost to it."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import replace

import pytest
from pydantic import BaseModel

from evalflow.records import Ask, Message
from evalflow.testing import Endpoint, auto, faulty, malformed, silence, status
from tests.llm.conftest import QUICK, Build

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


class Verdict(BaseModel):
    reason: str


def ask(number: int) -> Ask:
    said = (Message("user", f"{number}?"),)
    return Ask(metric="m", step="s", task=None, messages=said, reply_model=Verdict, variables={})


async def test_faults_in_their_usual_shares_cost_no_reply(build: Build) -> None:
    shares = [(0.05, status(429, retry_after=0.02)), (0.02, status(500)), (0.01, malformed()), (0.005, silence())]
    script = faulty(lambda _: auto(), shares, seed=3)
    async with Endpoint(script) as endpoint:
        judge = build(endpoint.url, replace(QUICK, attempts=6), timeout_s=2.0)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            tasks = [group.create_task(judge.ask(ask(number))) for number in range(300)]
    assert all(task.result().parsed for task in tasks)
    assert endpoint.count > 300


async def test_a_clock_that_jumps_holds_up_nothing(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    real, jumps = time.time, itertools.cycle((0.0, 1e8, -1e8))
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    script = faulty(lambda _: auto(), [(0.3, status(429, retry_after=0.02))], seed=1)
    async with Endpoint(script) as endpoint:
        judge = build(endpoint.url, replace(QUICK, attempts=20), rate_limit={"requests_per_minute": 60_000})
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            tasks = [group.create_task(judge.ask(ask(number))) for number in range(30)]
    assert all(task.result().parsed for task in tasks)
