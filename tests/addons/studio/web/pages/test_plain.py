"""Pages of runs whose things have titles show these, and neither identifiers nor key paths nor commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.pages.conftest import paged
from tests.addons.studio.web.pages.plain import PLAIN
from tests.addons.studio.web.titled import BETTER, BOT, BOTH, DATASET, JUDGE, KIND, Titled, finish_titled

pytestmark = [pytest.mark.slow, pytest.mark.browser]
OWN_TABS = True
RUNS = ("first", "taught", "second", "pairs")
PATHS = [
    *("/", f"/bots/{BOT}", f"/bots/{BOT}/settings", f"/bots/{BOT}/metrics"),
    *(f"/bots/{BOT}/metrics/{name}" for name in (KIND, BOTH, BETTER)),
    f"/bots/{BOT}/metrics/{KIND}?run={{first}}",
    *("/runs", "/judges", f"/judges/{JUDGE}", f"/datasets/{DATASET}", f"/datasets/{DATASET}/cases/1"),
    *("/reviews", "/reviews/Letters", "/reviews/Letters/teach", "/reviews/Pairs"),
    *("/reviews/new?run={first}", "/reviews/new?run={pairs}", "/reviews/new?run={second}&against={first}"),
    *(f"/runs/{{{run}}}?case=0" for run in RUNS),
    *(f"/runs/{{{run}}}/cases/0" for run in RUNS),
    *(f"/compare?a={{first}}&b={{{run}}}&allow=metric,prompt,judge,cases" for run in ("second", "taught")),
    *("/compare?a={first}&b={pairs}", "/compare?b={second}"),
    *(f"/history?bot={BOT}", f"/history?bot={BOT}&dataset={DATASET}&metric={KIND}"),
    *(f"/runs/new?bot={BOT}", "/runs/new?source={first}"),
    *("/bad-answer?run={first}&position=0", f"/tasks/new?cause=judge&run={{taught}}&position=0&metric={KIND}"),
]
UNFOLD = "() => document.querySelectorAll('details:not([open]) > summary').forEach((fold) => fold.click())"


@pytest.fixture(name="titled", scope="module")
def _titled(tmp_path_factory: pytest.TempPathFactory) -> Titled:
    with working_in(tmp_path_factory.mktemp("titled")) as space, ThreadPoolExecutor(1) as apart:
        return apart.submit(finish_titled, space).result()  # here the event loop of Playwright runs


@pytest.fixture(name="pages", scope="module")
def _pages(titled: Titled) -> Iterator[Server]:
    with paged(titled.folder) as server:
        yield server


@pytest.mark.parametrize("path", PATHS)
def test_titles_are_read_and_no_identifiers(visit: Callable[..., Any], titled: Titled, path: str) -> None:
    page = visit(path.format_map({run: getattr(titled, run) for run in RUNS}))
    page.wait_for_load_state("networkidle")
    page.locator(".waiting").first.wait_for(state="detached")
    if path.startswith("/compare?a=") and "allow" in path:
        page.locator(".flip").first.click()
        page.locator(".score-line").first.wait_for()
    page.evaluate(UNFOLD)
    page.wait_for_function(
        "() => ![...document.querySelectorAll('.line-body')].some((fold) => !fold.childElementCount)"
    )
    assert page.evaluate(PLAIN) == []
