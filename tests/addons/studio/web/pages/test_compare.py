"""Two runs compared, and a metric followed over runs, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import delete, select

from evalflow.addons.studio.store.tables import run_views, runs
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.finished import EVIL, Finished
from tests.addons.studio.web.pages.conftest import paged

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


@pytest.fixture(name="pages", scope="module")
def _pages(finished: Finished) -> Iterator[Server]:
    with paged(finished.folder) as server:
        yield server


def test_two_runs_are_picked_compared_and_read_case_by_case(visit: Visit, finished: Finished) -> None:
    page = visit(f"/compare?b={finished.better}")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_url(f"**/compare?a={finished.worse}&b={finished.better}")
    page.get_by_role("heading", name="New prompt is better than As it was: 83 points").wait_for()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    assert "+0.833" in row.first.inner_text()
    assert page.get_by_role("img", name=re.compile(r"difference \+0\.833, interval")).count() == 1
    page.get_by_text("11 cases flipped to pass, 1 to fail.").wait_for()
    page.locator(".flip").first.wait_for()
    page.keyboard.press("j")
    answers = page.locator(".pane.answered")
    answers.nth(1).get_by_text("onerror").wait_for()
    assert answers.nth(1).locator(".prose").inner_text().strip() == EVIL
    assert answers.nth(0).locator("del").inner_text() == "It costs 0 pounds"
    assert "the answer does not equal the reference" in page.locator(".both .half").nth(1).inner_text()
    assert page.locator("img[src=x]").count() == 0
    page.get_by_role("button", name="Better 11").press("Enter")
    page.locator(".flip").first.get_by_text("fail → pass").wait_for()
    assert page.locator(".flip").count() == 11
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.locator(".case-view").get_by_text("What is fee 2?").first.wait_for()
    page.wait_for_url("**&show=better&dataset=questions&case=c2")
    page.reload()
    page.locator(".case-view").get_by_text("What is fee 2?").first.wait_for()
    page.keyboard.press("k")
    page.locator(".case-view").get_by_text("What is fee 1?").first.wait_for()
    page.get_by_role("button", name="Scored in one run only 0").press("Enter")
    page.get_by_text("in one run only; 12 scored differently, 12 answered differently.").wait_for()
    page.get_by_text("Compare other runs").click()
    page.get_by_role("spinbutton").fill("0.1")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("not worse", exact=True).wait_for()
    assert page.url.endswith("margin=0.1")
    page.get_by_text("Compare other runs").click()
    page.get_by_role("link", name="Swap A and B").click()
    page.get_by_role("heading", name="As it was is worse than New prompt: 83 points").wait_for()


def test_who_reads_a_comparison_has_seen_both_runs(visit: Visit, finished: Finished) -> None:
    """Labels that they give to an answer of either later say so."""
    with working_in(finished.folder) as space:
        with space.database.writing() as connection:
            connection.execute(delete(run_views))
        page = visit(f"/compare?a={finished.worse}&b={finished.better}")
        page.get_by_role("heading", name="New prompt is better than As it was: 83 points").wait_for()
        seen = select(runs.c.run_id).join(run_views, run_views.c.run == runs.c.id)
        with space.database.reading() as connection:
            assert set(connection.execute(seen).scalars()) == {finished.worse, finished.better}


def test_what_cannot_be_compared_says_why_and_is_compared_all_the_same(visit: Visit, finished: Finished) -> None:
    page = visit(f"/compare?a={finished.worse}&b={finished.other}")
    page.get_by_text("metric exact has version 1 in A and 2 in B").wait_for()
    assert page.get_by_text("Metric by metric").count() == 0
    again = page.get_by_role("link", name="Run A again, as B was")
    assert again.get_attribute("href") == f"/runs/new?source={finished.other}"
    page.get_by_role("link", name="Compare anyway").click()
    page.get_by_text("compared anyway, as allowed").wait_for()
    page.get_by_role("heading", name=re.compile("^The difference cannot be attributed to one change")).wait_for()


def test_a_metric_is_followed_over_runs(visit: Visit, finished: Finished) -> None:
    page = visit("/history")
    page.get_by_role("heading", name="exact").wait_for()
    page.get_by_text("pass rate · questions · threshold 1.00").wait_for()
    assert page.locator(".plot .point").count() == 3
    assert page.locator(".plot a").first.get_attribute("href") == f"/runs/{finished.worse}"
    page.get_by_role("link", name="exact", exact=True).click()
    page.wait_for_url("**/history?bot=fees&dataset=questions&metric=exact&statistic=pass_rate")
    page = visit("/history?bot=fees&dataset=questions&metric=exact")
    points = page.locator(".plot .point")
    assert points.count() == 3
    assert page.locator(".plot .point.failed").count() == 1
    assert page.locator(".plot .link").count() == 1
    assert page.locator(".plot .threshold").count() == 3
    assert page.get_by_role("group", name="3 runs, from 0.083 to 0.917 · threshold 1.00").count() == 1
    page.get_by_text("The dotted line is the threshold of a single score.").wait_for()
    page.get_by_text("other metric", exact=True).wait_for()
    assert "version 1 in the run before and 2 in this one" in page.get_by_role("row").nth(1).inner_text()
    page.locator(".field", has_text="Number").get_by_role("combobox").press("ArrowDown")
    page.get_by_role("option", name="pass rate").click()
    page.wait_for_url("**/history?**statistic=pass_rate")
    page.get_by_role("heading", name="exact, pass rate").wait_for()
    assert page.locator(".plot a").first.get_attribute("href") == f"/runs/{finished.worse}"


def test_what_is_not_there_is_said(visit: Visit, pages: Server, finished: Finished) -> None:
    assert pages.ask("GET", f"/compare?a=none&b={finished.better}").status == 404
    page = visit("/history?bot=fees&dataset=questions&metric=none")
    page.get_by_text("none of fees on questions has no history.").wait_for()
