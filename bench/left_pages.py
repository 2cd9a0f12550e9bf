"""Memory of the application while pages are opened and left.

    python bench/left_pages.py [PAGES]

PAGES (600) are opened, four at a time, each with its websocket as by a browser, and left after half a second. The
server is a process of its own, with a run of 500 cases and 10 metrics behind its pages.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator

import aiohttp
from _lab import folder, machine, print_table, resident_mib
from application import SERVER, fill
from people import CLIENT_ID, PATHS, connect, stay

AT_ONCE, STEPS = 4, 6
LOOKS_S, SETTLES_S = 0.5, 8.0
"""Seconds that a page is looked at, and that the server has to notice that pages were left."""


async def visit(session: aiohttp.ClientSession, url: str, path: str) -> None:
    """Open a page, and leave it."""
    async with session.get(f"{url}{path}") as answer:
        text = await answer.text()
        answer.raise_for_status()
    found = CLIENT_ID.search(text)
    assert found, "a page without a client"
    query = {"client_id": found[1], "next_message_id": "0", "implicit_handshake": "true", "tab_id": str(uuid.uuid4())}
    query |= {"document_id": str(uuid.uuid4()), "EIO": "4", "transport": "websocket"}
    address = f"{url}/_nicegui_ws/socket.io/"
    async with session.ws_connect(address, params=query, headers={"Origin": url}) as socket:
        await connect(socket)
        await stay(socket, LOOKS_S)


async def measure(url: str, pages: int, pid: int) -> AsyncIterator[tuple[int, float]]:
    """The pages opened so far, and the server's resident MiB, several times."""
    yield 0, resident_mib(pid)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        step = max(AT_ONCE, pages // STEPS // AT_ONCE * AT_ONCE)
        for first in range(0, pages, AT_ONCE):
            paths = [PATHS[number % len(PATHS)] for number in range(first, first + AT_ONCE)]
            async with asyncio.TaskGroup() as people:
                for path in paths:
                    people.create_task(visit(session, url, path))
            if (opened := first + AT_ONCE) % step == 0:
                await asyncio.sleep(SETTLES_S)
                yield opened, resident_mib(pid)


async def main(pages: int) -> None:
    """Measure and print."""
    with folder() as work:
        fill(work, 500, 10)
        with subprocess.Popen([sys.executable, "-c", SERVER], cwd=work, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            try:
                url, begun = server.stdout.readline().strip(), time.monotonic()
                rows = [(str(opened), f"{mib:.0f}") async for opened, mib in measure(url, pages, server.pid)]
            finally:
                server.terminate()
    print(f"{machine()}; {time.monotonic() - begun:.0f} s\n")
    print_table(("pages opened and left", "resident MiB"), rows)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 600))
