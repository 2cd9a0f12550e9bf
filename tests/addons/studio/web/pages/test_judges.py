"""Judges as a person edits and deletes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, judges, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.pages.conftest import paged

pytestmark = pytest.mark.browser


@pytest.fixture(name="pages", scope="module")
def _pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with working_in(tmp_path_factory.mktemp("judges")) as space:
        bots.create_bot(space, "fees", {"kind": "recorded"})
        for name in ("strict", "mild"):
            judges.create_judge(space, name, {"kind": "openai", "model": name, "base_url": "http://127.0.0.1:9/v1"})
        panel = {"kind": "panel", "members": ["strict", "mild"], "vote": "weighted"}
        judges.create_judge(space, "jury", {**panel, "weights": {"strict": 3, "mild": 1}})
        polite = {"kind": "g_eval", "criteria": "Polite?", "needs": ["answer"], "judge": "strict"}
        metrics.create_metric(space, "fees", MetricDraft("polite", polite))
        with paged(space.root) as server:
            yield server


def test_what_uses_a_judge_is_named_with_a_link_to_it(visit: Callable[..., Any]) -> None:
    page = visit("/judges/strict")
    page.get_by_role("button", name="Delete").click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("button", name="Delete").click()
    wrong = asked.get_by_role("alert")
    wrong.get_by_text("The judge 'strict' is used by fees/polite, jury").wait_for()
    page.wait_for_function("document.activeElement.role === 'alert'")
    links = [one.get_attribute("href") for one in wrong.get_by_role("link").all()]
    assert links == ["/bots/fees/metrics/polite", "/judges/jury"]


def test_a_panel_weighs_its_members(visit: Callable[..., Any], pages: Server) -> None:
    page = visit("/judges/jury")
    assert page.get_by_label("Weight of strict").input_value() == "3"
    page.get_by_label("Weight of mild").fill("")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("This field is required").wait_for()
    page.get_by_label("Weight of mild").fill("0.5")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/judges")
    assert pages.ask("GET", "/api/v1/judges/jury").json["config"] == {
        **{"kind": "panel", "members": ["strict", "mild"], "vote": "weighted"},
        "weights": {"strict": 3, "mild": 0.5},
    }


def test_what_is_missing_is_said_at_once_and_in_words_of_the_form(visit: Callable[..., Any], pages: Server) -> None:
    page = visit("/judges/new?kind=panel")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("This field is required").nth(1).wait_for()
    page.get_by_label("Name", exact=True).fill("Alone")
    page.get_by_label("Members").click()
    page.get_by_role("option", name="mild").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("One judge alone has nobody to vote with or to ask next (Two judges or more)").wait_for()
