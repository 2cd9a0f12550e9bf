"""From an empty workspace to a scored case, and on to a better prompt."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.conftest import Fits, Server

pytestmark = pytest.mark.browser
OWN_TABS = True
WORKER = True
MOST_CLICKS = 6
COUNTING = """addEventListener("pointerdown", event => { if (event.isTrusted) counted(); }, true)"""
CASE = {"id": "c", "question": "What is the fee?", "reference": "It costs 3 pounds."}


def forget_bots(pages: Server) -> None:
    """Have the project without bots, as at first."""
    for bot in pages.ask("GET", "/api/v1/bots").json["items"]:
        if bot["origin"] == "workspace":
            ended = pages.ask(
                "DELETE", f"/api/v1/bots/{bot['name']}", If_Match=f'"{bot["version"]}"', X_Requested_With="t"
            )
            assert ended.status in (200, 204), ended.body


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
    page.get_by_text("60 results, page").wait_for(timeout=120_000)
    page.get_by_text("corrected by 60 labels").first.wait_for()
    click(page.locator(".result-rows tbody tr").first)
    panel = page.get_by_role("complementary", name="Case")
    panel.get_by_role("heading", level=2).wait_for()
    panel.get_by_text("faithfulness").first.wait_for()
    assert re.search(r"\b[01]\.\d\d\b", panel.inner_text())
    assert clicks <= MOST_CLICKS
    visit("/runs").locator("a.card.run.sample", has_text="sample data").first.wait_for()
    visit("/reviews/new").get_by_text("sample data").first.wait_for()
    visit("/bots/recorded").locator("li", has_text="sample data").first.wait_for()


def test_few_clicks_lead_from_an_own_bot_to_a_scored_case(visit: Callable[..., Any], pages: Server) -> None:
    def answer(request: Request) -> Any:
        return {"reason": "It names no price.", "score": False} if "says the same" in request.text else "It is free."

    clicks: list[int] = []
    with Endpoint(answer, models=["big/fee-bot"]) as endpoint:
        page = visit("/")
        page.expose_function("counted", lambda: clicks.append(1))
        page.add_init_script(COUNTING)
        page.reload()
        page.wait_for_function("window.did_handshake === true")
        page.get_by_role("button", name="Try it").click()
        page.get_by_text("This field is required").first.wait_for()
        page.get_by_label("Address").fill("http://127.0.0.1:9/v1")
        page.get_by_label("Address").press("Tab")
        page.get_by_text("No models are offered").wait_for()
        page.get_by_label("Address").fill(endpoint.url)
        page.get_by_label("Address").press("Tab")
        page.get_by_text("1 model at this address").wait_for()
        assert page.get_by_label("Model").input_value() == "big/fee-bot"
        page.get_by_label("First question").fill("What is the fee?")
        page.get_by_role("button", name="Try it").click()
        page.get_by_text("It is free.").wait_for()
        page.get_by_role("button", name="Save and run").click()
        page.get_by_text("since the criteria speak of it").wait_for()
        page.get_by_role("textbox", name="Expected answer").fill("3 pounds")
        page.get_by_role("button", name="Save and run").click()
        page.wait_for_url("**/runs/*")
        page.get_by_text("1 result").first.wait_for(timeout=120_000)
        page.locator(".result-rows tbody tr").first.click()
        panel = page.get_by_role("complementary", name="Case")
        panel.get_by_text("It names no price.", exact=True).filter(visible=True).wait_for()
        panel.get_by_text("0.00").first.wait_for()
    assert len(clicks) == 5 <= MOST_CLICKS  # one of them on what was left out
    bot = pages.ask("GET", "/api/v1/bots/fee_bot").json
    assert bot["config"]["model"] == "big/fee-bot"


def test_few_clicks_lead_from_a_pasted_answer_to_a_scored_case(
    visit: Callable[..., Any], pages: Server, fits: Fits
) -> None:
    forget_bots(pages)
    clicks: list[int] = []
    page = visit("/")
    page.expose_function("counted", lambda: clicks.append(1))
    page.add_init_script(COUNTING)
    page.reload()
    page.wait_for_function("window.did_handshake === true")
    page.get_by_label("First question").fill("What is the fee?")
    page.locator(".choice", has_text="Paste an answer").click()
    page.get_by_label("Question", exact=True).wait_for()
    assert page.get_by_label("Question", exact=True).input_value() == "What is the fee?"  # it is taken along
    page.get_by_role("textbox", name="Expected answer").fill("3 pounds")
    page.get_by_role("button", name="Save and run").click()
    page.get_by_text("This field is required").first.wait_for()
    page.get_by_label("Its answer").fill("It costs 3 pounds a year.")
    fits(page, "pasted answer")
    page.get_by_role("button", name="Save and run").click()
    page.wait_for_url("**/runs/*")
    page.get_by_text("1 result").first.wait_for(timeout=120_000)
    page.locator(".result-rows tbody tr").first.click()
    panel = page.get_by_role("complementary", name="Case")
    panel.get_by_text("It costs 3 pounds a year.").first.wait_for()
    panel.get_by_text("1.00").first.wait_for()
    assert len(clicks) == 4 <= MOST_CLICKS  # one of them on what was left out
    assert pages.ask("GET", "/api/v1/bots/pasted_answers").json["config"] == {"kind": "recorded"}


def test_a_judge_decides_on_a_pasted_answer_by_criteria(visit: Callable[..., Any], pages: Server) -> None:
    forget_bots(pages)
    with Endpoint([{"reason": "It names the price.", "score": True}]) as endpoint:
        config = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        assert pages.ask("POST", "/api/v1/judges", {"name": "own", "title": "My judge", "config": config}).status == 201
        page = visit("/")
        page.locator(".choice", has_text="Paste an answer").click()
        page.get_by_label("Question", exact=True).fill("What is the fee?")
        page.get_by_label("Its answer").fill("It costs 3 pounds a year.")
        assert page.get_by_role("combobox", name="Judge My judge").input_value() == "My judge"
        page.get_by_role("textbox", name="Criteria").fill("It names a price.")
        page.get_by_role("button", name="Save and run").click()
        page.wait_for_url("**/runs/*")
        page.get_by_text("1 result").first.wait_for(timeout=120_000)
        page.locator(".result-rows tbody tr").first.click()
        page.get_by_text("It names the price.", exact=True).filter(visible=True).first.wait_for()


def test_a_run_that_cannot_start_leaves_the_form_to_try_again(visit: Callable[..., Any], pages: Server) -> None:
    forget_bots(pages)
    config = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}
    made = pages.ask("POST", "/api/v1/judges", {"name": "gone", "title": "Gone", "config": config}).json
    page = visit("/")
    page.locator(".choice", has_text="Paste an answer").click()
    page.get_by_label("Question", exact=True).fill("What is the fee?")
    page.get_by_label("Its answer").fill("It costs 3 pounds a year.")
    page.get_by_role("combobox", name=re.compile("^Judge")).click()
    page.get_by_role("option", name="Gone").click()
    page.get_by_role("textbox", name="Criteria").fill("It names a price.")
    version = f'"{made["version"]}"'
    ended = pages.ask("DELETE", "/api/v1/judges/gone", If_Match=version, X_Requested_With="t")
    assert ended.status in (200, 204), ended.body
    page.get_by_role("button", name="Save and run").click()
    page.get_by_text("are saved, but the run could not start").wait_for()
    page.locator(".choice", has_text="Ask my bot").click()
    assert page.get_by_label("First question").input_value() == "What is the fee?"
    page.locator(".choice", has_text="Paste an answer").click()
    assert page.get_by_label("Its answer").input_value() == "It costs 3 pounds a year."
    page.get_by_role("combobox", name="A good answer").click()
    page.get_by_role("option", name="It contains the expected answer").click()
    page.get_by_role("textbox", name="Expected answer").fill("3 pounds")
    page.get_by_role("button", name="Save and run").click()
    page.wait_for_url("**/runs/*")
    page.get_by_text("1 result").first.wait_for(timeout=120_000)


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
