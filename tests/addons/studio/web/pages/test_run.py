"""What a finished run leads to: its files, the run before it, its bot and test cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.finished import EVIL, Finished
from tests.addons.studio.web.pages.conftest import paged

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


@pytest.fixture(name="pages", scope="module")
def _pages(finished: Finished) -> Iterator[Server]:
    with paged(finished.folder) as server:
        yield server


def test_a_run_leads_to_its_bot_its_cases_its_history_and_the_run_before(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs/{finished.better}")
    links = page.get_by_role("navigation", name="From here")
    links.get_by_role("link", name="fees").wait_for()
    assert links.get_by_role("link", name="questions").get_attribute("href") == "/datasets/questions"
    before = links.get_by_role("link", name="Compare with the run before")
    assert before.get_attribute("href") == f"/compare?a={finished.worse}&b={finished.better}"
    assert "As it was" in before.get_attribute("title")
    page.get_by_role("link", name="exact from run to run").click()
    page.wait_for_url("**/history?bot=fees&dataset=questions&metric=exact")
    page = visit(f"/runs/{finished.other}")
    before = page.get_by_role("link", name="Compare with the run before")
    before.wait_for()
    assert "not comparable as it is" in before.get_attribute("title")


def test_a_run_opens_with_its_result_and_leads_to_a_review(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs/{finished.better}")
    page.locator("main h2").first.get_by_text("92 % of answers pass (65 to 9").wait_for()
    page.locator(".result-rows tbody tr").first.wait_for()
    order = page.locator("main h2").all_inner_texts()
    assert order.index("Results") < order.index("Overall") < order.index("Files")
    path = page.get_by_role("link", name="New review").get_attribute("href")
    assert path == f"/reviews/new?run={finished.better}"


def test_runs_are_searched_and_two_that_are_ticked_are_compared(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs?bot=fees&search={finished.worse[-4:]}")
    cards = page.locator("ul.runs a.card")
    cards.get_by_text("of answers pass").wait_for()
    assert cards.count() == 1
    page.get_by_label("Search runs").fill("")
    page.wait_for_url("**/runs?bot=fees")
    cards.nth(2).wait_for()
    page.get_by_label("Search runs").fill("new questions exact")
    cards.nth(1).wait_for(state="detached")
    assert cards.get_attribute("href") == f"/runs/{finished.better}"
    page.get_by_label("Search runs").fill("fees")
    cards.nth(2).wait_for()
    for run in (finished.better, finished.worse):
        page.locator("ul.runs li", has=page.locator(f"a[href='/runs/{run}']")).get_by_role("checkbox").click()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url(f"**/compare?a={finished.worse}&b={finished.better}")


def test_a_run_is_printed_without_what_can_only_be_pressed(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs/{finished.better}", colours="dark")
    page.locator(".result-rows tbody tr").first.wait_for()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("main h2").first.is_visible()
    assert page.locator(".result-rows tbody tr").first.is_visible()
    assert page.locator(".rail:visible, main .button:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")


def test_no_head_of_the_results_is_broken_within_a_word(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs/{finished.better}", 390)
    page.locator(".result-rows tbody tr").first.wait_for()
    for head in page.locator(".result-rows thead th span:visible").all():
        assert head.evaluate("one => one.getClientRects().length") <= 1, head.inner_text()


def test_the_report_opens_and_works_beside_the_application(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs/{finished.better}")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Report", exact=True).click()
    report = opened.value
    report.get_by_role("heading", name="Cases", exact=True).wait_for()
    assert report.evaluate("self.origin") == "null"
    report.evaluate("location.hash = '#case=c3'")
    report.locator("#detail").get_by_text("What is fee 3?").wait_for()
    with page.expect_download() as loaded:
        page.get_by_role("link", name="results.csv").click()
    assert loaded.value.suggested_filename == f"{finished.better}-results.csv"


def test_a_moved_threshold_is_told_with_its_interval_kept_carried_and_given_back(
    visit: Visit, finished: Finished
) -> None:
    page = visit(f"/runs/{finished.other}")
    page.get_by_text(re.compile(r"92 % pass \(11 of 12\); 95 % interval 65 % to 9[89] %")).wait_for()
    page.get_by_role("img", name="Share that passes by threshold, with its 95 % interval").wait_for()
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.get_by_text(
        "100 % pass (12 of 12); 95 % interval 76 % to 100 %. Preview only; the saved threshold is 1.00"
    ).wait_for()
    page.get_by_role("button", name="Apply to this run").click()
    page.get_by_role("button", name="Reset to 1.00").wait_for()
    page.get_by_text("++metric.exact.threshold=0.0").wait_for()
    page.get_by_role("button", name="Use it in the next runs").click()
    page.get_by_text("exact of fees has the threshold 0.00 from the next run on.").wait_for()
    page.get_by_role("button", name="Reset to 1.00").click()
    page.get_by_text("92 % pass (11 of 12); 95 % interval").wait_for()
    assert not page.get_by_role("button", name="Reset to 1.00").is_visible()


def test_the_address_has_order_filter_and_case_and_keys_walk_the_list(visit: Visit, finished: Finished) -> None:
    query = "metric=exact&status=passed&sort=input"
    page = visit(f"/runs/{finished.better}?{query}")
    page.get_by_text("11 results.", exact=True).wait_for()
    rows = page.locator(".result-rows tbody tr")
    assert rows.first.locator(".question").text_content() == "What is fee 1?"
    assert rows.first.locator(".chip").text_content() == "✓ 1.00"
    rows.first.click()
    panel = page.get_by_role("complementary", name="Case")
    panel.get_by_role("heading", name="What is fee 1?").wait_for()
    page.keyboard.press("j")
    panel.get_by_role("heading", name="What is fee 2?").wait_for()
    page.wait_for_url(f"**/runs/{finished.better}?{query}&case=2")
    page.reload()
    panel.get_by_role("heading", name="What is fee 2?").wait_for()
    panel.get_by_text("2 of 11").wait_for()
    page.keyboard.press("k")
    panel.get_by_role("heading", name="What is fee 1?").wait_for()
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    page.wait_for_url(f"**/runs/{finished.better}?{query}")
    page.keyboard.press("/")
    page.keyboard.type("fee 7")
    page.get_by_text("1 result.", exact=True).wait_for()
    page = visit(f"/runs/{finished.better}/cases/11?{query}")
    page.get_by_role("link", name="Previous case").click()
    page.wait_for_url(f"**/cases/10?{query}")
    page.get_by_role("link", name="New prompt").click()
    page.wait_for_url(f"**/runs/{finished.better}?{query}")


def test_the_worst_come_first(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs/{finished.better}")
    page.get_by_text("Worst first: most failed scores").wait_for()
    first = page.locator(".result-rows tbody tr").first
    assert first.locator(".question").text_content() == "What is fee 0?"
    assert first.locator(".chip").text_content() == "✗ 0.00"
    assert EVIL in first.locator(".answer").text_content()


def test_bars_have_the_colours_of_what_passes(visit: Visit, finished: Finished) -> None:
    page = visit(f"/runs/{finished.better}")
    page.locator(".bin rect.pass").wait_for()
    assert page.locator(".bin rect.pass").count() == page.locator(".bin rect.fail").count() == 1
    passed = page.locator(".bin", has=page.locator("rect.pass"))
    assert passed.locator("title").text_content() == "0.95 to 1.00: 11 pass"
