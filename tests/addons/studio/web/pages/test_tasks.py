"""What people say to a score, and the tasks that it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Fits, Server, working_in
from tests.addons.studio.web.finished import Finished, finish_runs
from tests.addons.studio.web.pages.conftest import paged

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


@pytest.fixture(name="own", scope="module")
def _own(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    with working_in(tmp_path_factory.mktemp("judged")) as space:
        return finish_runs(space)


@pytest.fixture(name="pages", scope="module")
def _pages(own: Finished) -> Iterator[Server]:
    with paged(own.folder) as server:
        yield server


def test_a_score_is_agreed_with_and_not_commented_excluded_and_made_a_task(
    visit: Visit, own: Finished, fits: Fits
) -> None:
    page = visit(f"/runs/{own.worse}/cases/1")
    agree, disagree = (page.get_by_role("button", name=name, exact=True) for name in ("Agree", "Disagree"))
    agree.wait_for()
    page.keyboard.press("a")
    page.get_by_text("You agree.").wait_for()
    page.keyboard.press("d")  # of two values, the other is said at once
    page.get_by_text("You say yes.").wait_for()
    assert (agree.get_attribute("aria-pressed"), disagree.get_attribute("aria-pressed")) == ("false", "true")
    page.get_by_label("Why?").fill("It says so in other words.")
    page.get_by_label("Why?").press("Enter")
    _choose(page, "Comment")
    page.get_by_label("Your comment").fill("Ask <b>ann</b>")
    page.get_by_role("button", name="Add comment").click()
    page.get_by_text("Ask <b>ann</b>", exact=True).wait_for()
    _choose(page, "Exclude")
    page.get_by_role("button", name="Exclude this result").click()
    page.get_by_text("is required").wait_for()
    page.get_by_label("Reason").fill("duplicate question")
    page.get_by_role("button", name="Exclude this result").click()
    page.get_by_text("Excluded by local: duplicate question").wait_for()
    fits(page, "verdict")
    page.reload()
    page.get_by_text("You say yes.").wait_for()
    assert page.get_by_label("Why?").input_value() == "It says so in other words."
    page.get_by_role("button", name="Bring back").click()
    page.get_by_role("button", name="Bring back").wait_for(state="detached")
    _choose(page, "Open a task")
    page.get_by_role("link", name="Judge wrong").click()
    page.get_by_label("Title").fill("Teach the judge other words")
    fits(page, "new-task")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="Teach the judge other words").wait_for()
    page.get_by_text("A person says").wait_for()
    fits(page, "task")
    page.get_by_role("combobox", name="Status").click()
    page.get_by_role("option", name="In progress").click()
    page.get_by_label("Your comment").fill("On it.")
    page.get_by_role("button", name="Add comment").click()
    page.get_by_text("On it.", exact=True).wait_for()
    page.get_by_role("link", name="Open the result").click()
    page.get_by_role("link", name="Teach the judge other words").wait_for()
    page.get_by_text("(in progress)").wait_for()
    page.get_by_role("button", name="Withdraw").click()
    page.get_by_role("button", name="Withdraw").wait_for(state="detached")
    page = visit("/tasks?status=in_progress")
    page.get_by_role("link", name="Teach the judge other words").wait_for()
    page.get_by_role("link", name="Mine").click()
    page.wait_for_url("**/tasks?mine=1&status=in_progress")
    page.get_by_text("No matching tasks").wait_for()
    page = visit("/tasks")
    fits(page, "tasks")


def _choose(page: Any, what: str) -> None:
    """What stands in the menu of a score."""
    page.get_by_role("button", name="More", exact=True).first.click()
    page.get_by_role("menuitem", name=what).click()
