"""Messages of a websocket are looked for as slowly as they are taken, and a server ends with any state of one."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from evalflow.addons.studio.web.security.uvicorn_protocol import READ_AT_ONCE, unhurried_sockets

OPENS = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Wire(asyncio.Transport):
    """The server's end of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = self.is_paused = False

    def write(self, data: Any) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class Taker:
    """An application that takes a message whenever it may."""

    def __init__(self) -> None:
        self.may_take, self.taken = asyncio.Semaphore(0), list[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            await self.may_take.acquire()
            message: MutableMapping[str, Any] = await receive()
            if message.get("text") == "bye":
                await send({"type": "websocket.close", "code": 1000})
                return
            if message["type"] == "websocket.disconnect":
                return
            self.taken.append(message["text"])


async def opened(app: Taker) -> tuple[WebSocketsSansIOProtocol, Wire]:
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws=unhurried_sockets())
    config.load()
    made: Any = unhurried_sockets()
    protocol, wire = made(config, ServerState(), {}, asyncio.get_running_loop()), Wire()
    protocol.connection_made(wire)
    protocol.data_received(OPENS)
    await settle()
    return protocol, wire


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def sent(*texts: str) -> bytes:
    return b"".join(Frame(Opcode.TEXT, text.encode()).serialize(mask=True) for text in texts)


@pytest.mark.anyio
async def test_messages_are_looked_for_as_slowly_as_they_are_taken() -> None:
    app = Taker()
    protocol, wire = await opened(app)
    texts = [f"{number:0100}" for number in range(2000)]
    protocol.data_received(sent(*texts[:1000]))
    protocol.data_received(sent(*texts[1000:]))
    assert 0 < protocol.queue.qsize() <= READ_AT_ONCE / 100
    assert wire.is_paused
    for _ in texts:
        app.may_take.release()
    while len(app.taken) < len(texts):
        await asyncio.sleep(0)
    assert app.taken == texts
    assert not wire.is_paused
    long = "x" * 10 * READ_AT_ONCE
    data = sent("short", long)
    protocol.data_received(data[:-9])
    protocol.data_received(data[-9:])
    app.may_take.release()
    app.may_take.release()
    await settle()
    assert len(app.taken[-1]) == len(long)
    protocol.data_received(sent("last", "words"))
    protocol.connection_lost(None)
    for _ in range(3):
        app.may_take.release()
    await settle()
    assert app.taken[-2:] == ["last", "words"]


@pytest.mark.anyio
async def test_whoever_goes_on_sending_after_the_server_has_closed_the_connection_is_cut_off() -> None:
    app = Taker()
    protocol, wire = await opened(app)
    protocol.data_received(sent("bye", *["x"] * 10))
    app.may_take.release()
    await settle()
    assert not wire.is_closed, "a few were on their way"
    for _ in range(4):
        protocol.data_received(sent(*["x" * 100] * 50))
    assert wire.is_closed
    protocol.connection_lost(None)


@pytest.mark.anyio
async def test_a_connection_that_is_being_closed_does_not_keep_the_server_from_ending() -> None:
    protocol, wire = await opened(Taker())
    protocol.conn.fail(1011)
    protocol.shutdown()
    assert wire.is_closed
    protocol.connection_lost(None)
