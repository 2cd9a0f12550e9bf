"""Targets that take JSON and return JSON, over HTTP or on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from evalflow.apart import apart
from evalflow.calls.budget import Account
from evalflow.calls.cache_store import Entry, key_of
from evalflow.calls.client import SERVICE, CallSession, Gateway, RetryPolicy
from evalflow.calls.http import HttpTransport
from evalflow.calls.single_flight import Unreadable, short
from evalflow.calls.transport import HttpRequest, Response
from evalflow.config.address import SECRET_NAME, public_address, without_user
from evalflow.config.targets import HttpTargetConfig, ReplyConfig
from evalflow.errors import CallError, Problem, TargetError, UserError, did_you_mean
from evalflow.llm.chat import canonical
from evalflow.prompts import Prompts, render
from evalflow.records import Answer, Case, Context, Message, Usage
from evalflow.targets.recorded import blank, failed
from evalflow.targets.reply import Form, ParsedReply, ReplyReader


@dataclass(frozen=True, slots=True)
class RawReply:
    """A reply as it came, the seconds it took, and what stands behind the error where the reply cannot be used."""

    body: bytes
    latency_s: float
    note: str = ""


class Connector(ABC):
    """How a program is reached.

    Attributes:
        identity: All that decides its replies, beside what is sent.
    """

    identity: str

    def render(self, case: Case) -> bytes:
        """What is sent for a case, by default the case as JSON; UserError where it cannot be made."""
        return canonical(payload(case))

    @abstractmethod
    async def ask(self, data: bytes) -> RawReply:
        """Send it and wait for the reply.

        Raises:
            CallError: This call failed for good.
            InfrastructureError: Every further call would fail too.
            BudgetError: The budget does not cover it.
        """

    async def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release connections."""


class ServiceTarget:
    """A program of one's own. What it costs is not known; its replies are remembered like a model's."""

    def __init__(
        self, connector: Connector, config: ReplyConfig, name: str, forms: Mapping[str, Form], session: CallSession
    ) -> None:
        self._connector = connector
        self._reader = ReplyReader(config)
        mapping = config.model_dump(mode="json", include={"answer", "actual", "contexts", "metadata"})
        self.name = name
        self.identity = digest([connector.identity, mapping])
        self._forms = forms
        self._once = session.once

    async def answer(self, case: Case, repeat: int) -> Answer:
        """Ask the program; a failure is an answer in state `error`. See `Target`."""
        begun = blank(case, self.name, repeat)
        form = self._forms[case.dataset]
        try:
            data = self._connector.render(case)
            key = key_of(self._connector.identity, "", data, repeat)
            paid, recall = partial(self._paid, data, form), partial(self._recall, form)
            if self._once is None:
                (said, entry, known), _ = await paid()
            else:
                said, entry, known = await self._once(key, paid, recall)
        except UserError as error:
            return replace(begun, status="error", error_type="prompt", error=str(error))
        except CallError as error:
            return replace(failed(begun, error), usage=None, cost_usd=None)
        return replace(
            begun,
            answer=said.answer,
            actual=said.actual,
            contexts=said.contexts,
            metadata=said.metadata,
            requests=0 if known else 1,
            cost_usd=0.0 if known else None,
            saved_usd=None if known else 0.0,
            paid=() if known else (short(key),),
            latency_s=entry.latency_s,
            cached=known,
        )

    async def close(self) -> None:
        """Release connections."""
        await self._connector.close()

    async def _paid(self, data: bytes, form: Form) -> tuple[tuple[ParsedReply, Entry, bool], Entry]:
        """Ask for a reply; one that cannot be used is not to be remembered."""
        raw = await self._connector.ask(data)
        read = partial(self._reader.read, raw.body, form)
        try:
            said = read() if self._reader.quick else await apart(read)
        except TargetError as error:
            told = f"{error}{raw.note}"
            raise TargetError(error.error_type, told, error.raw, requests=1, latency_s=raw.latency_s) from None
        entry = Entry(body=raw.body, latency_s=raw.latency_s)
        return (said, entry, False), entry

    def _recall(self, form: Form, entry: Entry, free: bool) -> tuple[ParsedReply, Entry, bool]:
        try:
            return self._reader.read(entry.body, form), entry, free
        except TargetError as error:
            raise Unreadable(str(error)) from None


