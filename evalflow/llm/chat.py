"""Chat completions of one OpenAI-compatible endpoint, for judges and targets alike."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from evalflow.calls.budget import Account
from evalflow.calls.entry import Entry, key_of
from evalflow.calls.gateway import Gateway, Malformed
from evalflow.calls.http import HttpTransport
from evalflow.calls.once import Unreadable
from evalflow.calls.retry import RetryPolicy
from evalflow.calls.session import CallSession
from evalflow.calls.transport import Request, Response, Transport
from evalflow.config.address import public_address, without_user
from evalflow.config.schema import Endpoint
from evalflow.errors import Problem, UserError
from evalflow.llm.azure import AzureTransport
from evalflow.llm.completion import Completion, cost, read
from evalflow.llm.sdk import OPENAI_URL, SdkTransport
from evalflow.records import Usage

T = TypeVar("T")
PATH = "/chat/completions"
BYTES_A_TOKEN = 4.0
REPLY_TOKENS = 256
"""Tokens of a reply, before the first one tells."""
REPLIES = 16
"""Over how many replies their length is averaged."""


class ChatClient:
    """Sends chat requests to one endpoint, under its limiter and the run's budget.

    Args:
        config: The endpoint, and what every request to it carries.
        role: The configuration group, `judge` or `target`, for messages.
        session: Shared by all clients of a run, so that two clients of one endpoint keep its limit together.
        transport, policy: For tests, and for other ways to the endpoint.

    Raises:
        UserError: The environment variable of the API key is not set, or a budget in dollars meets an unknown price.
    """

    def __init__(
        self,
        config: Endpoint,
        role: str,
        session: CallSession | None = None,
        *,
        transport: Transport | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        session = session or CallSession()
        base_url = config.base_url or OPENAI_URL
        account = _account(config, role, session)
        key = _api_key(config, role)
        bounds = config.concurrency
        limiter = session.limiters.get((base_url, config.model, config.api_key_env or ""), bounds.start, bounds.max)
        limiter.keep_to(config.rate_limit.requests_per_minute, config.rate_limit.tokens_per_minute)
        self._limiter = limiter
        self._gateway = Gateway(
            transport or _transport(config, base_url, key),
            limiter,
            policy or RetryPolicy(attempts=config.attempts),
            public_address(base_url),
            key_hint=f"check the API key in ${config.api_key_env}" if key else f"{role}.api_key_env names no key",
            secrets=[key] if key else (),
            account=account,
        )
        self._once = session.once
        version = config.azure and config.azure.api_version
        self._place = f"{base_url}?api-version={version}" if version else base_url
        self._price = config.price
        self._timeout_s = config.timeout_s
        self._read = partial(read, price=config.price)
        self._reply_tokens = float(min(REPLY_TOKENS, config.max_tokens or REPLY_TOKENS))
        self._fixed = _fixed(config, base_url)

    def request(self, body: Mapping[str, Any], kind: str = "") -> Request:
        """What is sent.

        Args:
            body: The request's JSON without the model and its parameters.
            kind: Calls of one kind should take alike, as those of one step of a metric do.
        """
        data = canonical({**self._fixed, **body})
        return Request("POST", PATH, data, self._timeout_s, kind, self._expected_tokens(data))

    async def complete(self, request: Request) -> Completion:
        """Ask the model.

        Raises:
            CallError: This call failed for good.
            InfrastructureError: Every further call would fail too.
            BudgetError: The budget does not cover it.
        """
        completion = (await self._gateway.send(request, self._read)).value
        if completion.usage is not None:
            self._settle(request.tokens, completion.usage)
        return completion

    def key(self, request: Request, *repeats: int) -> bytes:
        """What a value is known by: the request that is sent first, and which of several wanted values it is."""
        return key_of(self._place, request.path, request.body or b"", *repeats)

    async def once(
        self, key: bytes, ask: Callable[[], Awaitable[tuple[T, Entry]]], read: Callable[[Entry], T]
    ) -> tuple[T, bool]:
        """The value that is known by a key, and whether it was had for nothing. See `Once`.

        Args:
            key: What `key` gave.
            ask: Asks, and gives the value and what to remember of it.
            read: The value of what is remembered; raises Unreadable.
        """
        if self._once is None:
            return (await ask())[0], False
        return await self._once(key, ask, read, self._cost)

    def recall(self, entry: Entry) -> Completion:
        """The completion that is remembered, with what all requests that led to it took, at today's price.

        Raises:
            Unreadable: It is none.
        """
        try:
            completion = self._read(Response(200, {}, entry.body, entry.latency_s))
        except Malformed as error:
            raise Unreadable(str(error)) from None
        return replace(completion, usage=entry.usage, cost_usd=self._cost(entry))

    async def close(self) -> None:
        """Release connections."""
        await self._gateway.close()

    def _expected_tokens(self, data: bytes) -> float:
        return len(data) / BYTES_A_TOKEN + self._reply_tokens

    def _cost(self, entry: Entry) -> float | None:
        return cost(entry.usage, self._price)

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
    """A digest of the part of a configuration that decides what is answered; of an address, not who asks there."""
    decisive = config.model_dump(mode="json", include=set(fields))
    if decisive.get("base_url"):
        decisive["base_url"] = without_user(decisive["base_url"])
    values = [kind, decisive, extra]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _transport(config: Endpoint, base_url: str, key: str | None) -> Transport:
    if config.azure is not None:
        first_byte_s = config.first_byte_timeout_s
        return AzureTransport(config.azure, config.model, base_url, key, config.concurrency.max, first_byte_s)
    make = HttpTransport if config.client == "http" else SdkTransport
    return make(base_url, key, config.concurrency.max, config.first_byte_timeout_s)


def _account(config: Endpoint, role: str, session: CallSession) -> Account | None:
    """What calls are held against; None without a budget."""
    budget = session.budget
    if budget is None:
        return None
    if budget.limits.usd is not None and config.price is None and not budget.limits.allow_unpriced:
        what = f"budget.usd is set, and the price of {config.model} is not known"
        hint = f"'{role}.price={{input_per_million: 0.4, output_per_million: 1.6}}', or budget.allow_unpriced=true"
        raise UserError(Problem(what, f"{role}.price", hint))
    return Account(budget, config.price, config.max_tokens)


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
