"""The fault of one try, and what to do: retry, give up the call, or stop the run."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from evalflow.calls.http import Response, TransportError
from evalflow.calls.waits import asked_wait_s
from evalflow.errors import Refusal
from evalflow.values.jsonvalues import as_list, as_map

Decision = Literal["retry", "give_up", "stop"]

QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "insufficient_credits"})
MODEL_CODES = frozenset({"model_not_found", "invalid_model", "deploymentnotfound"})
FILTER_CODES = frozenset({"content_filter", "content_policy_violation"})
PARAMETER_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
QUOTA = re.compile(
    r"credit balance is too low|insufficient[ _](funds|balance|credits?|quota)|check your plan and billing|"
    r"out of credits?|billing (hard )?limit",
    re.IGNORECASE,
)
"""Error texts of endpoints whose account has no quota or credit left; waiting does not help."""
KEY = re.compile(
    r"api[ _-]?key\W{0,3}(is )?(not valid|invalid|expired)|(invalid|incorrect) api[ _-]?key", re.IGNORECASE
)
CONTEXT = re.compile(
    r"context[ _](length|window|size)|maximum context|prompt is too long|too many (input )?tokens", re.IGNORECASE
)
RETRIED = frozenset({408, 409, 425, 429})
EXCERPT = 300
_READ = 4000  # bytes of a refusal that are searched for names of settings
_OF_REQUESTS = frozenset({"bad_request", "request", "authentication", "not_found", "context_length"})


@dataclass(frozen=True, slots=True)
class CallFault:
    """One failed try: `raw` is the shortened response, `retry_after_s` the seconds that the endpoint asks to wait.

    The decision is retry (the fault may be transient), give_up (this call fails) or stop (every call would fail).
    """

    decision: Decision
    error_type: str
    message: str
    hint: str = ""
    raw: str | None = None
    retry_after_s: float | None = None
    unreachable: bool = False
    refusal: Refusal | None = None  # statuses of requests that would be refused again


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of endpoint reports errors, and the configuration key of its address."""

    of_status: Callable[[Response], CallFault]
    address: str
    unusable: str


def of_transport(error: TransportError) -> CallFault:
    """Return the fault of a try without a complete response."""
    if error.fault == "certificate":
        return CallFault(
            "stop", "connection", str(error), "check the endpoint's certificate, or SSL_CERT_FILE for your own"
        )
    if error.fault == "forbidden":
        hint = "the owner of the server names the networks of each connection"
        return CallFault("stop", "connection", str(error), hint, unreachable=True)
    error_type = "timeout" if error.fault == "timeout" else "connection"
    return CallFault("retry", error_type, str(error), unreachable=error.fault == "unreachable")


def of_malformed(response: Response, reason: str) -> CallFault:
    """Return the fault of an invalid 2xx response, or the upstream error that some gateways send with status 200."""
    details = _details(response.body)
    status = str(details.get("code"))
    if re.fullmatch(r"[45]\d\d", status):
        return of_status(replace(response, status=int(status)))
    text = excerpt(response.body)
    if _message(details):
        reason = "an error in place of a reply"
    elif text.startswith(("data:", "event:", ": ")):
        reason = "server-sent events, though they were not asked for"
    return CallFault("retry", "malformed", f"{reason}: {text}" if text else reason, raw=text)


def of_status(response: Response) -> CallFault:
    """Return the fault of a non-2xx response, by its status and the `error` object in its body."""
    details = _details(response.body)
    codes = {str(details.get(key)).lower() for key in ("code", "type")}
    text = _message(details) or excerpt(response.body) or "no explanation"
    wait = asked_wait_s(response)
    decision, error_type, hint = _verdict(response.status, codes, text, waits=wait is not None)
    message = f"HTTP {response.status}: {text}"
    if 300 <= response.status < 400:
        place = response.headers.get("location") or "nowhere"
        message = f"HTTP {response.status}: redirected to {place}, which is not followed"
        hint = "set base_url to the final address, without /chat/completions"
    wait = wait if decision == "retry" else None
    refusal = None
    if error_type in _OF_REQUESTS:
        whole = f"{text} {response.body[:_READ].decode('utf-8', 'replace')}"
        refusal = Refusal(response.status, whole, _param(details))
    return CallFault(decision, error_type, message, hint, excerpt(response.body), wait, refusal=refusal)


