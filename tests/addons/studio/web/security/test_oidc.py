"""Signing in by OpenID Connect: who comes in, whose account it is, and which answers are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import OctKey, RSAKey
from starlette.applications import Starlette
from starlette.routing import Mount

from evalflow.addons.studio.web.address import Address, PublicMode
from evalflow.addons.studio.web.application import API, rest_api, security_middleware
from evalflow.addons.studio.web.pages.sign_in import sign_in_routes
from evalflow.addons.studio.web.security import oidc
from evalflow.addons.studio.web.security.oidc import OidcSettings, discover
from evalflow.addons.studio.work import audit, people
from evalflow.addons.studio.work.audit import AuditFilter
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from tests.addons.studio.web.conftest import Answer, Server, served, working_in
from tests.addons.studio.web.security.provider import CLIENT, SECRET, Provider, new_key, provided

pytestmark = pytest.mark.slow

HOST = "evalflow.example"
LINK = {"Host": HOST, "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
OLGA = {"email": "olga@example.org", "email_verified": True, "amr": ["pwd", "mfa"]}


@pytest.fixture(name="provider", scope="module")
def _provider() -> Iterator[Provider]:
    with provided() as provider:
        yield provider


@pytest.fixture(name="space", scope="module")
def _space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with working_in(tmp_path_factory.mktemp("public")) as space:
        people.add_user(space, "olga", is_owner=True, email="olga@example.org")
        people.add_user(space, "ann", email="Ann@example.org")
        yield space


def serve_with(space: Workspace, provider: Provider, *, signs_up: bool = False) -> Any:
    settings = OidcSettings(provider.issuer, CLIENT, SECRET, "Ex & Co", signs_up)

    def make(address: Address) -> Starlette:
        known = discover(settings, f"https://{HOST}")
        mode = PublicMode(f"https://{HOST}", None, ["127.0.0.0/8"], known)
        public = replace(address, public=mode)
        routes = [*sign_in_routes(mode), Mount(API, rest_api())]
        return Starlette(routes=routes, middleware=security_middleware(space, public, None))

    return served(make)


@pytest.fixture(name="server", scope="module")
def _server(space: Workspace, provider: Provider) -> Iterator[Server]:
    with serve_with(space, provider) as server:
        yield replace(server, token=None)


def start(server: Server, wanted: str = "") -> tuple[str, str]:
    """The provider's URL, and the cookie that the browser has got."""
    sent = server.ask("GET", f"/sign-in/oidc?next={wanted}", **LINK)
    assert sent.status == 303
    return sent.headers["Location"], sent.headers["Set-Cookie"].partition(";")[0]


def enter(server: Server, provider: Provider, wanted: str = "", **claims: Any) -> Answer:
    url, cookie = start(server, wanted)
    return server.ask("GET", provider.authorize(url, **claims), **LINK, Cookie=cookie)


def who_is(server: Server, answer: Answer) -> str:
    """The name of the person whom an answer signed in."""
    assert answer.status == 303, answer.body
    cookies = [line.partition(";")[0] for line in answer.headers.get_all("Set-Cookie") or []]
    session = next(cookie for cookie in cookies if cookie.startswith("__Host-evalflow="))
    return server.ask("GET", f"{API}/me", Host=HOST, Cookie=session).json["name"]


def test_the_form_leads_to_the_provider_and_back_to_the_page(server: Server, provider: Provider) -> None:
    page = server.ask("GET", "/sign-in?next=%2Fruns%3Fa%3D1", Host=HOST).body.decode()
    assert 'href="/sign-in/oidc?next=/runs%3Fa%3D1">Sign in with Ex &amp; Co<' in page
    url, cookie = start(server, "/runs%3Fa%3D1")
    asked = parse_qs(urlsplit(url).query)
    assert asked["redirect_uri"] == [f"https://{HOST}/sign-in/oidc/callback"]
    assert cookie.startswith("__Host-evalflow-oidc=")
    back = provider.authorize(url, sub="known", email="ann@example.org", email_verified=True)
    entered = server.ask("GET", back, **LINK, Cookie=cookie)
    assert entered.headers["Location"] == "/runs?a=1"
    assert who_is(server, entered) == "ann"


def test_an_address_links_once_and_then_the_subject_counts(
    server: Server, provider: Provider, space: Workspace
) -> None:
    people.add_user(space, "lea", email="lea@example.org")
    for _ in range(2):
        assert who_is(server, enter(server, provider, sub="lea", email="lea@example.org", email_verified=True)) == "lea"
    assert who_is(server, enter(server, provider, sub="lea", email="new@example.org", email_verified=False)) == "lea"
    rows = audit.list_changes(space, AuditFilter(by="lea")).items
    assert [row.action for row in rows if row.action == "link identity"] == ["link identity"]
    # The company gave the address to somebody else.
    other = enter(server, provider, sub="lea-2", email="lea@example.org", email_verified=True)
    assert (other.status, b"ask the owner of this server to add you" in other.body) == (403, True)


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_is_not_verified_signs_nobody_in(server: Server, provider: Provider, verified: Any) -> None:
    refused = enter(server, provider, sub="thief", email="olga@example.org", email_verified=verified)
    assert (refused.status, refused.headers.get("Set-Cookie", "").startswith("__Host-evalflow=")) == (403, False)


