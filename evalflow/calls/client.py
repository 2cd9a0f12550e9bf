"""The client of one endpoint: each request passes the rate limiter, retries, the watchdog and the transport."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from evalflow.calls import faults
from evalflow.calls.batches import BatchQueue
from evalflow.calls.budget import Account, Amount, Budget
from evalflow.calls.cache import Cache
from evalflow.calls.connections import Connections
from evalflow.calls.faults import CHAT, CallFault, Dialect
from evalflow.calls.http import HttpRequest, Response, Transport, TransportError
from evalflow.calls.limiter import Limiter, Limiters
from evalflow.calls.refusals import RefusedSettings
from evalflow.calls.single_flight import SingleFlight
from evalflow.calls.waits import LONGEST_WAIT_S, Waits, in_words, moment, rest_s
from evalflow.errors import CallError, InfrastructureError
from evalflow.prompts.fences import NO_KEY, Key
from evalflow.records import Spend, Usage
from evalflow.redaction import Redactor
from evalflow.values.jsonvalues import mended

PROBE_PATH = "/models"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Capped exponential backoff with jitter, and limits for an endpoint that has never answered."""

    attempts: int = 6
    # The first and the longest wait in seconds; each actual wait is random in the upper half.
    base_s: float = 0.5
    cap_s: float = 8.0
    retry_after_cap_s: float = LONGEST_WAIT_S  # the longest wait in seconds that an endpoint may ask for
    connect_attempts: int = 4
    connect_patience_s: float = 8.0
    silence_s: float = 8.0  # seconds without any answer before an endpoint that has never answered is probed
    probe_s: float = 7.0

    def delay(self, attempt: int, fault: CallFault) -> float:
        """Seconds to wait after the given try (the first is 1)."""
        backoff = min(self.cap_s, self.base_s * 2 ** min(attempt - 1, 30))
        wait = backoff * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, protects nothing
        asked = min(fault.retry_after_s or 0.0, self.retry_after_cap_s)
        return max(wait, asked)


