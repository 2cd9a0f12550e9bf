"""Access to an OpenAI-compatible endpoint as its configuration describes it: key, limits, budget."""

from __future__ import annotations

import os
from dataclasses import dataclass

from evalflow.calls.budget import Account
from evalflow.calls.client import CallSession, Gateway, RetryPolicy
from evalflow.calls.http import HttpTransport
from evalflow.calls.transport import Transport
from evalflow.config.judges import Connection
from evalflow.errors import Problem, UserError
from evalflow.llm.sdk import OPENAI_URL, AzureTransport, SdkTransport
from evalflow.redaction import public_address, secrets_in


@dataclass(frozen=True, slots=True)
class Link:
    """Access to an endpoint.

    Attributes:
        base_url: Its address.
        gateway: Sends calls.
        place: Distinguishes its replies from those of other endpoints.
    """

    base_url: str
    gateway: Gateway
    place: str


def connect(
    config: Connection,
    role: str,
    session: CallSession,
    *,
    reply_tokens: int | None,
    transport: Transport | None = None,
    policy: RetryPolicy | None = None,
) -> Link:
    """Set up access to an endpoint. Nothing is sent.

    Args:
        config: The endpoint.
        role: The configuration group, such as `judge`, for messages.
        session: Shared by all clients of a run, so that two clients of one endpoint share its limit.
        reply_tokens: Maximum length of a reply; None if there is none.
        transport: For tests, and for other transports.
        policy: Likewise.

    Raises:
        UserError: The API key's environment variable is not set, or a budget in dollars meets an unknown price.
    """
    base_url = config.base_url or OPENAI_URL
    account = _account(config, role, session, reply_tokens)
    key = _api_key(config, role)
    bounds = config.concurrency
    limiter = session.limiters.get((base_url, config.model, config.api_key_env or ""), bounds.start, bounds.max)
    limiter.keep_to(config.rate_limit.requests_per_minute, config.rate_limit.tokens_per_minute)
    gateway = Gateway(
        transport or _transport(config, base_url, key),
        limiter,
        policy or RetryPolicy(attempts=config.attempts),
        public_address(base_url),
        key_hint=f"check the API key in ${config.api_key_env}" if key else f"{role}.api_key_env names no key",
        secrets=[key or "", *secrets_in(base_url)],
        account=account,
    )
    version = config.azure and config.azure.api_version
    return Link(base_url, gateway, f"{base_url}?api-version={version}" if version else base_url)


def _transport(config: Connection, base_url: str, key: str | None) -> Transport:
    if config.azure is not None:
        first_byte_s = config.first_byte_timeout_s
        return AzureTransport(config.azure, config.model, base_url, key, config.concurrency.max, first_byte_s)
    make = HttpTransport if config.client == "http" else SdkTransport
    return make(base_url, key, config.concurrency.max, config.first_byte_timeout_s)


def _account(config: Connection, role: str, session: CallSession, reply_tokens: int | None) -> Account | None:
    """The account that pays for calls; None without a budget."""
    budget = session.budget
    if budget is None:
        return None
    if budget.limits.usd is not None and config.price is None and not budget.limits.allow_unpriced:
        what = f"budget.usd is set, and the price of {config.model} is not known"
        hint = f"'{role}.price={{input_per_million: 0.4, output_per_million: 1.6}}', or budget.allow_unpriced=true"
        raise UserError(Problem(what, f"{role}.price", hint))
    return Account(budget, config.price, reply_tokens)


def _api_key(config: Connection, role: str) -> str | None:
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
