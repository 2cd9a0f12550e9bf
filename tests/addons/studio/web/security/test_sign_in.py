"""A public server answers people who are signed in, and nobody else; its forms, cookies and proxies."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import islice
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from evalflow.addons.studio.web.address import Address, PublicMode
from evalflow.addons.studio.web.application import API, rest_api, security_middleware
from evalflow.addons.studio.web.pages import sign_in as form_page
from evalflow.addons.studio.web.pages.sign_in import sign_in_routes
from evalflow.addons.studio.web.security.proxy import UserHeader
from evalflow.addons.studio.work import people, projects, sessions
from evalflow.addons.studio.work.space import Workspace
from tests.addons.studio.web.conftest import Answer, Server, served, working_in
from tests.off_loop import keep_off_loops

HOST = "evalflow.example"
PASSWORD = "correct horse battery"
FORM = {"Host": HOST, "Origin": f"https://{HOST}", "Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(name="space", scope="module")
def _space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with working_in(tmp_path_factory.mktemp("public")) as space:
        people.add_user(space, "olga", is_owner=True)
        people.add_user(space, "ann")
        for name in ("olga", "ann"):
            people.set_password(space, name, PASSWORD)
        yield space


@pytest.fixture(name="server", scope="module")
def _server(space: Workspace) -> Iterator[Server]:
    def make(address: Address) -> Starlette:
        public = replace(address, public=PublicMode(f"https://{HOST}", None, ["127.0.0.0/8"]))
        routes = [*sign_in_routes(), Mount(API, rest_api())]
        return Starlette(routes=routes, middleware=security_middleware(space, public, None))

    with pytest.MonkeyPatch.context() as patch, served(make) as server:
        keep_off_loops(patch.setattr)
        yield replace(server, token=None)


def sign_in(server: Server, name: str = "olga", password: str = PASSWORD, wanted: str = "", **headers: str) -> Answer:
    form = urlencode({"name": name, "password": password, "next": wanted}).encode()
    return server.ask("POST", "/sign-in", form, **{**FORM, **headers})


def cookie_of(answer: Answer) -> str:
    return answer.headers["Set-Cookie"].partition(";")[0]


def test_whoever_is_not_signed_in_is_sent_to_do_so(server: Server) -> None:
    shown = server.ask("GET", "/runs?bot=b", Host=HOST, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")
    assert (shown.status, shown.headers["Location"]) == (303, "/sign-in?next=%2Fruns%3Fbot%3Db")
    refused = server.ask("GET", f"{API}/bots", Host=HOST)
    assert (refused.status, refused.json["detail"]) == (401, "you are not signed in")
    assert server.ask("GET", "/sign-in", Host=HOST).status == 200


def test_a_session_is_in_a_cookie_for_this_host_over_https_alone(server: Server) -> None:
    entered = sign_in(server, wanted="/runs")
    assert (entered.status, entered.headers["Location"]) == (303, "/runs")
    attributes = set(re.split(r"; ", entered.headers["Set-Cookie"]))
    assert {"HttpOnly", "Secure", "Path=/", "SameSite=lax"} <= attributes
    assert entered.headers["Set-Cookie"].startswith("__Host-evalflow=")
    assert "Strict-Transport-Security" in entered.headers
    assert server.ask("GET", f"{API}/bots", Host=HOST, Cookie=cookie_of(entered)).status == 200


def test_signing_in_again_replaces_the_session(server: Server) -> None:
    first = cookie_of(sign_in(server))
    second = cookie_of(sign_in(server, Cookie=first))
    assert first != second
    time.sleep(sessions.FRESH_S)
    assert server.ask("GET", f"{API}/bots", Host=HOST, Cookie=first).status == 401
    out = server.ask("POST", "/sign-out", b"", **{**FORM, "Cookie": second})
    assert out.headers["Location"] == "/sign-in"
    assert server.ask("GET", f"{API}/bots", Host=HOST, Cookie=second).status == 401


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "x"])
def test_nobody_is_sent_elsewhere(server: Server, wanted: str) -> None:
    assert sign_in(server, wanted=wanted).headers["Location"] == "/"


def test_a_wrong_password_says_nothing_about_the_name(server: Server) -> None:
    wrong, unknown = sign_in(server, "ann", "wrong"), sign_in(server, "nobody", "wrong")
    assert (wrong.status, unknown.status) == (401, 401)
    assert b"The name or the password is wrong." in wrong.body
    assert wrong.body.replace(b"ann", b"") == unknown.body.replace(b"nobody", b"")


def test_a_foreign_page_signs_nobody_in(server: Server) -> None:
    for origin in ("https://evil.example", f"http://{HOST}", "null"):
        assert sign_in(server, Origin=origin).status == 403


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "DELETE", "POST"])
@pytest.mark.parametrize("path", ["/healthz", "/sign-in", "/sign-in/oidc", "/metrics", "/assets/theme.css"])
def test_whoever_is_not_signed_in_reaches_no_page_by_another_method(server: Server, method: str, path: str) -> None:
    found = server.ask(method, path, b"", **FORM)
    assert (found.status, found.headers["Content-Type"]) == (401, "application/problem+json") or (
        (method, path) == ("POST", "/sign-in") and b"<form" in found.body
    )


def test_whoever_is_not_signed_in_fills_no_memory_by_forms(server: Server) -> None:
    for form in (b"name=" + b"x" * 20_000, b"&".join(b"n%d=x" % n for n in range(20))):
        assert server.ask("POST", "/sign-in", form, **FORM).status == 400
    part = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nx\r\n--b--\r\n'
    assert (
        server.ask("POST", "/sign-in", part, **{**FORM, "Content-Type": "multipart/form-data; boundary=b"}).status
        == 400
    )


def test_an_address_makes_few_attempts_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    is_enough = threading.Event()

    def wait(_: Workspace, name: str, address: str) -> float:
        if address == "6.6.6.7":
            is_enough.wait(30)
        return 0.0

    monkeypatch.setattr(form_page, "begin_sign_in", wait)
    with ThreadPoolExecutor(22) as pool:
        tries = [pool.submit(sign_in, server, f"name{n}", "wrong", X_Forwarded_For="6.6.6.7") for n in range(22)]
        refused = [one.result().status for one in islice(as_completed(tries), 2)]
        assert sign_in(server, X_Forwarded_For="6.6.6.8").status == 303
        is_enough.set()
    assert refused == [429, 429]
    assert sorted(one.result().status for one in tries) == [*[401] * 20, 429, 429]


def test_an_account_without_a_role_sees_no_project(server: Server) -> None:
    found = server.ask("GET", f"{API}/bots", Host=HOST, Cookie=cookie_of(sign_in(server, "ann")))
    hint = "ask an admin of the project for a role that may, such as viewer"
    assert (found.status, found.json["errors"][0]["hint"]) == (403, hint)


def test_whoever_may_not_see_the_first_project_is_led_to_theirs(server: Server, space: Workspace) -> None:
    def led_to() -> str | None:
        return server.ask("GET", "/", Host=HOST, Cookie=cookie_of(sign_in(server, "ben"))).headers["Location"]

    people.add_user(space, "ben")
    people.set_password(space, "ben", PASSWORD)
    assert led_to() == "/account"
    projects.create_project(space, "desk")
    for role in ("viewer", "annotator"):
        projects.set_role(space.in_project("desk"), "ben", role)
        assert led_to() == "/p/desk/"


def test_a_token_is_for_programs(server: Server, space: Workspace) -> None:
    key = cookie_of(sign_in(server)).partition("=")[2]
    own = replace(space, identify=sessions.identity_of(space, "session", key, ""))
    _, secret = sessions.create_token(own, "nightly", "viewer", 1)
    bearer = {"Host": HOST, "Authorization": f"Bearer {secret}"}
    assert server.ask("GET", f"{API}/bots", **bearer).status == 200
    assert server.ask("POST", f"{API}/bots", {"name": "b", "config": {"kind": "recorded"}}, **bearer).status == 403
    assert server.ask("GET", f"{API}/bots", Host=HOST, Authorization=f"Bearer {secret}x").status == 401


def test_a_link_to_choose_a_password_is_used_once(server: Server, space: Workspace) -> None:
    people.add_user(space, "new")
    code = people.password_link(space, "new")
    assert server.ask("GET", f"/password?code={code}", Host=HOST).status == 200

    def choose(password: str, again: str) -> Answer:
        return server.ask(
            "POST", "/password", urlencode({"code": code, "password": password, "again": again}).encode(), **FORM
        )

    assert b"The two passwords differ." in choose(PASSWORD, "another").body
    assert b"too easy to guess" in choose("short", "short").body
    assert choose(PASSWORD, PASSWORD).headers["Location"] == "/sign-in"
    assert b"not valid any more" in choose(PASSWORD, PASSWORD).body
    assert sign_in(server, "new").status == 303


def test_the_address_in_the_audit_is_the_one_that_the_proxy_names(server: Server, space: Workspace) -> None:
    sign_in(server, X_Forwarded_For="203.0.113.9")
    key = cookie_of(sign_in(server, X_Forwarded_For="198.51.100.1, 203.0.113.7")).partition("=")[2]
    own = replace(space, identify=sessions.identity_of(space, "session", key, ""))
    assert {"203.0.113.9", "203.0.113.7"} <= {session.address for session in sessions.own_sessions(own)}


@pytest.mark.parametrize("address", ["garbage \x1b[31m", "1" * 5000, "10.0.0.1.example"])
def test_what_is_no_address_is_refused(server: Server, address: str) -> None:
    assert server.ask("GET", "/sign-in", Host=HOST, X_Forwarded_For=address).status == 400


def test_nobody_can_tell_which_projects_there_are(server: Server, space: Workspace) -> None:
    projects.create_project(space, "quiet_desk")
    people.add_user(space, "eve")
    people.set_password(space, "eve", PASSWORD)
    eve, owner = (cookie_of(sign_in(server, name)) for name in ("eve", "olga"))
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
        public = replace(address, public=PublicMode(f"https://{HOST}", None, ["10.0.0.0/8"]))
        return Starlette(routes=sign_in_routes(), middleware=security_middleware(space, public, None))

    with served(make) as server:
        refused = replace(server, token=None).ask("GET", "/sign-in", Host=HOST, X_Forwarded_For="10.0.0.1")
    assert (refused.status, refused.json["detail"]) == (403, "this server answers its reverse proxy only")


def test_a_proxy_with_the_secret_says_who_it_is(space: Workspace) -> None:
    header = UserHeader("Remote-User", "the secret of proxy and server")

    def make(address: Address) -> Starlette:
        public = PublicMode(f"https://{HOST}", None, [networks], user_header=header)
        routes = [*sign_in_routes(), Mount(API, rest_api())]
        return Starlette(routes=routes, middleware=security_middleware(space, replace(address, public=public), None))

    for networks in ("127.0.0.0/8", "10.0.0.0/8"):
        with served(make) as known:
            server = replace(known, token=None)
            named = {"Host": HOST, "Remote_User": "Olga", "X_Evalflow_Proxy_Secret": header.secret}
            if networks.startswith("10."):
                assert server.ask("GET", f"{API}/me", **named).status == 403, "from another peer"
                continue
            assert server.ask("GET", f"{API}/me", **named).json["name"] == "olga"
            for wrong in ({"X_Evalflow_Proxy_Secret": "another"}, {"X_Evalflow_Proxy_Secret": ""}, {"Remote_User": ""}):
                assert server.ask("GET", f"{API}/me", **named | wrong).status == 401
            session = cookie_of(sign_in(server, "ann"))
            assert server.ask("GET", f"{API}/me", **named, Cookie=session).json["name"] == "olga"
            assert server.ask("GET", f"{API}/me", Host=HOST, Cookie=session).json["name"] == "ann"
            assert server.ask("GET", f"{API}/me", **named | {"Remote_User": "nobody"}).status == 403
            forged = server.ask("POST", f"{API}/users", {"name": "x"}, **named, Origin="https://evil.example")
            assert forged.status == 403


def test_a_token_is_shown_once(server: Server, space: Workspace) -> None:
    cookie = cookie_of(sign_in(server))
    body = {"name": "nightly", "role": "viewer", "days": 1}
    asked = {"Host": HOST, "Cookie": cookie}
    first, second = (server.ask("POST", f"{API}/tokens", body, **asked).json["key"] for _ in range(2))
    assert first != second
    bearer = {"Host": HOST, "Authorization": f"Bearer {first}"}
    assert server.ask("POST", f"{API}/tokens", body, **bearer).status == 403, "a token makes no tokens"
    link = server.ask("POST", f"{API}/users/ann/link", {}, Host=HOST, Cookie=cookie)
    assert (link.status, link.json["path"][:15]) == (201, "/password?code=")
