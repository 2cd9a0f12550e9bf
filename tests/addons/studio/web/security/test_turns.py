"""One person's requests and events wait for each other, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from evalflow.addons.studio.store.people import Holder
from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.web.security import scheduler, turns
from evalflow.addons.studio.web.security.scheduler import SCHEDULER, SLOTS, Scheduler
from evalflow.addons.studio.web.security.sign_in import SignedIn
from evalflow.addons.studio.web.security.turns import (
    AT_ONCE,
    BURST,
    LONGEST_WAIT_S,
    RATE,
    WAITING,
    EventTurns,
    FairTurns,
    KeyPace,
    KeyTurns,
)
from evalflow.addons.studio.work.access import Actor
from evalflow.addons.studio.work.sessions import TOKEN_PREFIX, Identity
from evalflow.addons.studio.work.space import Workspace
from tests.addons.studio.web.conftest import Server, served, working_in

LONGEST_S = 60


class Held:
    """Requests that have begun, and wait until they may go on."""

    def __init__(self) -> None:
        self.begun, self.may_go = threading.Semaphore(0), threading.Event()

    def wait(self) -> None:
        self.begun.release()
        assert self.may_go.wait(LONGEST_S)


class _Named:
    """Has the header `Person` say who asks."""

    def __init__(self, app: Any, space: Workspace) -> None:
        self.app, self.space = app, space

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            name = dict(scope["headers"])[b"person"].decode()
            identity = Identity(self.space, "user", name, "")
            identity.first = Actor(1, name)
            scope["state"] = {"workspace": replace(self.space, identify=identity)}
        await self.app(scope, receive, send)


@pytest.fixture(name="held")
def _held() -> Held:
    return Held()


@pytest.fixture(name="server")
def _server(held: Held, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    async def hold(_: Request) -> Response:
        await run_in_threadpool(held.wait)
        return JSONResponse({})

    async def quick(_: Request) -> Response:
        return JSONResponse({})

    async def events(_: Request) -> Response:
        async def all_day() -> AsyncIterator[str]:
            yield "data: 1\n\n"
            await run_in_threadpool(held.wait)

        return StreamingResponse(all_day(), media_type="text/event-stream")

    async def rows(_: Request) -> Response:
        return StreamingResponse((f"{row}\n" for row in range(3)), media_type="application/jsonl")

    routes = [
        Route("/api/v1/hold", hold),
        Route("/hold", hold),
        Route("/assets/x", quick),
        Route("/quick", quick),
        Route("/events", events),
    ]
    with working_in(tmp_path_factory.mktemp("space")) as space:

        def make(_: Address) -> Starlette:
            guards = [Middleware(_Named, space=space), Middleware(FairTurns)]
            return Starlette(routes=[*routes, Route("/rows", rows)], middleware=guards)

        with served(make) as server:
            yield server


def test_the_requests_of_one_person_wait_and_those_of_others_do_not(
    server: Server, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "WAITING", 3)
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(server.ask, "GET", "/api/v1/hold", Person="vera") for _ in range(AT_ONCE + 5)]
        for _ in range(AT_ONCE):
            assert held.begun.acquire(timeout=LONGEST_S)
        refused = [one for one in asked if _refused(one)]
        while len(refused) < 2:
            refused = [one for one in asked if _refused(one)]
        assert refused[0].result().headers["Retry-After"] == "5"
        assert "your requests wait already" in refused[0].result().json["detail"]
        assert server.ask("GET", "/quick", Person="ben").status == 200
        assert server.ask("GET", "/assets/x", Person="vera").status == 200, "files take no turn"
        assert not held.begun.acquire(blocking=False), "no third has begun"
        held.may_go.set()
        assert sorted(one.result().status for one in asked) == [200] * (AT_ONCE + 3) + [429] * 2


def _refused(one: Any) -> bool:
    return one.done() and one.result().status == 429


def test_whoever_reads_events_or_reads_slowly_keeps_no_turn(server: Server, held: Held) -> None:
    with ThreadPoolExecutor(20) as pool:
        streams = [pool.submit(server.ask, "GET", "/events", Person="vera") for _ in range(AT_ONCE + 1)]
        for _ in streams:
            assert held.begun.acquire(timeout=LONGEST_S)
        assert server.ask("GET", "/quick", Person="vera").status == 200
        assert server.ask("GET", "/rows", Person="vera").body == b"0\n1\n2\n"
        held.may_go.set()
        assert {one.result().body for one in streams} == {b"data: 1\n\n"}


@pytest.mark.anyio
async def test_the_files_of_a_page_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A page without one of its scripts does not work."""
    monkeypatch.setattr(turns, "WAITING", 3)
    statuses: dict[str, list[int]] = {}

    async def ask(guard: SignedIn, space: Workspace, path: str) -> None:
        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.setdefault(path, []).append(message["status"])

        sent = [(b"authorization", f"Bearer {TOKEN_PREFIX}x".encode())]
        scope = {"type": "http", "path": path, "headers": sent, "method": "GET", "query_string": b""}
        await guard({**scope, "state": {"workspace": space}}, _nothing, send)

    with working_in(tmp_path) as space:
        guard = SignedIn(Response(status_code=200))
        async with asyncio.TaskGroup() as tasks:
            for path in ("/assets/x.js", "/_nicegui/1/x.js", "/_nicegui_ws/socket.io/", "/runs"):
                for _ in range(20):
                    tasks.create_task(ask(guard, space, path))
    assert set(statuses["/assets/x.js"]) == {200}
    assert set(statuses["/_nicegui/1/x.js"]) == {401}, "they are not for everybody"
    assert 429 in statuses["/_nicegui_ws/socket.io/"]
    assert 429 in statuses["/runs"]


