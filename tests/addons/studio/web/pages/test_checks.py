"""Reusable checks and tags, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Fits, Server
from tests.addons.studio.web.pages.test_datasets import define, field, kept, press, saved, seen

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def choose(page: Any, label: str, option: str) -> None:
    page.get_by_role("combobox", name=re.compile(label)).click()
    page.get_by_role("option", name=re.compile(option)).click()


def test_a_check_is_tried_on_examples_enabled_on_many_cases_deleted_and_brought_back(
    visit: Visit, pages: Server, fits: Fits
) -> None:
    rows = [{"id": f"c{n}", "question": f"Question {n}?", "tags": ["Loans"] if n else []} for n in range(3)]
    define(pages, "fees", *rows)
    page = visit("/datasets/fees")
    page.get_by_role("checkbox", name="Select Question 0?").click()
    press(page, "Add a check")
    page.get_by_role("dialog").get_by_role("link", name="New check").click()
    page.wait_for_url("**/checks/new")
    seen(page, "A judge decides this check")
    field(page, "Name").fill("It greets")
    page.wait_for_function("document.querySelector('.code input').value === 'it_greets'")
    choose(page, "Type", "^String matching")
    good, bad = (page.get_by_label(f"Answers that should {word}") for word in ("pass", "fail"))
    good.fill("hello there")
    seen(page, "check incomplete")
    field(page, "Keyword").fill("Hello")
    seen(page, "✗ failed, should pass")
    seen(page, "The check is wrong on 1 of 1 answer.")
    page.get_by_role("checkbox", name="Capital letters count").click()  # it changes once the server says so
    seen(page, "Right so far. Add an answer that should fail")
    bad.fill("Hi, can I help you?")
    seen(page, "The check is right on all 2 answers.")
    fits(page, "new-check")
    choose(page, "Type", "^Rule")
    field(page, "Text").fill("hello")
    seen(page, "The check is wrong on 2 of 2 answers.")
    choose(page, "^Rule", "^has a length")
    press(page, "Create")
    seen(page, "length needs `min`, `max` or both")
    field(page, "At least").fill("2")
    choose(page, "Type", "^String matching")  # what was written for it is still there
    seen(page, "The check is right on all 2 answers.")
    press(page, "Create")
    page.wait_for_url("**/checks/it_greets")
    seen(page, "No case uses this check yet")
    choose(page, "Tag", "^Loans")
    press(page, "Enable on 2 cases")
    seen(page, "Enabled on 2 cases.")
    page.get_by_role("link", name="Question 1?").wait_for()
    assert [row.get("checks") for row in kept(pages, "fees")] == [
        None,
        *[[{"identifier": "it_greets", "enabled": True, "params": {}}]] * 2,
    ]
    press(page, "Remove from 2 cases")
    press(page, "Remove")
    seen(page, "The check was removed from 2 cases.")
    seen(page, "No case uses this check yet")
    press(page, "Undo")
    seen(page, "Enabled on 2 cases.")
    field(page, "Description").fill("Says hello first.")
    press(page, "Save")
    saved(page)
    fits(page, "check")
    page.get_by_role("link", name="← Checks").click()
    page.get_by_role("row", name=re.compile("It greets.*contains “Hello”.*2")).wait_for()
    fits(page, "checks")
    page = visit("/datasets/fees/cases/2")
    page.get_by_role("link", name="it_greets").click()
    page.wait_for_url("**/checks/it_greets")
    press(page, "Delete")
    press(page, "Remove it from 2 cases")
    seen(page, "No case uses this check yet")
    press(page, "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_url("**/checks*")
    seen(page, "No reusable checks yet")
    press(page, "Undo")
    page.wait_for_url("**/checks/it_greets")
    seen(page, "The check is right on all 2 answers.")


def test_a_tag_is_renamed_everywhere_and_back_and_two_spellings_are_merged(
    visit: Visit, pages: Server, fits: Fits
) -> None:
    define(pages, "one", {"id": "a", "question": "A?", "tags": ["User Issues > Refund", "late"]})
    define(pages, "two", {"id": "b", "question": "B?", "tags": ["user issues"]})
    page = visit("/tags")
    press(page, "Rename User Issues")
    field(page, "New name").fill("Issues")
    seen(page, "1 case will have Issues, with 1 sub-tag.")
    press(page, "Rename")
    seen(page, "User Issues is now Issues: 1 case changed.")
    assert kept(pages, "one")[0]["tags"] == ["Issues > Refund", "late"]
    press(page, "Undo")
    seen(page, "Spelled in several ways")
    assert kept(pages, "one")[0]["tags"] == ["User Issues > Refund", "late"]
    fits(page, "tags")
    page.get_by_role("button", name=re.compile("^Merge into ")).first.click()
    seen(page, "which cannot be undone")
    press(page, "Merge")
    page.get_by_text("Spelled in several ways").wait_for(state="detached")
    parents = {kept(pages, name)[0]["tags"][0].partition(" > ")[0] for name in ("one", "two")}
    assert len(parents) == 1
    press(page, "Rename late")
    field(page, "New name").fill(" > ")
    press(page, "Rename")
    seen(page, "A tag needs a name")
