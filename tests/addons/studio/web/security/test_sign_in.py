"""A public server answers people who are signed in, and nobody else; its forms, cookies and proxies."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from evalflow.addons.studio.web.address import Address, PublicMode
from evalflow.addons.studio.web.application import API, rest_api, security_middleware
from evalflow.addons.studio.web.pages.sign_in import sign_in_routes
from evalflow.addons.studio.web.security.proxy import UserHeader
from evalflow.addons.studio.web.security.sign_in import COOKIE
from evalflow.addons.studio.work import passkeys, people, projects, sessions
from evalflow.addons.studio.work.passkeys import Browser
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import InfrastructureError
from tests.addons.studio.device import Device
from tests.addons.studio.signing_in import session_key, signed_in
from tests.addons.studio.web.conftest import Answer, Server, served, working_in
from tests.off_loop import keep_off_loops

HOST = "evalflow.example"
FORM = {"Host": HOST, "Origin": f"https://{HOST}", "Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(name="space", scope="module")
def _space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with working_in(tmp_path_factory.mktemp("public")) as space:
        people.add_user(space, "olga", is_owner=True)
        people.add_user(space, "ann")
        yield space


@pytest.fixture(name="device", scope="module")
def _device(space: Workspace) -> Device:
    """A device with a passkey of the owner."""
    device, origin = Device(f"https://{HOST}"), Browser(f"https://{HOST}", "10.0.0.1", "")
    code = people.sign_in_link(space, "olga")
    asked = passkeys.ask_to_join(space, origin, code)
    passkeys.join(space, origin, code, asked.key, device.make(json.loads(asked.options)))
    return device


@pytest.fixture(name="server", scope="module")
def _server(space: Workspace) -> Iterator[Server]:
    def make(address: Address) -> Starlette:
        mode = PublicMode(f"https://{HOST}", None, ["127.0.0.0/8"])
        guards = security_middleware(space, replace(address, public=mode), None)
        return Starlette(routes=[*sign_in_routes(mode), Mount(API, rest_api())], middleware=guards)

    with pytest.MonkeyPatch.context() as patch, served(make) as server:
        keep_off_loops(patch.setattr)
        yield replace(server, token=None)


def cookie_for(space: Workspace, name: str = "olga") -> str:
    """The cookie of somebody who has signed in."""
    return f"{COOKIE}={session_key(space, name)}"


def post(server: Server, path: str, body: Any, **headers: str) -> Answer:
    """What a script of the page sends."""
    return server.ask("POST", path, body, **{"Host": HOST, "Origin": f"https://{HOST}", **headers})


def cookie_of(answer: Answer, name: str = COOKIE) -> str:
    """The cookie of that name that an answer sets."""
    set_cookies = answer.headers.get_all("Set-Cookie") or []
    return next(line.partition(";")[0] for line in set_cookies if line.startswith(f"{name}="))


def enter(server: Server, device: Device, wanted: str = "", **headers: str) -> Answer:
    """Sign in with a passkey."""
    asked = post(server, "/passkey/options", {"purpose": "enter"})
    sent = {"purpose": "enter", "answer": device.sign(asked.json), "next": wanted}
    headers["Cookie"] = "; ".join([cookie_of(asked, f"{COOKIE}-passkey"), headers.get("Cookie", "")])
    return post(server, "/passkey", sent, **headers)


def test_whoever_is_not_signed_in_is_sent_to_do_so(server: Server) -> None:
    shown = server.ask("GET", "/runs?bot=b", Host=HOST, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")
    assert (shown.status, shown.headers["Location"]) == (303, "/sign-in?next=%2Fruns%3Fbot%3Db")
    refused = server.ask("GET", f"{API}/bots", Host=HOST)
    assert (refused.status, refused.json["detail"]) == (401, "you are not signed in")
    assert server.ask("GET", "/sign-in", Host=HOST).status == 200


def test_a_session_is_in_a_cookie_for_this_host_over_https_alone(server: Server, device: Device) -> None:
    entered = enter(server, device, wanted="/runs")
    assert (entered.status, entered.json) == (200, {"next": "/runs"})
    set_cookies = entered.headers.get_all("Set-Cookie") or []
    session = next(line for line in set_cookies if line.startswith("__Host-evalflow="))
    assert {"HttpOnly", "Secure", "Path=/", "SameSite=lax"} <= set(re.split(r"; ", session))
    assert "Strict-Transport-Security" in entered.headers
    found = server.ask("GET", f"{API}/bots", Host=HOST, Cookie=cookie_of(entered))
    assert (found.status, found.headers["Cache-Control"]) == (200, "no-store")
    found = server.ask("GET", f"/p/default{API}/bots", Host=HOST, Cookie=cookie_of(entered))
    assert (found.status, found.headers["Cache-Control"]) == (200, "no-store")


def test_signing_in_again_replaces_the_session(server: Server, device: Device) -> None:
    first = cookie_of(enter(server, device))
    second = cookie_of(enter(server, device, Cookie=first))
    assert first != second
    time.sleep(sessions.FRESH_S)
    assert server.ask("GET", f"{API}/bots", Host=HOST, Cookie=first).status == 401
    out = server.ask("POST", "/sign-out", b"", **{**FORM, "Cookie": second})
    assert out.headers["Location"] == "/sign-in"
    assert server.ask("GET", f"{API}/bots", Host=HOST, Cookie=second).status == 401


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "x"])
def test_nobody_is_sent_elsewhere(server: Server, device: Device, wanted: str) -> None:
    assert enter(server, device, wanted=wanted).json == {"next": "/"}
    assert b'data-next="/"' in server.ask("GET", f"/sign-in?{urlencode({'next': wanted})}", Host=HOST).body


def test_a_foreign_page_signs_nobody_in(server: Server) -> None:
    for origin in ("https://evil.example", f"http://{HOST}", "null"):
        assert post(server, "/passkey/options", {"purpose": "enter"}, Origin=origin).status == 403
        assert server.ask("POST", "/link", b"code=x", **{**FORM, "Origin": origin}).status == 403


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "DELETE", "POST"])
@pytest.mark.parametrize("path", ["/healthz", "/sign-in", "/sign-in/oidc", "/metrics", "/assets/theme.css"])
def test_whoever_is_not_signed_in_reaches_no_page_by_another_method(server: Server, method: str, path: str) -> None:
    found = server.ask(method, path, b"", **FORM)
    assert (found.status, found.headers["Content-Type"]) == (401, "application/problem+json")


def test_health_is_answered_to_somebody_with_a_key_while_the_database_is_away(
    server: Server, space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: sessions.Identity) -> None:
        raise InfrastructureError("the database does not answer")

    known = {"Host": HOST, "Cookie": cookie_for(space)}
    monkeypatch.setattr(sessions.Identity, "__call__", away)
    assert server.ask("GET", f"{API}/me", **known).status == 503
    assert server.ask("GET", "/healthz", **known).status == 404, "it comes to the routes, of which this server has few"


def test_whoever_is_not_signed_in_fills_no_memory_by_forms(server: Server) -> None:
    for form in (b"name=" + b"x" * 20_000, b"&".join(b"n%d=x" % n for n in range(20))):
        assert server.ask("POST", "/link", form, **FORM).status == 400
    part = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nx\r\n--b--\r\n'
    headers = {**FORM, "Content-Type": "multipart/form-data; boundary=b"}
    assert server.ask("POST", "/link", part, **headers).status == 400


def test_an_account_without_a_role_sees_no_project(server: Server, space: Workspace) -> None:
    found = server.ask("GET", f"{API}/bots", Host=HOST, Cookie=cookie_for(space, "ann"))
    hint = "ask an admin of the project for a role that may, such as viewer"
    assert (found.status, found.json["errors"][0]["hint"]) == (403, hint)


def test_whoever_may_not_see_the_first_project_is_led_to_theirs(server: Server, space: Workspace) -> None:
    def led_to() -> str | None:
        return server.ask("GET", "/", Host=HOST, Cookie=cookie_for(space, "ben")).headers["Location"]

    people.add_user(space, "ben")
    assert led_to() == "/account"
    projects.create_project(space, "desk")
    for role in ("viewer", "annotator"):
        projects.set_role(space.in_project("desk"), "ben", role)
        assert led_to() == "/p/desk/"


def test_a_token_is_for_programs(server: Server, space: Workspace) -> None:
    own, _ = signed_in(space, "olga")
    _, secret = sessions.create_token(own, "nightly", "viewer", 1)
    bearer = {"Host": HOST, "Authorization": f"Bearer {secret}"}
    assert server.ask("GET", f"{API}/bots", **bearer).status == 200
    assert server.ask("POST", f"{API}/bots", {"name": "b", "config": {"kind": "recorded"}}, **bearer).status == 403
    assert server.ask("GET", f"{API}/bots", Host=HOST, Authorization=f"Bearer {secret}x").status == 401


def test_a_link_lets_somebody_in_once(server: Server, space: Workspace) -> None:
    people.add_user(space, "new", full_name="Nia <New>")
    code = people.sign_in_link(space, "new")
    shown = server.ask("GET", f"/link?code={code}", Host=HOST)
    assert (shown.status, b"Welcome, Nia &lt;New&gt;" in shown.body) == (200, True)
    entered = server.ask("POST", "/link", urlencode({"code": code}).encode(), **FORM)
    assert (entered.status, entered.headers["Location"]) == (303, "/")
    assert server.ask("GET", f"{API}/me", Host=HOST, Cookie=cookie_of(entered)).json["name"] == "new"
    again = server.ask("POST", "/link", urlencode({"code": code}).encode(), **FORM)
    assert (again.status, b"This link is not valid any more" in again.body) == (422, True)


def test_a_link_makes_a_passkey(server: Server, space: Workspace, device: Device) -> None:
    code = people.sign_in_link(space, "olga")
    assert b"Continue without" not in server.ask("GET", f"/link?code={code}", Host=HOST).body, "an owner"
    asked = post(server, "/passkey/options", {"purpose": "join", "code": code})
    second = Device(f"https://{HOST}")
    sent = {"purpose": "join", "code": code, "answer": second.make(asked.json), "next": "/"}
    assert post(server, "/passkey", sent).status == 401, "without the cookie of the browser that asked"
    asked = post(server, "/passkey/options", {"purpose": "join", "code": code})
    sent["answer"] = second.make(asked.json)
    entered = post(server, "/passkey", sent, Cookie=cookie_of(asked, f"{COOKIE}-passkey"))
    assert (entered.status, entered.json) == (200, {"next": "/"})
    for one in (second, device):
        assert enter(server, one).status == 200


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/passkey/options", {"purpose": "other"}, 422),
        ("/passkey/options", [], 422),
        ("/passkey/options", b"{", 422),
        ("/passkey/options", b"[" * 60_000, 422),
        ("/passkey", b'{"answer":' * 6_000, 422),
        ("/passkey/options", {"purpose": "confirm"}, 401),
        ("/passkey/options", {"purpose": "add"}, 401),
        ("/passkey/options", {"purpose": "join", "code": "x"}, 422),
        ("/passkey", {"purpose": "enter"}, 422),
        ("/passkey", {"purpose": "enter", "answer": {"id": 1}}, 401),
        ("/passkey", {"purpose": "enter", "answer": {"id": "\ud800", "response": None}}, 401),
        ("/passkey", {"purpose": "other", "answer": {}}, 422),
        ("/passkey", {"purpose": "enter", "answer": {"id": "x" * 70_000}}, 422),
    ],
)
def test_what_is_no_answer_is_refused(server: Server, path: str, body: Any, status: int) -> None:
    headers = {"Content_Type": "application/json"} if isinstance(body, bytes) else {}
    assert post(server, path, body, **headers).status == status


def test_the_address_in_the_audit_is_the_one_that_the_proxy_names(
    server: Server, space: Workspace, device: Device
) -> None:
    enter(server, device, X_Forwarded_For="203.0.113.9")
    key = cookie_of(enter(server, device, X_Forwarded_For="198.51.100.1, 203.0.113.7")).partition("=")[2]
    own = replace(space, identify=sessions.identity_of(space, "session", key, ""))
    assert {"203.0.113.9", "203.0.113.7"} <= {session.address for session in sessions.own_sessions(own)}


@pytest.mark.parametrize("address", ["garbage \x1b[31m", "1" * 5000, "10.0.0.1.example"])
def test_what_is_no_address_is_refused(server: Server, address: str) -> None:
    assert server.ask("GET", "/sign-in", Host=HOST, X_Forwarded_For=address).status == 400


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_nobody_is_led_away_from_https(server: Server, space: Workspace, scheme: str) -> None:
    sent = {"Host": HOST, "Cookie": cookie_for(space), "X_Forwarded_Proto": scheme}
    led = server.ask("GET", f"{API}/bots/", **sent)
    assert (led.status, led.headers["Location"]) == (307, f"https://{HOST}{API}/bots")


def test_nobody_can_tell_which_projects_there_are(server: Server, space: Workspace) -> None:
    projects.create_project(space, "quiet_desk")
    people.add_user(space, "eve")
    eve, owner = (cookie_for(space, name) for name in ("eve", "olga"))
    for path in (f"{API}/bots", "/sign-in", f"{API}/projects/NAME"):
        for cookie in ("", eve):
            found, missing = (
                server.ask("GET", f"/p/{name}{path}".replace("NAME", name), Host=HOST, Cookie=cookie)
                for name in ("quiet_desk", "none")
            )
            assert found.status == missing.status
            assert found.body.replace(b"quiet_desk", b"none") == missing.body
    statuses = {
        name: server.ask("GET", f"/p/{name}{API}/bots", Host=HOST, Cookie=owner).status
        for name in ("quiet_desk", "none")
    }
    assert statuses == {"quiet_desk": 200, "none": 404}


def test_only_the_proxy_is_answered_and_everybody_about_health(space: Workspace) -> None:
    def make(address: Address) -> Starlette:
        mode = PublicMode(f"https://{HOST}", None, ["10.0.0.0/8"])
        guards = security_middleware(space, replace(address, public=mode), None)
        return Starlette(routes=sign_in_routes(mode), middleware=guards)

    with served(make) as server:
        refused = replace(server, token=None).ask("GET", "/sign-in", Host=HOST, X_Forwarded_For="10.0.0.1")
    assert (refused.status, refused.json["detail"]) == (403, "this server answers its reverse proxy only")


def test_a_proxy_with_the_secret_says_who_it_is(space: Workspace) -> None:
    header = UserHeader("Remote-User", "the secret of proxy and server")

    def make(address: Address) -> Starlette:
        mode = PublicMode(f"https://{HOST}", None, [networks], user_header=header, has_second_factor=has_second_factor)
        guards = security_middleware(space, replace(address, public=mode), None)
        return Starlette(routes=[*sign_in_routes(mode), Mount(API, rest_api())], middleware=guards)

    for networks, has_second_factor in (("127.0.0.0/8", False), ("127.0.0.0/8", True), ("10.0.0.0/8", True)):
        with served(make) as known:
            server = replace(known, token=None)
            named = {"Host": HOST, "Remote_User": "Olga", "X_Evalflow_Proxy_Secret": header.secret}
            if networks.startswith("10."):
                assert server.ask("GET", f"{API}/me", **named).status == 403, "from another peer"
                continue
            if not has_second_factor:
                refused = server.ask("GET", f"{API}/me", **named)
                assert (refused.status, "second factor" in refused.json["detail"]) == (403, True)
                continue
            assert server.ask("GET", f"{API}/me", **named).json["name"] == "olga"
            for wrong in ({"X_Evalflow_Proxy_Secret": "another"}, {"X_Evalflow_Proxy_Secret": ""}, {"Remote_User": ""}):
                assert server.ask("GET", f"{API}/me", **named | wrong).status == 401
            session = cookie_for(space, "ann")
            assert server.ask("GET", f"{API}/me", **named, Cookie=session).json["name"] == "olga"
            assert server.ask("GET", f"{API}/me", Host=HOST, Cookie=session).json["name"] == "ann"
            assert server.ask("GET", f"{API}/me", **named | {"Remote_User": "nobody"}).status == 403
            forged = server.ask("POST", f"{API}/users", {"name": "x"}, **named, Origin="https://evil.example")
            assert forged.status == 403


def test_a_token_is_shown_once(server: Server, space: Workspace) -> None:
    cookie = cookie_for(space)
    body = {"name": "nightly", "role": "viewer", "days": 1}
    asked = {"Host": HOST, "Cookie": cookie}
    first, second = (server.ask("POST", f"{API}/tokens", body, **asked).json["key"] for _ in range(2))
    assert first != second
    bearer = {"Host": HOST, "Authorization": f"Bearer {first}"}
    assert server.ask("POST", f"{API}/tokens", body, **bearer).status == 403, "a token makes no tokens"
    for days in (0, 367, 10**400):
        assert server.ask("POST", f"{API}/tokens", {**body, "days": days}, **asked).status == 422
    link = server.ask("POST", f"{API}/users/ann/link", {}, Host=HOST, Cookie=cookie)
    assert (link.status, link.json["path"][:11]) == (201, "/link?code=")
