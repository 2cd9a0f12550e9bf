"""Every field has a name and a line of help that a screen reader finds, and one to be written in has an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.test_datasets import define

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]
MODEL = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
LACKING = """() => [...document.querySelectorAll(".field:not(fieldset)")].flatMap((field) => {
  const input = field.querySelector("input, textarea, [role=checkbox]");
  const label = input.getAttribute("aria-label") || [...input.labels ?? []].map((one) => one.innerText).join("");
  const holder = field.querySelector("[aria-describedby]");
  const help = holder && document.getElementById(holder.getAttribute("aria-describedby"));
  const written = input.matches("textarea, input[type=text]:not([role=combobox]), input[type=number]");
  const example = !written || input.placeholder;
  return label && help?.textContent && example ? [] : [field.innerText];
})"""
OPEN_FOLDS = '() => document.querySelectorAll(".q-item[aria-expanded=false]").forEach((fold) => fold.click())'


@pytest.fixture(name="defined", scope="module")
def _defined(pages: Server) -> None:
    assert pages.ask("POST", "/api/v1/bots", {"name": "own", "config": MODEL}).status == 201
    define(pages, "mine", {"id": "a", "question": "q", "vars": {"plan": "basic"}, "contexts": ["c"]})


@pytest.mark.usefixtures("defined")
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/bots/new", ["HTTP service"]),
        ("/bots/own/metrics/new", ["Rubric"]),
        ("/bots/own/metrics/new?view=yaml", []),
        ("/judges/new", []),
        ("/library", []),
        ("/library/faithfulness", []),
        ("/datasets/new", []),
        ("/datasets/mine", []),
        ("/datasets/mine/add", []),
        ("/datasets/mine/cases/new", []),
        ("/datasets/mine/cases/1", []),
        ("/runs/new?bot=own", []),
    ],
)
def test_every_field_says_what_belongs_there(visit: Visit, path: str, shown: list[str]) -> None:
    page = visit(path)
    page.locator(".field:visible").first.wait_for()
    assert page.evaluate(LACKING) == []
    page.evaluate(OPEN_FOLDS)
    for choice in shown:
        before = page.locator("main").inner_text()
        # Wherever it is: the folds that open above it move it away from the mouse.
        page.locator("label.choice", has_text=choice).dispatch_event("click")
        page.wait_for_function("before => document.querySelector('main').innerText !== before", arg=before)
        assert page.evaluate(LACKING) == []