class Watchdog:
    """Sends requests, and detects in bounded time that an endpoint never answers.

    Once it is `heard`, there is no probe.
    """

    def __init__(self, transport: Transport, where: str, silence_s: float, probe_s: float, address: str) -> None:
        self._transport = transport
        self._where = where
        self._silence_s = silence_s
        self._probe_s = probe_s
        self._address = address
        self._probing: asyncio.Task[bool] | None = None
        self.answered = False
        self.heard = False

    async def send(self, request: HttpRequest) -> Response:
        """Send one request; InfrastructureError if the endpoint never answers."""
        response = await self._transport.send(request) if self.answered else await self._watched(request)
        self.answered = self.heard = True
        return response

    def stop(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None

    async def _watched(self, request: HttpRequest) -> Response:
        call = asyncio.create_task(self._transport.send(request))
        try:
            await asyncio.wait({call}, timeout=self._silence_s)
            if not call.done():
                await self._probe(call)
            response = await call
            self.stop()
            return response
        except TransportError as error:
            if error.fault == "timeout":
                await self._probe()
            raise
        finally:
            call.cancel()

    async def _probe(self, call: asyncio.Task[Response] | None = None) -> None:
        if self.answered:
            return
        probe = self._probing = self._probing or asyncio.create_task(self._alive())
        await asyncio.wait({probe, call} if call else {probe}, return_when=asyncio.FIRST_COMPLETED)
        if self.answered or not probe.done() or probe.cancelled():
            return
        if not probe.result():
            what = f"{self._where} accepts connections and answers nothing"
            raise InfrastructureError(what, f"check {self._address}, and that the server is up")

    async def _alive(self) -> bool:
        try:
            await self._transport.send(HttpRequest("GET", PROBE_PATH, None, self._probe_s))
        except TransportError:
            return False
        self.answered = True
        return True


class Billed(Protocol):
    """A decoded response with its token usage."""

    @property
    def usage(self) -> Usage | None: ...


T = TypeVar("T", bound=Billed)


MAYBE_PAID = frozenset({"timeout", "connection", "malformed", "too_large"})
"""Faults after which the model may still have answered and charged."""
GRACE_S = 10.0
"""Seconds to wait for the calls in flight before a run ends because of a long wait."""
PATIENT = 0.9
"""The fraction of its timeout after which a call counts as timed out, since clocks and timers are not exact."""


class MalformedReply(ValueError):
    """A 2xx response with an unexpected body; raised by decoders."""


class Gateway:
    """Sends calls to one endpoint, with retries, until they succeed or fail; `account` is charged for each try."""

    def __init__(
        self,
        transport: Transport,
        limiter: Limiter,
        policy: RetryPolicy,
        where: str,
        *,
        key_hint: str = "",
        secrets: Sequence[str] = (),
        account: Account | None = None,
        dialect: Dialect = CHAT,
        waits: Waits | None = None,
    ) -> None:
        self._account = account
        self._transport = transport
        self._limiter = limiter
        self._policy = policy
        self._where = where
        self._key_hint = key_hint
        self._redactor = Redactor(secrets)
        self._dialect = dialect
        self._waits = waits or Waits()
        self._watchdog = Watchdog(transport, where, policy.silence_s, policy.probe_s, dialect.address)
        self._succeeded = False

    async def send(self, request: HttpRequest, decode: Callable[[Response], T]) -> T:
        """Send one call and return the decoded response; retry if `decode` raises MalformedReply.

        CallError if this call failed for good; InfrastructureError or BudgetError if every further call would fail too.
        """
        account, limiter = self._account, self._limiter
        begun: float | None = None
        for attempt in itertools.count(1):
            reserved = await account.reserve(request) if account else None
            outcome: T | CallFault | None = None
            try:
                started = await limiter.acquire(request.tokens)
                begun = started if begun is None else begun
                try:
                    response = await (self._transport if self._watchdog.heard else self._watchdog).send(request)
                    outcome = self._read(request, response, decode, started)
                except TransportError as error:
                    limiter.stay()
                    outcome = faults.of_transport(error)
                finally:
                    limiter.release()
            finally:
                if account and reserved:
                    account.budget.settle(reserved, spent_on(account, outcome, reserved))
            if not isinstance(outcome, CallFault):
                return outcome
            fault = self._redacted(outcome)
            elapsed_s = time.monotonic() - begun
            if not (request.repeatable or fault.unreachable or fault.error_type == "rate_limit"):
                raise call_error(fault, fault.message, elapsed_s)
            if (fault.retry_after_s or 0.0) > self._policy.retry_after_cap_s:
                await self._end(fault)
            self._raise_unless_retried(fault, attempt, elapsed_s, request.timeout_s)
            delay = self._policy.delay(attempt, fault)
            with self._waits.waiting(self._where, fault.message, delay):
                await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        self._watchdog.stop()
        await self._transport.close()

    def _read(
        self, request: HttpRequest, response: Response, decode: Callable[[Response], T], started: float
    ) -> T | CallFault:
        # Remove the byte order mark, secrets, and broken surrogate pairs, which files cannot store.
        body = mended(response.body.removeprefix(BOM_UTF8))
        if self._redactor.hides_data:
            body = self._redactor.data(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if body != response.body:
            response = replace(response, body=body)
        rest = rest_s(response.headers)
        if 0 < rest <= self._policy.retry_after_cap_s:  # the next reply shows whether more is really needed
            self._limiter.pause(rest)
        if not 200 <= response.status < 300:
            return self._eased(self._dialect.of_status(response), started)
        if len(response.body) > request.longest:
            what = f"the reply is longer than {request.longest:,} bytes"
            return CallFault("give_up", "too_large", what, raw=faults.excerpt(response.body))
        try:
            value = decode(response)
        except MalformedReply as error:
            return self._eased(faults.of_malformed(response, str(error)), started)
        self._succeeded = True
        usage = value.usage
        excess = usage.input_tokens + usage.output_tokens - request.tokens if usage else 0.0
        self._limiter.succeeded(started, response.elapsed_s, request.kind, excess)
        return value

    def _eased(self, fault: CallFault, started: float) -> CallFault:
        """Report a fault to the limiter, which halves the limit or pauses."""
        wait_s = self._capped(fault.retry_after_s or 0.0)
        if fault.error_type == "rate_limit":
            self._limiter.refused(started, wait_s)
        else:
            self._limiter.pause(wait_s)
        return fault

    def _capped(self, seconds: float) -> float:
        return min(seconds, self._policy.retry_after_cap_s)

    async def _end(self, fault: CallFault) -> None:
        """Raise InfrastructureError for a wait that is too long, once the calls in flight have been answered."""
        asked = fault.retry_after_s or 0.0
        self._limiter.pause(asked)
        await self._limiter.drained(GRACE_S)
        what = f"{self._where} asks to wait {in_words(asked)}, until {moment(asked)}: {fault.message}"
        most = f"evalflow waits for {self._policy.retry_after_cap_s:g} s at most"
        raise InfrastructureError(what, f"resume the run then; finished work is kept ({most})")

    def _raise_unless_retried(self, fault: CallFault, attempt: int, elapsed_s: float, timeout_s: float) -> None:
        policy = self._policy
        # The endpoint accepts connections but has not answered any call within the full timeout: a model too slow for
        # the first reply is too slow for the next, so more tries would only multiply the wait.
        if fault.error_type == "timeout" and not self._watchdog.heard and elapsed_s >= PATIENT * timeout_s:
            what = f"{self._where} is reachable, but answered no call within {timeout_s:g} s"
            hint = "if the model is only slow: raise timeout_s or lower concurrency.max of the judge or the target"
            raise InfrastructureError(what, hint)
        if fault.decision == "stop":
            hint = self._key_hint if fault.error_type == "authentication" and self._key_hint else fault.hint
            error = InfrastructureError(f"{self._where}: {fault.message}", hint)
            error.refusal = fault.refusal
            raise error from None
        if fault.decision == "give_up":
            raise call_error(fault, fault.message, elapsed_s)
        impatient = fault.unreachable and not self._watchdog.answered
        if impatient and (attempt >= policy.connect_attempts or elapsed_s >= policy.connect_patience_s):
            what = f"{self._where} cannot be reached: {fault.message}"
            raise InfrastructureError(what, f"check {self._dialect.address}")
        if attempt < policy.attempts:
            return
        tries = f"{attempt} tries" if attempt > 1 else "1 try"
        if not self._watchdog.answered or (fault.error_type == "malformed" and not self._succeeded):
            what = f"{self._where} gave no usable answer in {tries}: {fault.message}"
            raise InfrastructureError(what, self._dialect.unusable)
        raise call_error(fault, f"{fault.message} (after {tries})", elapsed_s)

    def _redacted(self, fault: CallFault) -> CallFault:
        raw = fault.raw and self._redactor.text(fault.raw)
        return replace(fault, message=self._redactor.text(fault.message), raw=raw)


def spent_on(account: Account, outcome: Billed | CallFault | None, reserved: Amount) -> Amount:
    """Return the actual cost of a try; if unknown, the reserved amount."""
    if outcome is None:
        return reserved
    if not isinstance(outcome, CallFault):
        return account.actual(outcome.usage) if outcome.usage else reserved
    if outcome.unreachable:
        return Amount()
    return reserved if outcome.error_type in MAYBE_PAID else Amount(requests=1)


def call_error(fault: CallFault, message: str, elapsed_s: float | None) -> CallError:
    """Return the error of a failed call. A refusal is free; otherwise the cost is unknown."""
    if fault.unreachable:
        return CallError(fault.error_type, message, fault.raw)
    usage, cost_usd = (None, None) if fault.error_type in MAYBE_PAID else (Usage(), 0.0)
    spend = Spend(requests=1, usage=usage, cost_usd=cost_usd, latency_s=elapsed_s)
    error = CallError(fault.error_type, message, fault.raw, spend)
    error.refusal = fault.refusal
    return error


@dataclass(frozen=True, slots=True)
class CallSession:
    """Shared by all judges and targets of a run, so that limits apply across them.

    Attributes:
        refused: The request settings that each endpoint refuses, by model.
        waits: The current waits of calls.
        fence_key: The secret by which their prompts mark judged text.
        computed: The cache for values computed by models in this process; None: not cached.
    """

    limiters: Limiters = field(default_factory=Limiters)
    single_flight: SingleFlight = field(default_factory=SingleFlight)
    budget: Budget | None = None
    connections: Connections | None = None  # the only addresses that calls may go to; None: any
    batches: BatchQueue | None = None  # None: everything is sent directly
    run_id: str = ""  # the run that alone may reuse values whose inputs are not all known
    refused: dict[tuple[str, str], RefusedSettings] = field(default_factory=dict[tuple[str, str], RefusedSettings])
    waits: Waits = field(default_factory=Waits)
    fence_key: Key = NO_KEY
    computed: Cache | None = None

    def close(self) -> None:
        self.single_flight.close()
        self.limiters.close()
        if self.budget is not None:
            self.budget.close()
