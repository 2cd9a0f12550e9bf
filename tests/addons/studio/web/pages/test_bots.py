"""Bots, described and tried in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evalflow.testing import Endpoint
from tests.addons.studio.web.conftest import Server

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]
EVIL = "</script><img src=x onerror=\"document.title='owned'\">"


def seen(page: Any, text: str) -> Any:
    """Wait until a text is seen."""
    found = page.get_by_text(text, exact=False).filter(visible=True).first
    found.wait_for()
    return found


def field(page: Any, label: str) -> Any:
    """A field by its label."""
    return page.get_by_label(re.compile(rf"^{label}( \(optional\))?$"))


def define(pages: Server, name: str, **config: Any) -> None:
    body = {"name": name, "description": f"About {name}.", "config": {"kind": "openai", "model": "m", **config}}
    assert pages.ask("POST", "/api/v1/bots", body).status == 201


def test_a_bot_is_described_tried_saved_changed_and_deleted(visit: Visit, pages: Server) -> None:
    with Endpoint(["It costs 40 pounds."]) as endpoint:
        page = visit("/")
        seen(page, "Test your own bot")
        page.get_by_role("link", name="New bot").click()
        field(page, "Name").fill("fees")
        field(page, "Model").fill("some-model")
        field(page, "Address").fill(endpoint.url)
        field(page, "API key").fill("")
        field(page, "Question").fill("What does it cost?")
        page.get_by_role("button", name="Ask").click()
        seen(page, "It costs 40 pounds.")
        page.get_by_role("button", name="Save").click()
        page.wait_for_url("**/bots/fees")
    seen(page, "Is it good? Run it to find out")
    page.get_by_role("link", name="Settings").click()
    seen(page, "some-model")
    page.get_by_role("link", name="Edit").click()
    field(page, "Model").fill("another-model")
    field(page, "Further parameters").fill('{"top_p": 0.9')
    field(page, "Scored part").fill('{"pattern": "COST: (\\\\d+)"}')
    page.get_by_role("button", name="Save").click()
    seen(page, "not valid JSON")
    field(page, "Further parameters").fill('{"top_p": 0.9}')
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile("/bots/fees/settings$"))
    seen(page, "another-model")
    config = pages.ask("GET", "/api/v1/bots/fees").json["config"]
    assert (config["parameters"], config["extract"]) == ({"top_p": 0.9}, {"pattern": r"COST: (\d+)"})
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url(re.compile(r":\d+/$"))
    assert pages.ask("GET", "/api/v1/bots/fees").status == 404


def test_every_fault_stands_beside_its_field(visit: Visit) -> None:
    page = visit("/bots/new")
    field(page, "Model").fill("m")
    field(page, "Name").fill("Recorded")
    page.get_by_role("button", name="Save").click()
    seen(page, "There already is a bot called 'recorded'")
    field(page, "Model").fill("")
    field(page, "Name").fill("fine")
    page.get_by_role("button", name="Save").click()
    model = page.locator(".field", has_text="The provider's model name")
    model.get_by_text("is required").wait_for()
    page.get_by_text("There already is a bot").wait_for(state="detached")


def test_a_failed_save_goes_to_its_error_and_cuts_no_number(visit: Visit) -> None:
    page = visit("/bots/new")
    field(page, "Name").fill("fees")
    field(page, "Temperature").fill("5")
    save = page.get_by_role("button", name="Save")
    save.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert "4px" in save.evaluate("element => getComputedStyle(element).boxShadow")
    page.keyboard.press("Enter")
    model = page.locator(".field", has_text="The provider's model name")
    model.get_by_text("This field is required").wait_for()
    page.get_by_text("ess than or equal to 2").wait_for()
    assert field(page, "Temperature").input_value() == "5"
    model.locator("input:focus").wait_for()
    page.wait_for_function("document.activeElement.getBoundingClientRect().top > 0")


def test_nothing_is_written_into_a_number_field_that_was_left(visit: Visit) -> None:
    page = visit("/bots/new")
    page.evaluate("window.written = []; window.socket.on('update', sent => written.push(...Object.keys(sent)))")
    number = field(page, "Temperature")
    number.fill("0.5")
    number.press("Tab")
    field(page, "Name").fill("Kundenservice Köln")
    page.get_by_text("kundenservice_koln").first.wait_for()  # sent after what leaving the number field would send
    assert number.get_attribute("id").removeprefix("c") not in page.evaluate("written")
    assert page.evaluate("written.length") > 0


def test_a_key_is_named_and_its_value_never_shown(visit: Visit) -> None:
    page = visit("/bots/new")
    field(page, "API key").fill("TRIAL_KEY")
    seen(page, "TRIAL_KEY is set on this machine.")
    field(page, "API key").fill("NO_SUCH_KEY")
    seen(page, "NO_SUCH_KEY is not set on this machine yet.")
    assert "a-secret-key" not in page.content()


def test_somebody_elses_change_is_not_overwritten(visit: Visit, pages: Server) -> None:
    define(pages, "shared")
    page = visit("/bots/shared/edit")
    changed = pages.ask("PATCH", "/api/v1/bots/shared", {"description": "theirs"}, If_Match='"1"')
    assert changed.status == 200
    field(page, "Model").fill("mine")
    page.get_by_role("button", name="Save").click()
    seen(page, "someone changed the bot")
    assert pages.ask("GET", "/api/v1/bots/shared").json["description"] == "theirs"


def test_what_somebody_else_changed_is_not_deleted_unseen(visit: Visit, pages: Server) -> None:
    define(pages, "leaving")
    page = visit("/bots/leaving/settings")
    assert pages.ask("PATCH", "/api/v1/bots/leaving", {"description": "theirs"}, If_Match='"1"').status == 200
    page.get_by_role("button", name="Delete").click()
    asked = page.get_by_role("dialog", name="Delete leaving?")
    asked.get_by_role("button", name="Delete", exact=True).click()
    seen(asked, "someone changed the bot")
    changed = asked.get_by_role("row", name="description")
    assert changed.get_by_role("cell").all_inner_texts() == ["About leaving.", "theirs"]
    assert pages.ask("GET", "/api/v1/bots/leaving").status == 200
    asked.get_by_role("button", name="Delete anyway").click()
    page.wait_for_url(re.compile(r":\d+/$"))
    assert pages.ask("GET", "/api/v1/bots/leaving").status == 404


def test_text_of_others_is_only_text(visit: Visit, pages: Server) -> None:
    define(pages, "evil", system_prompt=EVIL)
    with Endpoint([EVIL]) as endpoint:
        page = visit("/bots/evil/settings")
        seen(page, EVIL)
        config = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        pages.ask("PATCH", "/api/v1/bots/evil", {"config": config, "description": EVIL}, If_Match='"1"')
        page = visit("/bots/evil/settings")
        field(page, "Question").fill(EVIL)
        page.get_by_role("button", name="Ask").click()
        page.get_by_role("heading", name="Answer", exact=True).wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert page.title() == "Settings of evil · evalflow"


def test_what_conf_declares_is_copied_not_changed(visit: Visit) -> None:
    page = visit("/bots/ollama/settings")
    seen(page, "read-only")
    assert page.get_by_role("link", name="Edit").count() == 0
    page.get_by_role("link", name="Copy").click()
    page.wait_for_url("**/bots/new?source=ollama")
    assert field(page, "Address").input_value().startswith("http://")


def test_the_form_follows_the_connection(visit: Visit) -> None:
    page = visit("/bots/new")
    page.get_by_label("HTTP service").click(force=True)
    seen(page, "Request and reply")
    field(page, "Headers").fill("no colon here")
    page.get_by_role("button", name="Save").click()
    seen(page, "has no colon")
    field(page, "Headers").fill("")
    field(page, "Stream").fill("xml")
    field(page, "Thread").fill("no JSON")
    page.get_by_role("button", name="Save").click()
    seen(page, "not valid JSON")
    field(page, "Thread").fill('{"url": "/threads"}')
    field(page, "Name").fill("threads")
    field(page, "Address").fill("http://127.0.0.1:9/runs")
    page.get_by_role("button", name="Save").click()
    seen(page, "'sse' or 'jsonl'")
    page.get_by_label("Recorded answers").press("Space")  # the page may still scroll to the field that is wrong
    seen(page, "Nothing to set up")


def test_the_colours_are_chosen_and_kept(visit: Visit) -> None:
    page = visit("/")
    page.get_by_role("button", name="dark colours").click()
    assert page.evaluate("document.documentElement.dataset.colours") == "dark"
    page.reload()
    page.wait_for_function("document.body.classList.contains('body--dark')")
    assert page.get_by_role("button", name="dark colours").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="system colours").click()
    assert page.evaluate("document.documentElement.dataset.colours") == "light"


def test_the_keyboard_reaches_the_page(visit: Visit, pages: Server) -> None:
    define(pages, "reached")  # without any bot the first start would be offered before
    page = visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "page"
    for action in ("Import a folder", "New bot"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == action
    assert "4px" in page.evaluate("getComputedStyle(document.activeElement).boxShadow")


def test_what_is_not_there_is_said_with_a_way_on(visit: Visit, pages: Server) -> None:
    page = visit("/bots/opnai")
    seen(page, "did you mean 'openai'?")
    page.get_by_role("link", name="To the bots").click()
    page.wait_for_url(re.compile(r":\d+/$"))
    assert pages.ask("GET", "/bots/none").status == 404
    assert pages.ask("GET", "/nowhere").status == 404


def test_a_bot_calls_a_connection_where_there_are_accounts(visit: Visit, pages: Server) -> None:
    assert pages.ask("POST", "/api/v1/users", {"name": "ann"}).status == 201
    with Endpoint(["It costs 40 pounds."]) as endpoint:
        listed = {"name": "own", "address": endpoint.url, "networks": ["127.0.0.1/32"]}
        assert pages.ask("POST", "/api/v1/connections", listed).status == 201
        page = visit("/bots/new")
        assert field(page, "Address").count() == 0
        field(page, "Name").fill("connected")
        field(page, "Model").fill("m")
        page.get_by_role("button", name="Save").click()
        seen(page, "This field is required")
        page.get_by_role("combobox", name="Connection").click()
        page.get_by_role("option", name="own").click()
        field(page, "Question").fill("What does it cost?")
        page.get_by_role("button", name="Ask").click()
        seen(page, "It costs 40 pounds.")
        page.get_by_role("button", name="Save").click()
        page.wait_for_url("**/bots/connected")
    config = pages.ask("GET", "/api/v1/bots/connected").json["config"]
    assert (config["connection"], set(config) & {"base_url", "api_key_env"}) == ("own", set())
    assert pages.ask("DELETE", "/api/v1/users/ann", If_Match='"1"', X_Requested_With="evalflow").status == 204
