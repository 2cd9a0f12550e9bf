"""The endpoint, met by a plain HTTP client and by the openai one."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import openai
import pytest

from evalflow.testing import Endpoint, Request, ScriptError, auto, by_schema, embeddings, reply, status, vector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

VERDICTS = {
    "type": "object",
    "properties": {"verdicts": {"type": "array", "items": {"enum": ["yes", "no"]}}, "reason": {"type": "string"}},
    "required": ["verdicts", "reason"],
}
AS_SCHEMA: dict[str, Any] = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "Verdicts", "schema": VERDICTS}}
}
AS_TOOL: dict[str, Any] = {
    "tools": [{"type": "function", "function": {"name": "Verdicts", "parameters": VERDICTS}}],
    "tool_choice": {"type": "function", "function": {"name": "Verdicts"}},
}


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def chat(http: aiohttp.ClientSession, endpoint: Endpoint, text: str = "hello", **body: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You judge."}, {"role": "user", "content": text}]
    async with http.post(f"{endpoint.url}/chat/completions", json={"model": "m", "messages": messages, **body}) as got:
        return await got.json()


def content(completion: dict[str, Any]) -> str:
    return completion["choices"][0]["message"]["content"]


def refused(endpoint: Endpoint) -> bool:
    """Whether the openai client is told that its request is wrong, and so does not send it again."""
    with openai.OpenAI(base_url=endpoint.url, api_key="k") as client, pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="m", messages=[])
    return endpoint.count == 1


async def test_the_openai_client_reads_a_reply() -> None:
    async with Endpoint([reply("hi", usage=(7, 3))], api_key="secret") as endpoint:
        async with openai.AsyncOpenAI(base_url=endpoint.url, api_key="secret", max_retries=0) as client:
            got = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    assert got.choices[0].message.content == "hi"
    assert got.choices[0].finish_reason == "stop"
    assert got.usage
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.total_tokens) == (7, 3, 10)
    assert got.model == "m"


def test_a_synchronous_client_is_served_too() -> None:
    with Endpoint(["hi"]) as endpoint, openai.OpenAI(base_url=endpoint.url, api_key="k", max_retries=0) as client:
        got = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        endpoint.wait_for(1)
    assert got.choices[0].message.content == "hi"


async def test_a_script_sees_the_request(http: aiohttp.ClientSession) -> None:
    seen: list[Request] = []

    def script(request: Request) -> dict[str, Any]:
        seen.append(request)
        return {"verdicts": ["no"], "reason": request.user}

    async with Endpoint(script) as endpoint:
        got = await chat(http, endpoint, "Is it so?", temperature=0.5, **AS_SCHEMA)
    assert content(got) == '{"verdicts": ["no"], "reason": "Is it so?"}'
    assert seen == endpoint.requests
    assert seen[0].text == "You judge.\n\nIs it so?"
    assert seen[0].schema_name == "Verdicts"
    assert seen[0].schema == VERDICTS
    assert seen[0].body["temperature"] == 0.5
    assert seen[0].headers["content-type"] == "application/json"


async def test_text_in_parts_is_text(http: aiohttp.ClientSession) -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    async with Endpoint(lambda request: request.user) as endpoint:
        got = await chat(http, endpoint, messages=[{"role": "user", "content": parts}])
    assert content(got) == "one two"


async def test_a_script_may_be_asynchronous(http: aiohttp.ClientSession) -> None:
    async def script(request: Request) -> str:
        await asyncio.sleep(0)
        return request.user

    async with Endpoint(script) as endpoint:
        assert content(await chat(http, endpoint, "echo")) == "echo"


async def test_a_queue_is_used_up_in_order(http: aiohttp.ClientSession) -> None:
    async with Endpoint(["a", lambda request: request.user, {"x": 1}]) as endpoint:
        got = [content(await chat(http, endpoint, "b")) for _ in range(3)]
    assert got == ["a", "b", '{"x": 1}']
    assert [request.number for request in endpoint.requests] == [0, 1, 2]


async def test_an_empty_queue_fails_the_test(http: aiohttp.ClientSession) -> None:
    endpoint = Endpoint(["a"])
    endpoint.start()
    assert content(await chat(http, endpoint)) == "a"
    assert "no reply left" in (await chat(http, endpoint))["error"]["message"]
    with pytest.raises(ScriptError, match="no reply left for request 1, after 1"):
        endpoint.stop()


def test_a_script_that_raises_fails_the_test() -> None:
    def script(request: Request) -> None:
        raise LookupError("no such case")

    with pytest.raises(ScriptError, match="no such case"), Endpoint(script) as endpoint:
        assert refused(endpoint)


def test_the_error_of_the_test_comes_first() -> None:
    with pytest.raises(LookupError) as raised, Endpoint([]) as endpoint:
        raise LookupError(refused(endpoint))
    assert "no reply left" in raised.value.__notes__[0]


def test_a_single_reply_is_no_script() -> None:
    with pytest.raises(TypeError, match="put a single reply into a list"):
        Endpoint({"verdict": "yes"})  # type: ignore[arg-type]


async def test_a_reply_stands_where_the_request_wants_it(http: aiohttp.ClientSession) -> None:
    wanted = '{"verdicts": [], "reason": "r"}'
    in_prose = f"Answer with an instance of {VERDICTS}".replace("'", '"')
    async with Endpoint(lambda _: {"verdicts": [], "reason": "r"}) as endpoint:
        tool = (await chat(http, endpoint, **AS_TOOL))["choices"][0]
        chosen = (await chat(http, endpoint, tools=AS_TOOL["tools"]))["choices"][0]
        as_object = await chat(http, endpoint, in_prose, response_format={"type": "json_object"})
        fenced = await chat(http, endpoint, in_prose)
    assert tool["message"]["content"] is None
    assert tool["message"]["tool_calls"][0]["function"] == {"name": "Verdicts", "arguments": wanted}
    assert (tool["finish_reason"], chosen["finish_reason"]) == ("stop", "tool_calls")
    assert content(as_object) == wanted
    assert content(fenced) == f"```json\n{wanted}\n```"
    assert endpoint.requests[2].schema == VERDICTS


NUMBERED = {
    "type": "object",
    "properties": {"results": {"type": "array", "items": {"$ref": "#/$defs/Item"}}},
    "$defs": {"Item": {"type": "object", "properties": {"number": {"type": "integer"}, "met": {"type": "boolean"}}}},
}


@pytest.mark.parametrize(
    ("results", "sent"),
    [
        ([{"met": True}, {"met": False}], [{"number": 1, "met": True}, {"number": 2, "met": False}]),
        ([{"number": 2, "met": True}, {"met": False}], [{"number": 2, "met": True}, {"met": False}]),
        ([{"met": True}, "no result"], [{"met": True}, "no result"]),
    ],
)
async def test_results_without_any_number_are_numbered_in_their_order(
    http: aiohttp.ClientSession, results: list[object], sent: list[object]
) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "Numbered", "schema": NUMBERED}}
    async with Endpoint([{"results": results}, json.dumps({"results": results})]) as endpoint:
        got = content(await chat(http, endpoint, response_format=schema))
        unchanged = content(await chat(http, endpoint, response_format=schema))
    assert json.loads(got) == {"results": sent}
    assert json.loads(unchanged) == {"results": results}


async def test_a_weak_model_ignores_the_tools(http: aiohttp.ClientSession) -> None:
    async with Endpoint([reply("I think so.", as_text=True)]) as endpoint:
        message = (await chat(http, endpoint, **AS_TOOL))["choices"][0]["message"]
    assert message["content"] == "I think so."
    assert "tool_calls" not in message


async def test_no_script_answers_any_schema(http: aiohttp.ClientSession) -> None:
    async with Endpoint() as endpoint:
        assert content(await chat(http, endpoint, **AS_SCHEMA)) == '{"verdicts": ["yes"], "reason": "reason"}'
        assert content(await chat(http, endpoint)) == "text"


async def test_auto_takes_lengths_and_values(http: aiohttp.ClientSession) -> None:
    made = auto(length={"verdicts": 3}, values={"reason": "because"})
    async with Endpoint(lambda _: made) as endpoint:
        got = content(await chat(http, endpoint, **AS_SCHEMA))
    assert got == '{"verdicts": ["yes", "yes", "yes"], "reason": "because"}'


async def test_by_schema_has_one_script_for_each_step(http: aiohttp.ClientSession) -> None:
    scripts = by_schema({"Verdicts": ["first", "second"]}, otherwise=lambda _: "other")
    async with Endpoint(scripts) as endpoint:
        got = [content(await chat(http, endpoint, **body)) for body in (AS_SCHEMA, {}, AS_SCHEMA)]
    assert got == ["first", "other", "second"]


async def test_by_schema_repeats_a_single_reply(http: aiohttp.ClientSession) -> None:
    async with Endpoint(by_schema({"Verdicts": {"reason": "r"}})) as endpoint:
        got = [content(await chat(http, endpoint, **AS_SCHEMA)) for _ in range(2)]
    assert got == ['{"reason": "r"}'] * 2


async def test_choices(http: aiohttp.ClientSession) -> None:
    async with Endpoint([reply("a"), reply("a", "b")]) as endpoint:
        same, given = [await chat(http, endpoint, n=2), await chat(http, endpoint)]
    assert [choice["message"]["content"] for choice in same["choices"]] == ["a", "a"]
    assert [choice["message"]["content"] for choice in given["choices"]] == ["a", "b"]


async def test_logprobs_for_those_who_ask() -> None:
    likely = reply({"score": 4}, alternatives={"4": {"4": 0.6, "5": 0.3, "3": 0.1}})
    async with Endpoint([likely, likely]) as endpoint:
        async with openai.AsyncOpenAI(base_url=endpoint.url, api_key="k", max_retries=0) as client:
            messages: Any = [{"role": "user", "content": "hello"}]
            got = await client.chat.completions.create(model="m", messages=messages, logprobs=True, top_logprobs=2)
            without = await client.chat.completions.create(model="m", messages=messages)
    assert without.choices[0].logprobs is None
    assert got.choices[0].logprobs
    tokens = got.choices[0].logprobs.content or []
    assert "".join(token.token for token in tokens) == got.choices[0].message.content
    four = next(token for token in tokens if token.token == " 4")
    assert [(other.token, other.logprob) for other in four.top_logprobs] == [
        (" 4", pytest.approx(-0.5108, abs=1e-4)),
        (" 5", pytest.approx(-1.2040, abs=1e-4)),
    ]
    assert tokens[0].logprob == 0.0


async def test_embeddings_as_numbers_and_packed(http: aiohttp.ClientSession) -> None:
    async with Endpoint() as endpoint:
        body = {"model": "e", "input": ["cat", "dog", "cat"]}
        async with http.post(f"{endpoint.url}/embeddings", json=body) as response:
            plain = [row["embedding"] for row in (await response.json())["data"]]
        async with openai.AsyncOpenAI(base_url=endpoint.url, api_key="k", max_retries=0) as client:
            packed = await client.embeddings.create(model="e", input="cat")
    assert plain == [vector("cat"), vector("dog"), vector("cat")]
    assert sum(x * x for x in plain[0]) == pytest.approx(1)
    assert endpoint.requests[1].body["encoding_format"] == "base64"
    assert packed.data[0].embedding == pytest.approx(vector("cat"), abs=1e-6)


async def test_embeddings_are_scripted(http: aiohttp.ClientSession) -> None:
    async with Endpoint(embed=[embeddings([[1.0, 0.0]]), status(500)]) as endpoint:
        body = {"model": "e", "input": "cat"}
        async with http.post(f"{endpoint.url}/embeddings", json=body) as response:
            assert (await response.json())["data"][0]["embedding"] == [1.0, 0.0]
        async with http.post(f"{endpoint.url}/embeddings", json=body) as response:
            assert response.status == 500


async def test_the_models_are_listed() -> None:
    async with Endpoint(models=["small", "large"]) as endpoint:
        async with openai.AsyncOpenAI(base_url=endpoint.url, api_key="k", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["small", "large"]


async def test_a_key_is_asked_for(http: aiohttp.ClientSession) -> None:
    async with Endpoint(["a"], api_key="secret") as endpoint:
        async with http.get(f"{endpoint.url}/models") as without:
            assert without.status == 401
        async with http.get(f"{endpoint.url}/models", headers={"Authorization": "Bearer secret"}) as given:
            assert given.status == 200


async def test_what_is_not_there_is_not_found(http: aiohttp.ClientSession) -> None:
    async with Endpoint() as endpoint:
        async with http.post(f"{endpoint.url}/completions", json={}) as response:
            assert (response.status, await response.json()) == (
                404,
                {"error": {"message": "no POST /completions here", "type": "scripted", "param": None, "code": None}},
            )
        assert (await chat(http, endpoint, stream=True))["error"]["message"] == "this endpoint does not stream"


async def test_requests_in_flight_are_counted(http: aiohttp.ClientSession) -> None:
    everyone_here = asyncio.Event()

    async def script(request: Request) -> str:
        # The endpoint's own loop runs this, so the event of the test is only read.
        while not everyone_here.is_set():
            await asyncio.sleep(0.001)
        return "a"

    async with Endpoint(script) as endpoint:
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(chat(http, endpoint))
            await asyncio.to_thread(endpoint.wait_for, 5)
            assert endpoint.in_flight == 5
            everyone_here.set()
        await chat(http, endpoint)
    assert (endpoint.count, endpoint.in_flight, endpoint.in_flight_max) == (6, 0, 5)


def test_waiting_in_vain_says_so() -> None:
    with Endpoint() as endpoint, pytest.raises(TimeoutError, match=r"0 of 1 requests came within 0\.01 s"):
        endpoint.wait_for(1, timeout_s=0.01)