def digest(content: Any) -> str:
    """16 hexadecimal digits that equal contents share."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def account(session: CallSession) -> Account | None:
    """What calls are held against; None without a budget.

    Raises:
        UserError: A budget in dollars meets a target whose price nobody knows.
    """
    budget = session.budget
    if budget is None:
        return None
    if budget.limits.usd is not None and not budget.limits.allow_unpriced:
        what = "budget.usd is set, and what a call of this target costs is not known"
        hint = "budget.allow_unpriced=true counts its calls as free; budget.requests limits how many there are"
        raise UserError(Problem(what, "target", hint))
    return Account(budget, None, None)


def payload(case: Case) -> dict[str, Any]:
    """id, question, messages, contexts, metadata and vars; never the reference, the expected outcome or an answer."""
    return {
        "id": case.id,
        "question": case.question,
        "messages": [_message(message) for message in case.messages],
        "contexts": None if case.contexts is None else [_context(context) for context in case.contexts],
        "metadata": case.metadata,
        "vars": case.vars,
    }


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": message.content}


def _context(context: Context) -> dict[str, Any]:
    return {"text": context.text, "title": context.title, "path": context.path}


VARIABLES = ("id", "question", "history", "messages", "contexts", "metadata", "vars")
"""What its templates may use: the payload, and the messages before the last user message."""
_EXPRESSION = re.compile(r"\{\{-?(?P<inner>(?:(?!\{\{|\}\}).)*?)-?\}\}", re.DOTALL)
_ENCODED = re.compile(r"\|\s*(tojson|json)\s*(\([^()]*\))?\s*\Z")

Make = Callable[[Mapping[str, Any]], Any]


class Body:
    """Makes the JSON that is sent for a case.

    Values never are part of the JSON's own text, so that none can break it. In a map or list, each text is a template:
    one that is a single expression gives its value as it is, a list say, and any other one gives text. A body that is
    text is one template of a whole JSON document, in which every expression is put as JSON.

    Args:
        source: As it stands in YAML; None: the payload.
        where: The key path, for messages.
        prompts: The templates.

    Raises:
        UserError: A template is broken, uses what it must not see, or makes no JSON.
    """

    def __init__(self, source: Any, where: str, prompts: Prompts) -> None:
        self._prompts = prompts
        problems: list[Problem] = []
        self._make: Make | None = None
        if source is None:
            return
        make = self._document(source, where, problems) if isinstance(source, str) else None
        self._make = make or self._part(source, where, problems)
        if problems:
            raise UserError(problems)
        if isinstance(source, str):
            self._refuse_no_json()

    def value(self, case: Case) -> Any:
        """The JSON value for a case; UserError where a template cannot be rendered with it, or makes no JSON of it."""
        plain = payload(case)
        if self._make is None:
            return plain
        history = plain["messages"][: len(case.history)]
        return self._make({**plain, "history": history})

    def _refuse_no_json(self) -> None:
        """Try the document on an example; what it cannot be rendered with, a case may still have."""
        try:
            self.value(_EXAMPLE)
        except _NoJsonError:
            raise
        except UserError:
            pass

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

    def _document(self, source: str, where: str, problems: list[Problem]) -> Make:
        return self._template(_EXPRESSION.sub(_as_json, source), where, problems, _parsed)

    def _template(self, source: str, where: str, problems: list[Problem], finish: Callable[[str, str], Any]) -> Make:
        try:
            template, used = self._prompts.inline(source, where), self._prompts.inline_variables(source)
        except UserError as error:
            problems += error.problems
            return lambda _: None
        problems += _forbidden(used, where)
        return lambda variables: finish(render(template, variables, where), where)


class _NoJsonError(UserError):
    """A template was rendered, and what it made is no JSON."""


_EXAMPLE = Case(
    dataset="", index=0, id="id", messages=tuple(Message(role, "text") for role in ("user", "assistant", "user"))
)
"""To see before the run whether a document is JSON."""


def _as_json(expression: re.Match[str]) -> str:
    inner = expression["inner"]
    return expression[0] if _ENCODED.search(inner) else f"{{{{ ({inner}) | json }}}}"


def _forbidden(used: set[str], where: str) -> Iterator[Problem]:
    for name in sorted(used - set(VARIABLES)):
        what = f"the template uses {name!r}, which a target is not given"
        yield Problem(what, where, did_you_mean(name, VARIABLES))


def _parsed(text: str, where: str) -> Any:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        hint = 'values come as JSON, with quotes of their own: {"question": {{ question }}}'
        raise _NoJsonError(Problem(f"the template makes no JSON: {error}", where, hint)) from None


@dataclass(frozen=True, slots=True)
class _Received:
    """A 2xx response. What it took in tokens, nobody says."""

    body: bytes
    latency_s: float
    usage: Usage | None = None


class HttpConnector(Connector):
    """Sends the case to a service, under its limiter and the run's budget, and tries again what may pass.

    Raises:
        UserError: The body's template is wrong, or a budget in dollars is set.
    """

    def __init__(
        self, config: HttpTargetConfig, prompts: Prompts, session: CallSession, *, policy: RetryPolicy | None = None
    ) -> None:
        self._config = config
        headers = {name: value for name, value in (config.headers or {}).items() if not SECRET_NAME.search(name)}
        self.identity = digest(["http", config.method, without_user(config.url), headers, config.body])
        self._body = Body(config.body, "target.body", prompts)
        bounds = config.concurrency
        self._gateway = Gateway(
            HttpTransport(config.url, None, bounds.max, headers=config.headers),
            session.limiters.get(("http", config.url), bounds.start, bounds.max),
            policy or RetryPolicy(attempts=config.attempts),
            public_address(config.url),
            key_hint="check target.headers",
            secrets=config.secrets,
            account=account(session),
            dialect=SERVICE,
        )

    def render(self, case: Case) -> bytes:
        """The body. See `Connector`."""
        return canonical(self._body.value(case))

    async def ask(self, data: bytes) -> RawReply:
        """Send it. See `Connector`."""
        request = HttpRequest(self._config.method, "", data, self._config.timeout_s)
        received = await self._gateway.send(request, _received)
        return RawReply(received.body, received.latency_s)

    async def close(self) -> None:
        """Release connections."""
        await self._gateway.close()


def _received(response: Response) -> _Received:
    return _Received(response.body, response.elapsed_s)


class Slots:
    """Lets so many calls at a time through, each for so long; calls of the same key share their slots.

    Raises:
        UserError: A budget in dollars is set.
    """

    def __init__(self, key: tuple[str, ...], config: ReplyConfig, session: CallSession) -> None:
        self._limiter = session.limiters.get(key, config.concurrency.start, config.concurrency.max)
        self._account = account(session)
        self._timeout_s = config.timeout_s

    async def run(
        self, data: bytes, call: Callable[[bytes], Awaitable[bytes]], ready: Callable[[], Awaitable[None]] | None = None
    ) -> RawReply:
        """The reply of a call, which is cancelled when its time is over.

        Args:
            data: What is sent.
            call: Sends it.
            ready: Waits until there is room for a call; its time does not count.

        Raises:
            TargetError: It took too long.
            BudgetError: The budget does not cover it.
        """
        reserved = (
            await self._account.reserve(HttpRequest("POST", "", data, self._timeout_s)) if self._account else None
        )
        try:
            async with self._limiter.slot() as slot:
                if ready is not None:
                    await ready()
                begun = time.monotonic()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        body = await call(data)
                except CallError as error:
                    error.latency_s = time.monotonic() - begun
                    raise
                latency_s = time.monotonic() - begun
                self._limiter.succeeded(slot, latency_s)
                return RawReply(body, latency_s)
        except TimeoutError:
            what = f"no reply within {self._timeout_s:g} s"
            raise TargetError("timeout", what, requests=1, latency_s=self._timeout_s) from None
        finally:
            if self._account and reserved:
                self._account.budget.settle(reserved, reserved)
