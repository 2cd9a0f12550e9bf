"""Further parameters of requests: what is sent, what is refused, and that they are part of a judge's identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.config.simulators import OpenAISimulatorConfig
from evalflow.config.targets import OpenAITargetConfig
from evalflow.llm.anthropic import as_message
from evalflow.llm.gemini import as_content
from evalflow.llm.judge import OpenAIJudge
from evalflow.records import Ask, Message
from evalflow.testing import Endpoint
from tests.llm.conftest import Build

MORE: dict[str, Any] = {
    "reasoning_effort": "low",
    "top_p": 0.9,
    "seed": 7,
    "chat_template_kwargs": {"enable_thinking": False},
}


class Grade(BaseModel):
    reason: str
    score: int


ASK = Ask(metric="m", step="s", task=None, messages=(Message("user", "Grade it."),), reply_model=Grade, variables={})


def judge(**keys: Any) -> OpenAIJudgeConfig:
    return OpenAIJudgeConfig.model_validate({"kind": "openai", "model": "m", "api_key_env": None, **keys})


async def sent(build: Build, **keys: Any) -> dict[str, Any]:
    async with Endpoint() as endpoint:
        await build(endpoint.url, **keys).ask(ASK)
    return dict(endpoint.requests[0].body)


@pytest.mark.anyio
async def test_parameters_are_sent_as_they_are(build: Build) -> None:
    body = await sent(build, parameters=MORE)
    assert {name: body[name] for name in MORE} == MORE
    assert body["temperature"] == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("keys", "lengths"),
    [
        ({"max_tokens": 9}, {"max_tokens": 9}),
        ({"parameters": {"max_completion_tokens": 5}}, {"max_completion_tokens": 5}),
        ({"max_tokens": 9, "parameters": {"max_completion_tokens": 5}}, {"max_completion_tokens": 5}),
        ({"max_tokens": 9, "parameters": {"max_tokens": None}}, {}),
    ],
)
async def test_one_limit_of_a_replys_length_is_sent(
    build: Build, keys: dict[str, Any], lengths: dict[str, int]
) -> None:
    body = await sent(build, **keys)
    assert {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} == lengths


@pytest.mark.anyio
async def test_null_removes_the_temperature_also_of_samples(build: Build) -> None:
    async with Endpoint() as endpoint:
        one = build(endpoint.url, parameters={"temperature": None, "top_p": None})
        await one.ask(ASK)
        request, _ = one.opening(replace(ASK, samples=3))
    assert b"temperature" not in (request.body or b"")
    assert "temperature" not in endpoint.requests[0].body
    assert "top_p" not in endpoint.requests[0].body


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("model", "x", "use the key model"),
        ("temperature", 1, "use the key temperature"),
        ("max_tokens", 9, "use the key max_tokens"),
        ("messages", [], "the messages are the prompt"),
        ("stream", True, "replies are read whole"),
        ("n", 3, "repeats.judge"),
        ("response_format", {"type": "text"}, "use the key mode"),
        ("tools", [], "use the key mode"),
        ("logprobs", True, "use the key logprobs"),
        ("top_p", float("nan"), "not finite"),
    ],
)
def test_what_evalflow_sets_is_refused_with_the_key_to_use(name: str, value: Any, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        judge(parameters={name: value})
    assert told in str(refused.value)
    assert judge(parameters={name: None}).parameters is None


def test_a_target_may_ask_for_a_format_of_its_answers() -> None:
    wanted = {"response_format": {"type": "json_object"}}
    config = OpenAITargetConfig.model_validate({"kind": "openai", "model": "m", "parameters": wanted})
    assert config.parameters == wanted
    with pytest.raises(ValidationError, match="kind agent"):
        OpenAITargetConfig.model_validate({"kind": "openai", "model": "m", "parameters": {"tools": []}})
    with pytest.raises(ValidationError, match="use the key mode"):
        OpenAISimulatorConfig.model_validate({"kind": "openai", "model": "m", "parameters": wanted})


def test_parameters_are_part_of_the_identity() -> None:
    found = [
        judge(),
        judge(parameters=None),
        judge(parameters={}),
        judge(parameters=MORE),
        judge(parameters={"seed": 1}),
    ]
    identities = [OpenAIJudge(config, "judge").info.identity for config in found]
    assert identities[0] == identities[1] == identities[2]
    assert len(set(identities)) == 3


def test_batches_of_other_providers_carry_them() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.0}
    message: Any = as_message({**body, "max_completion_tokens": 5, "top_p": 0.9, "thinking": {"type": "disabled"}})
    assert (message["max_tokens"], message["top_p"], message["thinking"]) == (5, 0.9, {"type": "disabled"})
    assert "max_completion_tokens" not in message
    content: Any = as_content(
        {
            **body,
            "max_completion_tokens": 5,
            "top_p": 0.9,
            "seed": 7,
            "reasoning_effort": "low",
            "safetySettings": [],
            "extra_body": {"google": {"candidateCount": 1}},
        }
    )
    assert content["generationConfig"] == {
        "temperature": 0.0,
        "maxOutputTokens": 5,
        "topP": 0.9,
        "seed": 7,
        "thinkingConfig": {"thinkingLevel": "low"},
        "candidateCount": 1,
    }
    assert content["safetySettings"] == []