def _verdict(status: int, codes: set[str], text: str, *, waits: bool) -> tuple[Decision, str, str]:
    if status == 402 or codes & QUOTA_CODES or (400 <= status < 500 and not waits and QUOTA.search(text)):
        return "stop", "quota", "the account's quota or credit is used up"
    if status == 401 or (status in {400, 403} and KEY.search(text)):
        return "stop", "authentication", "the endpoint does not accept the API key"
    if codes & FILTER_CODES or (status == 403 and "moderation" in text.lower()):
        return "give_up", "refused", ""
    if status == 403:
        return "stop", "authentication", "the API key may not use this model or endpoint"
    if codes & MODEL_CODES or status in {404, 405} or 300 <= status < 400:
        return "stop", "not_found", "check model and base_url (base_url ends before /chat/completions)"
    if codes & PARAMETER_CODES:
        return "stop", "request", "set the named parameter to null, or another mode"
    if status == 413 or (400 <= status < 500 and status not in RETRIED and CONTEXT.search(" ".join((*codes, text)))):
        return "give_up", "context_length", ""
    if status == 429:
        return "retry", "rate_limit", ""
    if status == 408:
        return "retry", "timeout", ""
    if status >= 500 or status in RETRIED:
        return "retry", "server", ""
    return "give_up", "bad_request", ""


def excerpt(body: bytes) -> str:
    """Return the beginning of a body in one line, for messages."""
    text = " ".join(body[: 4 * EXCERPT].decode("utf-8", "replace").split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."


def of_exception(error: BaseException) -> str:
    """Return the last line of the traceback and the place in the code that raised it."""
    line = excerpt(traceback.format_exception_only(error)[-1].encode("utf-8", "replace"))
    if isinstance(error, SyntaxError) and error.filename:
        return f"{line} ({Path(error.filename).name}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{line} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else line


def _details(body: bytes) -> Mapping[str, object]:
    """Return the errors in a body as a list: its `error`, or the body itself, as with vLLM, Mistral and Bedrock."""
    try:
        envelope = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    content = as_map(next(iter(as_list(envelope)), envelope))
    error = content.get("error")
    if isinstance(error, str):
        return {**content, "message": error}
    choice = as_map(next(iter(as_list(content.get("choices"))), None))
    return as_map(error) or as_map(choice.get("error")) or (content if "choices" not in content else {})


def _message(details: Mapping[str, object]) -> str:
    """Return the message of an error, with that of the provider behind a gateway."""
    message, behind = details.get("message"), as_map(details.get("metadata")).get("raw")
    texts = [text for text in (message, behind) if isinstance(text, str) and text]
    return excerpt(": ".join(texts).encode("utf-8", "replace")) if behind else "".join(texts)


def _param(details: Mapping[str, object]) -> str | None:
    """Return the request key that an error is about, from its `param`, or from `loc` as with FastAPI and Mistral."""
    param = details.get("param")
    if isinstance(param, str):
        return param
    problems = as_list(details.get("detail")) or as_list(as_map(details.get("message")).get("detail"))
    place = as_list(as_map(next(iter(problems), None)).get("loc"))
    return place[1] if len(place) > 1 and place[0] == "body" and isinstance(place[1], str) else None


CHAT = Dialect(of_status, "base_url", "check base_url: it ends before /chat/completions, and often in /v1")
"""OpenAI-compatible endpoints."""


def of_service_status(response: Response) -> CallFault:
    """Return the fault of a non-2xx response: a user's own service may reject one case and accept the next."""
    status, text = response.status, excerpt(response.body)
    message = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    if status == 401:
        return CallFault(
            "stop", "authentication", message, "check target.headers: the service accepts no such key", text
        )
    if 300 <= status < 400:
        place = response.headers.get("location") or "nowhere"
        message = f"HTTP {status}: redirected to {place}, which is not followed; set target.url to the final address"
        return CallFault("give_up", "redirect", message, raw=text)
    if status >= 500 or status in RETRIED:
        error_type = {429: "rate_limit", 408: "timeout"}.get(status, "server")
        return CallFault("retry", error_type, message, raw=text, retry_after_s=asked_wait_s(response))
    return CallFault("give_up", "bad_request", message, raw=text)


SERVICE = Dialect(of_service_status, "target.url", "check target.url, and that the service is up")
"""Services with their own JSON interface."""