class Opened:
    """Requests of people to a server that answers each once its person's event is set, or as `build` does."""

    def __init__(self, space: Workspace, build: ASGIApp | None = None) -> None:
        self._space, self._fair = space, FairTurns(build or self._build)
        self.statuses = list[int]()
        self.begun, self.ends, self.body = list[str](), dict[str, asyncio.Event](), asyncio.Event()
        self._scheduler = Scheduler()

    async def _build(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        person = scope["state"]["workspace"].identify.key
        self._scheduler = scope["state"][SCHEDULER]
        if scope["method"] == "POST":
            await receive()
        self.begun.append(person)
        await self.ends.setdefault(person, asyncio.Event()).wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for is_more in (True, False):
            await send({"type": "http.response.body", "body": b"", "more_body": is_more})

    async def settle(self) -> list[str]:
        for _ in range(20):
            await asyncio.sleep(0)
        return self.begun

    def handle(self, person: str) -> asyncio.Task[None]:
        async def handled() -> None:
            async with EventTurns().turn(person, self._scheduler):
                self.begun.append(f"{person}'s event")

        return asyncio.create_task(handled())

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])

    async def _receive(self) -> MutableMapping[str, Any]:
        await self.body.wait()
        return await _nothing()

    def open(self, person: str, path: str = "/", method: str = "GET") -> asyncio.Task[None]:
        identity = Identity(self._space, "user", person, "")
        identity.first = Actor(1, person)
        state = {"workspace": replace(self._space, identify=identity)}
        scope = {"type": "http", "path": path, "headers": [], "method": method, "state": state}
        return asyncio.create_task(self._fair(scope, self._receive, self._send))


@pytest.mark.anyio
async def test_one_page_of_a_person_is_built_at_a_time(tmp_path: Path) -> None:
    with working_in(tmp_path) as space:
        opened = Opened(space)
        built = [opened.open(person) for person in ("vera", "vera", "ben")]
        assert await opened.settle() == ["vera", "ben"]
        await _ended(built, opened.ends["vera"], opened.ends["ben"])
        assert opened.begun == ["vera", "ben", "vera"]


@pytest.mark.anyio
async def test_two_rest_requests_of_a_person_are_under_way_while_nobody_else_waits(tmp_path: Path) -> None:
    with working_in(tmp_path) as space:
        opened = Opened(space)
        built = [opened.open("vera", "/api/v1/runs") for _ in range(AT_ONCE + 1)]
        assert await opened.settle() == ["vera"] * AT_ONCE
        await _ended(built, opened.ends["vera"])
        assert opened.begun == ["vera"] * (AT_ONCE + 1)


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "at_once"), [("/", 1), ("/api/v1/runs", AT_ONCE)])
async def test_sixty_requests_of_a_person_may_wait_and_more_are_refused(
    path: str, at_once: int, tmp_path: Path
) -> None:
    with working_in(tmp_path) as space:
        opened = Opened(space)
        built = [opened.open("vera", path) for _ in range(at_once + 60 + 3)]
        assert WAITING == 60, "as the documentation says"
        assert await opened.settle() == ["vera"] * at_once
        assert opened.statuses == [429] * 3
        await _ended(built, opened.ends["vera"])
        assert opened.statuses[3:] == [200] * (at_once + 60)


