"""Two people at a public server, each with a browser: one lets the other in, and out again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from evalflow.addons.studio.web.application import API
from tests.addons.studio.web.public import PASSWORD, PublicServer, serving_in_public

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
        if message.type in ("error", "warning") and not re.search(r"status of 4\d\d|WebSocket", message.text):
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


def enter(page: Any, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def open_page(page: Any, path: str) -> None:
    page.goto(path)
    page.wait_for_function("window.did_handshake === true")


def test_the_owner_lets_somebody_in_and_out(server: PublicServer, arrive: Any) -> None:
    olga, ann = arrive(), arrive()
    olga.goto("/users")
    enter(olga, "olga")
    olga.wait_for_function("window.did_handshake === true")
    olga.get_by_role("button", name="Add somebody").click()
    olga.get_by_label("Name", exact=True).fill("ann")
    olga.get_by_label("Full name").fill("Ann Smith")
    olga.get_by_role("button", name="Add", exact=True).click()
    olga.wait_for_url("**/users/ann")
    olga.wait_for_function("window.did_handshake === true")
    olga.get_by_role("button", name="Make a link").click()
    link = olga.locator(".command code").inner_text()
    assert link.startswith(f"{server.url}/password?code=")
    with server.client(Cookie=server.sign_in("olga")) as program:
        assert program.put(f"{API}/projects/default/members/ann", json={"role": "viewer"}).status_code == 200

    ann.goto(link)
    ann.get_by_label("New password").fill(PASSWORD)
    ann.get_by_label("The same again").fill(PASSWORD)
    ann.get_by_role("button", name="Save password").click()
    enter(ann, "ann")
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

    open_page(olga, "/users")
    olga.locator(".menu summary").last.click()
    olga.get_by_role("link", name="Account").click()
    olga.get_by_role("heading", name="Account").wait_for()
    olga.locator(".menu summary").last.click()
    olga.get_by_role("button", name="Sign out").click()
    olga.wait_for_url("**/sign-in")


def test_ones_own_account(server: PublicServer, arrive: Any) -> None:
    vera, other = arrive(), server.sign_in("vera")
    vera.goto("/account")
    enter(vera, "vera")
    vera.wait_for_function("window.did_handshake === true")
    vera.get_by_label("Present password").fill("wrong")
    vera.get_by_label("New password").fill("another long password")
    vera.get_by_role("button", name="Change password").click()
    vera.get_by_text("This is not your password").wait_for()
    vera.get_by_role("button", name="End", exact=True).first.click()
    vera.get_by_role("button", name="End", exact=True).wait_for(state="detached")
    with server.client(Cookie=other) as ended:
        assert ended.get(f"{API}/me").status_code == 401
    vera.get_by_label("Present password").fill(PASSWORD)
    vera.get_by_role("button", name="Change password").click()
    vera.get_by_text("Changed. Your other sessions have ended.").wait_for()
