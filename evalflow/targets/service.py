"""Targets that take and return JSON, over HTTP or on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, cast

from evalflow.apart import apart
from evalflow.calls.budget import Account
from evalflow.calls.cache import UnreadableEntry, short
from evalflow.calls.cache_store import Entry, key_of
from evalflow.calls.client import SERVICE, CallSession, Gateway, RetryPolicy
from evalflow.calls.http import HttpRequest, HttpTransport
from evalflow.config.targets import HttpTargetConfig, ReplyConfig
from evalflow.errors import CallError, Problem, TargetError, UserError
from evalflow.llm.chat import canonical
from evalflow.prompts import Prompts, not_given, render
from evalflow.records import Answer, Case, Message, Spend
from evalflow.redaction import SECRET_NAME, public_address, without_user
from evalflow.targets.recorded import blank, failed
from evalflow.targets.reply import Form, ParsedReply, ReplyReader

_LARGE = 1024**2  # bytes of a reply whose trace may take long to read
UNPRICED = Spend(requests=1, usage=None, cost_usd=None)  # a call of a program, whose price is unknown


@dataclass(frozen=True, slots=True)
class RawReply:
    """A raw reply, its latency in seconds, and a note to append to the error if the reply is unusable."""

    body: bytes
    latency_s: float
    note: str = ""


class Connector(ABC):
    """Connects to a program. `identity` is what determines the replies besides the request, for the cache key."""

    identity: str

    def render(self, case: Case) -> bytes:
        """The request for a case, by default the case as JSON; UserError if it cannot be built."""
        return canonical(payload(case))

    @abstractmethod
    async def ask(self, data: bytes) -> RawReply:
        """Send the request and wait for the reply."""

    async def close(self) -> None:  # noqa: B027 - most have no connections
        """Release connections."""


class ServiceTarget:
    """A target that is your own program. Its price is what its replies report; they are cached like a model's."""

    def __init__(
        self, connector: Connector, config: ReplyConfig, name: str, forms: Mapping[str, Form], session: CallSession
    ) -> None:
        self._connector = connector
        self._reader = ReplyReader(config)
        mapping = config.model_dump(mode="json", include={"answer", "actual", "contexts", "metadata", "trace"})
        self.name = name
        self.identity = digest([connector.identity, mapping])
        self._forms = forms
        self._single_flight = session.single_flight

    async def answer(self, case: Case, repeat: int) -> Answer:
        begun = blank(case, self.name, repeat)
        form = self._forms[case.dataset]
        try:
            data = self._connector.render(case)
            key = key_of(self._connector.identity, "", data, repeat)
            paid, recall = partial(self._paid, data, form), partial(self._recall, form)
            said, entry, known = await self._single_flight(key, paid, recall)
        except UserError as error:
            return replace(begun, status="error", error_type="prompt", error=str(error))
        except CallError as error:
            return replace(failed(begun, error), usage=None, cost_usd=None)
        spend = Spend(
            requests=1, usage=said.usage, cost_usd=said.cost_usd, latency_s=entry.latency_s, paid=(short(key),)
        )
        return (spend.reused if known else spend).fill(
            begun, answer=said.answer, actual=said.actual, contexts=said.contexts, metadata=said.metadata
        )

    async def close(self) -> None:
        await self._connector.close()

    async def _paid(self, data: bytes, form: Form) -> tuple[tuple[ParsedReply, Entry, bool], Entry]:
        """Call the program; an unusable reply is not cached."""
        raw = await self._connector.ask(data)
        read = partial(self._reader.read, raw.body, form)
        try:
            said = read() if self._reader.quick and len(raw.body) < _LARGE else await apart(read)
        except TargetError as error:
            what, spend = f"{error}{raw.note}", replace(UNPRICED, latency_s=raw.latency_s)
            raise TargetError(error.error_type, what, error.raw, spend) from None
        entry = Entry(body=raw.body, latency_s=raw.latency_s)
        return (said, entry, False), entry

    def _recall(self, form: Form, entry: Entry, free: bool) -> tuple[ParsedReply, Entry, bool]:
        try:
            return self._reader.read(entry.body, form), entry, free
        except TargetError as error:
            raise UnreadableEntry(str(error)) from None