@pytest.mark.anyio
@pytest.mark.parametrize(("headers", "begun"), [([], ["vera"]), ([(b"Content-Length", b"1")], ["vera", "vera"])])
async def test_a_response_of_known_length_is_made_when_it_begins(
    headers: list[tuple[bytes, bytes]], begun: list[str], tmp_path: Path
) -> None:
    """The next page of its reader does not wait for it to be read."""
    is_read = asyncio.Event()

    async def build(scope: Scope, _: Receive, send: Send) -> None:
        opened.begun.append(scope["state"]["workspace"].identify.key)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await is_read.wait()
        await send({"type": "http.response.body", "body": b"1"})

    with working_in(tmp_path) as space:
        opened = Opened(space, build)
        built = [opened.open("vera") for _ in range(2)]
        assert await opened.settle() == begun
        await _ended(built, is_read)


@pytest.mark.anyio
async def test_a_page_that_listens_whether_its_reader_leaves_keeps_its_slot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", LONGEST_S)

    async def build(scope: Scope, receive: Receive, _: Send) -> None:
        opened.begun.append(scope["state"]["workspace"].identify.key)
        await receive()

    with working_in(tmp_path) as space:
        opened, people = Opened(space, build), [f"person{number}" for number in range(SLOTS + 1)]
        built = [opened.open(person) for person in people]
        assert await opened.settle() == people[:SLOTS]
        await _ended(built, opened.body)


@pytest.mark.anyio
@pytest.mark.parametrize("is_sent", [False, True])
async def test_a_request_whose_body_comes_late_leaves_no_slot_behind(
    is_sent: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its body comes when all slots are held and it ends before it gets one, or when sending has got it one already."""
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", LONGEST_S)
    listening, may_end = set[asyncio.Task[Any]](), asyncio.Event()

    async def build(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await opened._build(scope, receive, send)
            return
        listening.add(asyncio.create_task(receive()))  # pyright: ignore[reportArgumentType] - a coroutine
        await asyncio.sleep(0)
        if is_sent:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await may_end.wait()

    with working_in(tmp_path) as space:
        opened = Opened(space, build)
        sent = opened.open("vera", "/api/v1/runs", "POST")
        await opened.settle()
        first = [] if is_sent else [opened.open(f"first{number}") for number in range(SLOTS)]
        await opened.settle()
        opened.body.set()
        await opened.settle()
        await _ended([sent], may_end)
        for end in opened.ends.values():
            end.set()
        await asyncio.wait([*listening, *first])
        opened.begun.clear()
        people = [f"person{number}" for number in range(SLOTS)]
        built = [opened.open(person) for person in people]
        assert await opened.settle() == people
        await _ended(built, *opened.ends.values())


@pytest.mark.anyio
async def test_pages_programs_and_events_of_all_people_share_slots(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", LONGEST_S)
    with working_in(tmp_path) as space:
        opened, people = Opened(space), [f"person{number}" for number in range(SLOTS)]
        built = [opened.open(person) for person in people]
        await opened.settle()
        opened.handle("vera")
        built += [opened.open("ben", "/api/v1/runs"), opened.open("ann")]
        assert await opened.settle() == people
        opened.ends[people[0]].set()
        assert (await opened.settle())[SLOTS:] == ["vera's event", "ben"], "an event is short"
        await _ended(built, *opened.ends.values(), opened.ends.setdefault("ann", asyncio.Event()))


@pytest.mark.anyio
async def test_whoever_sends_slowly_keeps_no_slot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", LONGEST_S)
    with working_in(tmp_path) as space:
        opened = Opened(space)
        people = [f"person{number}" for number in range(SLOTS)]
        sent = [opened.open(person, "/api/v1/runs", "POST") for person in people]
        built = opened.open("vera")
        assert await opened.settle() == ["vera"]
        opened.body.set()
        assert (await opened.settle())[1:] == people[:-1], "the page has a slot"
        for person in ("vera", *people):
            opened.ends.setdefault(person, asyncio.Event()).set()
        await asyncio.wait([built, *sent])


async def _ended(tasks: list[asyncio.Task[None]], *ends: asyncio.Event) -> None:
    for one in ends:
        one.set()
    await asyncio.wait(tasks)


@pytest.mark.anyio
async def test_requests_with_one_key_wait_until_it_is_known_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at a key takes a thread, which others need too."""
    monkeypatch.setattr(turns, "WAITING", 10)
    keys, busy, most, told = KeyTurns(), 0, 0, list[bool]()

    async def ask(key: str | None) -> None:
        nonlocal busy, most
        async with keys.turn(key) as is_mine:
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0)
            busy -= 1
            told.append(is_mine)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(20):
            tasks.create_task(ask("vera's"))
    assert (told.count(True), told.count(False)) == (10 + AT_ONCE, 8 - AT_ONCE + 2)
    most = 0
    async with asyncio.TaskGroup() as tasks:
        for number in range(3):
            for key in (f"key {number}", None):
                tasks.create_task(ask(key))
    assert most == 6, "others do not wait"


