"""Chat completions of one OpenAI-compatible endpoint, for judges and targets alike."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from evalflow.calls.gateway import Gateway
from evalflow.calls.http import HttpTransport
from evalflow.calls.limiter import Limiters
from evalflow.calls.retry import RetryPolicy
from evalflow.calls.transport import Request, Transport
from evalflow.config.schema import Endpoint
from evalflow.errors import Problem, UserError
from evalflow.llm.completion import Completion, read
from evalflow.llm.sdk import OPENAI_URL, SdkTransport
from evalflow.records import Usage

PATH = "/chat/completions"
BYTES_A_TOKEN = 4.0
REPLY_TOKENS = 256
"""Tokens of a reply, before the first one tells."""
REPLIES = 16
"""Over how many replies their length is averaged."""


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
        limiter.keep_to(config.rate_limit.requests_per_minute, config.rate_limit.tokens_per_minute)
        self._limiter = limiter
        self._gateway = Gateway(
            transport or _transport(config, base_url, key),
            limiter,
            policy or RetryPolicy(attempts=config.attempts),
            _public(base_url),
            key_hint=f"check the API key in ${config.api_key_env}" if key else f"{role}.api_key_env names no key",
            secret=key,
        )
        self._timeout_s = config.timeout_s
        self._read = partial(read, price=config.price)
        self._reply_tokens = float(min(REPLY_TOKENS, config.max_tokens or REPLY_TOKENS))
        self._fixed = _fixed(config, base_url)

    async def complete(self, body: Mapping[str, Any], kind: str = "") -> Completion:
        """Ask the model.

        Args:
            body: The request's JSON without the model and its parameters.
            kind: Calls of one kind should take alike, as those of one step of a metric do.

        Raises:
            CallError: This call failed for good.
            InfrastructureError: Every further call would fail too.
        """
        data = canonical({**self._fixed, **body})
        tokens = self._expected_tokens(data)
        request = Request("POST", PATH, data, self._timeout_s, kind, tokens)
        completion = (await self._gateway.send(request, self._read)).value
        if completion.usage is not None:
            self._settle(tokens, completion.usage)
        return completion

    async def close(self) -> None:
        """Release connections."""
        await self._gateway.close()

    def _expected_tokens(self, data: bytes) -> float:
        return len(data) / BYTES_A_TOKEN + self._reply_tokens

    def _settle(self, expected: float, usage: Usage) -> None:
        self._reply_tokens += (usage.output_tokens - self._reply_tokens) / REPLIES
        self._limiter.settle(usage.input_tokens + usage.output_tokens - expected)


def canonical(body: Mapping[str, Any]) -> bytes:
    """The bytes of a request: equal bodies give equal bytes.

    Keys keep their order: a model writes a reply's fields in the order of the schema, so sorting them would move the
    reason behind the verdict. Half of a surrogate pair, which no encoding can carry, becomes a question mark.
    """
    try:
        return to_json(body)
    except PydanticSerializationError:
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
