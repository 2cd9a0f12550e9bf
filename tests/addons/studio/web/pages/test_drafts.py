"""What is typed into a form stays in the browser until it is saved, and nothing of forms that may hold secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.test_datasets import define, field, kept, press, saved, seen

pytestmark = pytest.mark.browser
OWN_TABS = True
Visit = Callable[..., Any]
DRAFTS = "Object.keys(localStorage).filter(name => name.startsWith('evalflow-draft'))"


def accept(dialog: Any) -> None:
    dialog.accept()


def test_a_draft_is_offered_restored_and_gone_once_it_is_saved(visit: Visit, pages: Server) -> None:
    define(pages, "drafted", {"id": "a", "question": "q", "reference": "short"})
    case = pages.ask("GET", "/api/v1/datasets/drafted/cases").json["items"][0]
    page = visit(f"/datasets/drafted/cases/{case['id']}")
    page.on("dialog", accept)
    field(page, "Expected answer").fill("The long one that took an hour.")
    page.wait_for_function(f"{DRAFTS}.length === 1")
    page.reload()
    seen(page, "You typed something here that was not saved")
    assert field(page, "Expected answer").input_value() == "short"
    press(page, "Restore it")
    assert field(page, "Expected answer").input_value() == "The long one that took an hour."
    page.get_by_text("Not saved yet").wait_for()
    press(page, "Save")
    saved(page)
    assert kept(pages, "drafted")[0]["reference"] == "The long one that took an hour."
    assert page.evaluate(DRAFTS) == []


def test_a_draft_of_another_person_is_not_offered_and_one_can_be_discarded(visit: Visit, pages: Server) -> None:
    page = visit("/datasets/new")
    page.on("dialog", accept)
    field(page, "Description").fill("Questions of June.")
    page.wait_for_function(f"{DRAFTS}.length === 1")
    [name] = page.evaluate(DRAFTS)
    page.evaluate(
        "([name, other]) => localStorage.setItem(other, localStorage.getItem(name))",
        [name, name.replace("local", "somebody")],
    )
    page.reload()
    press(page, "Discard it")
    assert len(page.evaluate(DRAFTS)) == 1
    page.reload()
    page.wait_for_function("window.did_handshake === true")
    field(page, "Description").wait_for()
    assert page.locator(".draft-bar").count() == 0
    page.evaluate("localStorage.clear()")


def test_nothing_is_kept_of_forms_that_name_keys(visit: Visit) -> None:
    for path, label in (("/bots/new", "Description"), ("/judges/new", "Description")):
        page = visit(path)
        page.on("dialog", accept)
        field(page, label).fill("sk-a-secret-by-mistake")
        page.wait_for_timeout(800)  # twice what the script waits
        assert page.evaluate(DRAFTS) == []


def test_a_save_without_a_connection_is_kept_and_sent_when_it_is_back(visit: Visit, pages: Server) -> None:
    define(pages, "cut", {"id": "a", "question": "q", "reference": "short"})
    case = pages.ask("GET", "/api/v1/datasets/cut/cases").json["items"][0]
    page = visit(f"/datasets/cut/cases/{case['id']}")
    page.on("dialog", accept)
    field(page, "Expected answer").click()
    page.evaluate("window.socket.disconnect()")
    field(page, "Expected answer").fill("Typed while it was away.")
    press(page, "Save")
    seen(page, "The server cannot be reached. What you typed is kept in this browser")
    page.evaluate("window.socket.connect()")
    page.wait_for_function(f"{DRAFTS}.length === 0")  # the bar said "Saved" all the time
    assert kept(pages, "cut")[0]["reference"] == "Typed while it was away."


def test_a_form_that_is_saved_leaves_the_drafts_of_others(visit: Visit, pages: Server) -> None:
    assert pages.ask("POST", "/api/v1/tasks", {"title": "Ask ann"}).status == 201
    page = visit("/tasks/1")
    page.on("dialog", accept)
    typed = f"{DRAFTS}.flatMap(name => Object.values(JSON.parse(localStorage.getItem(name)).typed))"
    page.get_by_label("Your comment").fill("A comment that is not added yet.")
    page.wait_for_function(f"{typed}.length === 1")
    press(page, "Edit")
    page.get_by_label("Title").fill("Ask ben")
    page.wait_for_function(f"{typed}.length === 2")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Ask ben").wait_for()
    page.wait_for_function("window.did_handshake === true")
    assert page.evaluate(typed) == ["A comment that is not added yet."]
    press(page, "Restore it")
    press(page, "Add comment")
    page.locator(".comments li", has_text="A comment that").wait_for()
    page.wait_for_function(f"{DRAFTS}.length === 0")
