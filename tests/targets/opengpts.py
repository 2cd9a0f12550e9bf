"""A server in the shape of OpenGPTs: threads, runs that stream or go on in the background, and a thread's state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Message = dict[str, Any]


@dataclass
class OpenGPTs:
    """Answers each question with its text, and the number of messages that the thread had before."""

    threads: dict[str, list[Message]] = field(default_factory=dict[str, "list[Message]"])
    working: set[str] = field(default_factory=set[str])
    users: list[str | None] = field(default_factory=list["str | None"])
    failing: int = 0  # runs that end in an error before others succeed
    slow_s: float = 0.05
    url: str = ""

    async def create_thread(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["assistant_id"] == "helpdesk"
        self.users.append(request.cookies.get("opengpts_user_id"))
        thread = f"t/{len(self.threads)}"
        self.threads[thread] = []
        return web.json_response({"thread_id": thread, "name": body["name"], "assistant_id": body["assistant_id"]})

    async def _asked(self, request: web.Request) -> tuple[str, Message, Message]:
        body = await request.json()
        thread = self.threads[body["thread_id"]]
        human: Message = {"type": "human", "content": body["input"][-1]["content"]}
        reply: Message = {"type": "ai", "content": f"{human['content']} after {len(thread)}"}
        return body["thread_id"], human, reply

    async def stream(self, request: web.Request) -> web.StreamResponse:
        thread, human, reply = await self._asked(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)

        async def send(event: str, data: Any) -> None:
            text = "" if data is None else f"data: {json.dumps(data)}\r\n"
            await response.write(f"event: {event}\r\n{text}\r\n".encode())

        await send("metadata", {"run_id": "r1"})
        if self.failing:
            self.failing -= 1
            await send("error", {"status_code": 500, "message": "Internal Server Error"})
        else:
            text = reply["content"]
            for end in range(1, len(text), 3):
                await send("data", [{"type": "AIMessageChunk", "content": text[:end]}])
            self.threads[thread] += [human, reply]
            await send("data", self.threads[thread])
        await send("end", None)
        return response

    async def joined(self, request: web.Request) -> web.StreamResponse:
        """A bot of another kind, whose events are parts of its answer."""
        question = (await request.json())["question"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in ({"sources": ["a page"]}, *({"delta": part} for part in (question, " after", " 0"))):
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        return response

    async def run(self, request: web.Request) -> web.Response:
        thread, human, reply = await self._asked(request)

        async def work() -> None:
            await asyncio.sleep(self.slow_s)  # until then the thread is as before
            self.threads[thread].append(human)
            self.working.add(thread)
            await asyncio.sleep(self.slow_s)
            if not self.failing:
                self.threads[thread].append(reply)
            self.working.discard(thread)

        self._work = asyncio.create_task(work())
        return web.json_response({"status": "ok"})

    async def state(self, request: web.Request) -> web.Response:
        thread = request.match_info["thread"]
        following = ["agent"] if thread in self.working else []
        return web.json_response({"values": self.threads[thread], "next": following})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[OpenGPTs]:
        app = web.Application()
        app.add_routes(
            [
                web.post("/threads", self.create_thread),
                web.post("/runs/stream", self.stream),
                web.post("/runs", self.run),
                web.get("/threads/{thread}/state", self.state),
                web.post("/stream", self.joined),
            ]
        )
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()
