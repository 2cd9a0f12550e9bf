"""What judges and targets do not ask a second time, and what they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from evalflow.calls.budget import Budget
from evalflow.calls.cache import Cache, Mode
from evalflow.calls.client import CallSession, RetryPolicy
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.config.schema import BudgetConfig
from evalflow.config.targets import OpenAITargetConfig
from evalflow.errors import BudgetError, JudgeError, UserError
from evalflow.llm.chat import ChatClient
from evalflow.llm.judge import OpenAIJudge
from evalflow.prompts import Prompts
from evalflow.records import Ask, Case, Message, Usage
from evalflow.targets.openai import OpenAITarget
from evalflow.targets.reply import Form
from evalflow.testing import Endpoint, Request, malformed, refusal, reply, reset, status
from evalflow.testing.replies import Computed

pytestmark = pytest.mark.anyio
PRICE = {"input_per_million": 1.0, "output_per_million": 10.0}
QUICK = RetryPolicy(attempts=3, base_s=0.01, cap_s=0.02)


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reason: str
    verdict: Literal["yes", "no"]


class Other(Verdict):
    grade: int = 1


GOOD = {"reason": "because", "verdict": "yes"}
ASK = Ask(metric="m", step="s", task=None, messages=(Message("user", "Is it so?"),), reply_model=Verdict, variables={})
CASE = Case(dataset="d", index=0, id="c", messages=(Message("user", "Why?"),))
Judge = Callable[..., OpenAIJudge]


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[Callable[..., CallSession]]:
    """Makes the sessions of runs that come one after another and share one cache file."""
    made: list[CallSession] = []

    def make(mode: Mode = "on", run_id: str = "r", **limits: Any) -> CallSession:
        for before in made:
            before.close()
        once = SingleFlight(Cache(tmp_path / "cache.db", mode, run_id=run_id))
        made.append(CallSession(single_flight=once, budget=Budget(BudgetConfig(**limits)) if limits else None))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture
async def judge() -> AsyncIterator[Judge]:
    made: list[OpenAIJudge] = []

    def make(url: str, session: CallSession, **keys: Any) -> OpenAIJudge:
        values = {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None, "price": PRICE, **keys}
        config = OpenAIJudgeConfig.model_validate(values)
        made.append(OpenAIJudge(config, "judge", client=ChatClient(config, "judge", session, policy=QUICK)))
        return made[-1]

    yield make
    for each in made:
        await each.close()


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Callable[..., OpenAITarget]]:
    made: list[OpenAITarget] = []

    def make(url: str, session: CallSession, **keys: Any) -> OpenAITarget:
        values = {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None, "price": PRICE, **keys}
        config = OpenAITargetConfig.model_validate(values)
        client = ChatClient(config, "target", session, policy=QUICK)
        made.append(OpenAITarget(config, "bot", Prompts([tmp_path]), {"d": Form("answer")}, client=client))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def ended(calls: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """The results of calls that were made together, or the errors."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.wait(tasks)
    return [task.exception() or task.result() for task in tasks]


async def test_a_reply_is_paid_for_once_and_is_the_same(judge: Judge, sessions: Any) -> None:
    async with Endpoint([reply(GOOD, usage=(100, 10))]) as endpoint:
        first = await judge(endpoint.url, sessions()).ask(ASK)
        again = await judge(endpoint.url, sessions(run_id="later")).ask(ASK)
    assert (first.requests, first.cached, first.cost_usd, first.saved_usd) == (1, False, pytest.approx(0.0002), 0.0)
    assert (again.requests, again.cached, again.cost_usd, again.saved_usd) == (0, True, 0.0, pytest.approx(0.0002))
    assert first.latency_s is not None
    spent = {"requests": 1, "cached": False, "cost_usd": first.cost_usd, "saved_usd": 0.0, "paid": first.paid}
    assert replace(again, **spent) == replace(first, latency_s=round(first.latency_s, 6))


async def test_what_does_not_reach_the_model_is_no_reason_to_ask_again(judge: Judge, sessions: Any) -> None:
    session = sessions()
    same: list[dict[str, Any]] = [
        {"name": "x"},
        {"timeout_s": 5},
        {"attempts": 2},
        {"reasks": 5},
        {"thresholds": {"m": 0.1}},
        {"calibrated": False},
        {"concurrency": {"max": 3}},
        {"price": None},
    ]
    async with Endpoint([GOOD]) as endpoint:
        await judge(endpoint.url, session).ask(ASK)
        for keys in same:
            got = await judge(endpoint.url, session, **keys).ask(
                replace(ASK, metric="other", step="t", variables={"a": 1})
            )
            assert got.cached, keys
            assert got.saved_usd is None if keys == {"price": None} else got.saved_usd is not None
    assert endpoint.count == 1


