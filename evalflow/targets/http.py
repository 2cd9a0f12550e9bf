"""The connector to an HTTP service: a request and its reply, optionally with a thread, a stream or polling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pydantic_core import from_json

from evalflow.calls.client import CallSession, Gateway, RetryPolicy
from evalflow.calls.faults import SERVICE, excerpt
from evalflow.calls.http import HttpRequest, HttpTransport, Response
from evalflow.config.exchanges import EXPRESSION, Conditions, Method, OpenConfig, split_address
from evalflow.config.targets import HttpTargetConfig
from evalflow.errors import CallError, Problem, TargetError, UserError
from evalflow.llm.chat import canonical
from evalflow.prompts import Prompts, not_given, render
from evalflow.records import Case
from evalflow.redaction import SECRET_NAME, public_address, without_user
from evalflow.targets.request_body import VARIABLES, Body, variables_of
from evalflow.targets.service import UNPRICED, Connector, RawReply, account, digest
from evalflow.targets.streams import StreamReader
from evalflow.values.jsonvalues import Path, json_path, parsed

_OPENED = (*VARIABLES, "opened")
_TRANSIENT = frozenset({"connection", "server", "timeout", "rate_limit"})


class HttpConnector(Connector):
    """Sends the case to a service, within the rate limit and the budget, and retries transient faults.

    With `open`, each ask begins a conversation of its own, unless it is part of `conversation()`.
    """

    def __init__(
        self, config: HttpTargetConfig, prompts: Prompts, session: CallSession, *, policy: RetryPolicy | None = None
    ) -> None:
        self._config = config
        headers = {name: value for name, value in (config.headers or {}).items() if not SECRET_NAME.search(name)}
        parts = config.model_dump(mode="json", include={"open", "stream", "poll"}, exclude_none=True)
        self.identity = digest(["http", config.method, without_user(config.url), headers, config.body, parts])
        names = _OPENED if config.open else VARIABLES
        self._path = _PathTemplate(config.url, "target.url", prompts, names)
        self._body = Body(config.body, "target.body", prompts, names)
        self._open = config.open and _Request(config.open, "target.open", prompts, VARIABLES)
        self._poll = config.poll and _PathTemplate(config.poll.url, "target.poll.url", prompts, (*names, "reply"))
        self._stream = config.stream and StreamReader(config.stream)
        self._done = _Conditions(config.poll.until if config.poll else {})
        self._failed = _Conditions((config.poll.failed if config.poll else None) or {})
        self._policy = policy or RetryPolicy(attempts=config.attempts)
        own = dict(config.headers or {})
        if config.stream and config.stream.format == "sse" and "accept" not in map(str.lower, own):
            own["Accept"] = "text/event-stream"
        bounds = config.concurrency
        called = session.connections.of_service(config.addresses["url"], (), "target") if session.connections else None
        self._gateway = Gateway(
            HttpTransport(config.server, None, bounds.max, headers=own, networks=called and called.reach),
            session.limiters.get(("http", config.url), bounds.start, bounds.max),
            self._policy,
            public_address(config.url),
            key_hint="check target.headers",
            secrets=config.secrets,
            account=account(session),
            dialect=SERVICE,
            waits=session.waits,
        )

    def render(self, case: Case) -> bytes:
        """The body; the variables of its templates if more than the body depends on them."""
        variables = variables_of(case)
        if self._open is None and self._poll is None and not self._path.is_template:
            return canonical(self._body.value(variables))
        return canonical(variables)

    def conversation(self) -> Connector | None:
        return None if self._open is None else _Conversation(self)

    async def ask(self, data: bytes) -> RawReply:
        if self._open is None and self._poll is None and not self._path.is_template:
            return await self._answered(self._path.value({}), data, {})
        variables: dict[str, object] = from_json(data)
        if self._open is None:
            return await self.say(variables)
        return await self.begin(variables, {})

    async def begin(self, variables: Mapping[str, object], kept: dict[str, object]) -> RawReply:
        """Open a conversation and ask its first turn; `kept` gets what the opening replied.

        A transient fault opens another one, since the service may have taken the turn.
        """
        assert self._open is not None
        sent = 0
        for attempt in range(1, self._config.attempts + 1):
            with _counting(sent):
                kept["opened"] = await self._opened(self._open, variables)
            sent += 1
            try:
                with _counting(sent):
                    reply = await self.say({**variables, **kept}, repeatable=False)
            except CallError as error:
                if error.error_type not in _TRANSIENT or attempt == self._config.attempts:
                    raise
                sent = error.spend.requests if error.spend else sent
                await asyncio.sleep(min(self._policy.cap_s, self._policy.base_s * 2**attempt))
                continue
            return replace(reply, requests=reply.requests + sent)
        raise AssertionError("unreachable")

    async def say(
        self, variables: Mapping[str, object], *, repeatable: bool = True, before: bytes | None = None
    ) -> RawReply:
        """Ask one turn; one that is not `repeatable` is not sent again once the service may have taken it.

        `before` is the last reply to the turn before: polling continues while it is still the same.
        """
        no_body = self._config.method == "GET" and self._path.is_template and self._config.body is None
        body = None if no_body else canonical(self._body.value(variables))
        return await self._answered(self._path.value(variables), body, variables, repeatable, before)

    async def close(self) -> None:
        await self._gateway.close()

    async def _opened(self, request: _Request, variables: Mapping[str, object]) -> object:
        response = await self._send(request.method, request.path.value(variables), request.body(variables), "open")
        with _counting(1):
            return _document(response.body, "the reply to target.open")

    async def _answered(
        self,
        path: str,
        body: bytes | None,
        variables: Mapping[str, object],
        repeatable: bool = True,
        before: bytes | None = None,
    ) -> RawReply:
        begun = time.monotonic()
        response = await self._send(self._config.method, path, body, "", repeatable)
        if self._poll is not None:
            return await self._polled(self._poll, response, variables, begun, before)
        with _counting(1):
            reply = self._stream.reply(response.body) if self._stream else response.body
        return RawReply(reply, response.elapsed_s)

    async def _polled(
        self, path: _PathTemplate, first: Response, variables: Mapping[str, object], begun: float, before: bytes | None
    ) -> RawReply:
        """Ask until the conditions hold, at most for the target's time limit; a reply without a body does not count."""
        poll = self._config.poll
        assert poll is not None
        sent = 1
        while True:
            with _counting(sent):
                opened = _document(first.body, "the reply") if "reply" in path.uses else None
                response = await self._send(poll.method, path.value({**variables, "reply": opened}), None, "poll")
            sent += 1
            with _counting(sent):
                document = _document(response.body, "the reply to target.poll") if response.body.strip() else None
                if self._failed.hold(document):
                    report = excerpt(response.body)
                    raise TargetError("reported", f"the service reports an error: {report}", report)
                if response.body != before and self._done.hold(document):
                    return RawReply(response.body, time.monotonic() - begun, requests=sent)
                if time.monotonic() - begun + poll.every_s > self._config.timeout_s:
                    what = f"target.poll.until did not hold within {self._config.timeout_s:g} s (target.timeout_s)"
                    raise TargetError("timeout", f"{what}; the last reply: {excerpt(response.body) or 'empty'}")
            await asyncio.sleep(poll.every_s)

    async def _send(
        self, method: Method, path: str, body: bytes | None, kind: str, repeatable: bool = True
    ) -> Response:
        request = HttpRequest(method, path, body, self._config.timeout_s, kind, repeatable=repeatable)
        return await self._gateway.send(request, lambda response: response)


