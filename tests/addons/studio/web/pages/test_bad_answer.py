"""From a bad answer in production to a test that has run, in few clicks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.conftest import Fits, Server, working_in
from tests.addons.studio.web.finished import EXACT
from tests.addons.studio.web.pages.conftest import paged, working
from tests.finishing import finish

pytestmark = pytest.mark.browser
OWN_TABS = True
MOST_CLICKS = 6
NAMES_PRICE = {**EXACT, "needs": ["answer"], "checks": [{"op": "contains", "value": "pounds"}], "gate": None}
RULE = "It names the price in pounds."


def reply(request: Request) -> Any:
    """The bot says too little, and the judge says so."""
    return {"reason": "It names no price.", "passed": False} if RULE in request.text else "It is free."


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    folder = tmp_path_factory.mktemp("production")
    with Endpoint(reply) as endpoint:
        with working_in(folder) as space:
            bots.create_bot(
                space, "desk", {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
            )
            metrics.create_metric(space, "desk", MetricDraft("exact", NAMES_PRICE))
            datasets.create_dataset(space, "mine", title="Real questions")
            cases.add_cases(space, "mine", [{"id": "a", "question": "The fee?"}, {"id": "b", "question": "The hours?"}])
            run = finish(space, RunRequest("desk", ["mine"], ["exact"])).run_id
        with paged(folder) as server, working(folder):
            yield server, run


@pytest.fixture(name="pages", scope="module")
def _pages(made: tuple[Server, str]) -> Server:
    return made[0]


class _Clicks:
    """Clicks, and counts them; after what is typed, Tab goes on to the next field without a click."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, found: Any) -> None:
        found.click()
        self.count += 1


def test_a_bad_answer_of_a_run_is_a_test_in_few_clicks(
    visit: Callable[..., Any], made: tuple[Server, str], fits: Fits
) -> None:
    page, click = visit(f"/runs/{made[1]}"), _Clicks()
    click(page.locator(".result-rows tbody tr").first)
    click(page.get_by_role("link", name="Make a test of it"))
    page.get_by_role("heading", name="Make a test of a bad answer").wait_for()
    assert page.get_by_label("Bad answer").input_value() == "It is free."
    rule = page.get_by_label("Rule 1")
    page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Rule 1'")
    rule.fill(RULE)
    fits(page, "bad answer")
    click(page.get_by_role("button", name="Save and run this case"))
    _its_run_fails(page)
    assert click.count == 3 <= MOST_CLICKS


def test_a_pasted_answer_is_a_test_in_few_clicks(visit: Callable[..., Any]) -> None:
    page, click = visit("/bots"), _Clicks()
    click(page.get_by_role("link", name="Test cases"))
    click(page.get_by_role("link", name="Paste a bad answer"))
    page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Turn 1, User'")
    page.keyboard.insert_text("Does it cost anything?")
    click(page.get_by_label("Bad answer"))
    page.keyboard.insert_text("Perhaps.")
    click(page.get_by_label("Rule 1"))
    page.keyboard.insert_text(RULE)
    click(page.get_by_role("button", name="Save and run this case"))
    _its_run_fails(page)
    assert click.count == 5 <= MOST_CLICKS


def _its_run_fails(page: Any) -> None:
    page.wait_for_url("**/runs/*")
    page.get_by_text("1 result").first.wait_for(timeout=120_000)
    page.locator(".result-rows tbody tr").first.click()
    panel = page.get_by_role("complementary", name="Case")
    panel.get_by_text("It names no price.").filter(visible=True).first.wait_for()
