"""From a review's result to the metric's new version: the judge is taught, a worker measures it, a person saves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import review_results
from evalflow.addons.studio.work.metrics import get_metric
from evalflow.testing import Endpoint
from tests.addons.studio.web.conftest import Fits, Server, working_in
from tests.addons.studio.web.pages.conftest import paged, working
from tests.addons.studio.work.test_teaching import BOT, METRIC, labelled
from tests.cli.test_align import following

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("taught")
    with Endpoint(following) as endpoint:
        with working_in(folder) as space:
            labelled(space, endpoint.url, 66, {})
            review_results.close_review(space, "r", 1)
        yield folder


@pytest.fixture(name="pages", scope="module")
def _pages(folder: Path) -> Iterator[Server]:
    with paged(folder) as server, working(folder):
        yield server


def test_a_judge_is_taught_from_the_result_of_a_review(visit: Callable[..., Any], folder: Path, fits: Fits) -> None:
    page = visit("/reviews/r")
    page.get_by_role("link", name="Teach the judge").click()
    page.get_by_text("It takes 34 calls. No new answers are generated.").wait_for()
    page.get_by_text("What the judge is shown: 4 answers").click()
    page.get_by_text("answer: Said rudely").first.wait_for()
    page.get_by_role("button", name="Measure whether it helps").click()
    page.get_by_text("Taught so, the judge agrees better with the labels").wait_for()
    page.get_by_text("Measured on 33 held-out answers with labels; no example comes from them.").wait_for()
    fits(page, "teaching")
    page.get_by_role("button", name="Save version 2 of the metric").click()
    page.get_by_text("version 2 is saved").wait_for()
    page.get_by_role("link", name="Grade the run again with it").click()
    page.get_by_role("button", name="Save, grade again and compare").wait_for()
    with working_in(folder) as space:
        assert len(get_metric(space, BOT, METRIC).definition["examples"]) == 4
