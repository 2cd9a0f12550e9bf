"""Set up access to an endpoint for direct calls and batches: its address, key, limits and price."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from evalflow.calls.batch_gateway import BatchGateway
from evalflow.calls.batches import BatchService
from evalflow.calls.budget import Account
from evalflow.calls.client import CallSession, Gateway, RetryPolicy
from evalflow.calls.http import HttpTransport, Transport
from evalflow.calls.networks import Networks
from evalflow.config.judges import EndpointConfig, Price, RemoteModelConfig
from evalflow.errors import Problem, UserError
from evalflow.llm.batch_services import SERVICES, native_access
from evalflow.llm.sdk import OPENAI_URL, AzureTransport, SdkTransport
from evalflow.redaction import public_address, secrets_in


def connect(
    config: RemoteModelConfig,
    role: str,
    session: CallSession,
    *,
    reply_tokens: int | None,
    transport: Transport | None = None,
    policy: RetryPolicy | None = None,
) -> tuple[Gateway, str]:
    """Set up access to an endpoint; also return what distinguishes its replies from others. Nothing is sent."""
    base_url = config.base_url or OPENAI_URL
    networks = session.connections and session.connections.of_model(base_url, config.api_key_env, role).reach
    account = _account(config, config.price, role, session, reply_tokens)
    key = _api_key(config, role)
    bounds = config.concurrency
    own = (base_url, config.model, config.api_key_env or "")
    limiter = session.limiters.get(own, bounds.start, bounds.max, hosted=_is_hosted(base_url))
    limiter.keep_to(config.rate_limit.requests_per_minute, config.rate_limit.tokens_per_minute)
    gateway = Gateway(
        transport or _transport(config, base_url, key, networks),
        limiter,
        policy or RetryPolicy(attempts=config.attempts),
        public_address(base_url),
        key_hint=_key_hint(config, role, key),
        secrets=[key or "", *secrets_in(base_url)],
        account=account,
        waits=session.waits,
    )
    version = config.azure and config.azure.api_version
    return gateway, f"{base_url}?api-version={version}" if version else base_url


HOSTED = (
    "api.openai.com",
    ".openai.azure.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    ".amazonaws.com",
    "openrouter.ai",
)
"""The hosts, or host suffixes, of the providers that have a judge in `conf/`. They refuse excess calls at once, while a
self-hosted server would queue them."""


def _is_hosted(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return any(host == one or (one.startswith(".") and host.endswith(one)) for one in HOSTED)


def _transport(config: RemoteModelConfig, base_url: str, key: str | None, networks: Networks | None) -> Transport:
    most, first_byte_s = config.concurrency.max, config.first_byte_timeout_s
    if config.azure is not None:
        return AzureTransport(config.azure, config.model, base_url, key, most, first_byte_s, networks=networks)
    make = HttpTransport if config.client == "http" else SdkTransport
    return make(base_url, key, most, first_byte_s, networks=networks)


def _account(
    config: RemoteModelConfig, price: Price | None, role: str, session: CallSession, reply_tokens: int | None
) -> Account | None:
    budget = session.budget
    if budget is None:
        return None
    if config.price is None:
        hint = f"'{role}.price={{input_per_million: 0.4, output_per_million: 1.6}}', or "
        budget.expect_price(f"the price of {config.model}", f"{role}.price", hint)
    return Account(budget, price, reply_tokens)


def by_batch(config: EndpointConfig, role: str, session: CallSession) -> BatchGateway | None:
    """Return the gateway that sends a judge's or target's calls by batch; None if it does not. Nothing is sent yet."""
    kind, queue = config.batch_format, session.batches
    if kind is None or queue is None:
        return None
    base_url = config.base_url or OPENAI_URL
    networks = session.connections and session.connections.of_model(base_url, config.api_key_env, role).reach
    key = _api_key(config, role)
    name = f"{config.model} at {public_address(base_url)}" + (f" (${config.api_key_env})" if key else "")

    def service() -> BatchService:
        native = native_access(kind, base_url, key)
        if native is None:
            transport = _transport(config, base_url, key, networks)
        else:
            transport = HttpTransport(native[0], None, 1, headers=native[1], networks=networks)
        limiter = session.limiters.get((base_url, "batches", config.api_key_env or ""), 1, 1)
        secrets, hint = [key or "", *secrets_in(base_url)], _key_hint(config, role, key)

        def gateway(attempts: int) -> Gateway:
            policy = RetryPolicy(attempts=attempts)
            return Gateway(transport, limiter, policy, public_address(base_url), key_hint=hint, secrets=secrets)

        return SERVICES[kind](name, config, gateway(config.attempts), gateway(1))

    account = _account(config, config.charged, role, session, config.longest_reply)
    hint = _key_hint(config, role, key)
    joined = queue.join(name, service)
    return BatchGateway(queue, joined, account, config.attempts, hint)


def _key_hint(config: RemoteModelConfig, role: str, key: str | None) -> str:
    return f"check the API key in ${config.api_key_env}" if key else f"{role}.api_key_env names no key"


def _api_key(config: RemoteModelConfig, role: str) -> str | None:
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        hint = f"set it, or write it into .env; {role}.api_key_env=null sends none"
        raise UserError(
            Problem(f"the environment variable {config.api_key_env} is not set", f"{role}.api_key_env", hint)
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        what = f"the environment variable {config.api_key_env} contains characters that a key cannot have"
        raise UserError(Problem(what, f"{role}.api_key_env", "a key has no spaces, line breaks or accented letters"))
    return key