async def test_everything_that_reaches_it_is(judge: Judge, sessions: Any) -> None:
    session = sessions()
    asks = [
        ASK,
        replace(ASK, messages=(Message("user", "Is it so??"),)),
        replace(ASK, messages=(Message("system", "Be strict."), *ASK.messages)),
        replace(ASK, messages=(Message("assistant", "Is it so?"), *ASK.messages)),
        replace(ASK, reply_model=Other),
        replace(ASK, repeat=1),
    ]
    configs: list[dict[str, Any]] = [
        {"model": "n"},
        {"temperature": 0.5},
        {"temperature": None},
        {"max_tokens": 9},
        {"mode": "tools"},
        {"mode": "json"},
        {"mode": "md_json"},
        {"strict": True},
    ]
    async with Endpoint() as endpoint, Endpoint() as elsewhere:
        for ask in asks:
            assert not (await judge(endpoint.url, session).ask(ask)).cached
        for keys in configs:
            assert not (await judge(endpoint.url, session, **keys).ask(ASK)).cached, keys
        assert not (await judge(endpoint.url, session, logprobs=True).ask(replace(ASK, logprobs=True))).cached
        assert not (await judge(elsewhere.url, session).ask(ASK)).cached
        for ask in asks:
            assert (await judge(endpoint.url, session).ask(ask)).cached
    assert (endpoint.count, elsewhere.count) == (len(asks) + len(configs) + 1, 1)


@pytest.mark.parametrize(("takes_n", "requests"), [(True, 1), (False, 4)])
async def test_samples_are_different_draws_and_remembered_each(
    judge: Judge, sessions: Any, takes_n: bool, requests: int
) -> None:
    verdicts = iter(["yes", "no", "yes", "yes"])

    def some(request: Request) -> Computed:
        said = [{**GOOD, "verdict": next(verdicts)} for _ in range(4 if takes_n else 1)]
        return Computed(make=lambda _: reply(*said).body(replace(request, body={**request.body, "n": 1})))

    async with Endpoint(some) as endpoint:
        first = await judge(endpoint.url, sessions()).ask(replace(ASK, samples=4))
        assert endpoint.count == requests
        again = await judge(endpoint.url, sessions()).ask(replace(ASK, samples=4))
        assert endpoint.count == requests
    assert again.cached
    assert again.probabilities == first.probabilities == ({"verdict": {"yes": 0.75, "no": 0.25}},)
    assert (again.requests, again.cost_usd) == (0, 0.0)


async def test_the_whole_of_an_ask_is_remembered_its_reasks_included(judge: Judge, sessions: Any) -> None:
    async with Endpoint([reply("no JSON", usage=(100, 10)), reply(GOOD, usage=(150, 20))]) as endpoint:
        await judge(endpoint.url, sessions()).ask(ASK)
        again = await judge(endpoint.url, sessions()).ask(ASK)
    assert endpoint.count == 2
    assert (again.parsed, again.reasks, again.usage) == (Verdict.model_validate(GOOD), 1, Usage(250, 30))
    assert again.saved_usd == pytest.approx(0.00055)


@pytest.mark.parametrize("steps", [[malformed()] * 3, [refusal("no")], [status(400)], [status(500)] * 3, [reset()] * 3])
async def test_failures_are_not_remembered(judge: Judge, sessions: Any, steps: list[Any]) -> None:
    async with Endpoint([GOOD, *steps, GOOD]) as endpoint:
        asking = judge(endpoint.url, sessions())
        await asking.ask(replace(ASK, repeat=9))  # so that the endpoint is known to be there
        with pytest.raises(JudgeError):
            await asking.ask(ASK)
        assert not (await asking.ask(ASK)).cached
        assert (await asking.ask(ASK)).cached
    assert endpoint.count == len(steps) + 2


async def test_equal_asks_under_way_are_one_request(judge: Judge, sessions: Any) -> None:
    session = sessions()
    async with Endpoint(lambda _: reply(GOOD, usage=(100, 10)).after(0.1)) as endpoint:
        two = judge(endpoint.url, session), judge(endpoint.url, session, name="twin")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(two[number % 2].ask(ASK)) for number in range(10)]
    replies = [task.result() for task in tasks]
    assert endpoint.count == 1
    assert all(reply.parsed == Verdict(reason="because", verdict="yes") for reply in replies)
    assert sum(reply.requests for reply in replies) == 1
    assert sum(reply.cost_usd or 0 for reply in replies) == pytest.approx(0.0002)
    assert sum(reply.saved_usd or 0 for reply in replies) == pytest.approx(9 * 0.0002)


@pytest.mark.parametrize(("mode", "asked"), [("on", 0), ("read", 0), ("refresh", 1), ("off", 1)])
async def test_modes_decide_what_a_later_run_asks(judge: Judge, sessions: Any, mode: Mode, asked: int) -> None:
    async with Endpoint() as endpoint:
        await judge(endpoint.url, sessions(run_id="first")).ask(ASK)
        for _ in range(2):  # the run, and its resumption
            await judge(endpoint.url, sessions(mode, run_id="second")).ask(ASK)
        assert endpoint.count == 1 + asked


