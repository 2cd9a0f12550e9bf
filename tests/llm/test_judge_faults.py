"""What an endpoint can do to a judge, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from evalflow.calls.client import RetryPolicy
from evalflow.calls.http import MAX_REPLY
from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.errors import InfrastructureError, JudgeError, UserError
from evalflow.llm.judge import OpenAIJudge
from evalflow.records import Ask, Message
from evalflow.testing import Endpoint, Step, auto, cut, html, no_choices, reply, reset, silence, status, trickle
from tests.llm.conftest import IMPATIENT, Build

pytestmark = pytest.mark.anyio
KEY = "sk-very-secret-0123456789"


class Verdict(BaseModel):
    reason: str


ASK = Ask(metric="m", step="s", task=None, messages=(Message("user", "?"),), reply_model=Verdict, variables={})


@pytest.mark.parametrize(
    "fault",
    [
        status(429),
        status(429, retry_after=0.02),
        status(500),
        status(503),
        status(408),
        reset(),
        cut(),
        html(),
        no_choices(),
    ],
    ids=lambda step: type(step).__name__ + str(getattr(step, "code", "")),
)
async def test_a_fault_that_passes_costs_a_try_and_nothing_else(fault: Step, build: Build) -> None:
    async with Endpoint([fault, fault, auto()]) as endpoint:
        got = await build(endpoint.url).ask(ASK)
    assert got.parsed == Verdict(reason=got.parsed.reason)  # pyright: ignore[reportAttributeAccessIssue]
    assert got.reasks == 0
    assert endpoint.count == 3


@pytest.mark.parametrize(
    ("fault", "error_type"),
    [
        (status(429), "rate_limit"),
        (status(500), "server"),
        (reset(), "connection"),
        (cut(), "connection"),
        (html(), "malformed"),
        (silence(), "timeout"),
        (trickle(bytes_per_second=20), "timeout"),
        (status(400), "bad_request"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_once_an_endpoint_answered_an_outage_is_an_error_of_the_call(
    fault: Step, error_type: str, build: Build
) -> None:
    async with Endpoint(lambda request: fault if request.number else None) as endpoint:
        judge = build(endpoint.url, timeout_s=1)
        await judge.ask(ASK)
        with pytest.raises(JudgeError) as failed:
            await judge.ask(ASK)
    assert failed.value.error_type == error_type
    assert endpoint.count == (2 if error_type == "bad_request" else 4)


async def test_a_reply_without_end_is_an_error_of_the_call_and_not_asked_for_again(build: Build) -> None:
    async with Endpoint(lambda request: reply("x" * MAX_REPLY) if request.number else None) as endpoint:
        judge = build(endpoint.url)
        await judge.ask(ASK)
        with pytest.raises(JudgeError, match="the reply is longer than 33,554,432 bytes") as failed:
            await judge.ask(ASK)
    assert failed.value.error_type == "too_large"
    assert endpoint.count == 2


@pytest.mark.parametrize(
    "objection",
    [
        status(429, headers={"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "200ms"}),
        status(503, headers={"X-RateLimit-Remaining-Tokens": "0", "X-RateLimit-Reset-Tokens": "0.2"}),
    ],
    ids=["requests used up", "tokens used up"],
)
async def test_what_the_endpoint_asks_for_is_waited_out_by_every_call(objection: Step, build: Build) -> None:
    loop = asyncio.get_running_loop()
    arrivals: list[float] = []

    def script(_: Any) -> Step:
        arrivals.append(loop.time())
        return objection if len(arrivals) == 1 else auto()

    async with Endpoint(script) as endpoint:
        judge = build(endpoint.url, concurrency={"start": 1, "max": 1})
        async with asyncio.TaskGroup() as group:
            for repeat in range(3):
                group.create_task(judge.ask(replace(ASK, repeat=repeat)))
    assert all(later - arrivals[0] >= 0.19 for later in arrivals[1:])


async def test_a_refused_call_is_not_sent_again_before_the_endpoint_wants_it(build: Build) -> None:
    loop = asyncio.get_running_loop()
    arrivals: list[float] = []

    def script(_: Any) -> Step:
        arrivals.append(loop.time())
        return status(429, retry_after=0.2) if len(arrivals) == 1 else auto()

    async with Endpoint(script) as endpoint:
        await build(endpoint.url).ask(ASK)
    assert arrivals[1] - arrivals[0] >= 0.19


async def test_a_rate_a_minute_is_kept_to(build: Build) -> None:
    async with Endpoint() as endpoint:
        judge = build(endpoint.url, rate_limit={"requests_per_minute": 600})
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with asyncio.TaskGroup() as group:
            for repeat in range(14):  # ten at once, which is a second's worth, and then one every tenth of a second
                group.create_task(judge.ask(replace(ASK, repeat=repeat)))
        assert loop.time() - begun >= 0.3


@pytest.mark.parametrize("code", [401, 403, 404, 402])
async def test_what_every_call_would_meet_stops_at_once(
    code: int, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    async with Endpoint([status(code, message=f"not with {KEY}")]) as endpoint:
        with pytest.raises(InfrastructureError) as failed:
            await build(endpoint.url, api_key_env="MY_KEY").ask(ASK)
    assert endpoint.count == 1
    assert str(code) in str(failed.value)
    assert failed.value.hint
    assert KEY not in str(failed.value)
    assert ("$MY_KEY" in failed.value.hint) == (code in (401, 403))


async def test_the_key_is_sent_and_never_shown(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    echo = status(400, message=f"bad request with Authorization: Bearer {KEY}")
    async with Endpoint(lambda request: echo if request.number else None, api_key=KEY) as endpoint:
        judge = build(endpoint.url, api_key_env="MY_KEY")
        await judge.ask(ASK)
        with pytest.raises(JudgeError) as failed:
            await judge.ask(ASK)
    assert (
        KEY not in f"{failed.value!r} {failed.value} {failed.value.raw} {judge!r} {judge.info.identity} {vars(judge)}"
    )
    assert "***" in str(failed.value)


@pytest.mark.parametrize("key", [KEY, "sk/with+signs/0123456789"])
async def test_a_reply_that_gives_the_key_back_is_kept_without_it(
    key: str, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    said = json.dumps({"reason": f"you sent Bearer {key}!"})
    async with Endpoint([reply(said), reply(said.replace("/", r"\/"))]) as endpoint:
        judge = build(endpoint.url, api_key_env="MY_KEY")
        for _ in range(2):
            got = await judge.ask(ASK)
            assert got.parsed == Verdict(reason="you sent Bearer ***!")
            assert got.raw == '{"reason": "you sent Bearer ***!"}'


async def test_a_placeholder_for_a_key_is_a_word_like_any_other(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "none")
    async with Endpoint([reply('{"reason": "there is none"}')]) as endpoint:
        got = await build(endpoint.url, api_key_env="MY_KEY").ask(ASK)
    assert got.parsed == Verdict(reason="there is none")


async def test_without_a_key_none_is_sent_and_nothing_of_openai_leaks(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, KEY)
    async with Endpoint() as endpoint:
        await build(endpoint.url).ask(ASK)
    assert "authorization" not in endpoint.requests[0].headers
    assert KEY not in str(endpoint.requests[0].headers)


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_named_before_anything_is_sent(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    config = OpenAIJudgeConfig(kind="openai", model="m", api_key_env="MY_KEY")
    with pytest.raises(UserError, match="MY_KEY is not set") as failed:
        OpenAIJudge(config, "judge")
    assert failed.value.problems[0].where == "judge.api_key_env"


@pytest.mark.parametrize("value", ["two words", "line\nbreak", "schlüssel"])
def test_what_cannot_be_a_key_is_refused_and_not_shown(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(UserError, match="MY_KEY contains characters that a key cannot have") as failed:
        OpenAIJudge(OpenAIJudgeConfig(kind="openai", model="m", api_key_env="MY_KEY"), "judge")
    assert value not in str(failed.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8000/v1", "http://127.0.0.1:99999/v1", "http://[::1/v1", "http://a b/v1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        OpenAIJudgeConfig(kind="openai", model="m", base_url=url)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "nonexistent.invalid"])
async def test_an_endpoint_that_cannot_be_reached_ends_the_run(host: str, build: Build) -> None:
    judge = build(f"http://user:password@{host}:{_free_port()}/v1", attempts=6)
    with pytest.raises(InfrastructureError, match="cannot be reached") as failed:
        await judge.ask(ASK)
    assert host in str(failed.value)
    assert "password" not in str(failed.value)


async def test_an_endpoint_that_went_away_is_an_error_of_the_call(build: Build) -> None:
    async with Endpoint() as endpoint:
        judge = build(endpoint.url)
        await judge.ask(ASK)
    with pytest.raises(JudgeError, match="after 3 tries") as failed:
        await judge.ask(ASK)
    assert failed.value.error_type == "connection"


@pytest.mark.parametrize("timeout_s", [30, 0.05])
async def test_an_endpoint_that_accepts_and_never_answers_ends_the_run(timeout_s: float, build: Build) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts, and nobody reads
        judge = build(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", IMPATIENT, timeout_s=timeout_s)
        with pytest.raises(InfrastructureError, match="accepts connections and answers nothing"):
            async with asyncio.timeout(5):
                await judge.ask(ASK)


async def test_a_slow_endpoint_is_probed_once_and_waited_for(build: Build) -> None:
    async with Endpoint(lambda _: auto().after(0.4)) as endpoint:
        judge = build(endpoint.url, IMPATIENT)
        async with asyncio.TaskGroup() as group:
            for repeat in range(4):
                group.create_task(judge.ask(replace(ASK, repeat=repeat)))
    assert [request.path for request in endpoint.requests].count("/models") == 1
    assert endpoint.count == 5


async def test_an_endpoint_that_is_there_and_answers_no_call_ends_the_run_after_one_timeout(build: Build) -> None:
    async with Endpoint(lambda _: silence()) as endpoint:
        judge = build(endpoint.url, replace(IMPATIENT, attempts=6), timeout_s=0.5)
        with pytest.raises(InfrastructureError, match=r"is reachable, but answered no call within 0\.5 s") as failed:
            await judge.ask(ASK)
    assert "timeout_s" in failed.value.hint
    assert sorted(request.path for request in endpoint.requests) == ["/chat/completions", "/models"]


async def test_one_silent_call_among_answered_ones_is_tried_again(build: Build) -> None:
    async with Endpoint(lambda request: silence() if request.number == 0 else auto()) as endpoint:
        judge = build(endpoint.url, replace(IMPATIENT, attempts=2), timeout_s=0.5)
        async with asyncio.TaskGroup() as group:
            for repeat in range(2):
                group.create_task(judge.ask(replace(ASK, repeat=repeat)))
    assert [request.path for request in endpoint.requests].count("/chat/completions") == 3


async def test_a_healthy_endpoint_is_never_probed(build: Build) -> None:
    async with Endpoint(lambda request: auto().after(0.3 if request.number else 0)) as endpoint:
        judge = build(endpoint.url, replace(IMPATIENT, silence_s=5))
        await judge.ask(ASK)
        await judge.ask(ASK)
    assert endpoint.count == 2


async def test_an_address_that_serves_pages_ends_the_run(build: Build) -> None:
    async with Endpoint([html()] * 3) as endpoint:
        with pytest.raises(InfrastructureError, match="no usable answer in 3 tries") as failed:
            await build(endpoint.url).ask(ASK)
    assert "Sign in" in str(failed.value)
    assert "base_url" in failed.value.hint


async def test_an_untrusted_certificate_ends_the_run_at_once(build: Build, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl, to make a certificate that nobody trusts")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(InfrastructureError, match="no secure connection"):
            await build(f"https://127.0.0.1:{port}/v1").ask(ASK)


async def test_a_judge_can_be_used_again_after_it_was_closed(build: Build) -> None:
    async with Endpoint() as endpoint:
        judge = build(endpoint.url)
        await judge.ask(ASK)
        await judge.close()
        await judge.ask(ASK)
    assert endpoint.count == 2


def test_by_default_a_dead_endpoint_is_found_within_30_seconds() -> None:
    policy = RetryPolicy()
    assert policy.silence_s + policy.probe_s <= 25
    backoffs = policy.cap_s * policy.connect_attempts
    assert policy.connect_patience_s + min(policy.cap_s, backoffs) <= 25
