"""An open page belongs to the session that opened it, and ends with it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from evalflow.addons.studio.store import runs
from evalflow.addons.studio.web.application import API
from evalflow.addons.studio.work import people, projects
from tests.addons.studio.web.conftest import working_in
from tests.addons.studio.web.public import PublicServer, emit, received, serving_in_public

pytestmark = pytest.mark.slow


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicServer]:
    with serving_in_public(tmp_path_factory.mktemp("public")) as server:
        yield server


def handshake(client_id: str) -> dict[str, Any]:
    return {"client_id": client_id, "tab_id": "t", "document_id": "d", "next_message_id": 0}


def test_a_stolen_id_is_worth_nothing_without_the_session(server: PublicServer) -> None:
    olga, vera = server.sign_in("olga"), server.sign_in("vera")
    stolen, mine = server.open(olga), server.open(vera)

    async def steal() -> None:
        for named in (
            f"&client_id={stolen}",
            f"&client_id={stolen}&client_id={mine}",
            f"&client_id={mine}&client_id={stolen}",
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                async with server.socket(vera, f"{named}&tab_id=t&implicit_handshake=true"):
                    pass
        async with server.socket(vera) as thief:
            for event in ("handshake", "event", "javascript_response", "ack", "log"):
                assert await emit(thief, event, handshake(stolen)) == [False]
        async with server.socket(olga) as own:
            assert await emit(own, "handshake", handshake(stolen)) == [True]

    asyncio.run(steal())
    with server.client(Cookie=olga) as own, server.client(Cookie=vera, Origin=server.url) as thief:
        polled = own.get("/_nicegui_ws/socket.io/?EIO=4&transport=polling")
        sid = polled.text.partition('"sid":"')[2].partition('"')[0]
        for named in (f"sid={sid}", f"sid={sid}&sid=other"):
            assert thief.get(f"/_nicegui_ws/socket.io/?EIO=4&transport=polling&{named}").status_code == 403
        upload = f"/_nicegui/client/{stolen}/upload/1"
        assert thief.post(upload, content=b"x").status_code == 403
        assert own.post(upload, content=b"x", headers={"Origin": server.url}).status_code == 404
        own.cookies.clear()
    with server.client() as nobody:
        assert nobody.get("/_nicegui_ws/socket.io/?EIO=4&transport=polling").status_code == 401


def test_a_page_ends_with_its_session_and_with_its_rights(server: PublicServer) -> None:
    with working_in(server.folder) as space:
        projects.create_project(space, "desk")
        projects.set_role(space.in_project("desk"), "vera", "editor")
    changes: list[tuple[str, str, dict[str, Any] | None]] = [
        ("PUT", "/projects/default/members/vera", {"role": "editor"}),
        ("DELETE", "/projects/desk/members/vera", None),
        ("PATCH", "/users/vera", {"is_disabled": True}),
    ]
    with server.client(Cookie=server.sign_in("olga")) as owner:

        def change(method: str, path: str, body: dict[str, Any] | None) -> None:
            seen = {"If-Match": owner.get(f"{API}{path}").headers.get("ETag", '"1"'), "X-Requested-With": "test"}
            assert owner.request(method, f"{API}{path}", json=body, headers=seen).status_code in (200, 204)

        async def watch(asked: tuple[str, str, dict[str, Any] | None]) -> str:
            vera = await asyncio.to_thread(server.sign_in, "vera")
            page = await asyncio.to_thread(server.open, vera, "/p/desk/runs" if "desk" in asked[1] else "/runs")
            async with server.socket(vera) as own:
                assert await emit(own, "handshake", handshake(page)) == [True]
                async with asyncio.TaskGroup() as tasks:  # the server waits for answers to its pings meanwhile
                    tasks.create_task(asyncio.to_thread(change, *asked))
                    tasks.create_task(received(own, "location.reload()"))
                while await emit(own, "ack", handshake(page)) != [False]:
                    await asyncio.sleep(0.1)  # until the server has deleted the page
            return vera

        for asked in changes:
            vera = asyncio.run(watch(asked))
            if "desk" in asked[1]:
                with server.client(Cookie=vera) as removed:
                    assert [removed.get(path).status_code for path in ("/p/desk/runs", "/runs")] == [403, 200]
        with server.client(Cookie=vera) as disabled:
            assert disabled.get("/runs", headers={"Sec-Fetch-Mode": "navigate"}).headers["Location"] == (
                "/sign-in?next=%2Fruns"
            )
        change("PATCH", "/users/vera", {"is_disabled": False})


def test_the_events_of_a_run_end_with_the_right_to_read_it(server: PublicServer) -> None:
    with working_in(server.folder) as space, space.database.writing() as connection:
        about = {"project_id": space.project_id, "run_id": "watched", "title": "", "bot": "helper", "state": "queued"}
        about |= {"origin": "workspace", "composition": {}, "arguments": [], "folder": str(server.folder)}
        runs.claim(connection, runs.create(connection, about), "elsewhere:1:1", time.time() + 3600)
    with working_in(server.folder) as space:
        people.add_user(space, "anna")
        projects.set_role(space, "anna", "viewer")
    with server.client(Cookie=server.sign_in("anna")) as anna:
        with anna.stream("GET", f"{API}/runs/watched/events") as events:
            lines = events.iter_lines()
            assert next(lines) == "event: progress"
            with working_in(server.folder) as space:
                projects.remove_member(space, "anna")
            rest = list(lines)  # the stream ends, rather than breaks
        assert "event: end" not in rest
        assert anna.get(f"{API}/runs/watched/events").status_code == 403


def test_a_foreign_page_is_refused_over_https(server: PublicServer) -> None:
    olga, evil = server.sign_in("olga"), "https://evil.example"

    async def connect() -> None:
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            async with server.socket(olga, origin=evil):
                pass

    asyncio.run(connect())
    with server.client(Cookie=olga) as browser:
        for origin in (evil, server.url.replace("https", "http"), "null"):
            headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
            assert browser.post("/sign-out", content=b"", headers=headers).status_code == 403
            assert browser.post(f"{API}/datasets", json={"name": "x"}, headers={"Origin": origin}).status_code == 403
        for site in ("cross-site", "same-site"):
            fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
            assert browser.get(f"{API}/bots", headers=fetched).status_code == 403
        assert browser.post(f"{API}/datasets", content=b"{}").status_code == 403, "as a form, without an origin"
        assert browser.get(f"{API}/bots").status_code == 200


def test_an_old_version_of_tls_is_refused(server: PublicServer) -> None:
    address = urlsplit(server.url)
    for version, is_refused in ((ssl.TLSVersion.TLSv1_1, True), (ssl.TLSVersion.TLSv1_2, False)):
        trusted = server.tls
        trusted.set_ciphers("DEFAULT:@SECLEVEL=0")  # or this side would refuse it
        with warnings.catch_warnings(action="ignore"):
            trusted.minimum_version = trusted.maximum_version = version
        with socket.create_connection((address.hostname, address.port), 60) as plain:
            if is_refused:
                with pytest.raises(OSError, match=r"EOF|PROTOCOL_VERSION|reset"):
                    trusted.wrap_socket(plain, server_hostname=address.hostname)
            else:
                with trusted.wrap_socket(plain, server_hostname=address.hostname) as secure:
                    assert secure.version() == "TLSv1.2"


@pytest.mark.parametrize("path", ["/runs", "/nothing-is-here", "/sign-in", f"{API}/runs", f"{API}/runs/none"])
def test_neither_pages_nor_answers_are_kept_by_browsers(server: PublicServer, path: str) -> None:
    with server.client(Cookie=server.sign_in("vera")) as vera:
        assert "no-store" in vera.get(path).headers["Cache-Control"]
