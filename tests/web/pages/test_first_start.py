"""From an empty workspace to a scored case."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ..conftest import Fits

pytestmark = pytest.mark.browser
WORKER = True
MOST_CLICKS = 6


def test_few_clicks_lead_from_nothing_to_a_scored_case(visit: Callable[..., Any], fits: Fits) -> None:
    fits(visit("/", 390, "dark"), "first start")
    page = visit("/")
    clicks = 0

    def click(found: Any) -> None:
        nonlocal clicks
        found.click()
        clicks += 1

    click(page.get_by_role("button", name="Try the sample bot"))
    page.wait_for_url("**/runs/*")
    page.get_by_text("40 results").wait_for(timeout=120_000)
    click(page.locator(".result-rows tbody tr").first)
    panel = page.get_by_role("complementary", name="Case")
    panel.get_by_role("heading", level=2).wait_for()
    panel.get_by_text("faithfulness").first.wait_for()
    assert re.search(r"\b[01]\.\d\d\b", panel.inner_text())
    assert clicks <= MOST_CLICKS
