"""The numbers of a run with several metrics, at a glance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.finished import EXACT
from tests.addons.studio.web.pages.conftest import paged
from tests.finishing import finish

pytestmark = pytest.mark.browser
NAMES = ["exact", "again", "backwards"]
PLAIN = {key: value for key, value in EXACT.items() if key != "gate"}
ROWS = [{"id": f"c{i}", "question": f"q{i}?", "reference": "a", "answer": "a" if i < 3 else "b"} for i in range(12)]


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str, str]]:
    """The pages of a run with three metrics, and of one that is judged four times."""
    folder = tmp_path_factory.mktemp("several")
    with working_in(folder) as workspace:
        run = finished_run(workspace)
        request = RunRequest("desk", ["mine"], ["relevance"], options={"repeats": {"target": 1, "judge": 4}})
        repeated = finish(workspace, request).run_id
    with paged(folder) as server:
        yield server, run, repeated


@pytest.fixture(name="pages", scope="module")
def _pages(made: tuple[Server, str, str]) -> Server:
    return made[0]


def finished_run(space: Workspace) -> str:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    for name, definition in zip(NAMES, (EXACT, PLAIN, {**PLAIN, "direction": "lower_is_better"}), strict=True):
        metrics.create_metric(space, "desk", MetricDraft(name, definition))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", ROWS)
    return finish(space, RunRequest("desk", ["mine"], NAMES)).run_id


def test_each_number_has_a_line_that_leads_to_its_metric(
    visit: Callable[..., Any], made: tuple[Server, str, str]
) -> None:
    page = visit(f"/runs/{made[1]}", 390)
    lines = page.locator(".glance li")
    lines.nth(3).wait_for()
    assert lines.count() == 4
    assert lines.nth(0).inner_text().startswith("Cases that pass everything")
    first = lines.nth(1).inner_text()
    assert "0.25" in first
    assert "25 % pass" in first
    assert "gate failed" in first or "gate undecided" in first
    assert "lower is better" in lines.nth(3).inner_text()
    assert page.locator(".glance").get_by_role("img").count() == 4
    page.get_by_role("link", name="backwards", exact=True).press("Enter")
    page.wait_for_url("**#metric-backwards")
    assert page.locator("#metric-backwards").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_what_people_say_to_a_score_is_read_when_it_comes_into_view(
    visit: Callable[..., Any], made: tuple[Server, str, str]
) -> None:
    page = visit(f"/runs/{made[1]}/cases/0")
    page.set_viewport_size({"width": 1280, "height": 60})
    page.reload()
    scores = page.locator(".score-line")
    first, last = (scores.nth(i).get_by_role("button", name="More", exact=True) for i in (0, 2))
    scores.nth(0).locator(".line-tools").scroll_into_view_if_needed()
    first.wait_for()
    assert last.count() == 0
    scores.nth(2).locator(".line-tools").scroll_into_view_if_needed()
    last.wait_for()


def test_repeats_of_a_judge_are_folded_below_the_score_that_people_judge(
    visit: Callable[..., Any], made: tuple[Server, str, str]
) -> None:
    page = visit(f"/runs/{made[2]}/cases/0")
    score = page.locator(".score-line")
    score.get_by_role("button", name="Disagree").wait_for()
    assert (score.count(), score.get_by_role("heading", name="relevance").count()) == (1, 1)
    score.locator(":scope > details").evaluate("it => it.open || it.firstElementChild.click()")
    score.get_by_text("3 more repeats of the judge").click()
    score.get_by_role("heading", name="relevance").nth(3).wait_for()
    assert [score.get_by_text(f"Repeat of the judge{n}").count() for n in (2, 3, 4)] == [1, 1, 1]
    assert score.get_by_role("button", name="Disagree").count() == 1


def test_back_closes_the_case_then_restores_the_filter(
    visit: Callable[..., Any], made: tuple[Server, str, str]
) -> None:
    page = visit(f"/runs/{made[1]}")
    rows, panel = page.locator(".result-rows tbody tr"), page.locator(".side-panel")
    rows.nth(11).wait_for()
    page.get_by_label("Search").fill("q1")
    rows.nth(3).wait_for(state="detached")
    page.get_by_role("link", name="q10?").click()
    panel.get_by_role("heading", name="q10?").wait_for()
    page.keyboard.press("j")
    panel.get_by_role("heading", name="q11?").wait_for()
    page.go_back()
    panel.wait_for(state="hidden")
    assert "search=q1" in page.url
    assert rows.count() == 3
    page.go_back()
    rows.nth(11).wait_for()
    assert page.get_by_label("Search").input_value() == ""
    page.go_forward()
    rows.nth(3).wait_for(state="detached")
    page.get_by_role("link", name="q10?").click()
    panel.get_by_role("heading", name="q10?").wait_for()
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    page.go_back()
    rows.nth(11).wait_for()
