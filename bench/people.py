"""How long a page takes while 200 people have pages open.

    python bench/people.py [PEOPLE] [SECONDS] [PAUSE_S]

Each of them opens a page, connects its websocket as a browser does, looks at it for PAUSE_S on average, and opens the
next one. The server is a process of its own, with a run of 500 cases and 10 metrics behind its pages; the people are
coroutines of one other process on the same machine. What a browser does besides (scripts, styles, drawing) is not
measured.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import aiohttp
from _lab import folder, machine, print_table
from application import RUN, SERVER, fill

PATHS = ("/", "/library", "/datasets", "/runs", f"/runs/{RUN}", "/history", "/compare", "/datasets/rag")
WARM_UP_S = 5.0
CLIENT_ID = re.compile(r"""["']client_id["']: ?["']([0-9a-f-]{36})["']""")


@dataclass
class Seen:
    """Seconds of each page: until its document was there, and until its websocket was connected; and failures."""

    documents: dict[str, list[float]] = field(default_factory=lambda: {path: [] for path in PATHS})
    live: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


async def visit(
    session: aiohttp.ClientSession, url: str, pause_s: float, ends: float, seen: Seen, begins: float
) -> None:
    """One person, who opens pages until the end."""
    chance = random.Random()
    tab = str(uuid.uuid4())
    await asyncio.sleep(chance.random() * pause_s)
    while time.monotonic() < ends:
        path, begun = chance.choice(PATHS), time.monotonic()
        try:
            async with session.get(f"{url}{path}") as answer:
                text = await answer.text()
                answer.raise_for_status()
            document_s = time.monotonic() - begun
            found = CLIENT_ID.search(text)
            assert found, "a page without a client"
            query = {"client_id": found[1], "next_message_id": "0", "implicit_handshake": "true", "tab_id": tab}
            query |= {"document_id": str(uuid.uuid4()), "EIO": "4", "transport": "websocket"}
            address = f"{url}/_nicegui_ws/socket.io/"
            async with session.ws_connect(address, params=query, headers={"Origin": url}, autoping=True) as socket:
                await connect(socket)
                if begun >= begins:
                    seen.documents[path].append(document_s)
                    seen.live.append(time.monotonic() - begun)
                await stay(socket, chance.uniform(0.5, 1.5) * pause_s)
        except (aiohttp.ClientError, AssertionError, TimeoutError, TypeError) as error:
            seen.failures.append(f"{path}: {type(error).__name__}: {error}")


async def connect(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Engine.io's and socket.io's greetings."""
    assert (await socket.receive_str())[0] == "0"
    await socket.send_str("40")
    while not (await socket.receive_str(timeout=60)).startswith("40"):
        pass


async def stay(socket: aiohttp.ClientWebSocketResponse, seconds: float) -> None:
    """Take what the server sends, and answer its pings."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        try:
            message = await socket.receive(timeout=left)
        except TimeoutError:
            return
        if message.type is not aiohttp.WSMsgType.TEXT:
            return
        if message.data == "2":
            await socket.send_str("3")


async def measure(url: str, people: int, seconds: float, pause_s: float, pid: int) -> tuple[Seen, float]:
    """What they saw after a warm-up, and the CPU seconds that the server took meanwhile."""
    seen, now = Seen(), time.monotonic()
    begins, ends = now + WARM_UP_S + pause_s, now + WARM_UP_S + pause_s + seconds
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        for _ in range(people):
            tasks.create_task(visit(session, url, pause_s, ends, seen, begins))
        await asyncio.sleep(begins - time.monotonic())
        before = cpu_s(pid)
        await asyncio.sleep(ends - time.monotonic())
        used = cpu_s(pid) - before
    return seen, used


def cpu_s(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    words = [float(word) for word in sys.argv[1:4]]
    people, seconds, pause_s = [*words, *(200.0, 60.0, 10.0)[len(words) :]]
    with folder() as work:
        fill(work, 500, 10)
        with subprocess.Popen([sys.executable, "-c", SERVER], cwd=work, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            try:
                url = server.stdout.readline().strip()
                seen, used = asyncio.run(measure(url, int(people), seconds, pause_s, server.pid))
                memory = int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())[0]) / 1024
            finally:
                server.terminate()
    pages = len(seen.live)
    print(f"{machine()}; {people:.0f} people, a page each {pause_s:g} s on average, for {seconds:g} s\n")
    rows = [(path, *row(times)) for path, times in seen.documents.items() if len(times) > 1]
    every = [one for times in seen.documents.values() for one in times]
    rows += [("all", *row(every)), ("all, with its websocket", *row(seen.live))]
    print_table(("page", "n", "median, ms", "95th percentile, ms", "worst, ms"), rows)
    print(
        f"\n{pages / seconds:.1f} pages/s, {1000 * used / max(pages, 1):.0f} ms of CPU a page, "
        f"{100 * used / seconds:.0f} % of a core, {memory:.0f} MB, {len(seen.failures)} failed"
    )
    for failure in sorted(set(seen.failures))[:5]:
        print(f"  {failure}")


def row(times: list[float]) -> tuple[str, ...]:
    """Number, median, 95th percentile and worst, in milliseconds."""
    return (str(len(times)), *(f"{1000 * one:.0f}" for one in (median(times), quantiles(times, n=20)[-1], max(times))))


if __name__ == "__main__":
    main()
