"""How long people wait for a page of a public server while one of them asks for pages as fast as possible.

    python bench/attacked.py [PEOPLE] [SECONDS] [PAUSE_S] [--database-url URL]

PEOPLE (60) with accounts open pages over TLS as in `people.py`, one every PAUSE_S (10) on average. Meanwhile another
person with an account asks for the largest pages, then for the largest answers of the REST API, and then turns the
pages of a run's results, by 20 connections at once; at first nobody does. The attacker is a process of the lowest
priority, since the CPU that the flood costs its sender is not the server's. The server is `serve --public` in a process
of its own; with a URL, on that PostgreSQL database, which must be empty. Needs openssl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import uuid
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import aiohttp
from _lab import folder, machine, print_table
from application import RUN, fill
from people import CLIENT_ID, WARM_UP_S, Seen, connect, cpu_s, row, stay, visit

BY_EVENTS = "by events"
LARGEST = {
    "by pages": ("/library", f"/runs/{RUN}"),
    "by REST": (f"/api/v1/runs/{RUN}/scores?limit=500", "/api/v1/metrics"),
    BY_EVENTS: (f"/runs/{RUN}",),
}
CONNECTIONS = 20
BUTTON = r"""\"(\d+)\":{"tag":"q-btn","class":\[[^]]*\],"props":{[^{}]*"label":"%s"[^{}]*},"""
BUTTON += r""""events":\[{"listener_id":"([0-9a-f-]{36})","type":"click\""""
"""A button in the elements of a page."""


@dataclass
class Attack:
    """What one person asks for, and gets; status 0 counts events sent."""

    paths: tuple[str, ...]
    statuses: dict[int, int] = field(default_factory=dict[int, int])
    failures: int = 0

    async def ask(self, session: aiohttp.ClientSession, url: str, ends: float) -> None:
        """Ask by one connection until the end."""
        turn = 0
        while time.monotonic() < ends:
            turn += 1
            try:
                async with session.get(url + self.paths[turn % len(self.paths)]) as answer:
                    await answer.read()
                    self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            except (aiohttp.ClientError, TimeoutError):
                self.failures += 1

    async def click(self, session: aiohttp.ClientSession, url: str, ends: float) -> None:
        """Open a page, and press its buttons as fast as possible."""
        while time.monotonic() < ends:
            try:
                async with session.get(url + self.paths[0]) as answer:
                    text = await answer.text()
                page = CLIENT_ID.search(text)
                buttons = [re.search(BUTTON % label, text) for label in ("Next", "Previous")]
                if not page:
                    continue  # 429
                query = {"client_id": page[1], "next_message_id": "0", "implicit_handshake": "true", "EIO": "4"}
                query |= {"tab_id": str(uuid.uuid4()), "document_id": str(uuid.uuid4()), "transport": "websocket"}
                address, origin = f"{url}/_nicegui_ws/socket.io/", {"Origin": url}
                async with (
                    session.ws_connect(address, params=query, headers=origin) as socket,
                    asyncio.TaskGroup() as both,
                ):
                    await connect(socket)
                    both.create_task(stay(socket, ends - time.monotonic()))
                    while time.monotonic() < ends:
                        for button in buttons:
                            assert button, "a run's page without its button"
                            event = {"id": int(button[1]), "client_id": page[1], "listener_id": button[2], "args": []}
                            await socket.send_str(f"42{json.dumps(['event', event])}")
                            self.statuses[0] = self.statuses.get(0, 0) + 1
                            await asyncio.sleep(0)
            except (aiohttp.ClientError, TimeoutError, TypeError, ExceptionGroup):
                self.failures += 1


def sign_in(names: list[str], url: str | None) -> dict[str, str]:
    """Make accounts that may read, and sign them in; returns their cookies."""
    from evalflow.addons.studio.store import people as stored
    from evalflow.addons.studio.web.security.sign_in import COOKIE
    from evalflow.addons.studio.work import connections, people, projects
    from evalflow.addons.studio.work.connections import ConnectionDraft
    from evalflow.addons.studio.work.sessions import start_session
    from evalflow.addons.studio.work.space import open_workspace

    space = open_workspace(url)
    connections.create_connection(space, "openai", ConnectionDraft("https://api.openai.com/v1"))
    people.add_user(space, "olga", is_owner=True)
    cookies: dict[str, str] = {}
    for name in names:
        people.add_user(space, name)
        projects.set_role(space, name, "viewer")
        user = space.read(stored.user, name)
        assert user
        cookies[name] = f"{COOKIE}={start_session(space, user, '10.0.0.1', 'a browser', 'bench')}"
    space.close()
    return cookies


