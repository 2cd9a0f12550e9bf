"""What stands before every route, asked over real HTTP as a browser or an attacker would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from evalflow.web.application import guards

from ..conftest import Server, served


async def anything(request: Request) -> Response:
    return JSONResponse({"method": request.method})


async def page(_: Request) -> Response:
    body = "<html><style>a{}</style><script>1</script></html>"
    return HTMLResponse(body, headers={"X-NiceGUI-Content": "page"})


async def socket(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("hello")
    await socket.close()


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[Server]:
    routes = [
        Route("/", anything, methods=["GET", "POST"]),
        Route("/page", page),
        Route("/api/v1/x", anything, methods=["GET", "POST", "DELETE"]),
        WebSocketRoute("/ws", socket),
    ]
    with served(lambda address: Starlette(routes=routes, middleware=guards(address))) as server:
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
    with connect(url, additional_headers={"Origin": server.address.url}) as opened:
        assert opened.recv() == "hello"
    for headers in ({"Origin": "http://evil.example"}, {}):
        with pytest.raises(InvalidStatus, match="403"):
            connect(url, additional_headers=headers)


@pytest.mark.parametrize("path", ["/", "/page", "/nowhere"])
def test_every_answer_carries_the_headers(server: Server, path: str) -> None:
    headers = server.ask("GET", path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
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
    assert first.body.decode() == f'<html><style nonce="{nonce}">a{{}}</style><script nonce="{nonce}">1</script></html>'
    assert nonce not in second.headers["Content-Security-Policy"]
