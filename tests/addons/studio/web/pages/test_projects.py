"""Projects, members, connections and the audit in a real browser, by the owner of the server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from evalflow.addons.studio.work.people import add_user
from evalflow.addons.studio.work.space import open_workspace
from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.conftest import paged

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


@pytest.fixture(name="pages", scope="module")
def _pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("workspace")
    (folder / ".evalflow").mkdir(mode=0o700)
    with closing(open_workspace(f"sqlite:///{folder / '.evalflow' / 'evalflow.db'}")) as space:
        add_user(space, "ann.smith", full_name="Ann Smith")
    with paged(folder) as server:
        yield server


def press(page: Any, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def fill(page: Any, label: str, value: str) -> None:
    page.get_by_label(re.compile(rf"^{label}( \(optional\))?$")).first.fill(value)


def test_a_project_is_made_opened_and_left(visit: Visit, pages: Server) -> None:
    page = visit("/projects")
    assert page.locator(".menu").count() == 0  # one project and no accounts: as without projects
    press(page, "New project")
    fill(page, "Name", "Fees desk")
    press(page, "Create")
    page.get_by_role("heading", name="Fees desk").wait_for()
    page.locator(".menu summary").first.click()
    page.locator(".menu").get_by_role("link", name="Fees desk").click()
    page.get_by_role("link", name="Test cases").click()
    page.get_by_role("link", name="New dataset").click()
    fill(page, "Name", "questions")
    press(page, "Create")
    page.wait_for_url("**/p/fees_desk/datasets/questions")
    assert pages.ask("GET", "/p/fees_desk/api/v1/datasets/questions").json["origin"] == "workspace"
    assert pages.ask("GET", "/api/v1/datasets/questions").status == 404
    page.locator(".menu summary").first.click()
    page.keyboard.press("Escape")
    assert page.locator(".menu[open]").count() == 0
    page.locator(".menu summary").first.click()
    page.get_by_role("link", name="default").click()
    page.wait_for_url("**/p/default/")


def test_the_owner_sets_a_monthly_budget(visit: Visit, pages: Server) -> None:
    page = visit("/projects/default", width=390)
    page.get_by_text("no limit", exact=True).wait_for()
    fill(page, "US dollars a month", "-1")
    fill(page, "Requests a month", "1.5")
    press(page, "Save the budget")
    page.get_by_text("greater than or equal to 0").wait_for()
    page.get_by_text("must be a valid integer").wait_for()
    fill(page, "US dollars a month", "40")
    fill(page, "Requests a month", "")
    limits = {"usd": 30}
    version = pages.ask("GET", "/api/v1/projects/default/budget").headers["ETag"]
    pages.ask("PUT", "/api/v1/projects/default/budget", limits, If_Match=version)
    press(page, "Save the budget")
    page.get_by_text("nothing has been overwritten").wait_for()
    page.get_by_role("button", name="Discard mine").click()
    page.get_by_text("$30.00 of $30.00").wait_for()
    fill(page, "US dollars a month", "50")
    press(page, "Save the budget")
    page.get_by_text("$50.00 of $50.00").wait_for()
    budget = pages.ask("GET", "/api/v1/projects/default/budget").json
    assert (budget["limits"]["usd"], budget["left"]["usd"]) == (50, 50)


def test_a_button_stays_in_place_while_its_form_is_corrected(visit: Visit, pages: Server) -> None:
    page = visit("/projects/default", width=390)
    fill(page, "US dollars a month", "-1")
    fill(page, "Requests a month", "1.5")
    press(page, "Save the budget")
    page.get_by_text("greater than or equal to 0").wait_for()
    page.get_by_text("must be a valid integer").wait_for()
    before = _below_its_form(page)
    fill(page, "US dollars a month", "60")
    fill(page, "Requests a month", "")
    press(page, "Invite")
    page.get_by_text("This field is required").wait_for()  # the server has had the corrections, too
    assert _below_its_form(page) == before
    press(page, "Save the budget")
    page.get_by_text("$60.00 of $60.00").wait_for()


def _below_its_form(page: Any) -> int:
    """How far the button to save stands below the top of its form, in pixels; at once, so that no scrolling counts."""
    return round(
        page.get_by_role("button", name="Save the budget", exact=True).evaluate(
            "(button) => button.getBoundingClientRect().top - button.closest('.form').getBoundingClientRect().top"
        )
    )


def test_members_get_a_role_and_lose_it(visit: Visit, pages: Server) -> None:
    page = visit("/projects/default", width=390)
    press(page, "Invite")
    page.get_by_text("This field is required").wait_for()
    fill(page, "Person", "ann.smith")
    press(page, "Invite")
    page.get_by_text("ann.smith is now viewer.").wait_for()
    page.get_by_text("Ann Smith").wait_for()
    page.get_by_label("Role of ann.smith").click()
    page.get_by_role("option", name="Admin").click()
    page.get_by_text("ann.smith is now admin.").wait_for()
    assert pages.ask("GET", "/api/v1/projects/default/members").json["items"][0]["role"] == "admin"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    press(page, "Remove ann.smith")
    press(page, "Remove")
    page.get_by_text("Nobody yet.").wait_for()


def test_a_connection_is_added_and_every_change_is_in_the_audit(visit: Visit, pages: Server) -> None:
    page = visit("/connections/new", width=390)
    fill(page, "Name", "Models")
    fill(page, "Address", "models.example.org")
    press(page, "Add")
    page.get_by_text("It must be http(s)").wait_for()
    fill(page, "Address", "https://models.example.org/v1")
    fill(page, "API key", "TRIAL_KEY")
    press(page, "Add")
    page.get_by_role("link", name="models").wait_for()
    page.get_by_text("set", exact=True).wait_for()
    assert "a-secret-key" not in page.content()
    page.goto(f"{pages.address.url}/audit?kind=connection")
    page.get_by_text("create connection models").wait_for()
    assert page.locator("tbody tr").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("link", name="Show all").click()
    page.get_by_text("create user ann.smith").wait_for()
    with page.expect_download() as export:
        page.get_by_role("link", name="Export").click()
    assert export.value.suggested_filename == "audit.jsonl"