def test_an_address_of_userinfo_counts_if_it_is_of_the_same_person(server: Server, provider: Provider) -> None:
    provider.userinfo = {"sub": "somebody else", "email": "olga@example.org", "email_verified": True}
    assert enter(server, provider, sub="o").status == 403
    provider.userinfo["sub"] = "o"
    assert enter(server, provider, sub="o").status == 403, "an owner, with one factor"
    assert who_is(server, enter(server, provider, sub="o", amr=["mfa"])) == "olga"


def test_a_disabled_account_is_refused(server: Server, provider: Provider, space: Workspace) -> None:
    people.add_user(space, "dan", email="dan@example.org")
    verified = {"sub": "dan", "email": "dan@example.org", "email_verified": True}
    assert who_is(server, enter(server, provider, **verified)) == "dan"
    people.update_user(space, "dan", people.get_user(space, "dan").version, is_disabled=True)
    refused = enter(server, provider, **verified)
    assert (refused.status, b"Your account is disabled" in refused.body) == (403, True)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"iss": "https://evil.example"},
        {"aud": "another"},
        {"aud": "another", "azp": CLIENT},
        {"aud": ["evalflow", "another"], "azp": "another"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
        {"header": {"alg": "none"}},
        {"header": {"alg": "HS256", "kid": "1", "_key": OctKey.import_key(SECRET)}},
        {"header": {"_key": new_key()}},
    ],
)
def test_an_id_token_that_is_not_for_this_sign_in_is_refused(
    server: Server, provider: Provider, claims: dict[str, Any]
) -> None:
    refused = enter(server, provider, **{"sub": "known", **claims})
    assert (refused.status, b"no valid proof of who you are" in refused.body) == (401, True)


def test_an_answer_to_another_browser_or_sign_in_is_refused(server: Server, provider: Provider) -> None:
    url, cookie = start(server)
    back = provider.authorize(url, sub="known")
    assert server.ask("GET", back, **LINK).status == 401
    _, other = start(server)
    assert b"not started in this browser" in server.ask("GET", back, **LINK, Cookie=other).body
    assert server.ask("GET", f"{back}x", **LINK, Cookie=cookie).status == 401
    assert server.ask("GET", back, **LINK, Cookie=cookie).status == 401, "the state was used up"
    url, cookie = start(server)
    for issuer in ("https://evil.example", ""):
        answer = server.ask("GET", f"{provider.authorize(url)}&iss={issuer}", **LINK, Cookie=cookie)
        assert answer.status == 401
    url, cookie = start(server)
    state = parse_qs(urlsplit(url).query)["state"][0]
    refused = server.ask("GET", f"{oidc.CALLBACK}?error=access_denied&state={state}", **LINK, Cookie=cookie)
    assert b"Ex &amp; Co refused: access_denied" in refused.body


def test_a_foreign_page_cannot_fetch_the_way_back(server: Server, provider: Provider) -> None:
    url, cookie = start(server)
    fetched = {**LINK, "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"}
    assert server.ask("GET", provider.authorize(url, sub="known"), **fetched, Cookie=cookie).status == 403


def test_keys_may_rotate(server: Server, provider: Provider) -> None:
    who_is(server, enter(server, provider, sub="o", **OLGA))
    provider.asked.clear()
    who_is(server, enter(server, provider, sub="o", **OLGA))
    assert "/keys" not in provider.asked
    old: RSAKey = provider.keys.pop()
    provider.keys.append(new_key())
    who_is(server, enter(server, provider, sub="o", **OLGA))
    assert provider.asked.count("/keys") == 1
    assert enter(server, provider, sub="o", header={"kid": old.kid, "_key": old}).status == 401


def test_everybody_may_get_an_account_without_a_role(space: Workspace, provider: Provider) -> None:
    with serve_with(space, provider, signs_up=True) as known:
        server = replace(known, token=None)
        about = {"email": "victim@example.org", "name": "Eve  E.", "preferred_username": "Olga"}
        assert who_is(server, enter(server, provider, sub="eve", **about)) == "olga-2"
        found = people.get_user(space, "olga-2")
        assert (found.full_name, found.email, found.is_owner) == ("Eve E.", None, False)
        assert who_is(server, enter(server, provider, sub="o", **OLGA)) == "olga"
        held = enter(server, provider, sub="x", **OLGA)
        assert held.status == 403, "the address has an account, which is linked already"


@pytest.mark.parametrize(
    ("issuer", "discovery", "what"),
    [
        ("http://login.example", {}, "not reached by https"),
        ("https://", {}, "not reached by https"),
        ("{here}/", {}, "calls itself"),
        ("{here}", {"token_endpoint": "http://login.example/token"}, "no https address as token_endpoint"),
        ("{here}", {"jwks_uri": None}, "no https address as jwks_uri"),
        ("{here}/elsewhere", {}, "cannot be read"),
        ("http://127.0.0.1:9", {}, "cannot be read"),
    ],
)
def test_a_provider_that_cannot_be_used_is_named(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, issuer: str, discovery: dict[str, Any], what: str
) -> None:
    monkeypatch.setattr(oidc, "_PAUSES_S", (0.0,))
    monkeypatch.setattr(provider, "discovery", discovery)
    settings = OidcSettings(issuer.format(here=provider.issuer), CLIENT, SECRET, "Ex", False)
    with pytest.raises(UserError, match=what) as refused:
        discover(settings, f"https://{HOST}")
    assert refused.value.problems[0].where == "--oidc-issuer"
