"""Two people at a public server, each with a browser: one lets the other in, and out again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from evalflow.addons.studio.web.application import API
from evalflow.addons.studio.work import people
from tests.addons.studio.web.conftest import working_in
from tests.addons.studio.web.public import PublicServer, serving_in_public

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicServer]:
    with serving_in_public(tmp_path_factory.mktemp("public")) as server:
        yield server


@pytest.fixture(name="arrive")
def _arrive(browser: Any, server: PublicServer) -> Iterator[Any]:
    """Gives each person a browser of their own. At the end no script, style or policy failed."""
    contexts: list[Any] = []
    troubles: list[str] = []

    def note(message: Any) -> None:
        is_expected = re.search(r"status of 4\d\d|WebSocket|TOO_MANY_RETRIES", message.text)
        if message.type in ("error", "warning") and not is_expected:
            troubles.append(message.text)

    def arrive() -> Any:
        context = browser.new_context(ignore_https_errors=True, base_url=server.url)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        return page

    yield arrive
    for context in contexts:
        context.close()
    assert troubles == []


def give_device(page: Any) -> Any:
    """Give a browser a device that holds passkeys, and whose person is always there; returns the way to command it."""
    cdp = page.context.new_cdp_session(page)
    cdp.send("WebAuthn.enable")
    abilities = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options = {**abilities, "isUserVerified": True, "automaticPresenceSimulation": True}
    made = cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    named = {"authenticatorId": made["authenticatorId"]}
    return lambda method, **values: cdp.send(f"WebAuthn.{method}", {**named, **values})


DRAFTS = "Object.keys(localStorage).filter(name => name.startsWith('evalflow-draft'))"


def join(page: Any, link: str) -> None:
    """Make a passkey with a link, and be in."""
    page.goto(link)
    page.get_by_role("button", name="Make a passkey").click()
    page.wait_for_url(f"{link.partition('/link')[0]}/")


def open_page(page: Any, path: str) -> None:
    page.goto(path)
    page.wait_for_function("window.did_handshake === true")


def test_the_owner_lets_somebody_in_and_out(server: PublicServer, arrive: Any) -> None:
    olga, ann = arrive(), arrive()
    give_device(olga)
    give_device(ann)
    with working_in(server.folder) as space:
        join(olga, f"{server.url}/link?code={people.sign_in_link(space, 'olga')}")
    open_page(olga, "/users")
    olga.get_by_role("button", name="Add somebody").click()
    olga.get_by_label("Name", exact=True).fill("ann")
    olga.get_by_label("Full name").fill("Ann Smith")
    olga.get_by_role("button", name="Add", exact=True).click()
    olga.wait_for_url("**/users/ann")
    olga.wait_for_function("window.did_handshake === true")
    olga.get_by_role("button", name="Make a link").click()
    link = olga.locator(".command code").inner_text()
    assert link.startswith(f"{server.url}/link?code=")
    with server.client(Cookie=server.sign_in("olga")) as program:
        assert program.put(f"{API}/projects/default/members/ann", json={"role": "viewer"}).status_code == 200

    join(ann, link)
    ann.get_by_role("heading", name="Bots", exact=True).wait_for()
    open_page(ann, "/account")
    ann.get_by_role("button", name="New token").click()
    ann.get_by_label("Name", exact=True).fill("nightly")
    ann.get_by_role("button", name="Create").click()
    token = ann.locator(".command code").inner_text()
    with server.client(Authorization=f"Bearer {token}") as program:
        assert program.get(f"{API}/bots").status_code == 200
        assert program.post(f"{API}/datasets", json={"name": "d"}).status_code == 403
    open_page(ann, "/users")
    ann.get_by_role("heading", name="Not allowed").first.wait_for()
    open_page(ann, "/runs")

    open_page(olga, "/users/ann")
    olga.get_by_role("button", name="Disable").click()
    ann.wait_for_url("**/sign-in?next=%2Fruns")
    ann.get_by_role("heading", name="Sign in").wait_for()
    with server.client(Authorization=f"Bearer {token}") as program:
        assert program.get(f"{API}/bots").status_code == 401
    ann.get_by_role("button", name="Sign in with a passkey").click()
    ann.get_by_text("This passkey was not accepted").wait_for()

    open_page(olga, "/users")
    olga.locator(".menu summary").last.click()
    olga.get_by_role("link", name="Account").click()
    olga.get_by_role("heading", name="Account").wait_for()
    open_page(olga, "/datasets/new")
    olga.get_by_label("Description").fill("Typed, and never saved.")
    olga.wait_for_function(f"{DRAFTS}.length === 1")
    olga.once("dialog", lambda dialog: dialog.dismiss())
    olga.locator(".menu summary").last.click()
    olga.get_by_role("button", name="Sign out").click()  # and stays, when the browser asks
    olga.on("dialog", lambda dialog: dialog.accept())
    open_page(olga, "/datasets/new")
    assert len(olga.evaluate(DRAFTS)) == 1
    olga.get_by_role("button", name="Restore").click()
    olga.evaluate("localStorage.setItem('evalflow-draft ann /x', JSON.stringify({at: Date.now(), typed: {}}))")
    olga.locator(".menu summary").last.click()
    olga.get_by_role("button", name="Sign out").click()
    olga.wait_for_url("**/sign-in")
    olga.wait_for_function(f"{DRAFTS}.join() === 'evalflow-draft ann /x'")
    olga.goto("/sign-in?next=%2Fusers")
    olga.get_by_role("button", name="Sign in with a passkey").click()
    olga.wait_for_url("**/users")


def test_somebody_is_invited_into_a_project_in_three_clicks(server: PublicServer, arrive: Any) -> None:
    olga, bea = arrive(), arrive()
    give_device(bea)
    server.let_in(olga.context, "olga")
    open_page(olga, "/runs")
    olga.locator(".menu summary").first.click()
    olga.get_by_role("link", name="Invite somebody").click()
    olga.get_by_label("Person").click()
    olga.keyboard.insert_text("Bea Müller")
    olga.get_by_role("button", name="Invite").click()
    olga.get_by_text("bea.muller is now viewer.").wait_for()
    olga.get_by_role("button", name="Copy").last.click()
    olga.get_by_text("Copied.").wait_for()
    link = olga.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{server.url}/link?code=")
    join(bea, link)
    bea.get_by_role("heading", name="Bots", exact=True).wait_for()


def test_ones_own_account(server: PublicServer, arrive: Any) -> None:
    vera, other = arrive(), server.sign_in("vera")
    device = give_device(vera)
    server.let_in(vera.context, "vera")
    open_page(vera, "/account")
    vera.get_by_role("button", name="End", exact=True).first.click()
    vera.get_by_role("button", name="End", exact=True).wait_for(state="detached")
    with server.client(Cookie=other) as ended:
        assert ended.get(f"{API}/me").status_code == 401
    vera.get_by_role("button", name="Add a passkey").click()
    vera.get_by_role("button", name="Remove").wait_for()
    with working_in(server.folder) as space, space.database.writing() as connection:
        connection.execute(text("UPDATE sessions SET confirmed_at = '2020-01-01'"))
    for is_there in (False, True):  # a token asks for the passkey again
        device("setUserVerified", isUserVerified=is_there)
        vera.get_by_role("button", name="New token").click()
        vera.get_by_label("Name", exact=True).fill("nightly")
        vera.get_by_role("button", name="Create").click()
        if is_there:
            vera.locator(".command code").wait_for()
        else:
            vera.get_by_text("The passkey was not used").wait_for()
            open_page(vera, "/account")
