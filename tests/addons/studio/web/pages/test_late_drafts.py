"""A draft that is refused after its answer was submitted leaves the next answer alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.work import bots, cases, datasets, metrics, review_desk, reviews
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import TakenError
from evalflow.errors import Problem
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.web.served import serve_pages
from tests.finishing import finish

pytestmark = [pytest.mark.slow, pytest.mark.browser]
OWN_TABS = True
REFUSED = "somebody else labels this answer"


def serve_late_refusals(sock: socket, address: Address) -> None:
    """Serve pages, and refuse the first draft only after an answer was submitted."""
    save, submit, submitted = review_desk.save_draft, review_desk.submit_item, threading.Event()

    def save_late(*given: Any, **about: Any) -> None:
        if submitted.is_set():
            save(*given, **about)
            return
        submitted.wait()
        raise TakenError(Problem(REFUSED))

    def submit_first(*given: Any, **about: Any) -> None:
        submit(*given, **about)
        threading.Timer(1.0, submitted.set).start()  # the next answer is shown meanwhile

    review_desk.save_draft, review_desk.submit_item = save_late, submit_first
    serve_pages(sock, address)


@pytest.fixture(name="pages", scope="module")
def _pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("late")
    fill(folder)
    with paged(folder, serves=serve_late_refusals) as server:
        yield server


def fill(folder: Path) -> None:
    """Have a review of two answers."""
    with working_in(folder) as space:
        bots.create_bot(space, "fees", {"kind": "recorded"})
        config = {"kind": "recorded", "field": "metadata.right", "scale": {"type": "boolean"}}
        metrics.create_metric(space, "fees", MetricDraft("right", {**config, "version": 1, "description": ""}))
        datasets.create_dataset(space, "questions")
        rows = [{"question": f"Fee {i}?", "answer": f"{i}.", "metadata": {"right": True}} for i in range(2)]
        cases.add_cases(space, "questions", rows)
        run = finish(space, RunRequest("fees", ["questions"], ["right"]))
        reviews.create_review(
            space, ReviewRequest(name="Fees", run_id=run.run_id, metrics=["right"], size=2, people=["local"])
        )


def test_a_draft_that_is_refused_late_leaves_the_next_answer_alone(visit: Any) -> None:
    page = visit("/reviews/Fees/label")
    page.locator(".grading:focus-within").wait_for()
    first = page.locator("[data-answer]").get_attribute("data-answer")
    page.keyboard.press("1")
    page.wait_for_timeout(1500)  # its draft is on the way
    page.keyboard.press("Control+Enter")
    page.wait_for_function("was => document.querySelector('[data-answer]')?.dataset.answer !== was", arg=first)
    page.get_by_label("Comment").fill("About the second answer.")
    page.get_by_text("Saved", exact=True).wait_for()
    assert page.get_by_text(REFUSED, exact=False).count() == 0
    assert page.get_by_label("Comment").input_value() == "About the second answer."
