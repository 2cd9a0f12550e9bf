"""Two people label twenty answers, and an editor decides the ties and closes the review, all by keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, people, projects, reviews
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.reviews import ReviewRequest, get_review
from evalflow.addons.studio.work.run_request import RunRequest
from tests.addons.studio.web.conftest import working_in
from tests.addons.studio.web.finished import EXACT
from tests.addons.studio.web.public import PublicServer, serving_in_public
from tests.finishing import finish

pytestmark = [pytest.mark.slow, pytest.mark.browser]
SIZE = 20
DIFFER = (3, 11, 17)
"""The fees of which Ann and Ben say different things."""


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicServer]:
    folder = tmp_path_factory.mktemp("by_keys")
    with working_in(folder) as space:
        bots.create_bot(space, "fees", {"kind": "recorded"})
        metrics.create_metric(space, "fees", MetricDraft("exact", EXACT, title="As on the list"))
        datasets.create_dataset(space, "questions")
        rows = [
            {"id": f"c{i}", "question": f"What is fee {i}?", "reference": f"{i} pounds.", "answer": f"{i} pounds."}
            for i in range(SIZE)
        ]
        cases.add_cases(space, "questions", rows)
        run = finish(space, RunRequest("fees", ["questions"], ["exact"]))
        for name in ("ann", "ben", "eve"):
            people.add_user(space, name)
            projects.set_role(space, name, "editor" if name == "eve" else "annotator")
        request = ReviewRequest(
            name="Fees", run_id=run.run_id, metrics=["exact"], size=SIZE, people=["ann", "ben"], overlap=1.0, seed=1
        )
        reviews.create_review(space, request)
    with serving_in_public(folder) as server:
        yield server


@pytest.fixture(name="arrive")
def _arrive(browser: Any, server: PublicServer) -> Iterator[Callable[[str], Any]]:
    contexts: list[Any] = []

    def arrive(name: str) -> Any:
        """The first page of a person."""
        context = browser.new_context(ignore_https_errors=True, base_url=server.url)
        context.set_default_timeout(60_000)
        contexts.append(context)
        server.let_in(context, name)
        page = context.new_page()
        page.goto("/")
        page.wait_for_function("window.did_handshake === true")
        return page

    yield arrive
    for context in contexts:
        context.close()


def label(page: Any, name: str) -> None:
    """Label all answers with two keys for each."""
    for _ in range(SIZE):
        page.locator(".grading:focus-within").wait_for()
        fee = int(re.sub(r"\D", "", page.locator(".question-in-full").inner_text()))
        before = page.locator("[data-answer]").get_attribute("data-answer")
        page.keyboard.press("2" if name == "ben" and fee in DIFFER else "1")
        page.keyboard.press("Control+Enter")
        page.wait_for_function("was => document.querySelector('[data-answer]')?.dataset.answer !== was", arg=before)


def test_two_people_label_and_an_editor_decides_and_closes(arrive: Callable[[str], Any], server: PublicServer) -> None:
    for name in ("ann", "ben"):
        page = arrive(name)
        page.get_by_role("link", name="Begin Fees").wait_for()
        page.keyboard.press("l")
        page.wait_for_url("**/reviews/Fees/label*")
        page.wait_for_function("window.did_handshake === true")
        label(page, name)
        page.get_by_role("heading", name="All done, thank you").wait_for()
        page.get_by_role("link", name="To your reviews").and_(page.locator(":focus")).wait_for()
        page.keyboard.press("Enter")
        page.get_by_text("Nothing left for you. Thank you.").wait_for()

    page = arrive("eve")
    page.goto("/reviews/Fees")
    page.wait_for_function("window.did_handshake === true")
    page.get_by_text("3 of 3 are to be decided, 3 of them ties.").wait_for()
    yes = page.locator("article button[data-key='1']")
    yes.wait_for()
    page.keyboard.press("1")  # out of sight it decides nothing
    yes.and_(page.locator(":focus")).wait_for()
    assert 0 < yes.bounding_box()["y"] < page.viewport_size["height"]
    for left in range(len(DIFFER) - 1, 0, -1):
        page.keyboard.down("1")
        page.get_by_text(f"{left} of 3 are to be decided").wait_for()
        yes.and_(page.locator(":focus")).wait_for()
        page.keyboard.down("1")  # a key that is held decides once
        page.wait_for_timeout(500)
        assert page.get_by_text(f"{left} of 3 are to be decided").is_visible()
        page.keyboard.up("1")
    page.keyboard.press("1")
    page.get_by_role("button", name="Close it").and_(page.locator(":focus")).wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Reopen the review").wait_for()
    with working_in(server.folder) as space:
        assert get_review(space, "Fees").state == "closed"
