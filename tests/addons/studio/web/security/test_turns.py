"""One person's requests and events wait for each other, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.web.security import turns
from evalflow.addons.studio.web.security.turns import AT_ONCE, BURST, RATE, EventTurns, FairTurns, KeyTurns, MessagePace
from evalflow.addons.studio.work.access import Actor
from evalflow.addons.studio.work.sessions import Identity
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

    routes = [Route("/hold", hold), Route("/assets/x", quick), Route("/quick", quick), Route("/events", events)]
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
        asked = [pool.submit(server.ask, "GET", "/hold", Person="vera") for _ in range(AT_ONCE + 5)]
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
    pace = MessagePace()
    received = pace.paced(receive)
    for _ in range(int(BURST)):
        await received()
    assert slept == [], "as many as a person may send"
    for _ in range(3):
        await received()
    await pace.wait(5)
    assert [round(one * RATE) for one in slept] == [1, 2, 3, 8]


@pytest.mark.anyio
async def test_events_of_one_person_are_handled_in_order_with_room_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "WAITING_EVENTS", 10)
    events, seen = EventTurns(), list[str]()

    async def handle(person: str, number: int) -> None:
        async with events.turn(person) as is_mine:
            seen.append(f"{person} {number}" if is_mine else "dropped")

    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(handle("vera", number))
        await asyncio.sleep(0)
        await handle("ben", 0)
        assert "vera 10" not in seen
    assert [one for one in seen if one.startswith("vera")] == [f"vera {number}" for number in range(11)]
    assert seen.count("dropped") == 9
