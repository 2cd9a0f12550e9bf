"""Services that keep conversations, stream their replies or answer in the background, over real HTTP on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession, RetryPolicy
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.targets import HttpTargetConfig
from evalflow.errors import UserError
from evalflow.prompts import Prompts
from evalflow.records import Case, Message
from evalflow.targets.conversation import ConversationTarget
from evalflow.targets.http import HttpConnector
from evalflow.targets.reply import Form
from evalflow.targets.service import ServiceTarget
from tests.targets.opengpts import OpenGPTs

pytestmark = pytest.mark.anyio
QUICK = RetryPolicy(attempts=3, base_s=0.01, cap_s=0.02, connect_attempts=2)
FORMS = {"d": Form("answer")}
OPEN = {"url": "/threads", "body": {"name": "{{ id }}", "assistant_id": "helpdesk"}}
INPUT = [{"type": "human", "content": "{{ question }}"}]
STREAMED = {
    "open": OPEN,
    "headers": {"Cookie": "opengpts_user_id=eval"},
    "body": {"thread_id": "{{ opened.thread_id }}", "input": INPUT},
    "stream": {"events": ["data"]},
    "answer": "$[-1].content",
}
POLLED = {
    **STREAMED,
    "stream": None,
    "poll": {
        "url": "/threads/{{ opened.thread_id }}/state",
        "until": {"$.next": [[]], "$.values[-1].type": ["ai"]},
        "every_s": 0.02,
    },
    "answer": "$.values[-1].content",
}
Build = Callable[..., ConversationTarget]


def case(*questions: str) -> Case:
    return Case(dataset="d", index=0, id="c", messages=tuple(Message("user", text) for text in questions))


@pytest.fixture
async def build() -> AsyncIterator[Build]:
    targets: list[ServiceTarget] = []

    def make(url: str, session: CallSession | None = None, **keys: Any) -> ConversationTarget:
        config = HttpTargetConfig.model_validate({"kind": "http", "url": url, **keys})
        session = session or CallSession()
        connector = HttpConnector(config, Prompts([Path()]), session, policy=QUICK)
        targets.append(ServiceTarget(connector, config, "bot", FORMS, session))
        return ConversationTarget(targets[-1])

    yield make
    for target in targets:
        await target.close()


@asynccontextmanager
async def replying(*bodies: bytes, status: int = 200) -> AsyncIterator[tuple[str, list[web.Request]]]:
    """A server that sends these bodies, the last one again and again, and what it was asked."""
    asked: list[web.Request] = []

    async def reply(request: web.Request) -> web.Response:
        asked.append(request)
        body = bodies[min(len(asked), len(bodies)) - 1]
        return web.Response(body=body, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", reply)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}", asked
    finally:
        await runner.cleanup()


# --- a thread of the service -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "keys"), [("/runs/stream", STREAMED), ("/runs", POLLED)], ids=["stream", "poll"])
async def test_a_thread_is_opened_once_for_all_turns_of_a_case(build: Build, path: str, keys: dict[str, Any]) -> None:
    async with OpenGPTs().serving() as bots:
        target = build(bots.url + path, **keys)
        alone = await target.answer(case("What does it cost?"), 0)
        talk = await target.answer(case("Are you open?", "And on Sunday?"), 0)
        other = await target.answer(case("What does it cost?"), 1)
    assert (alone.status, alone.answer) == ("answered", "What does it cost? after 0")
    assert talk.answer == "And on Sunday? after 2"
    assert [message.content for message in talk.messages] == [
        "Are you open?",
        "Are you open? after 0",
        "And on Sunday?",
    ]
    assert other.answer == "What does it cost? after 0"
    assert len(bots.threads) == 3
    if path == "/runs/stream":
        assert set(bots.users) == {"eval"}
        assert (alone.requests, talk.requests) == (2, 3)


async def test_a_single_turn_is_cached_and_a_conversation_is_played_anew(build: Build, tmp_path: Path) -> None:
    async with OpenGPTs().serving() as bots:
        session = CallSession(single_flight=SingleFlight(Cache(tmp_path / "cache.db", run_id="r")))
        target = build(f"{bots.url}/runs/stream", session, **STREAMED)
        for _ in range(2):
            alone = await target.answer(case("Hello?"), 0)
        assert alone.cached
        assert len(bots.threads) == 1
        for _ in range(2):
            talk = await target.answer(case("Hello?", "Again?"), 0)
        assert not talk.cached
        assert talk.paid == ()
        assert len(bots.threads) == 3
        session.close()


async def test_an_error_event_is_an_error_of_that_case(build: Build) -> None:
    async with OpenGPTs(failing=1).serving() as bots:
        target = build(f"{bots.url}/runs/stream", **STREAMED)
        failed = await target.answer(case("Hello?"), 0)
        fine = await target.answer(case("Hello again?"), 0)
    assert (failed.status, failed.error_type) == ("error", "reported")
    assert "Internal Server Error" in (failed.error or "")
    assert fine.answer == "Hello again? after 0"


async def test_a_run_that_never_ends_is_a_timeout(build: Build) -> None:
    async with OpenGPTs(failing=1).serving() as bots:
        answer = await build(f"{bots.url}/runs", **POLLED, timeout_s=0.2).answer(case("Hello?"), 0)
    assert (answer.status, answer.error_type) == ("error", "timeout")
    assert "target.poll.until did not hold within 0.2 s" in (answer.error or "")


async def test_polling_ends_as_soon_as_the_service_says_that_it_failed(build: Build) -> None:
    poll = {"url": "/jobs/{{ reply.id }}", "until": {"$.status": "done"}, "failed": {"$.status": ["failed"]}}
    bodies = (b'{"id": 7}', b'{"status": "running"}', b'{"status": "failed", "why": "no model"}')
    async with replying(*bodies) as (url, asked):
        answer = await build(f"{url}/jobs", poll={**poll, "every_s": 0.01}).answer(case("Hello?"), 0)
    assert [request.path for request in asked] == ["/jobs", "/jobs/7", "/jobs/7"]
    assert (answer.error_type, "no model" in (answer.error or "")) == ("reported", True)


async def test_a_turn_that_the_service_may_have_taken_is_not_sent_twice_to_one_thread(build: Build) -> None:
    async with replying(b'{"id": "t"}', b"busy", status=200) as (url, asked):
        keys = {"open": {"url": "/threads"}, "body": {"t": "{{ opened.id }}", "q": "{{ question }}"}}
        answer = await build(f"{url}/runs", **keys).answer(case("One?"), 0)
    assert (answer.status, answer.error_type) == ("error", "malformed")
    assert [request.path for request in asked] == ["/threads", "/runs"]
    async with replying(b"{}", status=503) as (url, asked):
        await build(f"{url}/runs", open={"url": "/threads"}).answer(case("One?"), 0)
    assert [request.path for request in asked][:1] == ["/threads"]


# --- streams ---------------------------------------------------------------------------------------------------------

CHUNKS = (
    b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
    b': ping\n\ndata: {"choices": [{"delta": {"content": "At \xc3\xbc"}}]}\n\n'
    b'data: {"choices": [{"delta": {"content": "nine."}}], "usage": {"total": 3}}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize(
    ("body", "keys", "said"),
    [
        (CHUNKS, {"stream": {"take": "joined", "text": "$.choices[0].delta.content"}}, "At ünine."),
        (b'data: "At "\n\ndata: "nine."\n\n', {"stream": {"take": "joined"}}, "At nine."),
        (b"data: At \n\ndata:nine.\r\rdata:  Yes", {"stream": {"take": "joined"}}, "At nine. Yes"),
        (b"event: a\ndata: 1\n\nevent: b\ndata: two\n\n", {"stream": {"events": ["b"]}}, "two"),
        (b'data: {"answer":\ndata: "two\xe2\x80\xa8lines"}\n\n', {"stream": "sse"}, "two\u2028lines"),
        (
            b'{"message": {"content": "At "}}\n{"message": {"content": "nine."}, "done": true}\n',
            {"stream": {"format": "jsonl", "take": "joined", "text": "$.message.content"}},
            "At nine.",
        ),
        (b"data: The sum is\n\ndata:  4\n\ndata:  or true\n\n", {"stream": {"take": "joined"}}, "The sum is 4 or true"),
        (b'data: He said\n\ndata:  "yes"\n\n', {"stream": {"take": "joined"}}, 'He said "yes"'),
        (b'data: {"answer": "yes"}\n\nevent: ping\ndata: 17\n\n', {"stream": "sse"}, "yes"),
        (b'\xef\xbb\xbf{"answer": "no"}\n\n{"answer": "yes"}', {"stream": "jsonl"}, "yes"),
    ],
)
async def test_a_stream_amounts_to_one_reply(build: Build, body: bytes, keys: dict[str, Any], said: str) -> None:
    async with replying(body) as (url, asked):
        answer = await build(f"{url}/ask", **keys).answer(case("When?"), 0)
    assert (answer.status, answer.answer) == ("answered", said), answer.error
    assert (asked[0].headers["Accept"] == "text/event-stream") == (keys["stream"] != "jsonl" and b"message" not in body)


async def test_contexts_come_from_the_events_of_a_joined_stream(build: Build) -> None:
    body = b'data: {"sources": ["p1", "p2"]}\n\ndata: {"delta": "At nine."}\n\n'
    keys = {"stream": {"take": "joined", "text": "$.delta"}, "contexts": "$.events[*].sources[*]"}
    async with replying(body) as (url, _):
        answer = await build(url, **keys).answer(case("When?"), 0)
    assert answer.answer == "At nine."
    assert [context.text for context in answer.contexts or ()] == ["p1", "p2"]


@pytest.mark.parametrize(
    ("body", "keys", "what"),
    [
        (b"event: metadata\ndata: {}\n\nevent: end\n\n", {"events": ["data"]}, "no event that counts (target.stream"),
        (b"", {}, "it has no event"),
        (b'{"detail": "not found"}', {}, 'it has no event: {"detail"'),
        (b'data: {"a": 1}\n\n', {"take": "joined"}, "is not a text"),
        (b"event: oops\ndata: full\n\n", {"errors": ["oops"]}, "reports an error: full"),
        (b'data: {"d": "At "}\n\ndata: {"error": {"code": 9}}\n\n', {"take": "joined", "text": "$.d"}, 'error: {"err'),
        (b'data: {"d": "At "}\n\ndata: {"d": "ni', {"take": "joined", "text": "$.d"}, "may have been cut off"),
        (b'data: {"answer": "At"}\n\ndata: {"answer": "At ni', {}, "may have been cut off"),
        (b'{"answer": "At"}\n{"answer": "At ni', {"format": "jsonl"}, "may have been cut off"),
        (b'data: {"delta": "At"}\n\n', {"take": "joined", "text": "$.d"}, "no event has anything at $.d"),
        (b'data: {"answer": "caf\xe9"}\n\n', {}, "is not UTF-8"),
    ],
)
async def test_a_stream_without_a_reply_says_what_came(build: Build, body: bytes, keys: Any, what: str) -> None:
    async with replying(body) as (url, _):
        answer = await build(url, stream=keys or "sse").answer(case("When?"), 0)
    assert (answer.status, answer.requests) == ("error", 1)
    assert what in (answer.error or "")


# --- polling ---------------------------------------------------------------------------------------------------------

WAITING = {"url": "/state", "until": {"$.status": ["done"]}, "every_s": 0.01}


async def test_a_reply_without_a_body_is_not_there_yet(build: Build) -> None:
    async with replying(b"", b"", b'{"status": "run"}', b'{"status": "done", "answer": "At nine."}') as (url, asked):
        answer = await build(url, poll=WAITING).answer(case("When?"), 0)
    assert (answer.answer, answer.requests, len(asked)) == ("At nine.", 4, 4), answer.error


@pytest.mark.parametrize(
    ("last", "keys", "error_type"),
    [
        (b"<html>", {}, "malformed"),
        (b'{"status": "done"}', {}, "malformed"),
        (b'{"id": 7}', {"poll": {**WAITING, "url": "/{{ reply.run }}"}}, "prompt"),
        (b"{}", {"open": OPEN, "body": {"thread": "{{ opened.thread_id }}"}}, "prompt"),
        (b"thread 7", {"open": OPEN}, "malformed"),
    ],
)
async def test_an_error_counts_the_requests_before_it(build: Build, last: bytes, keys: Any, error_type: str) -> None:
    first = [] if keys else [b"{}", b'{"status": "run"}']
    async with replying(*first, last) as (url, asked):
        answer = await build(url, **{"poll": WAITING, **keys}).answer(case("When?"), 0)
    assert (answer.status, answer.error_type, answer.requests) == ("error", error_type, len(asked)), answer.error


# --- addresses with templates ----------------------------------------------------------------------------------------


async def test_an_expression_in_an_address_ends_nothing(build: Build) -> None:
    async with replying(b'"yes"') as (url, asked):
        target = build(f"{url}/ask/{{{{ vars.topic }}}}?q={{{{ question }}}}", method="GET")
        odd = Case(dataset="d", index=0, id="c", messages=(Message("user", "a&b=c #ü"),), vars={"topic": "x/../y?"})
        answer = await target.answer(odd, 0)
    assert answer.answer == "yes"
    assert asked[0].raw_path == "/ask/x%2F..%2Fy%3F?q=a%26b%3Dc%20%23%C3%BC"
    assert not asked[0].can_read_body


@pytest.mark.parametrize("topic", ["..", "", ["a"]])
async def test_an_expression_cannot_leave_its_place(build: Build, topic: Any) -> None:
    async with replying(b'"yes"') as (url, asked):
        target = build(f"{url}/ask/{{{{ vars.topic }}}}/x", method="GET")
        answer = await target.answer(Case(dataset="d", index=0, id="c", vars={"topic": topic}), 0)
    assert (answer.status, answer.error_type, asked) == ("error", "prompt", [])


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"url": "http://{{ id }}/ask"}, "only the path and the query"),
        ({"url": "http://127.0.0.1/a b"}, "no spaces"),
        ({"url": "ftp://127.0.0.1/"}, "must start with http"),
        ({"url": "http://a/x", "open": {"url": "http://b/x"}}, "open.url must be on the server of url, http://a"),
        ({"url": "http://a/x", "poll": {"url": "https://a/x", "until": {"$.a": 1}}}, "poll.url must be on the server"),
        ({"url": "http://a/x", "poll": {"url": "//b/x", "until": {"$.a": 1}}}, "a path begins with one /"),
        ({"url": "http://a/x", "poll": {"url": "/x", "until": {}}}, "at least 1 item"),
        ({"url": "http://a/x", "poll": {"url": "/x", "until": {"a": 1}}}, "is not a JSONPath"),
        ({"url": "http://a/x", "poll": {"url": "/x", "until": {"$.a": 1}}, "stream": "sse"}, "not both"),
        ({"url": "http://a/x", "stream": "xml"}, "'sse' or 'jsonl'"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(keys: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=None) as failed:
        HttpTargetConfig.model_validate({"kind": "http", **keys})
    assert what in str(failed.value)


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"body": {"t": "{{ opened.id }}"}}, "target.body.t"),
        ({"url": "http://127.0.0.1/{{ opened.id }}"}, "target.url"),
        ({"open": {"url": "/{{ opened.id }}"}}, "target.open.url"),
        ({"open": {"url": "/t", "body": {"a": "{{ reply }}"}}}, "target.open.body.a"),
        ({"poll": {"url": "/{{ opened.id }}", "until": {"$.a": 1}}}, "target.poll.url"),
    ],
)
async def test_a_template_knows_only_what_was_replied_before(build: Build, keys: dict[str, Any], where: str) -> None:
    with pytest.raises(UserError) as failed:
        build(**{"url": "http://127.0.0.1/x", **keys})
    assert failed.value.problems[0].where == where
