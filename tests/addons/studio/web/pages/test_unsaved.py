"""Who leaves a form with changes is asked first, and nobody else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.test_datasets import define, field, kept, press, saved, seen

pytestmark = pytest.mark.browser
OWN_TABS = True
Visit = Callable[..., Any]
MODEL = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


class Asked:
    """Counts the browser's questions before a page is left, and stays or goes."""

    def __init__(self, page: Any) -> None:
        self.times = 0
        self.goes = False
        page.on("dialog", self._answer)

    def _answer(self, dialog: Any) -> None:
        assert dialog.type == "beforeunload"
        self.times += 1
        dialog.accept() if self.goes else dialog.dismiss()


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/bots/new", "Name"),
        ("/bots/own/edit", "Description"),
        ("/bots/own/metrics/new", "Criteria"),
        ("/bots/own/metrics/new?view=yaml", "YAML"),
        ("/datasets/new", "Description"),
        ("/datasets/mine/edit", "Description"),
        ("/datasets/mine/cases/new", "Turn 1, User"),
        ("/datasets/mine/add", "Questions, or a table"),
        ("/runs/new?bot=own&dataset=mine", "Title"),
    ],
)
def test_each_form_asks(visit: Visit, pages: Server, path: str, label: str) -> None:
    if pages.ask("GET", "/api/v1/bots/own").status == 404:
        assert pages.ask("POST", "/api/v1/bots", {"name": "own", "config": MODEL}).status == 201
        define(pages, "mine", {"id": "a", "question": "q"})
    page = visit(path)
    asked = Asked(page)
    start = page.url
    first = field(page, label)
    before = first.input_value()
    first.fill(f"{before} more")
    with page.expect_event("dialog"):
        page.get_by_role("link", name="Metrics", exact=True).click(no_wait_after=True)
    assert (asked.times, page.url) == (1, start)
    first.fill(before)
    page.get_by_role("link", name="Metrics", exact=True).click()
    page.wait_for_url("**/library")
    assert asked.times == 1


def test_back_and_reload_ask_too_and_what_was_saved_does_not(visit: Visit, pages: Server) -> None:
    define(pages, "asked", {"id": "a", "question": "q", "tags": ["x"]})
    page = visit("/datasets/asked")
    asked = Asked(page)
    page.get_by_role("link", name="q", exact=True).click()
    page.wait_for_url("**/cases/*")
    case = page.url
    press(page, "Add a piece")
    page.locator(".piece").wait_for()
    with page.expect_event("dialog"):
        page.evaluate("history.back()")
    assert (asked.times, page.url) == (1, case)
    with page.expect_event("dialog"):
        page.evaluate("location.reload()")
    assert asked.times == 2
    press(page, "Remove this piece")
    page.locator(".piece").wait_for(state="detached")
    field(page, "Expected answer").fill("yes")
    press(page, "Save")
    saved(page)
    page.get_by_role("link", name="← asked").click()
    page.wait_for_url("**/datasets/asked?row=*")
    page.get_by_role("link", name="Write one").click()
    page.get_by_label("Turn 1, User").fill("Another?")
    press(page, "Save and write another")
    seen(page, "saved.")
    page.get_by_role("link", name="Cancel").click()
    page.wait_for_url("**/datasets/asked")
    assert asked.times == 2
    page.get_by_role("link", name="Write one").click()
    page.get_by_label("Turn 1, User").fill("Given up?")
    asked.goes = True
    page.get_by_role("link", name="Cancel").click()
    page.wait_for_url("**/datasets/asked")
    assert asked.times == 3


def test_a_text_that_is_too_long_for_a_message_stays_and_is_not_said_to_be_saved(visit: Visit, pages: Server) -> None:
    define(pages, "lengthy", {"id": "a", "question": "q", "reference": "short"})
    case = pages.ask("GET", "/api/v1/datasets/lengthy/cases").json["items"][0]
    page = visit(f"/datasets/lengthy/cases/{case['id']}")
    said = page.locator(".save-bar [role=status]")
    said.wait_for()
    expected = field(page, "Expected answer")
    typed = "it => { it.value = '会'.repeat(310_000); it.dispatchEvent(new Event('input', {bubbles: true})) }"
    expected.evaluate(typed)
    said.wait_for(state="hidden")
    press(page, "Save")
    assert "too long" in expected.evaluate("it => it.validationMessage")
    assert said.is_hidden()
    assert expected.evaluate("it => it.value.length") == 310_000
    assert kept(pages, "lengthy")[0]["reference"] == "short"
    expected.fill("é" * 100_000)
    page.get_by_text("Not saved yet").wait_for()
    press(page, "Save")
    saved(page)
    assert len(kept(pages, "lengthy")[0]["reference"]) == 100_000


def test_what_drafts_do_not_keep_is_asked_about_while_the_server_is_away(visit: Visit, pages: Server) -> None:
    page = visit("/tasks/new")
    asked = Asked(page)
    page.get_by_label("Title").fill("Typed, so it is kept")
    page.get_by_role("combobox", name="Priority").click()
    page.get_by_role("option", name="High").click()
    page.locator(".q-select", has_text="High").wait_for()
    page.evaluate("window.socket.disconnect()")
    with page.expect_event("dialog"):
        page.evaluate("location.reload()")
    assert asked.times == 1
    page.evaluate("localStorage.clear()")
    asked.goes = True
