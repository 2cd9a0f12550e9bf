"""Runs, started, watched and read in a real browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from evalflow.testing import Endpoint, Request, status
from tests.addons.studio.web.conftest import Fits, Server
from tests.addons.studio.web.pages.test_bots import field, seen

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]
WORKER = True
PATIENCE_MS = 60_000
MARKUP = '<img src=x onerror="document.title=1"> the fee is missing'
GOOD: dict[str, Any] = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "description": "How good the answer is.",
    "scale": {"type": "likert", "min": 1, "max": 5},
    "threshold": 0.5,
}


class Bot:
    """A bot and its judge behind one endpoint; replies wait until `go` is set, and case 3 cannot be judged.

    A puzzle is judged for each release of `turns`.
    """

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.turns = threading.Semaphore(0)
        self.endpoint = Endpoint(self._reply)

    def _reply(self, request: Request) -> Any:
        self.go.wait(60)
        if request.schema is None:
            return f"answer to {request.text[-9:]}"
        if "game 3" in request.text:
            return status(400)
        if "puzzle" in request.text:
            self.turns.acquire(timeout=60)
        return {"reason": MARKUP, "score": 5 if "game 1" in request.text else 2}


@pytest.fixture(name="bot", scope="module")
def _bot(pages: Server) -> Iterator[Bot]:
    made = Bot()
    with made.endpoint:
        config = {"kind": "openai", "model": "m", "base_url": made.endpoint.url, "api_key_env": None}
        ask(pages, "POST", "/bots", {"name": "helper", "config": {**config, "concurrency": {"start": 2, "max": 2}}})
        ask(pages, "PUT", "/bots/helper/metrics", {"items": [{"name": "good", "definition": GOOD}]}, If_Match='""')
        ask(pages, "POST", "/datasets", {"name": "games"})
        rows = [
            {
                "id": f"c{i}",
                "question": f"How long is game {i} lent?",
                "contexts": [f"Fact {i}."],
                "tags": [f"t{i % 2}"],
            }
            for i in range(4)
        ]
        ask(pages, "POST", "/datasets/games/cases", {"items": rows})
        yield made
        made.go.set()


def ask(pages: Server, method: str, path: str, body: Any = None, **headers: str) -> Any:
    answer = pages.ask(method, f"/api/v1{path}", body, X_Requested_With="test", **headers)
    assert answer.status < 300, answer.body
    return answer.json


def start(pages: Server, **more: Any) -> str:
    """A run that is queued; its page."""
    body = {"bot": "helper", "datasets": ["games"], "metrics": ["good"], **more}
    return f"/runs/{ask(pages, 'POST', '/runs', body)['run_id']}"


def wait(page: Any, text: str) -> None:
    page.get_by_text(text).first.wait_for(timeout=PATIENCE_MS)


def choose(page: Any, label: str, option: str) -> None:
    """One option of a field, found by typing."""
    field(page, label).click()
    page.keyboard.type(option)
    page.get_by_role("option", name=re.compile(option)).first.click()
    page.keyboard.press("Escape")


def test_a_run_is_started_watched_and_read(visit: Visit, bot: Bot, pages: Server) -> None:
    page = visit("/runs")
    seen(page, "Start your first run")
    page.get_by_role("link", name="New run").first.click()
    page.wait_for_url("**/runs/new")
    seen(page, "Nothing is sent before you start it")
    field(page, "Bot").click()
    page.get_by_role("option", name="helper").click()
    choose(page, "Test cases", "games")
    wait(page, "prefer their own answers (self-preference)")
    assert page.locator(".estimate dd").all_inner_texts()[:3] == ["4", "4", "8"]
    assert not bot.endpoint.requests
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile("/runs/20"))
    wait(page, "3 scored")
    wait(page, "The run is inconclusive: errors at 1 of 4 scores.")
    seen(page, "judge: target:m (LLM m), the model that it judges")
    seen(page, "4 results")
    read_a_case(page, bot)


def read_a_case(page: Any, bot: Bot) -> None:
    rows = page.locator(".result-rows tbody tr")
    rows.nth(3).wait_for()
    page.get_by_role("button", name="1 error:").click()
    seen(page, "1 result.")
    assert "metric=good&status=error" in page.url
    page.get_by_role("button", name="Clear").click()
    rows.nth(3).wait_for()
    page.get_by_label("Search").fill("game 1")
    rows.nth(1).wait_for(state="detached")
    page.get_by_role("link", name="How long is game 1 lent?").click()
    page.wait_for_url("**search=game+1&case=1")
    page.get_by_role("link", name="Open as a page").click()
    page.wait_for_url(re.compile(r"/cases/1(\?|$)"))
    read = page.url
    page.get_by_role("tab", name="Contexts 1").click()
    seen(page, "Fact 1.")
    page.locator(".score-line > details").evaluate("it => it.open || it.firstElementChild.click()")
    page.get_by_text("How it was scored").click()
    seen(page, f"reason: {MARKUP}")
    asked = len(bot.endpoint.requests)
    page.get_by_text("Prompts and raw replies").click()
    seen(page, "Nothing was sent for this.")
    page.get_by_text("Raw reply").wait_for()
    assert len(bot.endpoint.requests) == asked
    assert page.locator("img[src=x]").count() == 0
    page = page.context.new_page()
    page.goto(read.replace("cases/1", "cases/3"))
    page.locator(".line-body").get_by_text("HTTP 400").wait_for()


def finished(visit: Visit, pages: Server, **more: Any) -> Any:
    page = visit(start(pages, options={"max_error_rate": 1.0}, **more))
    wait(page, "3 scored")
    return page


def test_a_threshold_moves_the_pass_rate_and_asks_nobody(visit: Visit, bot: Bot, pages: Server) -> None:
    page = finished(visit, pages)
    seen(page, "33 % pass (1 of 3)")
    asked = len(bot.endpoint.requests)
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    seen(page, "100 % pass (3 of 3)")
    seen(page, "Preview only; the saved threshold is 0.50")
    page.locator(".result-rows .chip.fail").first.wait_for(state="detached")
    page.get_by_role("combobox", name="Result").click()
    page.get_by_role("option", name="Failed").click()
    seen(page, "No matching results.")
    page.reload()
    wait(page, "33 % pass (1 of 3)")
    seen(page, "2 results")
    assert len(bot.endpoint.requests) == asked


def test_a_slow_run_is_cancelled_and_resumed(visit: Visit, bot: Bot, pages: Server) -> None:
    bot.go.clear()
    version = ask(pages, "GET", "/projects/default/budget")["version"]
    ask(pages, "PUT", "/projects/default/budget", {"requests": 1000}, If_Match=f'"{version}"')
    path = start(pages, options={"cache": {"mode": "off"}, "max_error_rate": 1.0})
    page = visit(path.replace("/runs/", "/runs/new?source="))
    wait(page, "Left of the project's budget for")
    seen(page, "requests of 1,000 requests")
    page = visit(path)
    wait(page, "0 of 4 scores")
    page.get_by_text("running").wait_for(timeout=PATIENCE_MS)
    wait(page, "requests of 16 requests")
    page.get_by_role("button", name="Cancel the run").click()
    wait(page, "Stopping: finishing the requests in progress")  # or else the run might be done before
    bot.go.set()
    wait(page, "It was cancelled")
    page.get_by_role("button", name="Resume").click()
    wait(page, "3 scored")
    page = visit("/runs")
    seen(page, "helper on games")


def test_scores_come_while_a_run_goes_on_and_become_its_results(visit: Visit, bot: Bot, pages: Server) -> None:
    ask(pages, "POST", "/datasets", {"name": "puzzles"})
    rows = [{"id": f"p{i}", "question": f"How long is puzzle {i} lent?"} for i in range(4)]
    ask(pages, "POST", "/datasets/puzzles/cases", {"items": rows})
    bot.go.clear()
    start(pages, options={"cache": {"mode": "off"}})  # so that the one after it waits
    page = visit(start(pages, datasets=["puzzles"]))
    state = page.locator(".said-of-run .badge").first
    state.get_by_text("waiting").wait_for()
    seen(page, "Nothing is scored yet")
    page.evaluate("window.same = true")
    bot.go.set()
    state.get_by_text("running").wait_for(timeout=PATIENCE_MS)
    scored = page.locator(".result-rows tbody tr", has=page.locator(".chip"))
    for number in range(2):
        bot.turns.release()
        scored.nth(number).wait_for(timeout=PATIENCE_MS)
    page.get_by_label("Search").fill("puzzle")
    page.wait_for_url("**?search=puzzle")
    case = visit(page.locator("ul.latest a").first.get_attribute("href"))
    case.locator(".score-line").get_by_text(MARKUP).filter(visible=True).first.wait_for()
    bot.turns.release(2)
    wait(page, "4 scored")
    seen(page, "4 results")
    assert scored.count() == 4
    assert page.get_by_label("Search").input_value() == "puzzle"
    assert page.get_by_role("button", name="Cancel the run").count() == 0
    assert page.evaluate("window.same")


def test_a_run_that_fails_says_why_and_what_next(visit: Visit, bot: Bot, pages: Server) -> None:
    values = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None, "attempts": 1}
    page = visit(start(pages, judge="openai", judge_values=values))
    wait(page, "Start again uses the current bot and metrics")
    seen(page, "127.0.0.1:9")
    failed = page.url
    page.get_by_role("link", name="Run again with changes").click()
    page.wait_for_url("**/runs/new?source=*")
    seen(page, "The run failed here: http://127.0.0.1:9/v1 gave no usable answer")
    address = field(page, "Its address")
    page.wait_for_function("address => address === document.activeElement", arg=address.element_handle())
    assert address.input_value() == "http://127.0.0.1:9/v1"
    page.locator(".estimate dd").first.wait_for()  # the judge still has no key, though the field of one is empty
    page = visit(urlsplit(failed).path)
    page.get_by_role("button", name="Start again").click()
    page.wait_for_function("before => location.href !== before", arg=failed)
    wait(page, "Start again uses the current bot and metrics")


def test_errors_that_the_run_allows_are_not_why_it_is_inconclusive(visit: Visit, bot: Bot, pages: Server) -> None:
    options = {"max_error_rate": 0.5, "gate": {"good": {"mean": ">= 0.5"}}}
    path = start(pages, options=options, title="Allows errors")
    page = visit(path)
    seen(page, "Gate undecided: good mean >= 0.5.")
    seen(page, "3 scored")
    assert ask(pages, "GET", path)["exit_code"] == 3
    assert page.get_by_text("The run is inconclusive").count() == 0


def test_a_new_run_is_filled_in_from_the_last_one_of_the_bot(visit: Visit, bot: Bot, pages: Server) -> None:
    finished(visit, pages)
    page = visit("/runs/new?bot=helper")
    page.locator(".estimate dd").nth(2).wait_for()
    assert page.locator(".estimate dd").all_inner_texts()[:2] == ["4", "4"]


def test_a_run_is_compared_with_an_earlier_one_that_the_form_names(visit: Visit, bot: Bot, pages: Server) -> None:
    earlier = urlsplit(finished(visit, pages, title="Before").url).path.rpartition("/")[2]
    progress = {
        "kind": "pairwise",
        "description": "How often the answer is better than before.",
        "needs": ["question", "answer", "vars.baseline"],
        "against": "vars.baseline",
        "criteria": "The better answer helps more.",
        "prompt": "pairwise/preference.jinja",
    }
    ask(pages, "POST", "/bots", {"name": "newer", "config": ask(pages, "GET", "/bots/helper")["config"]})
    ask(pages, "PUT", "/bots/newer/metrics", {"items": [{"name": "progress", "definition": progress}]}, If_Match='""')
    page = visit("/runs/new?bot=newer&dataset=games")
    field(page, "Earlier run to compare with").wait_for()
    page.locator(".field", has_text="Earlier run").get_by_text("but there are none for games").wait_for()
    assert "baseline=" not in page.inner_text("main")
    choose(page, "Earlier run to compare with", "Before")
    page.locator(".estimate dd").nth(2).wait_for()
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile("/runs/20"))
    run = ask(pages, "GET", f"/runs/{urlsplit(page.url).path.rpartition('/')[2]}")
    assert run["request"]["options"]["baseline"] == f"outputs/runs/{earlier}"


def test_what_is_wrong_with_a_new_run_stands_beside_its_field(visit: Visit, bot: Bot) -> None:
    page = visit("/runs/new?bot=recorded&dataset=games")
    page.get_by_role("button", name="Start the run").click()
    seen(page, "No metric is chosen (choose at least one)")
    choose(page, "Metrics", "faithfulness")
    choose(page, "Judge", "gemini")
    page.get_by_text("GEMINI_API_KEY").first.wait_for()


def test_simulated_users_need_a_model_which_the_estimate_counts(visit: Visit, bot: Bot, pages: Server) -> None:
    ask(pages, "POST", "/datasets", {"name": "people"})
    ask(pages, "POST", "/datasets/people/cases", {"items": [{"id": "p", "scenario": "You need a game."}]})
    page = visit("/runs/new?bot=helper&dataset=people")
    choose(page, "Metrics", "answer words")
    choose(page, "Metrics", "good")  # which the bot's last run had
    seen(page, "no simulator plays the user")
    field(page, "Model of the user").fill("user")
    field(page, "Address of the user's model").fill(bot.endpoint.url)
    field(page, "Turns at most").fill("4")
    page.locator(".estimate").get_by_text("9", exact=True).wait_for()


def test_a_folder_that_holds_no_run_is_refused_beside_the_field(visit: Visit) -> None:
    page = visit("/runs")
    page.get_by_role("button", name="Open a folder").click()
    field(page, "Folder").fill("nowhere/at/all")
    page.get_by_role("button", name="Open", exact=True).click()
    page.locator(".field", has_text="of a run made").get_by_text("nowhere").wait_for()


def test_the_pages_of_a_judged_run_fit(visit: Visit, bot: Bot, pages: Server, fits: Fits) -> None:
    run = ask(pages, "GET", "/runs?state=done")["items"][0]["run_id"]
    for path in (f"/runs/{run}", f"/runs/{run}/cases/0"):
        page = visit(path, 390, "dark")
        if path.endswith(run):
            wait(page, "4 results")
        fits(page, path)
