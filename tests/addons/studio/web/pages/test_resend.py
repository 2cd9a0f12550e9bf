"""What is typed while the connection is lost, even before the browser notices it, arrives once the server is back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, review_desk, reviews
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.tasks import TaskDraft, create_task
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.web.pages.test_datasets import field, kept, press, saved, seen
from tests.finishing import finish

pytestmark = [pytest.mark.slow, pytest.mark.browser]
OWN_TABS = True
Visit = Callable[..., Any]
PATIENCE_S = 60
TYPED = "Typed in a tunnel."


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tunnel")
    with working_in(folder) as space:
        bots.create_bot(space, "fees", {"kind": "recorded"})
        config = {"kind": "recorded", "field": "metadata.right", "scale": {"type": "boolean"}}
        metrics.create_metric(space, "fees", MetricDraft("right", {**config, "version": 1, "description": ""}))
        datasets.create_dataset(space, "questions")
        row = {"question": "The fee?", "answer": "3.", "reference": "short", "metadata": {"right": True}}
        cases.add_cases(space, "questions", [row])
        run = finish(space, RunRequest("fees", ["questions"], ["right"]))
        reviews.create_review(
            space, ReviewRequest(name="Fees", run_id=run.run_id, metrics=["right"], size=1, people=["local"])
        )
        create_task(space, TaskDraft("Ask ann"))
    return folder


@pytest.fixture(name="pages", scope="module")
def _pages(folder: Path) -> Iterator[Server]:
    with paged(folder) as server:
        yield server


class Tunnel:
    """The connection of a page, which swallows what is sent in either direction while it is `dark`."""

    def __init__(self, page: Any) -> None:
        self._is_dark = False
        self._page, self._sides = page, []
        page.route_web_socket("**/_nicegui_ws/**", self._join)

    def _join(self, outside: Any) -> None:
        inside = outside.connect_to_server()
        self._sides = [outside, inside]
        for here, there in ((outside, inside), (inside, outside)):
            here.on_message(lambda message, there=there: None if self._is_dark else there.send(message))

    def enter(self) -> None:
        """Lose what is sent from here on, unnoticed by the page."""
        self._is_dark = True

    def leave(self) -> None:
        """Have the page notice, and connect again."""
        for side in self._sides:
            side.close()
        self._page.wait_for_function("window.socket.connected === false")
        self._is_dark = False
        self._page.wait_for_function("window.socket?.connected === true")


def test_a_form_is_saved_with_what_was_typed(visit: Visit, pages: Server) -> None:
    case = pages.ask("GET", "/api/v1/datasets/questions/cases").json["items"][0]
    page = visit("/runs")
    tunnel = Tunnel(page)
    page.goto(f"{pages.address.url}/datasets/questions/cases/{case['id']}")
    page.wait_for_function("window.did_handshake === true")
    tunnel.enter()
    field(page, "Expected answer").fill(TYPED)
    tunnel.leave()
    if field(page, "Expected answer").input_value() != TYPED:  # the server had given the page up
        press(page, "Restore it")
    page.get_by_text("Not saved yet").wait_for()
    press(page, "Save")
    saved(page)
    assert kept(pages, "questions")[0]["reference"] == TYPED


def test_a_comment_at_the_desk_becomes_a_part_of_the_draft(visit: Visit, pages: Server, folder: Path) -> None:
    page = visit("/runs")
    tunnel = Tunnel(page)
    page.goto(f"{pages.address.url}/reviews/Fees/label")
    page.wait_for_function("window.did_handshake === true")
    page.locator(".grading:focus-within").wait_for()
    tunnel.enter()
    page.get_by_label("Comment").fill(TYPED)
    tunnel.leave()
    until_drafted(folder, TYPED)


def test_a_draft_is_saved_once_the_database_is_back(visit: Visit, folder: Path) -> None:
    database, away = (folder / ".evalflow" / name for name in ("evalflow.db", "away.db"))
    page = visit("/reviews/Fees/label")
    page.locator(".grading:focus-within").wait_for()
    database.rename(away)
    page.get_by_label("Comment").fill("Typed in an outage.")
    page.get_by_text("Not saved", exact=True).wait_for()
    away.rename(database)
    page.get_by_text("Saved", exact=True).wait_for()
    until_drafted(folder, "Typed in an outage.")


def until_drafted(folder: Path, comment: str) -> None:
    """Wait until the draft of the open answer has this comment."""
    deadline = time.monotonic() + PATIENCE_S
    with working_in(folder) as space:
        while (item := review_desk.next_item(space, "Fees")) and item.draft.get("comment") != comment:
            assert time.monotonic() < deadline, item.draft
            time.sleep(0.1)


def test_a_page_that_is_loaded_again_offers_a_comment_without_a_question(visit: Visit) -> None:
    page = visit("/tasks/1")
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    page.get_by_label("Your comment").fill(TYPED)
    page.evaluate("window.socket.disconnect()")
    page.evaluate("location.reload()")  # as NiceGUI does if the server has given the page up
    seen(page, "You typed something here that was not saved")
    press(page, "Restore it")
    press(page, "Add comment")
    page.locator(".comments li", has_text=TYPED).wait_for()
    page.wait_for_function("Object.keys(localStorage).filter(name => name.startsWith('evalflow-draft')).length === 0")
    page.reload()
    page.locator(".comments li", has_text=TYPED).wait_for()
    assert page.locator(".draft-bar").count() == 0
    assert asked == []


def test_a_form_that_is_kept_is_left_without_a_question_while_the_server_is_away(visit: Visit) -> None:
    page = visit("/datasets/new")
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept()))
    field(page, "Description").fill(TYPED)
    page.evaluate("window.socket.disconnect()")
    page.evaluate("location.reload()")
    seen(page, "You typed something here that was not saved")
    assert asked == []
    press(page, "Discard it")


FAKE_SOCKET = """field => {
    const sent = [], heard = {};
    window.socket = {
        onAnyOutgoing: hear => { heard.out = hear; },
        on: (name, hear) => { heard[name] = hear; },
        emit: (name, message) => sent.push(message.listener_id),
    };
    field.dispatchEvent(new Event("input", {bubbles: true}));
    const id = Number(field.id.slice(1)), args = [JSON.stringify(field.value)];
    for (const listener_id of ["one", "two", "one"]) heard.out("event", {id, listener_id, args});
    heard.disconnect();
    return sent;
}"""


def test_the_last_message_of_each_listener_is_sent_again(visit: Visit) -> None:
    page = visit("/datasets/new")
    page.on("dialog", lambda dialog: dialog.accept())
    typed = field(page, "Description")
    typed.fill(TYPED)
    assert {*typed.evaluate(FAKE_SOCKET)} >= {"one", "two"}
    page.evaluate("localStorage.clear()")
