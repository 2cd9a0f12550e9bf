"""Replies in the shapes of real servers: what they put around a reply, where they put it, and what they refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import pytest
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from evalflow.config.judges import OpenAIJudgeConfig, PanelConfig
from evalflow.errors import InfrastructureError, JudgeError, UserError
from evalflow.llm.registry import build_judge
from evalflow.records import Ask, Message
from evalflow.testing import Endpoint, Request, reply, status
from evalflow.testing.replies import Computed, Exchange, Step
from tests.llm.conftest import Build

pytestmark = [pytest.mark.slow, pytest.mark.anyio]


class Rating(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reason: str
    verdict: Literal["yes", "no"]
    grade: int = Field(ge=1, le=5)


ASK = Ask(metric="m", step="s", task=None, messages=(Message("user", "So?"),), reply_model=Rating, variables={})
GOOD = json.dumps({"reason": "größer 😀", "verdict": "yes", "grade": 4}, ensure_ascii=False)
USAGE = {"prompt_tokens": 50, "completion_tokens": 90, "total_tokens": 140}


def server(
    message: Mapping[str, Any], finish: str | None = "stop", usage: Mapping[str, Any] = USAGE, **more: Any
) -> Any:
    """An endpoint that gives one message to every request."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, **more}
    return Endpoint(lambda _: Computed(make=lambda _: {"id": "1", "choices": [choice], "usage": usage}))


def called(arguments: Any, name: str = "Rating") -> dict[str, Any]:
    return {
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


SHAPES: dict[str, Mapping[str, Any]] = {
    "Ollama, thoughts in a field": {"content": GOOD, "reasoning": "Let me think."},
    "Ollama, older, thoughts in the content": {"content": f"<think>\nLet me think.\n</think>\n\n{GOOD}"},
    "vLLM": {"content": f"\n\n{GOOD}", "reasoning_content": "Let me think.", "tool_calls": [], "refusal": None},
    "vLLM, a template that opens the thoughts": {"content": f"Let me think.\n</think>\n\n{GOOD}"},
    "vLLM, the reply taken for thoughts": {"content": None, "reasoning_content": GOOD},
    "MLX, the reply taken for thoughts": {"content": "", "reasoning_content": f"\n{GOOD}\n"},
    "LM Studio": {"content": f"```json\n{GOOD}\n```", "reasoning_content": "", "tool_calls": []},
    "LM Studio, gpt-oss": {
        "content": f"<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>{GOOD}"
    },
    "DeepSeek": {"content": GOOD, "reasoning_content": 'Perhaps {"grade": 3}?'},
    "OpenRouter": {
        "content": f"Here it is:\n{GOOD}",
        "reasoning": "Let me think.",
        "reasoning_details": [{"type": "reasoning.text", "text": "Let me think."}],
    },
    "Mistral": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Let me think."}], "closed": True},
            {"type": "text", "text": f"```json\n{GOOD}\n```"},
        ]
    },
    "Bedrock by a gateway": {
        "content": [{"reasoningContent": {"reasoningText": {"text": "Think.", "signature": "x"}}}, {"text": GOOD}]
    },
    "LiteLLM": {"content": f"{GOOD}\n", "thinking_blocks": [{"type": "thinking", "thinking": "Let me think."}]},
    "an object as content": {"content": json.loads(GOOD)},
    "Llama, a call as text": {"content": f'<|python_tag|>{{"name": "Rating", "parameters": {GOOD}}}'},
    "Qwen, a call as text": {"content": f'<tool_call>\n{{"name": "Rating", "arguments": {GOOD}}}\n</tool_call>'},
    "a call": called(GOOD),
    "a call with an object as arguments": called(json.loads(GOOD)),
    "a call with arguments encoded twice": called(json.dumps(GOOD)),
    "a call under its name": called(json.dumps({"Rating": json.loads(GOOD)})),
}


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json", "md_json"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_a_reply_in_the_shape_of_a_server_is_read_with_one_request(shape: str, mode: str, build: Build) -> None:
    async with server(SHAPES[shape]) as endpoint:
        got = await build(endpoint.url, mode=mode).ask(ASK)
    assert got.parsed == Rating.model_validate_json(GOOD)
    assert (endpoint.count, got.reasks) == (1, 0)


