"""One reply of a model, read from what an OpenAI-compatible endpoint sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NotRequired

from pydantic import Field, GetCoreSchemaHandler, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import core_schema
from typing_extensions import TypedDict

from evalflow.calls.gateway import Malformed
from evalflow.calls.transport import Response
from evalflow.config.endpoints import Price
from evalflow.frozen import record
from evalflow.records import Usage


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@record(kw_only=True)
class Completion:
    """One reply of a model.

    Attributes:
        text: The content, or None.
        tool_calls: The tool calls, usually none.
        refusal: Why the model will not answer, or None.
        finish_reason: stop, length (cut off), content_filter, tool_calls, or what else the endpoint says.
        tokens: The content's tokens with their log probabilities, as the API gives them, or None.
        usage, cost_usd: None where unknown.
        latency_s: Seconds of the try that was answered.
        body: The response as it came.
    """

    text: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    refusal: str | None = None
    finish_reason: str | None = None
    tokens: tuple[Mapping[str, Any], ...] | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float = 0.0
    body: bytes = b""


def read(response: Response, price: Price | None) -> Completion:
    """The reply that a 2xx response holds.

    Raises:
        Malformed: It is no chat completion.
    """
    try:
        envelope = _envelope().validate_json(response.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"no chat completion ({place}: {first['msg']})" if place else "no JSON") from None
    choice = envelope["choices"][0]
    message = choice["message"]
    counts = envelope.get("usage")
    usage = Usage(counts["prompt_tokens"], counts["completion_tokens"]) if counts else None
    calls = message.get("tool_calls")
    logprobs = choice.get("logprobs")
    tokens = logprobs.get("content") if logprobs else None
    return Completion(
        text=_text(message.get("content")),
        tool_calls=tuple([_tool_call(call, index) for index, call in enumerate(calls)]) if calls else (),
        refusal=message.get("refusal") or None,
        finish_reason=choice.get("finish_reason"),
        tokens=tuple(tokens) if tokens else None,
        usage=usage,
        cost_usd=cost(usage, price),
        latency_s=response.elapsed_s,
        body=response.body,
    )


# Typed dictionaries and not models, since they are read once and thrown away; lenient in all that servers leave out.
class _Function(TypedDict):
    name: NotRequired[str]
    arguments: NotRequired[str | dict[str, Any] | None]


class _Call(TypedDict):
    id: NotRequired[str | None]
    function: _Function


class _Part(TypedDict):
    text: NotRequired[str]


class _Message(TypedDict):
    content: NotRequired[str | list[_Part] | None]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[list[_Call] | None]


class _Logprobs(TypedDict):
    content: NotRequired[list[dict[str, Any]] | None]


class _Choice(TypedDict):
    message: _Message
    finish_reason: NotRequired[str | None]
    logprobs: NotRequired[_Logprobs | None]


# No reply takes a billion tokens.
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class _Tokens(TypedDict):
    prompt_tokens: _Count
    completion_tokens: _Count


def _or_unknown(source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    return core_schema.with_default_schema(handler(source), default=None, on_error="default")


class _Envelope(TypedDict):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    # Counts that make no sense make the usage unknown, and leave a good reply good.
    usage: NotRequired[Annotated[_Tokens | None, GetPydanticSchema(_or_unknown)]]


@cache
def _envelope() -> TypeAdapter[_Envelope]:
    return TypeAdapter(_Envelope)


def _text(content: str | list[_Part] | None) -> str | None:
    return "".join(part.get("text", "") for part in content) if isinstance(content, list) else content


def _tool_call(call: _Call, index: int) -> ToolCall:
    function = call["function"]
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(call.get("id") or f"call_{index}", function.get("name", ""), text)


def cost(usage: Usage | None, price: Price | None) -> float | None:
    """US dollars, or None where the usage or the price is not known."""
    if usage is None or price is None:
        return None
    dollars = usage.input_tokens * price.input_per_million + usage.output_tokens * price.output_per_million
    return dollars / 1_000_000
