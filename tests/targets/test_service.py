"""A service behind HTTP as the target, over real HTTP on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from evalflow.calls.budget import Budget
from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession, RetryPolicy
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.schema import BudgetConfig
from evalflow.config.targets import HttpTargetConfig
from evalflow.errors import BudgetError, InfrastructureError, UserError
from evalflow.prompts import Prompts
from evalflow.records import Case, Context, Message
from evalflow.targets.http import HttpConnector
from evalflow.targets.reply import Form
from evalflow.targets.service import ServiceTarget
from evalflow.testing import Endpoint, Request, Step, html, reset, silence, status
from evalflow.testing.replies import Answering, Exchange

pytestmark = pytest.mark.anyio
QUICK = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.02, connect_attempts=2)
FORMS = {"d": Form("answer"), "guard": Form("actual")}
KEY = "abcdefgh12345678"
Build = Callable[..., ServiceTarget]


@dataclass(frozen=True, kw_only=True)
class Json(Answering):
    """Any JSON."""

    value: Any = field(default_factory=dict[str, Any])

    def body(self, request: Request) -> Mapping[str, Any]:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Redirect(Step):
    """To itself, without end."""

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": exchange.http.path})


def said(**value: Any) -> Json:
    return Json(value=value)


def case(dataset: str = "d", text: str = "Why?") -> Case:
    return Case(dataset=dataset, index=0, id="c", messages=(Message("user", text),), answer="SECRET")


@pytest.fixture
async def build() -> AsyncIterator[Build]:
    targets: list[ServiceTarget] = []

    def make(base_url: str, session: CallSession | None = None, **keys: Any) -> ServiceTarget:
        url = f"{base_url}/chat/completions"
        config = HttpTargetConfig.model_validate({"kind": "http", "url": url, **keys})
        session = session or CallSession()
        way = HttpConnector(config, Prompts([Path()]), session, policy=QUICK)
        targets.append(ServiceTarget(way, config, "bot", FORMS, session))
        return targets[-1]

    yield make
    for target in targets:
        await target.close()


async def test_asks_with_the_case_and_reads_the_reply(build: Build) -> None:
    async with Endpoint([said(answer="Because.", contexts=["c"], metadata={"m": 1})]) as endpoint:
        answer = await build(endpoint.url, headers={"X-Team": "a"}).answer(case(), 2)
    request = endpoint.requests[0]
    assert (request.method, request.headers["x-team"], request.headers["content-type"]) == (
        "POST",
        "a",
        "application/json",
    )
    assert request.body["question"] == "Why?"
    assert "SECRET" not in str(request.body)
    assert (answer.status, answer.answer, answer.contexts) == ("answered", "Because.", (Context("c"),))
    assert (answer.metadata, answer.target, answer.target_repeat) == ({"m": 1}, "bot", 2)
    assert (answer.requests, answer.usage, answer.cost_usd, answer.cached) == (1, None, None, False)
    assert answer.latency_s is not None


async def test_body_and_paths_are_the_users(build: Build) -> None:
    keys = {"body": {"in": "{{ question }}"}, "answer": "$.out[0].text", "contexts": "$.docs[*].t"}
    async with Endpoint([said(out=[{"text": "A"}], docs=[{"t": "c"}])]) as endpoint:
        answer = await build(endpoint.url, **keys).answer(case(), 0)
    assert endpoint.requests[0].body == {"in": "Why?"}
    assert (answer.answer, answer.contexts) == ("A", (Context("c"),))


async def test_a_guardrail_gives_a_prediction(build: Build) -> None:
    actual = {"path": "$.status", "values": {"pass": False, "fail": True}}
    async with Endpoint([said(status="fail"), said(status="error")]) as endpoint:
        target = build(endpoint.url, actual=actual)
        first, second = [await target.answer(case("guard"), repeat) for repeat in range(2)]
    assert (first.actual, first.answer) == (True, None)
    assert (second.status, second.error_type) == ("error", "malformed")
    assert "got 'error', and target.actual.values knows pass, fail only" in (second.error or "")


@pytest.mark.parametrize(
    ("steps", "error_type", "what"),
    [
        ([html()], "malformed", "the reply is not JSON (a web page?): <!doctype html><title>Sign in</title>"),
        ([Redirect()], "redirect", "HTTP 302: redirected to /v1/chat/completions, which is not followed; set target.u"),
        ([status(400, message="no such user")], "bad_request", "HTTP 400: "),
        ([status(404)], "bad_request", "HTTP 404: "),
        ([status(403)], "bad_request", "HTTP 403: "),
        ([status(500), status(503)], "server", "HTTP 503: "),
        ([status(429), status(429)], "rate_limit", "(after 2 tries)"),
        ([said(text="A")], "malformed", "the reply has no answer; it has text"),
    ],
)
async def test_what_goes_wrong_is_an_error_record(build: Build, steps: Any, error_type: str, what: str) -> None:
    async with Endpoint([said(answer="A"), *steps, said(answer="B")]) as endpoint:
        target = build(endpoint.url)
        assert (await target.answer(case(), 0)).status == "answered"
        failed, next_one = [await target.answer(case(), 0) for _ in range(2)]
    assert (failed.status, failed.error_type, failed.answer) == ("error", error_type, None)
    assert (failed.requests, failed.cost_usd) == (1, None)
    assert what in (failed.error or "")
    assert next_one.answer == "B"
    assert endpoint.count == len(steps) + 2


async def test_the_first_call_may_go_wrong_as_well(build: Build) -> None:
    for step, error_type in ((html(), "malformed"), (Redirect(), "redirect"), (status(404), "bad_request")):
        async with Endpoint([step]) as endpoint:
            answer = await build(endpoint.url).answer(case(), 0)
        assert (answer.status, answer.error_type) == ("error", error_type)


async def test_what_may_pass_is_tried_again(build: Build) -> None:
    async with Endpoint([status(502), reset(), said(answer="A")]) as endpoint:
        target = build(endpoint.url, attempts=3)
        policy = RetryPolicy(attempts=3, base_s=0.01, cap_s=0.02)
        target._connector._gateway._policy = policy  # pyright: ignore
        assert (await target.answer(case(), 0)).answer == "A"


async def test_a_late_reply_is_an_error_record(build: Build) -> None:
    async with Endpoint([said(answer="A"), silence(), silence()]) as endpoint:
        target = build(endpoint.url, timeout_s=1)
        await target.answer(case(), 0)
        late = await target.answer(case(), 1)
    assert (late.status, late.error_type) == ("error", "timeout")


async def test_a_refused_key_and_nobody_there_end_the_run(build: Build) -> None:
    async with Endpoint([status(401)]) as endpoint:
        with pytest.raises(InfrastructureError, match=r"target\.headers"):
            await build(endpoint.url).answer(case(), 0)
    with pytest.raises(InfrastructureError, match=r"check target\.url"):
        await build("http://127.0.0.1:9").answer(case(), 0)


async def test_replies_are_remembered_and_counted_against_the_budget(build: Build, tmp_path: Path) -> None:
    def session() -> CallSession:
        return CallSession(
            single_flight=SingleFlight(Cache(tmp_path / "cache.db", run_id="r")),
            budget=Budget(BudgetConfig(requests=2)),
        )

    async with Endpoint([said(answer="A", metadata={"m": 1}), said(answer="B")]) as endpoint:
        first, second = session(), session()
        paid = await build(endpoint.url, first).answer(case(), 0)
        first.close()
        target = build(endpoint.url, second)
        known = await target.answer(case(), 0)
        other = await target.answer(case(), 1)
        assert (paid.cached, known.cached, other.cached) == (False, True, False)
        assert (known.answer, known.metadata, known.requests, known.cost_usd) == ("A", {"m": 1}, 0, 0.0)
        assert other.answer == "B"
        assert second.budget
        assert second.budget.spent.requests == 1
        second.close()


async def test_a_budget_that_is_used_up_ends_the_run(build: Build) -> None:
    async with Endpoint([said(answer="A")]) as endpoint:
        target = build(endpoint.url, CallSession(budget=Budget(BudgetConfig(requests=1))))
        await target.answer(case(), 0)
        with pytest.raises(BudgetError):
            await target.answer(case(), 1)


async def test_a_budget_in_dollars_meets_an_unknown_price(build: Build) -> None:
    with pytest.raises(UserError, match="what a call of this target costs is unknown"):
        build("http://127.0.0.1:9", CallSession(budget=Budget(BudgetConfig(usd=1))))


async def test_a_secret_is_sent_and_never_shown(build: Build) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with Endpoint([status(400, message=f"bad {KEY}"), said(answer=f"You sent {KEY}.")]) as endpoint:
        target = build(endpoint.url, headers=headers)
        failed, echoed = [await target.answer(case(), 0) for _ in range(2)]
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in (failed.error or "")
    assert echoed.answer == "You sent ***."


async def test_the_identity_changes_with_what_decides_answers_only(build: Build) -> None:
    first = build("http://127.0.0.1:9", headers={"Authorization": "one", "X-Model": "m"}).identity
    same = build("http://127.0.0.1:9", headers={"Authorization": "two", "X-Model": "m"}, timeout_s=5, attempts=1)
    assert same.identity == first
    for change in ({"headers": {"X-Model": "o"}}, {"body": {"q": "{{ question }}"}}, {"method": "PUT"}):
        assert build("http://127.0.0.1:9", **change).identity != first
    mapped = build("http://127.0.0.1:9", headers={"Authorization": "one", "X-Model": "m"}, answer="$.a")
    assert mapped.identity != first
