"""A metric and its judge in a real browser: defined in the form, tried, as YAML and back, deleted and undone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evalflow.testing import Endpoint
from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.test_metrics import define, field, judge, press, seen

pytestmark = pytest.mark.browser


def test_a_metric_is_defined_tried_seen_as_yaml_deleted_and_brought_back(
    visit: Callable[..., Any], pages: Server
) -> None:
    with Endpoint(judge) as endpoint:
        define(pages, "told", endpoint.url)
        page = visit("/judges/new")
        field(page, "Name").fill("careful")
        field(page, "Model").fill("m")
        field(page, "Address").fill(endpoint.url)
        field(page, "API key").fill("NO_SUCH_KEY")
        press(page, "Save")
        page.wait_for_url(re.compile("/judges$"))
        seen(page, "set NO_SUCH_KEY")
        page.get_by_role("link", name="careful").click()
        field(page, "API key").fill("")
        press(page, "Grade it")
        page.locator(".score-line .number").wait_for()
        press(page, "Save")
        page.wait_for_url(re.compile("/judges$"))
        page.wait_for_function("window.did_handshake === true")
        page = visit("/judges/new?kind=panel")
        field(page, "Name").fill("jury")
        field(page, "Members").click()
        for name in ("careful", "openai (key missing)"):
            page.get_by_role("option", name=name, exact=True).click()
        page.keyboard.press("Escape")
        press(page, "Save")
        page.wait_for_url(re.compile("/judges$"))
        seen(page, "Panel: careful, openai")

        page = visit("/bots/told/metrics/new")
        page.set_viewport_size({"width": 1280, "height": 800})
        field(page, "Name").fill("price")
        field(page, "Criteria").fill("The answer names the price of the expected answer.")
        for found in (field(page, "Name"), field(page, "Criteria"), page.get_by_role("button", name="Try it")):
            box = found.bounding_box()
            assert box["y"] + box["height"] <= 800, box
        page.set_viewport_size({"width": 390, "height": 844})
        criteria, card, kind = (
            one.bounding_box()
            for one in (field(page, "Criteria"), page.locator(".trial"), page.get_by_text("Kind: G-Eval"))
        )
        assert criteria["y"] + criteria["height"] < card["y"] < card["y"] + card["height"] <= kind["y"]
        page.set_viewport_size({"width": 1280, "height": 800})
        press(page, "Give the judge the expected answer")
        seen(page, "The judge sees: question, answer, expected answer")
        page.get_by_text("Judge: The bot's own model").click()
        field(page, "Judge").click()
        page.get_by_role("option", name="jury (key missing)").click()
        seen(page, "jury: OPENAI_API_KEY is not set in the server's environment.")
        field(page, "Judge").click()
        page.get_by_role("option", name="careful").click()
        seen(page, "Judge: careful")
        field(page, "Question").fill("What does it cost?")
        field(page, "Answer").fill("Forty pounds.")
        page.get_by_text("Take a case, or add").click()
        field(page, "Expected answer").fill("40 pounds")
        press(page, "Try it")
        seen(page, "1.00")
        press(page, "YAML")
        written = field(page, "YAML").input_value()
        assert "/judge@judge: careful" in written
        field(page, "YAML").fill(f"{written}thershold: 1\n")
        press(page, "Form")
        seen(page, "unknown key 'thershold'; did you mean 'threshold'")
        field(page, "YAML").fill(written.replace("threshold: 0.5", "threshold: 0.75"))
        press(page, "Form")
        seen(page, "Passes from 0.75")
        seen(page, "Judge: careful")
        press(page, "Save")
        page.wait_for_url(re.compile("/bots/told/metrics$"))
    kept = pages.ask("GET", "/api/v1/bots/told/metrics").json["items"][0]["definition"]
    assert (kept["judge"], kept["threshold"], kept["needs"]) == ("careful", 0.75, ["question", "answer", "reference"])
    page = visit("/bots/told/metrics/price")
    press(page, "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    press(page, "Undo")
    page.wait_for_url(re.compile("/bots/told/metrics/price$"))
    assert pages.ask("GET", "/api/v1/bots/told/metrics").json["items"][0]["definition"] == kept
