"""What stands before every route, asked over real HTTP as a browser or an attacker would."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from socket import create_connection
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from evalflow.addons.studio.web.application import security_middleware
from evalflow.addons.studio.web.security import guards, uvicorn_protocol
from evalflow.addons.studio.web.security.token import load_token, opening_page
from tests.addons.studio.web.conftest import TOKEN, Server, served, working_in


async def anything(request: Request) -> Response:
    return JSONResponse({"method": request.method})


async def read(request: Request) -> Response:
    return JSONResponse({"length": len(await request.body())})


async def page(_: Request) -> Response:
    body = "<html><style>a{}</style><script>1</script></html>"
    return HTMLResponse(body, headers={"X-NiceGUI-Content": "page"})


async def socket(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("hello")
    await socket.close()


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    routes = [
        Route("/", anything, methods=["GET", "POST"]),
        Route("/page", page),
        Route("/healthz", anything),
        Route("/read", read, methods=["POST"]),
        Route("/api/v1/x", anything, methods=["GET", "POST", "DELETE"]),
        WebSocketRoute("/ws", socket),
    ]
    with (
        working_in(tmp_path_factory.mktemp("workspace")) as workspace,
        served(
            lambda address: Starlette(routes=routes, middleware=security_middleware(workspace, address, TOKEN))
        ) as server,
    ):
        yield server


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_names_of_this_machine_are_answered(server: Server, name: str) -> None:
    assert server.ask("GET", "/", Host=f"{name}:{server.address.port}").status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "localhost", "127.0.0.1:1", "localhost:{port}.evil.example", ""]
)
def test_any_other_name_is_refused(server: Server, host: str) -> None:
    answer = server.ask("GET", "/", Host=host.format(port=server.address.port))
    assert answer.status == 421
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json["title"] == "Misdirected Request"


def test_what_changes_something_comes_from_our_own_pages(server: Server) -> None:
    own = server.address.url
    assert server.ask("POST", "/", {}, Origin=own).status == 200
    assert server.ask("POST", "/", {}).status == 200  # a program: browsers always send an Origin
    for origin in ("http://evil.example", "null", f"{own}0", own.replace("http:", "https:"), "http://localhost"):
        answer = server.ask("POST", "/", {}, Origin=origin)
        assert answer.status == 403, origin


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_may_link_here_and_nothing_else(server: Server, site: str) -> None:
    link = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert server.ask("GET", "/", **link).status == 200
    assert server.ask("POST", "/", {}, **link).status == 403
    assert server.ask("GET", "/", **{**link, "Sec_Fetch_Dest": "iframe"}).status == 403
    assert server.ask("GET", "/api/v1/x", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_what_a_form_can_send_changes_nothing(server: Server, kind: str) -> None:
    assert server.ask("POST", "/api/v1/x", b"{}", Content_Type=kind).status == 403
    assert server.ask("POST", "/api/v1/x", b"{}", Content_Type=kind, X_Requested_With="evalflow").status == 200


def test_a_change_without_a_body_needs_the_mark(server: Server) -> None:
    assert server.ask("DELETE", "/api/v1/x").status == 403
    assert server.ask("DELETE", "/api/v1/x", X_Requested_With="evalflow").status == 200
    assert server.ask("POST", "/api/v1/x", {}, Content_Type="application/json; charset=utf-8").status == 200


def test_the_websocket_is_for_our_own_pages(server: Server) -> None:
    url = server.address.url.replace("http:", "ws:") + "/ws"
    known = {"Authorization": f"Bearer {TOKEN}"}
    with connect(url, additional_headers={"Origin": server.address.url, **known}) as opened:
        assert opened.recv() == "hello"
    for headers in ({"Origin": "http://evil.example", **known}, known, {"Origin": server.address.url}):
        with pytest.raises(InvalidStatus, match="403"):
            connect(url, additional_headers=headers)


@pytest.mark.parametrize("path", ["/", "/page", "/nowhere"])
def test_every_answer_carries_the_headers(server: Server, path: str) -> None:
    headers = server.ask("GET", path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Server"] is None or "evalflow" not in headers["Server"]


def test_what_is_no_page_may_do_nothing(server: Server) -> None:
    assert server.ask("GET", "/").headers["Content-Security-Policy"].startswith("default-src 'none'; base-uri 'none'")


def test_only_the_pages_own_scripts_run(server: Server) -> None:
    first, second = server.ask("GET", "/page"), server.ask("GET", "/page")
    policy = first.headers["Content-Security-Policy"]
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert "unsafe-inline" not in policy
    assert policy.startswith("default-src 'none'; ")
    assert "object-src" not in policy, "plugins get what all else gets: nothing"
    assert first.body.decode() == f'<html><style nonce="{nonce}">a{{}}</style><script nonce="{nonce}">1</script></html>'
    assert nonce not in second.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/", "/page", "/nowhere", "/api/v1/x"])
def test_nobody_is_answered_without_the_token(server: Server, path: str) -> None:
    stranger = replace(server, token=None)
    other = f"evalflow-{server.address.port + 1}={TOKEN}"
    for wrong in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": other}):
        answer = stranger.ask("GET", path, **wrong)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer"), wrong
        assert TOKEN not in answer.body.decode()
    assert stranger.ask("GET", f"{path}?token=wrong").status == 401
    assert stranger.ask("POST", path, {}, Origin=server.address.url).status == 401
    assert stranger.ask("GET", path, Cookie=f"a=b; evalflow-{server.address.port}={TOKEN}").status != 401
    assert stranger.ask("GET", "/healthz").status == 200


def test_the_address_with_the_token_leaves_a_cookie_and_leads_to_the_one_without(server: Server) -> None:
    stranger = replace(server, token=None)
    answer = stranger.ask("GET", f"/page?a=1&token={TOKEN}&b=2")
    assert (answer.status, answer.headers["Location"]) == (303, f"{server.address.url}/page?a=1&b=2")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"evalflow-{server.address.port}={TOKEN};")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert stranger.ask("GET", f"//evil.example/?token={TOKEN}").headers["Location"].startswith(server.address.url)


def test_who_follows_a_link_here_is_asked_again_by_our_own_page(server: Server) -> None:
    stranger = replace(server, token=None)
    link = {"Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    followed = stranger.ask("GET", "/page", Sec_Fetch_Site="cross-site", **link)
    assert (followed.status, b"refresh" in followed.body) == (401, True)
    typed = stranger.ask("GET", "/page", Sec_Fetch_Site="same-origin", **link)
    assert (typed.status, b"refresh" in typed.body) == (401, False)


def test_the_token_is_its_owners_alone_and_stays(tmp_path: Path) -> None:
    token = load_token(tmp_path)
    assert load_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / ".evalflow").stat().st_mode) == 0o700
    file = tmp_path / ".evalflow" / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    assert load_token(tmp_path) != token  # others could have read it
    page = opening_page(tmp_path, "http://127.0.0.1:1/?token=x")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_a_browser_enters_by_the_page_that_serve_opens_and_by_links(
    server: Server, browser: Any, tmp_path: Path
) -> None:
    load_token(tmp_path)
    page = browser.new_context().new_page()
    page.goto(f"{server.address.url}/page")
    assert "asks for its token" in page.content()
    page.goto(opening_page(tmp_path, f"{server.address.url}/page?token={TOKEN}").as_uri())
    page.wait_for_url(f"{server.address.url}/page")
    page.wait_for_function("document.querySelector('style') !== null")
    link = tmp_path / "link.html"
    link.write_text(f'<a href="{server.address.url}/page">there</a>', encoding="utf-8")
    page.goto(link.as_uri())
    page.get_by_text("there").click()
    page.wait_for_function("document.querySelector('style') !== null")


def sent_on(server: Server, *parts: bytes) -> bytes:
    """What comes back for these bytes until the server ends the connection; nothing else is sent."""
    found = b""
    with create_connection((server.address.host, server.address.port), timeout=60) as connection:
        for part in parts:
            connection.sendall(part)
        while part := connection.recv(65536):
            found += part
    return found


def test_headers_are_bounded(server: Server) -> None:
    assert server.ask("GET", "/healthz", X="a" * 10_000).status == 200
    with suppress(ConnectionError):  # the rest of what is sent meets a closed connection
        assert sent_on(server, b"GET /healthz HTTP/1.1\r\nX: ", b"a" * 1_000_000).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"GET /healthz HT"],
        [b"GET /healthz HTTP/1.1\r\nX: "],
        [b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /"],
        [b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", b"1"],
    ],
    ids=["nothing", "line", "headers", "second", "body that is not read"],
)
def test_a_request_that_is_not_finished_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, parts: list[bytes]
) -> None:
    monkeypatch.setattr(uvicorn_protocol, "HEADERS_TIMEOUT_S", 0.2)
    found = sent_on(server, *parts)
    assert found.count(b"HTTP/1.1 ") == (len(parts) > 1)


def test_a_body_that_comes_too_slowly_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "GRACE_S", 0.2)
    host = f"localhost:{server.address.port}".encode()
    lines = [b"POST /read HTTP/1.1", b"Host: " + host, b"Content-Type: application/json", b"Content-Length: 9"]
    lines.append(f"Authorization: Bearer {TOKEN}".encode())
    assert sent_on(server, b"\r\n".join([*lines, b"", b"1234"])).startswith(b"HTTP/1.1 408 ")
