"""How long people wait for a page of a public server while one of them asks for pages as fast as possible.

    python bench/attacked.py [PEOPLE] [SECONDS] [PAUSE_S] [--database-url URL]

PEOPLE (60) with accounts open pages over TLS as in `people.py`, one every PAUSE_S (10) on average. Meanwhile another
person with an account asks for the largest pages, then for the largest answers of the REST API, and then turns the
pages of a run's results, by 20 connections at once; at first nobody does. The server is `serve --public` in a process
of its own; with a URL, on that PostgreSQL database, which must be empty. Needs openssl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import ssl
import subprocess
import sys
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

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


async def measure(
    url: str, certificate: Path, cookies: dict[str, str], seconds: float, pause_s: float, attack: Attack | None
) -> Seen:
    """What all but the last person saw; the last one attacks if asked to."""
    seen, now = Seen(), time.monotonic()
    begins, ends = now + WARM_UP_S + pause_s, now + WARM_UP_S + pause_s + seconds
    trusted = ssl.create_default_context(cafile=str(certificate))
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        *people, attacker = [
            await stack.enter_async_context(
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=0, ssl=trusted),
                    headers={"Cookie": cookie},
                    timeout=aiohttp.ClientTimeout(60),
                )
            )
            for cookie in cookies.values()
        ]
        everybody = [tasks.create_task(visit(one, url, pause_s, ends, seen, begins)) for one in people]
        if attack:
            act = attack.click if attack.paths == LARGEST[BY_EVENTS] else attack.ask
            everybody += [tasks.create_task(act(attacker, url, ends)) for _ in range(CONNECTIONS)]
        await asyncio.wait(everybody)
    return seen


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
            for name, paths in {"alone": (), **LARGEST}.items():
                attack = Attack(paths) if paths else None
                before = cpu_s(process.pid)
                seen = asyncio.run(measure(url, work / "certificate.pem", cookies, seconds, pause_s, attack))
                share = 100 * (cpu_s(process.pid) - before) / (seconds + pause_s + WARM_UP_S)
                every = [one for times in seen.documents.values() for one in times]
                rows.append((name, *row(every), *row(seen.live)[1:], f"{share:.0f} %", f"{len(seen.failures)}"))
                for failure in sorted(set(seen.failures))[:5]:
                    print(f"  {failure}")
                if attack:
                    print(f"attacked {name}: {attack.statuses}, and {attack.failures} failed connections\n")
        finally:
            process.terminate()
            process.wait()
    print(f"{machine()}; {people:.0f} people, a page each {pause_s:g} s on average, for {seconds:g} s\n")
    times = ("median, ms", "95th percentile, ms", "worst, ms")
    head = ("", "pages", *times, *(f"with websocket: {one}" for one in times), "of a core", "failed")
    print_table(head, rows)


if __name__ == "__main__":
    main()