class _Conversation(Connector):
    """One conversation: opened before its first turn; each turn is sent once."""

    def __init__(self, service: HttpConnector) -> None:
        self._service = service
        self.identity = service.identity
        self._kept: dict[str, object] = {}
        self._last: bytes | None = None

    def render(self, case: Case) -> bytes:
        return self._service.render(case)

    async def ask(self, data: bytes) -> RawReply:
        variables: dict[str, object] = from_json(data)
        if self._kept:
            reply = await self._service.say({**variables, **self._kept}, repeatable=False, before=self._last)
        else:
            reply = await self._service.begin(variables, self._kept)
        self._last = reply.body
        return reply


class _Request:
    def __init__(self, config: OpenConfig, where: str, prompts: Prompts, names: tuple[str, ...]) -> None:
        self.method: Method = config.method
        self.path = _PathTemplate(config.url, f"{where}.url", prompts, names)
        self._empty = config.body is None
        self._body = Body({} if config.body is None else config.body, f"{where}.body", prompts, names)

    def body(self, variables: Mapping[str, object]) -> bytes | None:
        return None if self._empty and self.method == "GET" else canonical(self._body.value(variables))


class _PathTemplate:
    """The path and query of an address, whose expressions are percent-encoded."""

    def __init__(self, url: str, where: str, prompts: Prompts, names: tuple[str, ...]) -> None:
        parts = split_address(url)
        source = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.is_template = "{{" in source
        self.uses: frozenset[str] = frozenset()
        self._where = where
        self._plain = source
        self._template: Callable[[Mapping[str, object]], str] | None = None
        if self.is_template:
            encoded = EXPRESSION.sub(lambda match: f"{{{{ ({match[1]}) | percent_encoded }}}}", source)
            template, used = prompts.inline(encoded, where), prompts.inline_variables(encoded)
            if problems := [*not_given(used, names, where, "it")]:
                raise UserError(problems)
            self.uses = frozenset(used)
            self._template = lambda variables: render(template, variables, where)

    def value(self, variables: Mapping[str, object]) -> str:
        """The path for these variables; UserError if it would lead to another place of the server."""
        if self._template is None:
            return self._plain
        path = self._template(variables)
        if any(segment in ("", ".", "..") for segment in path.partition("?")[0].split("/")[1:-1]) or path.endswith(
            ("/.", "/..")
        ):
            raise UserError(Problem(f"{path!r} is not a path below the address", self._where))
        return path


class _Conditions:
    """JSONPaths with the values that each may have."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions: list[tuple[Path, list[object]]] = [
            (json_path(path), [*values]) for path, values in conditions.items()
        ]

    def hold(self, document: object) -> bool:
        """Whether each path has one of its values; False without any condition."""
        return bool(self._conditions) and all(
            any(_same(match, value) for match in path.matches(document) for value in values)
            for path, values in self._conditions
        )


@contextmanager
def _counting(sent: int) -> Generator[None]:
    """Add the requests sent before an error; a template error after the first request becomes a TargetError."""
    try:
        yield
    except UserError as error:
        if not sent:
            raise
        raise TargetError("prompt", str(error), spend=replace(UNPRICED, requests=sent)) from None
    except CallError as error:
        own = error.spend.requests if error.spend else 0
        if own + sent:
            error.spend = replace(error.spend or UNPRICED, requests=own + sent)
        raise


def _same(match: object, value: object) -> bool:
    """Whether two JSON values are equal; 1 is not true."""
    return isinstance(match, bool) == isinstance(value, bool) and match == value


def _document(body: bytes, what: str) -> object:
    try:
        return parsed(body)
    except ValueError:
        start = excerpt(body)
        raise TargetError("malformed", f"{what} is not JSON: {start}" if start else f"{what} is empty", start) from None
