"""A scripted OpenAI-compatible endpoint on the loopback interface.

It serves real HTTP from a thread with its own event loop, so asynchronous tests, synchronous tests and other processes
can all use it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Self, cast

from evalflow.testing.batches import Batches
from evalflow.testing.faults import status
from evalflow.testing.replies import Computed, Exchange, Request, Step, as_step, embeddings
from evalflow.values.jsonvalues import is_list

if TYPE_CHECKING:
    from types import TracebackType

    from aiohttp import web

_BASE = "/v1"
Script = Callable[[Request], object]


class ScriptError(AssertionError):
    """A test's script is wrong: it raised, or ran out of replies."""


class Endpoint:
    """The endpoint, for a `with` or an `async with`.

        with Endpoint([status(429, retry_after=0), {"verdict": "supported"}]) as endpoint:
            ...  # a client with base_url=endpoint.url
        assert endpoint.count == 2

    Args:
        script: Answers chat completions, in one of three forms. A callable, asynchronous or not, takes each request and
            returns a step, text or JSON for a good reply, or None for `auto()`. An iterable of the same (callables
            included) is used up in order. None answers every request with `auto()`.
        embed: The same for embeddings; None returns the vectors of `evalflow.testing.vector`.
        models: The models listed by `GET /models`.
        batches: How requests by batch are answered; None: they are not.
        api_key: Requests without this key get 401; None accepts all.

    Attributes:
        requests: All received requests, in order.
        in_flight: Number of requests being answered.
        in_flight_max: The highest number of requests in flight so far.
    """

    def __init__(
        self,
        script: Script | Iterable[object] | None = None,
        *,
        embed: Script | Iterable[object] | None = None,
        models: Iterable[str] = ("scripted",),
        batches: Batches | None = None,
        api_key: str | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.in_flight = 0
        self.in_flight_max = 0
        self._scripts = {
            "/chat/completions": as_script(script),
            "/embeddings": as_script(embed if embed is not None else lambda _: embeddings()),
        }
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "evalflow"} for name in models]
        self._models = {"object": "list", "data": listed}
        self._batches = batches
        self._api_key = api_key
        self._errors: list[Exception] = []
        self._arrived = threading.Condition()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._port = 0
        self._thread = threading.Thread(target=self._run, name="evalflow.testing", daemon=True)

    @property
    def url(self) -> str:
        """The base URL for clients: `http://127.0.0.1:PORT/v1`."""
        return f"http://127.0.0.1:{self._port}{_BASE}"

    @property
    def count(self) -> int:
        return len(self.requests)

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Block until this many requests were received in all; TimeoutError otherwise. Not for use in an event loop."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self.count >= count, timeout_s):
                raise TimeoutError(f"{self.count} of {count} requests came within {timeout_s} s")

    def start(self) -> None:
        """Start to listen; `with` calls it. An endpoint can be started only once."""
        self._thread.start()
        self._started.wait()
        if self._failure:
            raise self._failure

    def stop(self) -> None:
        """Close every connection; ScriptError if the script raised or ran out of replies."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        if self._errors:
            raise ScriptError(f"the script failed: {self._errors[0]}") from self._errors[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.stop()
        except ScriptError as failed:
            if error is None:
                raise
            error.add_note(str(failed))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        from aiohttp import web

        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=1024**3)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Without cancellation a request stays in flight after its client disconnects.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
            self._port = runner.addresses[0][1]
            self._started.set()
            await self._closing.wait()
        finally:
            await runner.cleanup()

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        async with self._counted():
            request = await self._received(http)
            if self._batches is not None and self._batches.serves(request.path):
                return await self._batches.answer(request, http, self._in_batch)
            step = await self._step(request)
            if step.delay:
                await asyncio.sleep(step.delay)
            return await step.send(Exchange(request, http, self._closing))

    @asynccontextmanager
    async def _counted(self) -> AsyncGenerator[None]:
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            yield
        finally:
            self.in_flight -= 1

    async def _received(self, http: web.Request) -> Request:
        is_json = http.can_read_body and http.content_type == "application/json"
        body: object = await http.json() if is_json else {}
        headers = {name.lower(): value for name, value in http.headers.items()}
        with self._arrived:
            path = http.path.removeprefix(_BASE)
            request = Request(len(self.requests), http.method, path, headers, cast("dict[str, object]", body))
            self.requests.append(request)
            self._arrived.notify_all()
        return request

    async def _in_batch(self, request: Request, http: web.Request) -> web.StreamResponse:
        """The answer to one request of a batch, which the script gives as to any other."""
        return await (await self._step(request)).send(Exchange(request, http, self._closing))

    async def _step(self, request: Request) -> Step:
        if self._api_key and request.headers.get("authorization") != f"Bearer {self._api_key}":
            return status(HTTPStatus.UNAUTHORIZED, message="Incorrect API key provided")
        if (request.method, request.path) == ("GET", "/models"):
            return Computed(make=lambda _: self._models)
        script = self._scripts.get(request.path)
        if request.method != "POST" or script is None:
            return status(HTTPStatus.NOT_FOUND, message=f"no {request.method} {request.path} here")
        if request.body.get("stream"):
            return status(HTTPStatus.BAD_REQUEST, message="this endpoint does not stream")
        try:
            value: object = script(request)
            while callable(value) or inspect.isawaitable(value):
                value = await value if inspect.isawaitable(value) else value(request)
            return as_step(value)
        except Exception as error:
            self._errors.append(error)
            return status(HTTPStatus.BAD_REQUEST, message=f"the script failed: {error}")


def as_script(value: Script | Iterable[object] | None) -> Script:
    """The callable for an endpoint's `script` argument; TypeError for a single reply."""
    if value is None:
        return lambda _: None
    if callable(value):
        return value
    if isinstance(value, str | Mapping | Step):
        raise TypeError("a script is a callable or a list of replies; put a single reply into a list")
    return _Queue(iter(value))


def by_schema(scripts: Mapping[str, object], otherwise: Script | None = None) -> Script:
    """A script that depends on the name of the requested schema, e.g. one script per step of a metric.

    Each is a callable, a list that is used up in order, or one reply for all requests; `otherwise` is for other names.
    """
    known: dict[str, Script] = {
        name: as_script(value) if callable(value) or is_list(value) else lambda _, value=value: value
        for name, value in scripts.items()
    }
    rest = as_script(otherwise)
    return lambda request: known.get(request.schema_name or "", rest)(request)


class _Queue:
    """Replies in order. Each endpoint has one thread; the lock is for a queue that serves several endpoints."""

    def __init__(self, replies: Iterator[object]) -> None:
        self._replies = replies
        self._lock = threading.Lock()
        self._given = 0

    def __call__(self, request: Request) -> object:
        with self._lock:
            try:
                value = next(self._replies)
            except StopIteration:
                raise ScriptError(f"no reply left for request {request.number}, after {self._given}") from None
            self._given += 1
            return value
