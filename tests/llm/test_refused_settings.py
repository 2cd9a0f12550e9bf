"""Endpoints that refuse a setting, in the words of several: the request is sent once more without it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field

from evalflow.calls.faults import of_status
from evalflow.calls.http import Response
from evalflow.calls.refusals import override, refused
from evalflow.errors import CallError, InfrastructureError, JudgeError, Refusal
from evalflow.records import Ask, Message
from evalflow.testing import Endpoint, Request, status
from tests.llm.conftest import Build

pytestmark = pytest.mark.anyio


class Grade(BaseModel):
    reason: str
    score: int = Field(ge=1, le=5)


ASK = Ask(metric="m", step="s", task=None, messages=(Message("user", "Grade it."),), reply_model=Grade, variables={})
WEIGHED = Ask(
    metric="m",
    step="s",
    task=None,
    messages=(Message("user", "Grade it."),),
    reply_model=Grade,
    variables={},
    logprobs=True,
    samples=2,
)


def refusing(name: str, code: int, words: str) -> Any:
    """An endpoint that refuses requests with this parameter."""

    def script(request: Request) -> Any:
        return status(code, message=words) if name in request.body else None

    return script


OPENAI = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."


@pytest.mark.parametrize(
    ("name", "code", "words", "keys"),
    [
        (
            "temperature",
            400,
            "Unsupported value: 'temperature' does not support 0 with this model.",
            {},
        ),
        ("temperature", 400, "`temperature` is deprecated for this model.", {}),
        ("temperature", 422, '[{"loc": ["body", "temperature"], "msg": "extra fields not permitted"}]', {}),
        ("max_tokens", 400, OPENAI, {"max_tokens": 99}),
        ("logprobs", 403, "You are not allowed to request logprobs from this model", {"logprobs": True}),
        ("logprobs", 400, "logprobs are not supported with reasoning models", {"logprobs": True}),
        ("logprobs", 404, "Unknown name 'logprobs': cannot find field", {"logprobs": True}),
    ],
)
async def test_it_is_left_out_from_then_on_and_said_once(
    build: Build, caplog: pytest.LogCaptureFixture, name: str, code: int, words: str, keys: dict[str, Any]
) -> None:
    with caplog.at_level(logging.WARNING, "evalflow"):
        async with Endpoint(refusing(name, code, words)) as endpoint:
            judge = build(endpoint.url, **keys)
            for number in range(3):
                await judge.ask(replace(WEIGHED if "logprobs" in keys else ASK, repeat=number))
    assert sum(name in request.body for request in endpoint.requests) == 1
    said = [record.getMessage() for record in caplog.records if "refuses" in record.getMessage()]
    assert len(said) == 1
    assert words.split("'")[0][:20] in said[0]


async def test_a_renamed_limit_keeps_its_value(build: Build) -> None:
    async with Endpoint(refusing("max_tokens", 400, OPENAI)) as endpoint:
        await build(endpoint.url, max_tokens=99).ask(ASK)
    assert endpoint.requests[1].body["max_completion_tokens"] == 99


async def test_several_settings_are_learnt_one_after_the_other(build: Build) -> None:
    def script(request: Request) -> Any:
        if "max_tokens" in request.body:
            return status(400, message=OPENAI)
        return status(400, message="temperature is not supported") if "temperature" in request.body else None

    async with Endpoint(script) as endpoint:
        await build(endpoint.url, max_tokens=99).ask(ASK)
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    "words",
    [
        "top_logprobs must be less than or equal to 5",
        "Requested sample logprobs of 20, which is greater than max allowed: 5",
    ],
)
async def test_fewer_alternatives_to_a_token_are_asked_for(build: Build, words: str) -> None:
    def script(request: Request) -> Any:
        few = request.body.get("top_logprobs", 0) <= 5
        return None if few else status(400, message=words)

    async with Endpoint(script) as endpoint:
        await build(endpoint.url, logprobs=True).ask(WEIGHED)
    assert [request.body["top_logprobs"] for request in endpoint.requests[:2]] == [20, 5]


async def test_a_strict_schema_that_is_refused_is_asked_for_without_strict(build: Build) -> None:
    def script(request: Request) -> Any:
        strict = request.body["response_format"]["json_schema"].get("strict")
        return status(400, message="strict is not supported in response_format.json_schema") if strict else None

    async with Endpoint(script) as endpoint:
        await build(endpoint.url, strict=True).ask(ASK)
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("code", "words", "keys", "hint"),
    [
        (400, "Unknown parameter: 'seed'.", {"parameters": {"seed": 1}}, "judge.parameters.seed=null"),
        (
            400,
            "reasoning_effort is not supported by this model",
            {"parameters": {"reasoning_effort": "low"}},
            "judge.parameters.reasoning_effort=null",
        ),
        (
            400,
            "max_tokens is too large: 9000. This model supports at most 4,096 tokens",
            {"max_tokens": 9000},
            "judge.max_tokens=4096",
        ),
        (400, "max_tokens: 9000 > 4096, which is the maximum", {"max_tokens": 9000}, "judge.max_tokens=4096"),
    ],
)
async def test_what_cannot_be_left_out_safely_is_named_with_its_override(
    build: Build, code: int, words: str, keys: dict[str, Any], hint: str
) -> None:
    async with Endpoint(lambda _: status(code, message=words)) as endpoint:
        with pytest.raises((CallError, InfrastructureError)) as failed:
            await build(endpoint.url, **keys).ask(ASK)
    assert hint in str(failed.value)
    assert "API key" not in str(failed.value)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (403, "This key may not use the model"),
        (400, "This model's maximum context length is 8192 tokens, and max_tokens is too large"),
        (404, "The model `m` does not exist"),
        (400, "The temperature in Oslo"),
    ],
)
async def test_other_refusals_stay_what_they_are(build: Build, code: int, words: str) -> None:
    async with Endpoint(lambda _: status(code, message=words)) as endpoint:
        with pytest.raises((JudgeError, InfrastructureError)) as failed:
            await build(endpoint.url, max_tokens=9).ask(ASK)
    assert "=null" not in str(failed.value)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "invalid", "input": {"temperature": 0}}]},
        {"error": {"message": "messages: invalid, in {'temperature': 0}", "param": "messages"}},
    ],
)
def test_a_setting_in_a_request_that_an_error_repeats_is_not_what_it_refuses(error: dict[str, Any]) -> None:
    refusal = of_status(Response(422, {}, json.dumps(error).encode())).refusal
    assert refusal is not None
    assert refused({"temperature": 0, "messages": []}, refusal) is None


@pytest.mark.parametrize("at", ["message", None])
def test_a_setting_is_known_by_its_place_in_the_request(at: str | None) -> None:
    error = {"detail": [{"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}]}
    refusal = of_status(Response(422, {}, json.dumps({at: error} if at else error).encode())).refusal
    assert refusal is not None
    assert refused({"temperature": 0, "top_k": 3}, refusal, ["top_k"]) == "top_k"


def test_a_renamed_limit_is_added_to_the_parameters_that_there_are() -> None:
    sent = {"max_tokens": 99}
    assert override("max_tokens", "judge", Refusal(400, OPENAI), sent) == "++judge.parameters.max_completion_tokens=99"
