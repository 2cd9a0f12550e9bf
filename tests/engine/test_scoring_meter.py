"""What one cell's calls took, and that the run counts the same."""

from __future__ import annotations

import pytest

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.scoring import MeteredJudge
from evalflow.errors import JudgeError
from evalflow.protocols import Judge
from evalflow.records import Outcome, Spend, Usage

pytestmark = pytest.mark.anyio
SCORED = Outcome(status="scored", score=1.0)


async def metered(kit, *replies):
    """A meter and its tally, after that many asks."""
    tally = Tally()
    meter = MeteredJudge(kit.judge(replies), tally)
    for said in replies:
        if isinstance(said, Exception):
            with pytest.raises(type(said)):
                await meter.ask(kit.question())
        else:
            assert await meter.ask(kit.question()) is said
    return meter, tally


async def test_calls_are_added_up(kit):
    first = kit.reply(requests=2, reasks=1, usage=Usage(10, 3), cost_usd=0.5, latency_s=1.0)
    second = kit.reply(usage=Usage(1, 1), cost_usd=0.25, latency_s=0.5)
    meter, tally = await metered(kit, first, second)
    filled = meter.fill(SCORED)
    assert (filled.usage, filled.cost_usd, filled.latency_s, filled.cached) == (Usage(11, 4), 0.75, 1.5, False)
    assert (filled.status, filled.score) == ("scored", 1.0)
    assert (tally.requests, tally.reasks, tally.input_tokens, tally.output_tokens) == (3, 1, 11, 4)
    assert tally.cost == 0.75


async def test_a_cell_that_asked_nothing_is_left_as_it_is(kit):
    meter = MeteredJudge(kit.judge(), Tally())
    assert meter.fill(SCORED) is SCORED


async def test_one_call_without_a_price_makes_the_cost_unknown(kit):
    meter, tally = await metered(kit, kit.reply(cost_usd=0.5), kit.reply(cost_usd=None))
    assert (meter.fill(SCORED).cost_usd, tally.cost) == (None, None)


async def test_a_cached_reply_is_no_request_and_says_what_it_saved(kit):
    meter, tally = await metered(kit, kit.reply(cached=True, requests=0, cost_usd=0.0, saved_usd=0.5, reasks=1))
    assert (tally.requests, tally.cached, tally.reasks, tally.cost, tally.saved) == (0, 1, 0, 0.0, 0.5)
    assert meter.fill(SCORED).cached is True


async def test_a_cell_is_cached_only_where_all_of_it_is(kit):
    cached = kit.reply(cached=True, requests=0, cost_usd=0.0)
    meter, tally = await metered(kit, cached, kit.reply(cost_usd=0.5))
    assert (meter.fill(SCORED).cached, tally.cached, tally.requests) == (False, 1, 1)


async def test_a_failure_that_was_paid_for_counts(kit):
    error = JudgeError("schema", "no", spend=Spend(requests=3, usage=Usage(30, 9), cost_usd=0.3, latency_s=2.0))
    meter, tally = await metered(kit, error)
    filled = meter.fill(Outcome(status="error", error_type="schema"))
    assert (filled.usage, filled.cost_usd, filled.latency_s) == (Usage(30, 9), 0.3, 2.0)
    assert (tally.requests, tally.cost) == (3, 0.3)


async def test_a_failure_before_anything_was_answered_costs_nothing(kit):
    meter, tally = await metered(kit, JudgeError("unsupported", "no"))
    failed = Outcome(status="error", error_type="unsupported")
    assert meter.fill(failed) is failed
    assert (tally.requests, tally.cost) == (0, 0.0)


async def test_a_judge_that_sends_nothing_adds_no_request(kit):
    meter, tally = await metered(kit, kit.reply(requests=0, usage=Usage(), cost_usd=0.0, latency_s=0.1))
    assert (tally.requests, tally.input_tokens, tally.cost) == (0, 0, 0.0)
    assert (meter.fill(SCORED).cost_usd, meter.fill(SCORED).latency_s) == (0.0, 0.1)


async def test_a_meter_is_the_judge_to_whoever_asks_and_does_not_close_it(kit):
    inner = kit.judge(name="n", identity="i", weighted=True, calibrated=False, tasks=frozenset({"x"}))
    meter: Judge = MeteredJudge(inner, Tally())
    assert meter.info == inner.info
    await meter.close()
