"""Chat completions of one OpenAI-compatible endpoint, for judges and targets alike."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from evalflow.calls.gateway import Gateway, Malformed
from evalflow.calls.http import HttpTransport
from evalflow.calls.limiter import Limiters
from evalflow.calls.retry import RetryPolicy
from evalflow.calls.transport import Request, Response, Transport
from evalflow.config.schema import Endpoint, Price
from evalflow.errors import Problem, UserError
from evalflow.llm.sdk import OPENAI_URL, SdkTransport
from evalflow.records import Usage

PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """

    text: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    refusal: str | None = None
    finish_reason: str | None = None
    tokens: tuple[Mapping[str, Any], ...] | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float = 0.0


class ChatClient:
    """Sends chat requests to one endpoint, under its limiter.

    Args:
        config: The endpoint, and what every request to it carries.
        role: The configuration group, `judge` or `target`, for messages.
        limiters: Shared by all clients of a process, so that two clients of one endpoint keep its limit together.
        transport, policy: For tests, and for other ways to the endpoint.

    Raises:
        UserError: The environment variable of the API key is not set.
    """

    def __init__(
        self,
        config: Endpoint,
        role: str,
        limiters: Limiters | None = None,
        *,
        transport: Transport | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        base_url = config.base_url or OPENAI_URL
        key = _api_key(config, role)
        bounds = config.concurrency
        limiter = (limiters or Limiters()).get(
            (base_url, config.model, config.api_key_env or ""), bounds.start, bounds.max
        )
        self._gateway = Gateway(
            transport or _transport(config, base_url, key),
            limiter,
            policy or RetryPolicy(attempts=config.attempts),
            _public(base_url),
            key_hint=f"check the API key in ${config.api_key_env}" if key else f"{role}.api_key_env names no key",
            secret=key,
        )
        self._timeout_s = config.timeout_s
        self._price = config.price
        self._fixed = _fixed(config, base_url)

    async def complete(self, body: Mapping[str, Any]) -> Completion:
        """Ask the model.

        Args:
            body: The request's JSON without the model and its parameters.

        Raises:
            CallError: This call failed for good.
            InfrastructureError: Every further call would fail too.
        """
        request = Request("POST", PATH, canonical({**self._fixed, **body}), self._timeout_s)
        sent = await self._gateway.send(request, _decode)
        return sent.value.completion(sent.latency_s, self._price)

    async def close(self) -> None:
        """Release connections."""
        await self._gateway.close()


def canonical(body: Mapping[str, Any]) -> bytes:
    """The bytes of a request: equal bodies give equal bytes.

    Keys keep their order: a model writes a reply's fields in the order of the schema, so sorting them would move the
    reason behind the verdict. Half of a surrogate pair, which no encoding can carry, becomes a question mark.
    """
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def identity(kind: str, config: BaseModel, fields: tuple[str, ...], extra: object = None) -> str:
    """A digest of the part of a configuration that decides what is answered."""
    values = [kind, config.model_dump(mode="json", include=set(fields)), extra]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _transport(config: Endpoint, base_url: str, key: str | None) -> Transport:
    make = HttpTransport if config.client == "http" else SdkTransport
    return make(base_url, key, config.concurrency.max, config.first_byte_timeout_s)


def _api_key(config: Endpoint, role: str) -> str | None:
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        hint = f"set it, or write it into .env; {role}.api_key_env=null sends none"
        raise UserError(
            Problem(f"the environment variable {config.api_key_env} is not set", f"{role}.api_key_env", hint)
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        what = f"the environment variable {config.api_key_env} holds what cannot be a key"
        raise UserError(Problem(what, f"{role}.api_key_env", "a key has no spaces, line breaks or accented letters"))
    return key


def _fixed(config: Endpoint, base_url: str) -> dict[str, Any]:
    """What every request carries. OpenAI and Azure have renamed max_tokens; the others know the old name only."""
    host = urlsplit(base_url).hostname or ""
    renamed = host == "api.openai.com" or host.endswith(".azure.com")
    limit = "max_completion_tokens" if renamed else "max_tokens"
    values = {"model": config.model, "temperature": config.temperature, limit: config.max_tokens}
    return {name: value for name, value in values.items() if value is not None}


def _public(base_url: str) -> str:
    """The address without user, password and query."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class _Function(BaseModel):
    name: str = ""
    arguments: str | dict[str, Any] | None = None


class _Call(BaseModel):
    id: str | None = None
    function: _Function


class _Part(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Logprobs(BaseModel):
    content: list[dict[str, Any]] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Tokens(BaseModel):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class _Envelope(BaseModel):
    """A chat completion as far as it is read; lenient in all that servers leave out."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Tokens | None = None

    def completion(self, latency_s: float, price: Price | None) -> Completion:
        """The same as a value of ours."""
        choice = self.choices[0]
        usage = Usage(self.usage.prompt_tokens, self.usage.completion_tokens) if self.usage else None
        tokens = choice.logprobs.content if choice.logprobs else None
        return Completion(
            text=_text(choice.message.content),
            tool_calls=tuple(_tool_call(call, index) for index, call in enumerate(choice.message.tool_calls or [])),
            refusal=choice.message.refusal or None,
            finish_reason=choice.finish_reason,
            tokens=tuple(tokens) if tokens else None,
            usage=usage,
            cost_usd=_cost(usage, price),
            latency_s=latency_s,
        )


def _decode(response: Response) -> _Envelope:
    try:
        return _Envelope.model_validate_json(response.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"no chat completion ({place}: {first['msg']})" if place else "no JSON") from None


def _text(content: str | list[_Part] | None) -> str | None:
    return "".join(part.text for part in content) if isinstance(content, list) else content


def _tool_call(call: _Call, index: int) -> ToolCall:
    arguments = call.function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(call.id or f"call_{index}", call.function.name, text)


def _cost(usage: Usage | None, price: Price | None) -> float | None:
    if usage is None or price is None:
        return None
    dollars = usage.input_tokens * price.input_per_million + usage.output_tokens * price.output_per_million
    return dollars / 1_000_000