EMPTY: dict[str, tuple[Mapping[str, Any], str | None, Mapping[str, Any], list[str]]] = {
    "thought until the limit": (
        {"content": None, "reasoning_content": "Hm." * 400},
        "length",
        {**USAGE, "completion_tokens": 300, "completion_tokens_details": {"reasoning_tokens": 300}},
        [
            "the reply is empty, since it was cut off",
            "finish_reason length",
            "300 output tokens, 300 of them for reasoning",
            "1,200 characters in its reasoning field",
            "judge.max_tokens=4096 allows more",
        ],
    ),
    "thought only": (
        {"content": "", "reasoning": "So it is good."},
        "stop",
        {**USAGE, "completion_tokens_details": {"reasoning_tokens": 88}},
        ["the reply is empty (finish_reason stop, 90 output tokens, 88 of them for reasoning", "judge.max_tokens=4096"],
    ),
    "nothing": ({"content": None}, None, USAGE, ["the reply is empty (no finish_reason, 90 output tokens)"]),
    "blank": ({"content": " \n", "tool_calls": None}, "stop", USAGE, ["the reply is empty (finish_reason stop"]),
}


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json", "md_json"])
@pytest.mark.parametrize("case", EMPTY)
async def test_an_empty_reply_says_so_and_why(case: str, mode: str, build: Build) -> None:
    message, finish, usage, said = EMPTY[case]
    async with server(message, finish, usage) as endpoint:
        with pytest.raises(JudgeError) as failed:
            await build(endpoint.url, mode=mode, max_tokens=300).ask(ASK)
    assert all(words in str(failed.value) for words in said), str(failed.value)
    assert failed.value.error_type == ("truncated" if finish == "length" else "schema")
    assert endpoint.count == (1 if finish == "length" else 3)


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json", "md_json"])
async def test_a_reply_that_is_cut_off_says_so_and_is_not_asked_for_again(mode: str, build: Build) -> None:
    half = GOOD[:-8]
    cut = r"the reply \(step s\) was cut off at .* \(finish_reason length, 90 output tokens\)"
    async with server(called(half) if mode == "tools" else {"content": half}, "length") as endpoint:
        with pytest.raises(JudgeError, match=cut) as failed:
            await build(endpoint.url, mode=mode, max_tokens=2000).ask(ASK)
    assert "judge.max_tokens=8000 allows more" in str(failed.value)
    assert (failed.value.raw, endpoint.count) == (half, 1)


@pytest.mark.parametrize(
    ("mode", "message", "hint"),
    [
        ("json_schema", {"content": "I would say four."}, "judge.mode=md_json"),
        ("json_schema", {"content": '{"opinion": "good"}'}, "judge.mode=md_json"),
        ("json", {"content": "I would say four."}, "judge.mode=md_json"),
        ("json", {"content": '{"opinion": "good"}'}, "judge.mode=json_schema"),
        ("tools", {"content": "I would say four."}, "judge.mode=json_schema"),
        ("tools", called('{"opinion": "good"}'), "judge.mode=json_schema"),
        ("md_json", {"content": "I would say four."}, "judge.mode=json_schema"),
    ],
)
async def test_replies_that_stay_invalid_name_the_mode_to_try(
    mode: str, message: Mapping[str, Any], hint: str, build: Build
) -> None:
    async with server(message) as endpoint:
        with pytest.raises(JudgeError, match="no valid reply in 3 replies") as failed:
            await build(endpoint.url, mode=mode).ask(ASK)
    assert hint in str(failed.value)


@pytest.mark.parametrize(
    ("mode", "code", "message", "hint"),
    [
        ("json_schema", 400, "response_format is not supported by this model", "judge.mode=md_json asks without it"),
        ("json_schema", 422, "Unknown field: response_format", "judge.mode=md_json"),
        ("json_schema", 500, "failed to parse grammar", "judge.mode=md_json"),
        ("json", 400, "'response_format.type' must be 'json_schema' or 'text'", "judge.mode=json_schema"),
        ("tools", 400, '"auto" tool choice requires --enable-auto-tool-choice to be set', "judge.mode=md_json"),
        ("tools", 404, "No endpoints found that support tool use", "judge.mode=md_json"),
        ("json_schema", 400, "this is too much", None),
        ("md_json", 400, "tools and response_format are not supported", None),
    ],
)
async def test_a_mode_that_the_endpoint_refuses_names_another(
    mode: str, code: int, message: str, hint: str | None, build: Build
) -> None:
    async with Endpoint(lambda request: status(code, message=message) if request.number else reply(GOOD)) as endpoint:
        judge = build(endpoint.url, mode=mode)
        await judge.ask(ASK)
        with pytest.raises((JudgeError, InfrastructureError)) as failed:
            await judge.ask(replace(ASK, repeat=1))
    assert message in str(failed.value)
    assert (hint or "judge.mode") in str(failed.value) if hint else "judge.mode" not in str(failed.value)


async def test_a_setting_is_named_where_the_member_of_a_panel_has_it() -> None:
    async with server({"content": "Four."}) as endpoint:

        def panel(**keys: Any) -> Any:
            fixed = {"kind": "openai", "base_url": endpoint.url, "api_key_env": None}
            members = {
                name: OpenAIJudgeConfig.model_validate({**fixed, **own})
                for name, own in {"first": {"model": "m"}, "second": {"model": "n", **keys}}.items()
            }
            return build_judge(PanelConfig(kind="panel", members=cast("Any", members)), "panel")

        with pytest.raises(UserError) as refused:
            panel(mode="json", strict=True)
        [problem] = refused.value.problems
        assert problem.where == "judge.members.second.strict"
        assert problem.hint.startswith("use judge.members.second.mode=json_schema")
        built = panel()
        with pytest.raises(JudgeError, match=r"judge\.members\.second\.mode=md_json"):
            await built.members[1].ask(ASK)
        await built.close()