def digest(content: Any) -> str:
    """A hash of 16 hexadecimal digits; equal contents have the same."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def account(session: CallSession) -> Account | None:
    """The budget account of calls; None without a budget. UserError for a budget in dollars without a known price."""
    budget = session.budget
    if budget is None:
        return None
    budget.expect_price("what a call of this target costs", "target", "limit requests in place of dollars; or ")
    return Account(budget, None, None)


def payload(case: Case) -> dict[str, Any]:
    """id, question, messages, contexts, metadata and vars; never the reference, the expected outcome or an answer."""
    return {
        "id": case.id,
        "question": case.question,
        "messages": [{"role": message.role, "content": message.content} for message in case.messages],
        "contexts": None if case.contexts is None else [asdict(context) for context in case.contexts],
        "metadata": case.metadata,
        "vars": case.vars,
    }


VARIABLES = ("id", "question", "history", "messages", "contexts", "metadata", "vars")
"""The variables of its templates: the payload, and `history`, the messages before the last user message."""
_EXPRESSION = re.compile(r"\{\{-?(?P<inner>(?:(?!\{\{|\}\}).)*?)-?\}\}", re.DOTALL)
_ENCODED = re.compile(r"\|\s*(tojson|json)\s*(\([^()]*\))?\s*\Z")

Make = Callable[[Mapping[str, Any]], Any]


class Body:
    """Builds the JSON request body for a case: the payload, or what YAML declares.

    Values are encoded, so none can break the JSON. In a map or list, each text is a template; one that is a single
    expression gives its value with its type, such as a list. A body that is text is one template of a whole JSON
    document, in which every expression is encoded as JSON.
    """

    def __init__(self, source: Any, where: str, prompts: Prompts) -> None:
        self._prompts = prompts
        problems: list[Problem] = []
        self._make: Make | None = None
        if source is None:
            return
        document = isinstance(source, str)
        self._make = (
            self._template(_EXPRESSION.sub(_as_json, source), where, problems, _parsed)
            if document
            else self._part(source, where, problems)
        )
        if problems:
            raise UserError(problems)
        if document:
            try:
                self.value(_EXAMPLE)
            except _NoJsonError:
                raise
            except UserError:
                pass  # a real case may have what the example lacks

    def value(self, case: Case) -> Any:
        """The JSON body for a case; UserError if a template cannot be rendered for it, or does not give JSON."""
        plain = payload(case)
        if self._make is None:
            return plain
        history = plain["messages"][: len(case.history)]
        return self._make({**plain, "history": history})

    def _part(self, source: Any, where: str, problems: list[Problem]) -> Make:
        if isinstance(source, dict):
            made = {
                str(key): self._part(part, f"{where}.{key}", problems)
                for key, part in cast("dict[Any, Any]", source).items()
            }
            return lambda variables: {key: make(variables) for key, make in made.items()}
        if isinstance(source, list):
            parts = [self._part(part, f"{where}[{i}]", problems) for i, part in enumerate(cast("list[Any]", source))]
            return lambda variables: [make(variables) for make in parts]
        if isinstance(source, str) and "{" in source:
            return self._text(source, where, problems)
        return lambda _: source

    def _text(self, source: str, where: str, problems: list[Problem]) -> Make:
        single = _EXPRESSION.fullmatch(source.strip())
        if single:
            return self._template(f"{{{{ ({single['inner']}) | json }}}}", where, problems, _parsed)
        return self._template(source, where, problems, lambda text, _: text)

    def _template(self, source: str, where: str, problems: list[Problem], finish: Callable[[str, str], Any]) -> Make:
        try:
            template, used = self._prompts.inline(source, where), self._prompts.inline_variables(source)
        except UserError as error:
            problems += error.problems
            return lambda _: None
        problems += not_given(used, VARIABLES, where, "a target")
        return lambda variables: finish(render(template, variables, where), where)


class _NoJsonError(UserError):
    """A template was rendered, but the result is not JSON."""


_EXAMPLE = Case(
    dataset="", index=0, id="id", messages=tuple(Message(role, "text") for role in ("user", "assistant", "user"))
)  # example values to check before the run whether a document is JSON


def _as_json(expression: re.Match[str]) -> str:
    inner = expression["inner"]
    return expression[0] if _ENCODED.search(inner) else f"{{{{ ({inner}) | json }}}}"


def _parsed(text: str, where: str) -> Any:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        hint = 'values come as JSON, with quotes of their own: {"question": {{ question }}}'
        raise _NoJsonError(Problem(f"the template makes no JSON: {error}", where, hint)) from None


class HttpConnector(Connector):
    """Sends the case to a service, within the rate limit and the budget, and retries transient faults."""

    def __init__(
        self, config: HttpTargetConfig, prompts: Prompts, session: CallSession, *, policy: RetryPolicy | None = None
    ) -> None:
        self._config = config
        headers = {name: value for name, value in (config.headers or {}).items() if not SECRET_NAME.search(name)}
        self.identity = digest(["http", config.method, without_user(config.url), headers, config.body])
        self._body = Body(config.body, "target.body", prompts)
        bounds = config.concurrency
        networks = session.connections and session.connections.of_service(config.url, (), "target").reach
        self._gateway = Gateway(
            HttpTransport(config.url, None, bounds.max, headers=config.headers, networks=networks),
            session.limiters.get(("http", config.url), bounds.start, bounds.max),
            policy or RetryPolicy(attempts=config.attempts),
            public_address(config.url),
            key_hint="check target.headers",
            secrets=config.secrets,
            account=account(session),
            dialect=SERVICE,
        )

    def render(self, case: Case) -> bytes:
        return canonical(self._body.value(case))

    async def ask(self, data: bytes) -> RawReply:
        request = HttpRequest(self._config.method, "", data, self._config.timeout_s)
        response = await self._gateway.send(request, lambda response: response)
        return RawReply(response.body, response.elapsed_s)

    async def close(self) -> None:
        await self._gateway.close()


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
