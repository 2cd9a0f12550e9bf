"""No page breaks a rule of axe-core, in light and in dark colours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

import evalflow.web.pages
from evalflow.app.studio import cases, check_uses, checks, reviews
from evalflow.app.studio.checks import CheckDraft, CheckExample
from evalflow.app.studio.reviews import ReviewRequest

from ..conftest import Server, working_in
from ..finished import Finished
from .conftest import paged

pytestmark = [pytest.mark.slow, pytest.mark.browser]
SOURCES = sorted(Path(evalflow.web.pages.__file__).parent.glob("*.py"))
PATHS = sorted({path for file in SOURCES for path in re.findall(r'guarded_page\("([^"]+)"', file.read_text("utf-8"))})
QUERIES = {"/bots/{bot}/metrics/new": ["", "?view=yaml"], "/compare": ["?a={worse}&b={better}", ""]}
"""Addresses of a page beside or instead of the plain one."""

UNSTUCK = """() => { for (const one of document.querySelectorAll("main *")) {
  if (getComputedStyle(one).position === "sticky") one.style.position = "static"; } }"""
"""axe-core takes the page for the background of what is in a sticky element."""


@pytest.fixture(name="pages", scope="module")
def _pages(finished: Finished) -> Iterator[Server]:
    with working_in(finished.folder) as space:
        request = ReviewRequest(name="Fees", run_id=finished.better, metrics=["exact"], size=6, people=["local"])
        reviews.create_review(space, request)
        examples = [CheckExample("Hello!", passes=True), CheckExample("Hi!", passes=False)]
        checks.create_check(
            space, CheckDraft("greets", "string_matching", {"keyword": "Hi"}, "It greets", "", examples)
        )
        first = cases.case_ids(space, "questions")[:1]
        check_uses.enable_check(space, "questions", first, "greets")
        cases.tag_cases(space, "questions", first, add=["Fees > Card", "fees"])
    with paged(finished.folder) as server:
        yield server


@pytest.fixture(name="profile", scope="module")
def _profile(browser: Any, pages: Server) -> Iterator[Any]:
    """Without the content security policy, since axe-core styles elements while it measures contrasts."""
    context = browser.new_context(bypass_csp=True)
    context.add_cookies([pages.cookie])
    context.set_default_timeout(60_000)
    yield context
    context.close()


@pytest.mark.parametrize("path", PATHS)
def test_no_page_breaks_a_rule(visit: Callable[..., Any], finished: Finished, path: str) -> None:
    names = {
        **{"bot": "fees", "metric": "exact", "dataset": "questions", "case": "1", "position": "0"},
        **{"run": finished.better, "worse": finished.worse, "better": finished.better},
        **{"user": "nobody", "project": "default", "connection": "none", "judge": "openai", "task": "1"},
        **{"review": "Fees", "check": "greets"},
    }
    broken: list[str] = []
    for query in QUERIES.get(path, [""]):
        address = f"{path}{query}".replace("/library/{metric}", "/library/faithfulness").format_map(names)
        page = visit(address)
        page.locator("h1").wait_for()
        page.wait_for_load_state("networkidle")
        for colours in ("light", "dark"):
            page.emulate_media(color_scheme=colours)
            broken += [f"{address} {colours} {one['id']}: {_where(one)}" for one in _violations(page)]
        page.close()
    assert not broken, "\n".join(broken)


def _violations(page: Any) -> list[dict[str, Any]]:
    """What is broken once the page has settled: colours fade over, and parts come by the websocket."""
    for _ in range(10):
        page.evaluate(UNSTUCK)
        found = Axe().run(page).response["violations"]
        if not found:
            break
        page.wait_for_timeout(300)
    return found


def _where(violation: dict[str, Any]) -> str:
    return "; ".join(f"{node['html'][:160]} ({node['failureSummary'][:200]})" for node in violation["nodes"][:3])
