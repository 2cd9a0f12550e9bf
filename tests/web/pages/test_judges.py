"""A judge that is in use, as a person meets it who wants to delete it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalflow.app.studio import bots, judges, metrics
from evalflow.app.studio.metrics import MetricDraft

from ..conftest import Server, working_in
from .conftest import paged

pytestmark = pytest.mark.browser


@pytest.fixture(name="pages", scope="module")
def _pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with working_in(tmp_path_factory.mktemp("judges")) as space:
        bots.create_bot(space, "fees", {"kind": "recorded"})
        judges.create_judge(space, "strict", {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"})
        polite = {"kind": "g_eval", "criteria": "Polite?", "needs": ["answer"], "judge": "strict"}
        metrics.create_metric(space, "fees", MetricDraft("polite", polite))
        with paged(space.root) as server:
            yield server


def test_what_uses_a_judge_is_named_with_a_link_to_it(visit: Callable[..., Any]) -> None:
    page = visit("/judges/strict")
    page.get_by_role("button", name="Delete").click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("button", name="Delete").click()
    wrong = asked.get_by_role("alert")
    wrong.get_by_text("The judge 'strict' is used by fees/polite").wait_for()
    page.wait_for_function("document.activeElement.role === 'alert'")
    assert wrong.get_by_role("link").get_attribute("href") == "/bots/fees/metrics/polite"
