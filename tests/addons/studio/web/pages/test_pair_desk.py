"""Two answers are compared by keys alone, on a desk that does not tell whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, reviews
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.review_desk import next_item, submit_item
from evalflow.addons.studio.work.review_results import disagreements, review_labels
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import list_runs
from evalflow.testing import Endpoint
from tests.addons.studio.web.conftest import Fits, Server, working_in
from tests.addons.studio.web.finished import EVIL, finish_runs
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.work.test_pair_reviews import BETTER, prefers_the_new
from tests.addons.studio.work.test_reviews import add_people, person
from tests.finishing import finish

pytestmark = [pytest.mark.slow, pytest.mark.browser]
OWN_TABS = True
RUNS = ("As it was", "New prompt")
READ = ("Read before", "Read now")


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    with working_in(folder) as space, Endpoint(prefers_the_new) as endpoint:
        bots.create_bot(space, "desk", {"kind": "recorded"})
        metrics.create_metric(space, "desk", MetricDraft("better", BETTER, title="Helps more"))
        datasets.create_dataset(space, "mine")
        row = {"id": "a", "question": "The fee?", "answer": "The new one: 4.", "vars": {"old": "The old one: free."}}
        cases.add_cases(space, "mine", [row, {**row, "id": "b"}])
        values = {"model": "m", "base_url": endpoint.url, "api_key_env": None}
        run = finish(space, RunRequest("desk", ["mine"], ["better"], judge="openai", judge_values=values)).run_id
        request = ReviewRequest(name="Pairs", run_id=run, metrics=["better"], size=2, people=["local"])
        reviews.create_review(space, request)
        finish_runs(space)
        datasets.create_dataset(space, "read")
        passages = ["The fee is 4 pounds.", "The office opens at nine."]
        row = {"id": "a", "question": "The fee?", "answer": "4.", "reference": "4.", "contexts": passages}
        cases.add_cases(space, "read", [row, {**row, "id": "b"}])
        finish(space, RunRequest("fees", ["read"], ["exact"], title=READ[0]))
        changed = {"a": passages[:1], "b": passages}
        for stored, (key, given) in zip(cases.list_cases(space, "read").items, changed.items(), strict=True):
            now = {**row, "id": key, "answer": "5.", "contexts": given}
            cases.update_case(space, "read", stored.id, stored.version, now)
        finish(space, RunRequest("fees", ["read"], ["exact"], title=READ[1]))
    return folder


@pytest.fixture(name="pages", scope="module")
def _pages(folder: Path) -> Iterator[Server]:
    with paged(folder) as server:
        yield server


def test_the_better_of_two_is_chosen_by_keys(folder: Path, visit: Any, fits: Fits) -> None:
    page = visit("/reviews/Pairs/label")
    page.get_by_role("heading", name="Which of these two is better?").wait_for(state="attached")
    first, second = (page.locator(".pane.answered").nth(i) for i in (0, 1))
    assert first.bounding_box()["y"] == second.bounding_box()["y"]
    fits(page, "two answers")
    page.keyboard.press("1" if "new" in first.inner_text() else "2")
    page.keyboard.press("Control+Enter")
    page.get_by_text("1 of 2 done").wait_for()
    page.keyboard.press("3")
    page.keyboard.press("Control+Enter")
    page.get_by_text("All done, thank you").wait_for()
    with working_in(folder) as space:
        assert sorted(str(row["value"]) for row in review_labels(space, "Pairs")) == ["tie", "win"]
    page.goto(f"{page.url.split('/reviews/')[0]}/reviews/Pairs")
    page.get_by_text("nothing is left to decide").wait_for()
    page.get_by_role("button", name="Close it").click()
    page.get_by_role("button", name="Reopen the review").wait_for()


def test_people_are_asked_which_run_is_better_and_the_comparison_says_it(folder: Path, visit: Any, fits: Fits) -> None:
    with working_in(folder) as space:
        before, after = ({run.title: run.run_id for run in list_runs(space).items}[one] for one in RUNS)
    compared = f"/compare?a={before}&b={after}"
    page = visit(compared)
    page.get_by_role("link", name="Ask people which is better").click()
    page.get_by_role("heading", name="Which answer is better?").wait_for()
    fits(page, "form of a review of two runs")
    page.get_by_label("Name").fill("Fees")
    page.get_by_label("Cases to compare").fill("6")
    page.get_by_role("button", name="Create the review").click()
    page.get_by_role("link", name="Begin Fees").click()
    page.get_by_role("heading", name="Which of these two is better?").wait_for(state="attached")
    fits(page, "answers of two runs")
    for done in range(6):
        page.get_by_text(f"{done} of 6 done").wait_for()
        assert "run" not in page.locator(".desk").inner_text().lower()
        is_evil = page.locator(".pane.answered").first.locator(".prose").inner_text().strip() == EVIL
        is_first = is_evil == bool(page.get_by_text("What is fee 0?").count())  # the only case that B answers so
        page.keyboard.press("3" if done == 5 else "1" if is_first else "2")
        page.keyboard.press("Control+Enter")
    page.get_by_text("All done, thank you").wait_for()
    page = visit("/reviews/Fees")
    page.get_by_text("prefer New prompt: its answer in 5 of 6 cases, that of As it was in 0").wait_for()
    assert before not in page.locator("main").inner_text()
    fits(page, "result of a review of two runs")
    page.get_by_role("link", name="To the comparison").click()
    said = page.locator(".preferred")
    said.wait_for()
    found = (
        "prefer New prompt: its answer in 5 of 6 cases, that of As it was in 0, 1 tie "
        "(share of New prompt 92 %, 95 % interval 50 to 100 %; a tie counts half)."
    )
    assert said.inner_text() == f"Provisional: people may still label. So far they {found}"
    page.get_by_role("link", name="Ask more people").wait_for()
    page.get_by_role("link", name="To the review Fees").click()
    page.get_by_text("prefer New prompt").wait_for()
    page.get_by_role("button", name="Close the review").click()
    page.get_by_role("button", name="Reopen the review").wait_for()
    page = visit(compared)
    page.locator(".preferred").get_by_text(f"People {found}", exact=True).wait_for()
    assert not page.get_by_role("link", name="To the review").count()


def test_the_passages_of_both_answers_are_tabs_beside_them(folder: Path, visit: Any, fits: Fits) -> None:
    with working_in(folder) as space:
        before, after = ({run.title: run.run_id for run in list_runs(space).items}[one] for one in READ)
    page = visit(f"/compare?a={before}&b={after}")
    page.locator(".flip").first.wait_for()
    page.keyboard.press("j")
    page.get_by_role("tab", name="Contexts of B 1").wait_for()
    page.keyboard.press("x")
    passages = page.get_by_role("tabpanel", name="Contexts of A 2")
    passages.get_by_text("The office opens at nine.").wait_for()
    page.get_by_role("tab", name="Contexts of B 1").click()
    assert page.get_by_role("tabpanel", name="Contexts of B 1").inner_text().count("The fee is 4 pounds.") == 1
    fits(page, "contexts of two answers")
    page.keyboard.press("j")
    page.get_by_role("tab", name="Contexts 2", exact=True).wait_for()


def test_a_disagreement_on_a_pair_says_which_answer_is_better(folder: Path, visit: Any, fits: Fits) -> None:
    with working_in(folder) as space:
        run = next(run.run_id for run in list_runs(space).items if run.bot == "desk")
        add_people(space, {"ann": "annotator", "ben": "annotator"})
        asked = {"size": 2, "people": ["ann", "ben"], "overlap": 1.0}
        reviews.create_review(space, ReviewRequest(name="Two people", run_id=run, metrics=["better"], **asked))
        for name, prefers in (("ann", "new"), ("ben", "old")):
            me = person(space, name)
            while (item := next_item(me, "Two people")) is not None:
                submit_item(me, "Two people", item.item, {"better": "first" if prefers in item.answer else "second"})
    page = visit("/reviews/Two people")
    card = page.locator("article", has_text="Helps more, pair 1")
    first, second = (card.locator(".pane.answered").nth(i) for i in (0, 1))
    first.get_by_text("The new one: 4.").wait_for()
    assert first.bounding_box()["y"] == second.bounding_box()["y"]
    assert sorted(card.locator("li").all_inner_texts()) == ["The first is better", "The second is better"]
    card.get_by_role("button", name="Both are equally good").wait_for()
    fits(page, "a disagreement on a pair")
    card.get_by_role("button", name="The first is better").click()
    page.get_by_text("Decided: The first is better.").wait_for()
    with working_in(folder) as space:
        assert [one.resolved for one in disagreements(space, "Two people") if one.is_resolved] == ["win"]
