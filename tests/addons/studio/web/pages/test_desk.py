"""A person labels at the desk by keys alone, closes the browser, comes back, and receives nothing of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, review_desk, reviews
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import open_workspace
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.pages.conftest import paged
from tests.finishing import finish

pytestmark = [pytest.mark.slow, pytest.mark.browser]
OWN_TABS = True
DESK = "/reviews/Fees/label"
SECRETS = ("Autumn prompt", "fees_bot", "judged_by_nobody", "questions")
"""Names of the run, its bot, another metric and the dataset."""


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reviewed")
    with working_in(folder) as space:
        bots.create_bot(space, "fees_bot", {"kind": "recorded"}, "")
        for name, scale in (
            ("right", {"type": "boolean"}),
            ("helpful", {"type": "likert", "min": 1, "max": 5, "anchors": {1: "No help", 5: "Solved"}}),
            ("judged_by_nobody", {"type": "boolean"}),
        ):
            config = {"kind": "recorded", "version": 1, "description": "", "field": f"metadata.{name}", "scale": scale}
            metrics.create_metric(space, "fees_bot", MetricDraft(name, config))
        datasets.create_dataset(space, "questions", "")
        metadata = {"right": True, "helpful": 4, "judged_by_nobody": False}
        rows = [
            {"id": f"c{i}", "question": f"Fee {i}?", "answer": f"{i} euros.", "metadata": metadata} for i in range(4)
        ]
        cases.add_cases(space, "questions", rows)
        wanted = ["right", "helpful", "judged_by_nobody"]
        run = finish(space, RunRequest("fees_bot", ["questions"], wanted, title="Autumn prompt"))
        request = ReviewRequest(name="Fees", run_id=run.run_id, metrics=["right", "helpful"], size=4, people=["local"])
        reviews.create_review(space, request)
    return folder


@pytest.fixture(name="pages", scope="module")
def _pages(folder: Path) -> Iterator[Server]:
    with paged(folder) as server:
        yield server


def _values(folder: Path) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        space = open_workspace()
        items = review_desk.own_progress(space, "Fees").items
        drafts = [
            dict(review_desk.open_item(space, "Fees", one.item).draft) for one in items if one.state == "submitted"
        ]
        space.close()
    return drafts


def test_labels_by_keys_and_comes_back_to_the_draft(folder: Path, visit: Any) -> None:
    page = visit("/reviews")
    page.get_by_role("link", name="Begin Fees").click()
    page.wait_for_url(f"**{DESK}*")
    page.wait_for_function("window.did_handshake === true")
    page.locator(".grading:focus-within").wait_for()
    received = [page.content()]
    for keys in (("2", "ArrowDown", "4"), ("1", "ArrowDown", "u")):
        for key in keys:
            page.keyboard.press(key)
        page.keyboard.press("f")
        before = page.locator(".judged").inner_text()
        page.keyboard.press("Control+Enter")
        page.wait_for_function("was => document.querySelector('.judged').innerText !== was", arg=before)
        page.locator(".grading:focus-within").wait_for()
        received += [page.content(), page.url]
    assert _values(folder) == [
        {"values": {"right": False, "helpful": 4}, "cannot_tell": [], "comment": ""},
        {"values": {"right": True}, "cannot_tell": ["helpful"], "comment": ""},
    ]
    page.keyboard.press("Control+Enter")
    page.get_by_text("Choose a value, or “Cannot tell”.").first.wait_for()
    page.keyboard.press("1")
    page.get_by_text("Saved", exact=True).wait_for()
    answer = page.locator(".judged").inner_text()
    page.close()

    frames: list[str] = []
    again = visit("/reviews", width=390, colours="dark")
    again.on("websocket", lambda one: one.on("framereceived", lambda frame: frames.append(str(frame))))
    again.get_by_role("link", name="Continue Fees").click()
    again.wait_for_url(f"**{DESK}*")
    again.wait_for_function("window.did_handshake === true")
    assert again.locator(".judged").inner_text() == answer
    again.get_by_role("button", name="Yes", pressed=True).wait_for()
    assert again.evaluate("document.documentElement.scrollWidth") == 390
    again.get_by_role("button", name="4", exact=True).click()
    again.get_by_role("button", name="Submit").click()
    again.wait_for_function("was => document.querySelector('.judged').innerText !== was", arg=answer)
    again.get_by_role("button", name="Decline").click()
    again.get_by_role("dialog").get_by_role("button", name="Decline").click()
    again.get_by_role("heading", name="All done, thank you").wait_for()
    received += [again.content(), again.url, *frames]
    assert frames
    assert not [secret for secret in SECRETS for one in received if secret in one]