def serve(work: Path, url: str | None) -> tuple[subprocess.Popen[str], str]:
    """Start the server; returns its process and address."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*made, "-keyout", "key.pem", "-out", "certificate.pem"], cwd=work, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"https://localhost:{free.getsockname()[1]}"
    words = ["serve", "--public", address, "--host", "127.0.0.1", "--tls-cert", "certificate.pem"]
    words += ["--tls-key", "key.pem", *(["--database-url", url] if url else [])]
    command = [sys.executable, "-m", "evalflow", *words]
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    line = process.stdout.readline()
    if "evalflow is at" not in line:
        sys.exit(f"the server did not start: {line}")
    return process, address


def session(cookie: str, certificate: Path) -> aiohttp.ClientSession:
    """A session of somebody who is signed in."""
    trusted = ssl.create_default_context(cafile=str(certificate))
    connector = aiohttp.TCPConnector(limit=0, ssl=trusted)
    return aiohttp.ClientSession(connector=connector, headers={"Cookie": cookie}, timeout=aiohttp.ClientTimeout(60))


async def measure(url: str, certificate: Path, cookies: list[str], seconds: float, pause_s: float) -> Seen:
    """What people saw."""
    seen, now = Seen(), time.monotonic()
    begins, ends = now + WARM_UP_S + pause_s, now + WARM_UP_S + pause_s + seconds
    async with AsyncExitStack() as stack:
        people = [await stack.enter_async_context(session(cookie, certificate)) for cookie in cookies]
        async with asyncio.TaskGroup() as tasks:
            for one in people:
                tasks.create_task(visit(one, url, pause_s, ends, seen, begins))
    return seen


async def attack(name: str, url: str, certificate: Path, cookie: str, seconds: float) -> Attack:
    """Attack, and return what was got."""
    one, ends = Attack(LARGEST[name]), time.monotonic() + seconds
    act = one.click if name == BY_EVENTS else one.ask
    async with session(cookie, certificate) as attacker, asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(act(attacker, url, ends))
    return one


def attack_alone(*words: Any) -> Attack:
    """`attack` in a process of its own."""
    os.nice(19)
    return asyncio.run(attack(*words))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("numbers", nargs="*", type=float)
    parser.add_argument("--database-url")
    asked = parser.parse_args()
    people, seconds, pause_s = [*asked.numbers, *(60.0, 60.0, 10.0)[len(asked.numbers) :]]
    rows: list[tuple[str, ...]] = []
    with folder() as work:
        fill(work, 500, 10, asked.database_url)
        cookies = sign_in([f"person{number}" for number in range(int(people) + 1)], asked.database_url)
        process, url = serve(work, asked.database_url)
        try:
            *visitors, attacker = cookies.values()
            certificate, lasts_s = work / "certificate.pem", seconds + pause_s + WARM_UP_S
            for name in ("alone", *LARGEST):
                before = cpu_s(process.pid)
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    words = (name, url, certificate, attacker, lasts_s)
                    under_way = pool.submit(attack_alone, *words) if name in LARGEST else None
                    seen = asyncio.run(measure(url, certificate, visitors, seconds, pause_s))
                    got = under_way.result() if under_way else None
                share = 100 * (cpu_s(process.pid) - before) / lasts_s
                every = [one for times in seen.documents.values() for one in times]
                rows.append((name, *row(every), *row(seen.live)[1:], f"{share:.0f} %", f"{len(seen.failures)}"))
                for failure in sorted(set(seen.failures))[:5]:
                    print(f"  {failure}")
                if got:
                    print(f"attacked {name}: {got.statuses}, and {got.failures} failed connections\n")
        finally:
            process.terminate()
            process.wait()
    print(f"{machine()}; {people:.0f} people, a page each {pause_s:g} s on average, for {seconds:g} s\n")
    times = ("median, ms", "95th percentile, ms", "worst, ms")
    head = ("", "pages", *times, *(f"with websocket: {one}" for one in times), "of a core", "failed")
    print_table(head, rows)


if __name__ == "__main__":
    main()
