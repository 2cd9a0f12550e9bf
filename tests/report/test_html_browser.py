"""The report in a real browser: what the explorer does when it is used."""

from pathlib import Path

import pytest

from evalflow.config.schema import MetricConfig
from evalflow.report.html import write_reports

pytestmark = pytest.mark.browser

EVIL = "</script><img src=x onerror=\"document.title='owned'\">"
N = 300


@pytest.fixture(name="report", scope="module")
def _report(make_run, make_case, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    cases = [make_case(i, tags=("Fees > Late",) if i % 2 else ("Appeals",)) for i in range(N)]
    cases[3] = make_case(3, id=EVIL, question=EVIL, answer=EVIL, reference=EVIL, tags=(EVIL,))
    cells = []
    for i, case in enumerate(cases):
        score = i / N
        cells.append(
            {"case_id": case.id, "score": score, "threshold": 0.5, "passed": score >= 0.5, "reason": f"reason {i}"}
        )
        cells.append({"case_id": case.id, "metric": "bias", "score": score, "threshold": 0.5, "passed": score <= 0.5})
    cells[4] = {"case_id": "case-2", "status": "error", "error": "no reply", "error_type": "timeout"}
    metrics = {
        "faithfulness": MetricConfig(kind="judge"),
        "bias": MetricConfig(kind="judge", direction="lower_is_better"),
    }
    write_reports(folder, make_run(cases, cells, metrics=metrics))
    return folder / "report.html"


@pytest.fixture(name="opened")
def _opened(browser, report):
    """Opens the report, and at the end finds that it asked for nothing else and raised nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text))
    page.on("request", lambda request: None if request.url.startswith("file:") else troubles.append(request.url))

    def visit(fragment="", width=1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{report.as_uri()}{fragment}")
        page.wait_for_selector("#explorer .item", state="attached")
        return page

    yield visit
    assert page.title() != "owned"
    assert troubles == []
    context.close()


def wait(locator, text):
    """Until the element has that text; the page's policy forbids to wait with a script."""
    from playwright.sync_api import expect

    expect(locator).to_have_text(text)


def shown(page):
    return page.locator(".item .id").all_inner_texts()


def test_a_deep_link_opens_its_case_on_load(opened):
    page = opened("#case=case-250")
    page.wait_for_selector("#detail .question")
    assert page.inner_text("#detail .question") == "What does rule 250 say?"
    assert "reason 250" in page.inner_text("#detail")
    assert page.locator(".item[aria-selected=true] .id").inner_text() == "case-250"


def test_a_link_to_no_case_says_so(opened):
    page = opened("#case=nothing")
    assert "There is no case nothing in this report." in page.inner_text("#detail")


def test_filters_narrow_the_list(opened):
    page = opened()
    assert page.inner_text("#count") == "300 cases"
    page.select_option("#metric", "faithfulness")
    page.select_option("#state", "failed")
    wait(page.locator("#count"), "149 of 300 cases")
    page.select_option("#tag", "Fees")
    wait(page.locator("#count"), "74 of 300 cases")
    page.fill("#low", "0.4")
    wait(page.locator("#count"), "15 of 300 cases")
    page.click("#reset")
    wait(page.locator("#count"), "300 cases")
    page.select_option("#state", "error")
    wait(page.locator("#count"), "1 of 300 cases")
    assert shown(page) == ["case-2"]


def test_search_reads_reasons(opened):
    page = opened()
    page.keyboard.press("/")
    page.keyboard.type("reason 123")
    wait(page.locator("#count"), "1 of 300 cases")
    assert shown(page) == ["case-123"]
    page.keyboard.press("Escape")
    wait(page.locator("#count"), "300 cases")


def test_worst_first_follows_the_metrics_direction(opened):
    page = opened()
    page.get_by_text("worst first").click()
    page.select_option("#metric", "faithfulness")
    wait(page.locator(".item .id").first, "case-0")
    page.select_option("#metric", "bias")
    wait(page.locator(".item .id").first, "case-299")


def test_the_keyboard_moves_through_the_cases(opened):
    page = opened()
    for key in ("j", "j", "k", "j"):
        page.keyboard.press(key)
    assert page.evaluate("decodeURIComponent(location.hash)") == "#case=case-2"
    assert "timeout: no reply" in page.inner_text("#detail")


def test_attacks_are_shown_as_text(opened):
    page = opened()
    page.locator(".item").nth(3).click()
    assert page.inner_text("#detail .question") == EVIL
    assert page.locator("#detail img").count() == 0
    page.reload()
    page.wait_for_selector("#detail .question")
    assert page.inner_text("#detail .question") == EVIL


def test_only_the_rows_in_sight_are_drawn(opened):
    page = opened()
    assert page.locator(".item").count() < 40
    page.evaluate("document.getElementById('list').scrollTop = 1e9")
    wait(page.locator(".item .id").last, "case-299")
    assert page.locator(".item").count() < 40


def test_a_phone_shows_list_or_case_and_never_scrolls_sideways(opened):
    page = opened(width=390)
    assert page.locator("#detail").is_hidden()
    page.locator(".item").nth(1).click()
    assert page.locator("#list").is_hidden()
    assert page.inner_text("#detail .question") == "What does rule 1 say?"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click(".back")
    assert page.locator("#list").is_visible()