def llama_cpp(*, spoil: Any = lambda token: token) -> dict[str, Any]:
    """The tokens of a whole turn, of which the content is a part, as a server gave them that keeps to a schema."""

    def one(text: str, chance: float, *others: tuple[str, float]) -> dict[str, Any]:
        def shown(text: str, chance: float) -> dict[str, Any]:
            return {"id": 1, "token": text, "bytes": list(text.encode()), "logprob": math.log(chance)}

        likely = [shown(*other) for other in ((text, chance), *others)]
        return spoil({**shown(text, chance), "top_logprobs": likely})

    pieces = [
        "```",
        "json",
        "\n",
        '{"',
        "reason",
        '":',
        ' "',
        "gr",
        "ö",
        "ßer",
        " ",
        "😀",
        '",',
        ' "',
        "verdict",
        '":',
        ' "',
    ]
    tokens = [one(piece, 0.9, ("x", 0.05)) for piece in pieces]
    tokens += [one("yes", 0.7, ("no", 0.3)), *(one(piece, 1.0) for piece in ['",', ' "', "grade", '":', " "])]
    tokens += [one("4", 0.6, ("5", 0.3), (".", 0.1)), *(one(piece, 1.0) for piece in ["}", "\n", "```"])]
    return {"content": [*tokens, {**one("", 0.5, ("\n", 0.5)), "bytes": []}]}


def without_bytes(token: dict[str, Any]) -> dict[str, Any]:
    shown = [{key: value for key, value in one.items() if key != "bytes"} for one in token["top_logprobs"]]
    return {**{key: value for key, value in token.items() if key != "bytes"}, "top_logprobs": shown}


def unreadable(token: dict[str, Any]) -> dict[str, Any]:
    if token["token"] in ("ö", "😀"):
        return {**token, "token": "\ufffd", "bytes": [239, 191, 189]}
    return token


@pytest.mark.parametrize("spoil", [lambda token: token, without_bytes, unreadable])
async def test_a_weighted_grade_takes_one_request_whatever_stands_around_it(spoil: Any, build: Build) -> None:
    async with server({"content": GOOD}, logprobs=llama_cpp(spoil=spoil)) as endpoint:
        got = await build(endpoint.url, logprobs=True).ask(replace(ASK, logprobs=True, samples=10))
    assert endpoint.count == 1
    assert got.probabilities is not None
    assert got.probabilities[0]["grade"] == pytest.approx({4: 2 / 3, 5: 1 / 3})
    assert got.probabilities[0]["verdict"] == pytest.approx({"yes": 0.7, "no": 0.3})


async def test_a_reply_after_thoughts_is_weighted_by_its_own_tokens(build: Build) -> None:
    thoughts = [
        {"token": text, "logprob": 0.0, "top_logprobs": []} for text in ("<think>", "4 or 5?", "</think>", "\n")
    ]
    tokens = {"content": [*thoughts, *llama_cpp()["content"]]}
    message = {"content": f"<think>4 or 5?</think>\n```json\n{GOOD}\n```"}
    async with server(message, logprobs=tokens) as endpoint:
        got = await build(endpoint.url, logprobs=True).ask(replace(ASK, logprobs=True, samples=10))
    assert (endpoint.count, len(got.probabilities or ())) == (1, 1)


async def test_a_mended_reply_is_the_same_from_the_cache(build: Build) -> None:
    def fenced(request: Request) -> Any:
        return reply(f'```json\n{GOOD[:-1]}, "sure": true}}\n```')

    async with Endpoint(fenced) as endpoint:
        judge = build(endpoint.url)
        first, again = await judge.ask(ASK), await judge.ask(ASK)
    assert first.parsed == again.parsed == Rating.model_validate_json(GOOD)
    assert first.mended == again.mended == ("Markdown fence", "key that was not asked for: sure")


@dataclass(frozen=True, kw_only=True)
class Marked(Step):
    """A body that begins with a byte order mark."""

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        body = json.dumps({"choices": [{"message": {"content": GOOD}}]}).encode("utf-8-sig")
        return web.Response(body=body, content_type="application/json")


async def test_a_byte_order_mark_before_the_whole_response_is_left_out(build: Build) -> None:
    async with Endpoint(lambda _: Marked()) as endpoint:
        assert (await build(endpoint.url).ask(ASK)).parsed == Rating.model_validate_json(GOOD)
