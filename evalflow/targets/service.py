"""Targets that take and return JSON, over HTTP or on this machine."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial

from evalflow.calls.budget import Account
from evalflow.calls.cache_store import Entry, key_of, short
from evalflow.calls.client import CallSession
from evalflow.calls.http import HttpRequest
from evalflow.calls.single_flight import SingleFlight, UnreadableEntry
from evalflow.config.targets import ReplyConfig
from evalflow.errors import CallError, TargetError, UserError
from evalflow.limited import in_thread
from evalflow.llm.chat import canonical
from evalflow.records import Answer, Case, CaseInput, Spend
from evalflow.targets.answer_step import step_of
from evalflow.targets.recorded import blank, failed
from evalflow.targets.reply import Form, ParsedReply, ReplyReader

_LARGE = 1024**2  # bytes of a reply whose trace may take long to read
_MAPPING = ("answer", "actual", "contexts", "metadata", "trace", "finish_reason")
UNPRICED = Spend(requests=1, usage=None, cost_usd=None)  # a call of a program, whose price is unknown


@dataclass(frozen=True, slots=True)
class RawReply:
    """A raw reply, its latency in seconds, and a note to append to the error if the reply is unusable."""

    body: bytes
    latency_s: float
    note: str = ""
    requests: int = 1


class Connector(ABC):
    """Connects to a program.

    `identity`, part of the cache key, is everything besides the request that determines the replies. Unless it
    `is_reusable`, this is not completely known, and no other run reuses its replies.
    """

    identity: str
    is_reusable = True

    def render(self, case: Case) -> bytes:
        """The request for a case, by default the case as JSON; UserError if it cannot be built."""
        return canonical(payload(case))

    @abstractmethod
    async def ask(self, data: bytes) -> RawReply:
        """Send the request and wait for the reply."""

    def conversation(self) -> Connector | None:
        """A connector for the turns of one conversation that the program keeps; None if each ask stands alone."""
        return None

    async def close(self) -> None:  # noqa: B027 - most have no connections
        """Release connections."""


class ServiceTarget:
    """A target that is your own program. Its price is what its replies report; they are cached like a model's."""

    def __init__(
        self, connector: Connector, config: ReplyConfig, name: str, forms: Mapping[str, Form], session: CallSession
    ) -> None:
        self._connector = connector
        self._reader = ReplyReader(config)
        mapping = config.model_dump(mode="json", include=set(_MAPPING))
        self._step = step_of(config)
        self.name = name
        self.identity = self._step.identity(digest([connector.identity, mapping]))
        self._forms = forms
        self._single_flight: SingleFlight | None = session.single_flight
        self._run_id = "" if connector.is_reusable else session.run_id

    async def answer(self, case: Case, repeat: int) -> Answer:
        begun = blank(case, self.name, repeat)
        form = self._forms[case.dataset]
        try:
            data = self._connector.render(case)
            key = key_of(self._connector.identity, self._run_id, data, repeat)
            paid, recall = partial(self._paid, data, form), partial(self._recall, form)
            if self._single_flight is None:
                (read, entry, cached), _ = await paid()
            else:
                read, entry, cached = await self._single_flight(key, paid, recall)
        except UserError as error:
            return replace(begun, status="error", error_type="prompt", error=str(error))
        except CallError as error:
            return replace(failed(begun, error), usage=None, cost_usd=None)
        spend = Spend(
            requests=entry.requests,
            usage=read.usage,
            cost_usd=read.cost_usd,
            latency_s=entry.latency_s,
            paid=() if self._single_flight is None else (short(key),),
        )
        answer = (spend.reused if cached else spend).fill(
            begun,
            answer=read.answer,
            actual=read.actual,
            contexts=read.contexts,
            metadata=read.metadata,
            thoughts=read.thoughts,
            finish_reason=read.finish_reason,
        )
        return self._step.applied(answer, form.generates)

    def conversation(self) -> ServiceTarget:
        """The target for the turns of one conversation.

        If the service stores the conversation, turns are not cached: the service would not know a cached turn.
        """
        connector = self._connector.conversation()
        if connector is None:
            return self
        target = copy.copy(self)
        target._connector, target._single_flight = connector, None
        return target

    async def close(self) -> None:
        await self._connector.close()

    async def _paid(self, data: bytes, form: Form) -> tuple[tuple[ParsedReply, Entry, bool], Entry]:
        """Call the program; an unusable reply is not cached."""
        raw = await self._connector.ask(data)
        read = partial(self._reader.read, raw.body, form)
        try:
            reply = read() if self._reader.quick and len(raw.body) < _LARGE else await in_thread(read)
        except TargetError as error:
            what, spend = f"{error}{raw.note}", replace(UNPRICED, latency_s=raw.latency_s, requests=raw.requests)
            failed = TargetError(error.error_type, what, error.raw, spend)
            failed.finish_reason = error.finish_reason
            raise failed from None
        entry = Entry(body=raw.body, requests=raw.requests, latency_s=raw.latency_s)
        return (reply, entry, False), entry

    def _recall(self, form: Form, entry: Entry, free: bool) -> tuple[ParsedReply, Entry, bool]:
        try:
            return self._reader.read(entry.body, form), entry, free
        except TargetError as error:
            raise UnreadableEntry(str(error)) from None


def digest(content: object) -> str:
    """A hash of 16 hexadecimal digits; equal contents have the same."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def version_of(version: str | int | None) -> list[str]:
    """The version that its owner gives a program, for a digest."""
    return [] if version is None else [f"version {version}"]


def account(session: CallSession) -> Account | None:
    """The budget account of calls; None without a budget. UserError for a budget in dollars without a known price."""
    budget = session.budget
    if budget is None:
        return None
    budget.expect_price("what a call of this target costs", "target", "limit requests in place of dollars; or ")
    return Account(budget, None, None)


def payload(case: Case) -> CaseInput:
    """id, question, messages, contexts, metadata and vars; never the reference, the expected outcome or an answer."""
    return {
        "id": case.id,
        "question": case.question,
        "messages": [message.sent for message in case.messages],
        "contexts": None if case.contexts is None else [asdict(context) for context in case.contexts],
        "metadata": case.metadata,
        "vars": case.vars,
    }


class LimitedCalls:
    """Limits concurrent calls and their time; calls with the same key share their slots."""

    def __init__(self, key: tuple[str, ...], config: ReplyConfig, session: CallSession) -> None:
        self._limiter = session.limiters.get(key, config.concurrency.start, config.concurrency.max)
        self._account = account(session)
        self._timeout_s = config.timeout_s

    async def run(
        self, data: bytes, call: Callable[[bytes], Awaitable[bytes]], ready: Callable[[], Awaitable[None]] | None = None
    ) -> RawReply:
        """Make a call, and cancel it at the time limit, which leaves out the wait for `ready`."""
        reserved = (
            await self._account.reserve(HttpRequest("POST", "", data, self._timeout_s)) if self._account else None
        )
        try:
            async with self._limiter.slot() as started:
                if ready is not None:
                    await ready()
                begun = time.monotonic()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        body = await call(data)
                except CallError as error:
                    if error.spend:
                        error.spend = replace(error.spend, latency_s=time.monotonic() - begun)
                    raise
                latency_s = time.monotonic() - begun
                self._limiter.succeeded(started, latency_s)
                return RawReply(body, latency_s)
        except TimeoutError:
            what = f"no reply within {self._timeout_s:g} s"
            raise TargetError("timeout", what, spend=replace(UNPRICED, latency_s=self._timeout_s)) from None
        finally:
            if self._account and reserved:
                self._account.budget.settle(reserved, reserved)