@pytest.mark.anyio
async def test_messages_that_come_too_fast_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.receive"}

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(turns.time, "monotonic", lambda: 1000.0)
    pace = KeyPace(RATE, BURST)
    received = pace.paced("session vera's", receive)
    for _ in range(int(BURST)):
        await received()
    assert slept == [], "as many as a session may send"
    for _ in range(3):
        await received()
    await pace.wait("session vera's", 5)
    assert [round(one * RATE) for one in slept] == [1, 2, 3, 8]
    await pace.wait("token vera's")
    assert len(slept) == 4, "a program with a token of hers does not slow her pages"


@pytest.mark.anyio
async def test_only_a_few_requests_with_messages_wait_and_what_left_counts_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Requests wait in memory, unlike the messages of a websocket, of which each connection has one."""
    statuses: list[int] = []
    now = 1000.0

    async def answer(*_: Any) -> None:
        statuses.append(200)

    async def ask(kind: Holder) -> None:
        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        held = {"workspace": spaces[kind]}
        scope = {"type": "http", "path": "/_nicegui_ws/socket.io/", "headers": [], "method": "POST", "state": held}
        await fair(scope, _nothing, send)

    with working_in(tmp_path) as space:
        kinds: tuple[Holder, ...] = ("session", "token", "user")
        spaces = {kind: replace(space, identify=Identity(space, kind, "vera's", "")) for kind in kinds}
    monkeypatch.setattr(turns.time, "monotonic", lambda: now)
    fair = FairTurns(answer)
    asked = [asyncio.create_task(ask("session")) for _ in range(1000)]
    await asyncio.sleep(0)
    waiting = [one for one in asked if not one.done()]
    assert 0 < len(waiting) <= LONGEST_WAIT_S * RATE / 5
    assert statuses.count(429) == 1000 - len(waiting) - statuses.count(200)
    await ask("token")
    assert statuses[-1] == 200, "others do not wait"
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    assert fair.pace.delay("session vera's") == pytest.approx(0, abs=5 / RATE), "nobody waits for those that have left"
    now += BURST / RATE + 1
    await ask("user")
    assert list(fair.pace.due) == ["user vera's"], "nothing is kept of those that send nothing"
    await ask("session")
    assert statuses[-1] == 200


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b""}


@pytest.mark.anyio
async def test_events_of_one_person_are_handled_in_order_and_those_of_others_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "WAITING_EVENTS", 10)
    events, slots, seen = EventTurns(), Scheduler(), list[str]()

    async def handle(person: str, number: int) -> None:
        async with events.turn(person, slots) as is_mine:
            seen.append(f"{person} {number}" if is_mine else "dropped")

    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(handle("vera", number))
        await asyncio.sleep(0)
        await handle("ben", 0)
        assert "vera 10" not in seen
    assert [one for one in seen if one.startswith("vera")] == [f"vera {number}" for number in range(11)]
    assert seen.count("dropped") == 9


@pytest.mark.anyio
async def test_the_next_event_of_a_person_waits_for_what_the_last_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins a thread's work, and the threads of many would leave no time to pages."""
    monkeypatch.setattr(turns, "LONGEST_EVENT_S", LONGEST_S)
    events, slots, ends, seen = EventTurns(), Scheduler(), asyncio.Event(), list[str]()

    async def handle(person: str) -> None:
        begun = set[asyncio.Task[Any]]()
        async with events.turn(person, slots, begun):
            seen.append(person)
            begun.add(asyncio.create_task(ends.wait()))

    async def settle() -> list[str]:
        for _ in range(20):
            await asyncio.sleep(0)
        return seen

    async with asyncio.TaskGroup() as tasks:
        for person in ("vera", "vera", "ben"):
            tasks.create_task(handle(person))
        assert await settle() == ["vera", "ben"]
        ends.set()
    assert seen == ["vera", "ben", "vera"]
    monkeypatch.setattr(turns, "LONGEST_EVENT_S", 0.0)
    ends.clear()
    await handle("vera")
    await handle("vera")  # what takes longer is not waited for
    ends.set()