async def test_answers_are_remembered_by_repeat_and_what_is_none_is_not(target: Any, sessions: Any) -> None:
    steps = [reply("Because.", usage=(10, 2)), reply("So.", usage=(10, 2)), reply("", usage=(10, 0)), reply("Now.")]
    async with Endpoint(steps) as endpoint:
        bot = target(endpoint.url, sessions())
        first, second = await bot.answer(CASE, 0), await bot.answer(CASE, 1)
        again = await target(endpoint.url, sessions(run_id="later")).answer(CASE, 0)
        empty, full = await bot.answer(CASE, 2), await bot.answer(CASE, 2)
    assert [answer.answer for answer in (first, second, again, empty, full)] == [
        "Because.",
        "So.",
        "Because.",
        None,
        "Now.",
    ]
    assert (again.cached, again.requests, again.cost_usd) == (True, 0, 0.0)
    assert again.saved_usd == first.cost_usd == pytest.approx(3e-5)
    assert (again.usage, again.latency_s) == (first.usage, first.latency_s)
    assert (empty.status, empty.requests, empty.usage, empty.cached) == ("error", 1, Usage(10, 0), False)


async def test_a_judge_does_not_take_a_targets_text_for_a_verdict(judge: Judge, target: Any, sessions: Any) -> None:
    """What is remembered for the same bytes is asked again where it does not validate."""
    session = sessions()
    async with Endpoint([GOOD]) as endpoint:
        asking = judge(endpoint.url, session, mode="md_json")
        await asking.ask(ASK)
        sent = endpoint.requests[0].body["messages"]
    async with Endpoint([reply("I am text."), GOOD]) as endpoint:
        messages = tuple(Message(m["role"], m["content"]) for m in sent)
        answer = await target(endpoint.url, session).answer(replace(CASE, messages=messages), 0)
        assert answer.answer == "I am text."
        assert (await judge(endpoint.url, session, mode="md_json").ask(ASK)).parsed == Verdict.model_validate(GOOD)
        assert endpoint.count == 2


async def test_a_budget_of_requests_is_exact_whatever_is_in_flight(judge: Judge, sessions: Any) -> None:
    async with Endpoint(lambda _: reply(GOOD).after(0.02)) as endpoint:
        asking = judge(endpoint.url, sessions(requests=10))
        asks = [asking.ask(replace(ASK, repeat=number)) for number in range(40)]
        done = await ended(asks)
    assert endpoint.count == 10
    assert sum(not isinstance(each, BaseException) for each in done) == 10
    assert all(isinstance(each, BudgetError) for each in done if isinstance(each, BaseException))


async def test_tries_that_failed_count_as_requests(judge: Judge, sessions: Any) -> None:
    async with Endpoint([status(500), GOOD, status(500), GOOD]) as endpoint:
        asking = judge(endpoint.url, sessions(requests=3))
        await asking.ask(ASK)
        with pytest.raises(BudgetError):
            await asking.ask(replace(ASK, repeat=1))
    assert endpoint.count == 3


@pytest.mark.parametrize("limits", [{"usd": 0.004}, {"tokens": 3000}])
async def test_dollars_and_tokens_are_not_exceeded_where_replies_are_bounded(
    judge: Judge, sessions: Any, limits: dict[str, Any]
) -> None:
    async with Endpoint(lambda _: reply(GOOD, usage=(100, 20)).after(0.01)) as endpoint:
        asking = judge(endpoint.url, sessions(**limits), max_tokens=20)
        asks = [asking.ask(replace(ASK, repeat=number)) for number in range(60)]
        done = await ended(asks)
    answered = [each for each in done if not isinstance(each, BaseException)]
    assert 5 < len(answered) == endpoint.count
    assert len(answered) * (0.0003 if "usd" in limits else 120) <= next(iter(limits.values()))


async def test_what_is_remembered_costs_no_budget(judge: Judge, sessions: Any) -> None:
    async with Endpoint() as endpoint:
        await judge(endpoint.url, sessions()).ask(ASK)
        asking = judge(endpoint.url, sessions(requests=0))
        assert (await asking.ask(ASK)).cached
        with pytest.raises(BudgetError):
            await asking.ask(replace(ASK, repeat=1))
    assert endpoint.count == 1


async def test_dollars_without_a_price_are_refused_by_name(judge: Judge, sessions: Any) -> None:
    with pytest.raises(UserError, match="the price of m is unknown") as refused:
        judge("http://127.0.0.1:9/v1", sessions(usd=1), price=None)
    assert "budget.allow_unpriced=true" in str(refused.value)
    judge("http://127.0.0.1:9/v1", sessions(tokens=1), price=None)
    async with Endpoint() as endpoint:
        asking = judge(endpoint.url, sessions(usd=0.0, allow_unpriced=True), price=None)
        assert (await asking.ask(ASK)).cost_usd is None
