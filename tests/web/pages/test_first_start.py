"""From an empty workspace to a scored case, and on to a better prompt."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request

from ..conftest import Fits, Server

pytestmark = pytest.mark.browser
WORKER = True
MOST_CLICKS = 6
CASE = {"id": "c", "question": "What is the fee?", "reference": "It costs 3 pounds."}


def test_few_clicks_lead_from_nothing_to_a_scored_case(visit: Callable[..., Any], fits: Fits) -> None:
    fits(visit("/", 390, "dark"), "first start")
    page = visit("/")
    clicks = 0

    def click(found: Any) -> None:
        nonlocal clicks
        found.click()
        clicks += 1

    click(page.get_by_role("button", name="Try the sample bot"))
    page.wait_for_url("**/runs/*")
    page.get_by_text("40 results").wait_for(timeout=120_000)
    click(page.locator(".result-rows tbody tr").first)
    panel = page.get_by_role("complementary", name="Case")
    panel.get_by_role("heading", level=2).wait_for()
    panel.get_by_text("faithfulness").first.wait_for()
    assert re.search(r"\b[01]\.\d\d\b", panel.inner_text())
    assert clicks <= MOST_CLICKS


def test_a_prompt_is_edited_run_and_compared_in_one_click(visit: Callable[..., Any], pages: Server) -> None:
    def answer(request: Request) -> str:
        return "It costs 3 pounds." if "Be exact" in request.text else "No idea."

    with Endpoint(answer) as endpoint:
        config = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        for path, body in (
            ("bots", {"name": "fees", "config": config}),
            ("datasets", {"name": "questions"}),
            (
                "datasets/questions/cases",
                {"items": [CASE]},
            ),
        ):
            assert pages.ask("POST", f"/api/v1/{path}", body).status == 201
        wanted = {"bot": "fees", "datasets": ["questions"], "metrics": ["exact_match"], "judge": "embedded"}
        first = pages.ask("POST", "/api/v1/runs", wanted).json["run_id"]
        page = visit(f"/runs/{first}")
        page.get_by_text("1 result").first.wait_for(timeout=120_000)
        page.get_by_role("heading", name="Overall").wait_for(timeout=120_000)
        page.goto(f"{pages.address.url}/compare?b={first}")
        page.get_by_text("Edit the prompt of fees, run and compare").click()
        page.get_by_label("System prompt").fill("Be exact.")
        page.get_by_role("button", name="Run and compare").click()
        page.wait_for_url(f"**/compare?a={first}&b=*")
        page.locator(".flips-in-words").wait_for(timeout=120_000)
        assert page.locator(".flips-in-words").inner_text() == "1 case flipped to pass, 0 to fail."
