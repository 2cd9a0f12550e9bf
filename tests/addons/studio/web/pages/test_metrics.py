"""The evaluation panel and the library, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.conftest import Server

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]
EVIL = "</pre><img src=x onerror=\"document.title='owned'\">"
STEPS = ["Look for a price.", "Grade by what you found."]


def judge(request: Request) -> Any:
    if "write down the steps" in request.text:
        return {"steps": STEPS}
    return {"reason": f"It names a price. {EVIL}", "score": 10}


def seen(page: Any, text: str) -> Any:
    """Wait until a text is seen."""
    found = page.get_by_text(text, exact=False).filter(visible=True).first
    found.wait_for()
    return found


def field(page: Any, label: str) -> Any:
    """A field by its label."""
    return page.get_by_label(re.compile(rf"^{label}( \(optional\))?$"))


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name).click()


def define(pages: Server, name: str, url: str = "http://127.0.0.1:9/v1", **config: Any) -> None:
    values = {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None, "attempts": 1, **config}
    assert pages.ask("POST", "/api/v1/bots", {"name": name, "config": values}).status == 201


def save(pages: Server, bot: str, name: str, **definition: Any) -> None:
    metric = {"name": name, "definition": {"kind": "g_eval", "needs": ["question", "answer"], **definition}}
    there = pages.ask("GET", f"/api/v1/bots/{bot}/metrics")
    body = {"items": [metric]}
    assert pages.ask("PUT", f"/api/v1/bots/{bot}/metrics", body, If_Match=there.headers["ETag"]).status == 200


def test_a_metric_is_told_in_words_tried_and_saved_and_runs(visit: Visit, pages: Server) -> None:
    with Endpoint(judge) as endpoint:
        define(pages, "told", endpoint.url)
        page = visit("/bots/told")
        page.get_by_role("link", name="Metrics").last.click()
        seen(page, "Define a good answer")
        page.get_by_role("link", name="New metric").click()
        field(page, "Name").fill("price")
        field(page, "Criteria").fill("The answer names the price.")
        page.get_by_text("Steps: written by the judge").click()
        press(page, "Generate steps")
        seen(page, "Written by target:m")
        assert field(page, "Steps").input_value().splitlines() == STEPS
        field(page, "Steps").fill("Look for the price in pounds.\nGrade by what you found.")
        press(page, "Freeze")
        seen(page, "Every run uses exactly these steps.")
        field(page, "Question").fill("What does it cost?")
        field(page, "Answer").fill("Forty pounds.")
        press(page, "Show the prompt")
        page.locator(".prompt pre", has_text="Look for the price in pounds.").wait_for()
        assert endpoint.count == 1
        press(page, "Try it")
        seen(page, "1.00")
        assert endpoint.count == 2
        seen(page, EVIL)
        page.get_by_text("How it was scored").click()
        page.locator(".step .reply", has_text="reason: ").first.wait_for()
        page.get_by_text("Judge: The bot's own model").click()
        seen(page, "self-preference")
        page.get_by_label("Use token probabilities").click()
        press(page, "Show the prompt")
        page.locator(".prompt").get_by_text("sampled 10 times").wait_for(state="detached")
        press(page, "Save")
        page.wait_for_url(re.compile("/bots/told/metrics$"))
        seen(page, "steps frozen")
    assert page.locator("img[src=x]").count() == 0
    assert page.title() == "Metrics of told · evalflow"
    (kept,) = pages.ask("GET", "/api/v1/bots/told/metrics").json["items"]
    assert kept["definition"]["judge"] == {"logprobs": True}
    assert kept["definition"]["steps"] == ["Look for the price in pounds.", "Grade by what you found."]
    run = {"bot": "told", "datasets": ["rag"], "metrics": ["price"], "options": {"generate": "missing", "limit": 1}}
    made = pages.ask("POST", "/api/v1/runs", run)
    assert made.status in (201, 202), made.body


def test_the_library_is_searched_while_one_types(visit: Visit, pages: Server) -> None:
    page = visit("/library")
    seen(page, "Right or wrong")
    whole = page.locator("a.metric").count()
    assert whole > 90
    assert page.locator("a.metric:visible").count() == 0
    field(page, "Search").press_sequentially("faithfulness contexts")
    page.locator("a.metric", has_text="faithfulness").locator("visible=true").first.wait_for()
    page.locator("a.metric", has_text="exact match").first.wait_for(state="hidden")
    field(page, "Search").fill("no such metric")
    seen(page, "No matching metrics")
    press(page, "Show all metrics")
    seen(page, f"{whole} metrics")


def test_metrics_that_work_without_a_key_come_first_of_their_purpose(visit: Visit, pages: Server) -> None:
    page = visit("/library")
    page.locator("summary", has_text="Answers from documents").click()
    rows = page.locator("details[open] a.metric")
    badges = rows.evaluate_all("all => all.map(one => one.textContent.includes('no key needed'))")
    assert badges == sorted(badges, reverse=True)
    assert any(badges)
    assert not all(badges)
    page.get_by_role("checkbox", name="Works without a key").click()
    page.wait_for_function(
        "number => document.querySelectorAll('details[open] li:not(.hidden) a.metric').length === number",
        arg=sum(badges),
    )


def test_a_template_that_cannot_be_rendered_is_told_beside_it(visit: Visit, pages: Server) -> None:
    define(pages, "templated")
    page = visit("/bots/templated/metrics/new?source=coherence&view=yaml")
    template = page.locator("textarea").nth(1)
    template.fill("{{ answer + 1 }}")
    press(page, "Save")
    page.locator(".field", has_text="The prompt for the judge").get_by_text("cannot be rendered").first.wait_for()
    assert pages.ask("GET", "/api/v1/bots/templated/metrics").json["items"] == []


def test_every_fault_stands_beside_its_field(visit: Visit, pages: Server) -> None:
    define(pages, "faulty")
    page = visit("/bots/faulty/metrics/new")
    beside = lambda help: page.locator(".field", has_text=help)  # noqa: E731
    press(page, "Save")
    beside("As you like, in any language.").get_by_text("This field is required").wait_for()
    beside("the judge reads exactly this").get_by_text("This field is required").wait_for()
    field(page, "Name").fill("price")
    press(page, "Save")
    beside("As you like, in any language.").get_by_text("This field is required").wait_for(state="detached")
    # Only now: until the earlier errors are cleared, the one of the first press would be taken for that of the second,
    # and a third press would meet a button that is still busy.
    beside("the judge reads exactly this").get_by_text("This field is required").wait_for()
    field(page, "Criteria").fill("It names the price.")
    page.get_by_text("Scale: 1 to 10").click()
    field(page, "Lowest grade").fill("10")
    field(page, "What grades mean").fill("1-20: too far")
    press(page, "Save")
    beside("becomes the score 1").get_by_text("min must be below max").wait_for()
    field(page, "Lowest grade").fill("1")
    press(page, "Save")
    beside("Grades in between are interpolated").get_by_text("is not within the scale").wait_for()
    field(page, "What grades mean").fill("no grade")
    press(page, "Show the prompt")
    beside("Grades in between are interpolated").get_by_text("names no grade").wait_for()


def test_a_rubric_has_any_scale_and_a_judge_of_its_own(visit: Visit, pages: Server) -> None:
    with Endpoint([{"reason": "It hedges.", "score": "hedges"}]) as endpoint:
        define(pages, "scaled")
        config = {"kind": "openai", "model": "other", "base_url": endpoint.url, "api_key_env": None}
        assert pages.ask("POST", "/api/v1/judges", {"name": "second", "config": config}).status == 201
        page = visit("/bots/scaled/metrics/new")
        field(page, "Name").fill("frank")
        page.get_by_text("Kind: G-Eval").click()
        page.get_by_label("Rubric").click()
        page.get_by_text("Scale: 1 to 5").click()
        field(page, "Criteria").fill("The answer commits itself.")
        field(page, "Scale").click()
        page.get_by_role("option", name="Words, each with a score").click()
        field(page, "Words").fill("refuses: 0\nhedges: 0.5\nanswers: 1")
        page.get_by_text("The judge sees: question, answer").click()
        field(page, "Additional inputs").fill("audience")
        page.get_by_text("Judge: The bot's own model").click()
        field(page, "Judge").click()
        page.get_by_role("option", name="second").click()
        field(page, "Question").fill("Well?")
        field(page, "Answer").fill("Perhaps.")
        press(page, "Show the prompt")
        seen(page, "the case has no column audience")
        page.get_by_text("Take a case, or add").click()
        field(page, "Further values").fill("audience: children")
        press(page, "Try it")
        seen(page, "0.50")
        press(page, "Save")
        page.wait_for_url(re.compile("/bots/scaled/metrics$"))
        seen(page, "judge second")
    assert endpoint.requests[0].body["model"] == "other"
    page.get_by_role("link", name="frank").click()
    assert field(page, "Words").input_value() == "refuses: 0\nhedges: 0.5\nanswers: 1"
    seen(page, "Judge: second")
    assert field(page, "Additional inputs").input_value() == "audience"


def test_a_case_is_taken_from_the_examples(visit: Visit, pages: Server) -> None:
    define(pages, "examples")
    save(pages, "examples", "price", criteria="It is right.", steps=STEPS)
    page = visit("/bots/examples/metrics/price")
    page.get_by_text("Take a case, or add").click()
    field(page, "Take a case from").click()
    page.get_by_role("option", name="rag (ready to use)").click()
    page.wait_for_function(
        "document.querySelector('textarea[aria-label], .trial textarea').value.includes('keep a film')"
    )
    press(page, "Show the prompt")
    page.locator(".prompt pre", has_text="Films can be kept for 14 days").wait_for()


def test_the_library_is_read_and_copied(visit: Visit, pages: Server) -> None:
    define(pages, "copier")
    page = visit("/library?bot=copier")
    page.locator("summary", has_text="Answers from documents").click()
    page.locator("a.metric[href^='/library/faithfulness?']").click()
    seen(page, "A prompt template, read-only.")
    press(page, "Copy")
    page.wait_for_url(re.compile("/bots/copier/metrics/new"))
    field(page, "Name").fill("supported")
    field(page, "YAML").fill("kind: [")
    press(page, "Save")
    page.locator(".field", has_text="below its package line").get_by_text("this is not YAML").wait_for()
    page.reload()
    page.wait_for_function("window.did_handshake === true")
    field(page, "Name").fill("supported")
    press(page, "Save")
    page.wait_for_url(re.compile("/bots/copier/metrics$"))
    (kept,) = pages.ask("GET", "/api/v1/bots/copier/metrics").json["items"]
    assert "supported/claims.jinja" in kept["prompts"]
    page = visit("/bots/copier/metrics/new?source=factual_accuracy")
    assert "factual correctness" in field(page, "Criteria").input_value()


def test_a_graph_is_drawn_beside_its_yaml_and_examples_can_be_saved(visit: Visit, pages: Server) -> None:
    define(pages, "grapher")
    page = visit("/library/answerability")
    assert "├─ fully → tries  asks answerability/reaction.jinja" in page.locator(".graph pre").inner_text()
    page.get_by_text("Shared texts that it includes").first.click()
    page.get_by_role("heading", name="prompt", exact=True).first.wait_for()
    for name in ("Several criteria", "SQL", "A decision graph"):
        page = visit("/bots/grapher/metrics/new")
        page.get_by_text("Kind: G-Eval").click()
        page.get_by_role("link", name=name).click()
        page.wait_for_url(re.compile("source="))
        press(page, "Save")
        page.wait_for_url(re.compile("/bots/grapher/metrics$"))
    page = visit("/bots/grapher/metrics/answerability")
    yaml = field(page, "YAML")
    source = yaml.input_value()
    yaml.fill(source.replace("start: answerable", "start: nowhere"))
    page.locator(".graph pre").wait_for(state="detached")
    yaml.fill(source.replace("score: 0.5", "score: 0.25"))
    page.locator(".graph pre", has_text="0.25").wait_for()


def test_somebody_elses_change_is_not_overwritten(visit: Visit, pages: Server) -> None:
    define(pages, "shared_metrics")
    save(pages, "shared_metrics", "price", criteria="Mine.")
    page = visit("/bots/shared_metrics/metrics/price")
    save(pages, "shared_metrics", "price", criteria="Theirs.")
    field(page, "Criteria").fill("Mine, changed.")
    press(page, "Save")
    seen(page, "someone changed the metric 'price'")
    seen(page, "definition.criteria")
    (kept,) = pages.ask("GET", "/api/v1/bots/shared_metrics/metrics").json["items"]
    assert kept["definition"]["criteria"] == "Theirs."
    page.reload()
    page.wait_for_function("window.did_handshake === true")
    press(page, "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    seen(page, "Define a good answer")
