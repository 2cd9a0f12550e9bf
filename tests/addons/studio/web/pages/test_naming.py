"""Titles in any script: typed once, read everywhere, and the identifiers that are derived from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.test_datasets import field, press, seen

pytestmark = pytest.mark.browser
WORKER = True
Visit = Callable[..., Any]
BOT, METRIC, DATASET = "会議ボット", "Is it polite?", "Fragen – Köln"
YAML = "kind: check\nneeds: [answer]\nchecks:\n- {op: contains, value: please}\nthreshold: 1"


def identifier(page: Any) -> Any:
    return page.locator(".identifier")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_identifier_is_seen_and_can_be_changed_until_it_is_saved(visit: Visit, pages: Server, width: int) -> None:
    page = visit("/datasets/new", width)
    field(page, "Name").press_sequentially("Fees & Refunds")
    identifier(page).get_by_text("Identifier: fees_refunds").click()
    field(page, "Identifier").fill("New")
    field(page, "Name").fill(f"Gebühren {width}")
    press(page, "Create")
    seen(page, "'New' cannot be a name")
    field(page, "Identifier").fill(f"own_{width}")
    press(page, "Create")
    page.wait_for_url(re.compile(f"/datasets/own_{width}$"))
    page.get_by_role("heading", name=f"Gebühren {width}").wait_for()
    page.get_by_role("link", name="Edit").click()
    seen(page, f"Identifier: own_{width}")
    field(page, "Name").fill(f"Fees {width}")
    press(page, "Save")
    page.get_by_role("heading", name=f"Fees {width}").wait_for()
    assert pages.ask("GET", f"/api/v1/datasets/own_{width}").json["title"] == f"Fees {width}"


def test_a_name_that_another_has_is_refused_at_its_field(visit: Visit) -> None:
    page = visit("/datasets/new")
    press(page, "Create")
    seen(page, "This field is required")
    field(page, "Name").fill("RAG")
    press(page, "Create")
    seen(page, "There already is a dataset called 'rag', with the name rag")


def test_names_are_read_as_they_were_typed(visit: Visit, pages: Server) -> None:
    rows = [{"question": "Can I pay?", "answer": answer} for answer in ("Yes, please.", "No.", "Please wait, please.")]
    assert pages.ask("POST", "/api/v1/datasets", {"name": "fragen", "title": DATASET}).status == 201
    assert pages.ask("POST", "/api/v1/datasets/fragen/cases", {"items": rows}).status == 201
    page = visit("/bots/new")
    field(page, "Name").fill(BOT)
    seen(page, "Identifier: bot")
    page.locator("input[value=recorded]").click()
    press(page, "Save")
    page.get_by_role("heading", name=BOT, exact=True).wait_for()
    page.get_by_role("link", name="Metrics", exact=True).last.click()
    page.get_by_role("link", name="New metric", exact=True).click()
    page.get_by_role("button", name="YAML", exact=True).click()
    field(page, "YAML").fill(YAML)
    field(page, "Name").fill(METRIC)
    press(page, "Save")
    page.get_by_role("heading", name=METRIC).wait_for()
    page.get_by_role("heading", name=f"Metrics of {BOT}").wait_for()
    run = {"bot": "bot", "datasets": ["fragen"], "metrics": ["is_it_polite"]}
    made = pages.ask("POST", "/api/v1/runs", run)
    assert made.status in (201, 202), made.body
    page = visit(f"/runs/{made.json['run_id']}")
    page.get_by_role("heading", name=f"{BOT} on {DATASET}").wait_for()
    page.locator("th.chip-of", has_text=METRIC).wait_for()
    seen(page, "67 % of answers pass")
    page = visit(f"/runs/{made.json['run_id']}/cases/0")
    page.locator("h4", has_text=METRIC).wait_for()
    seen(page, DATASET)
    page = visit("/history?bot=bot")
    page.get_by_role("link", name=METRIC).wait_for()
    seen(page, DATASET)
    page = visit("/runs?search=会議")
    page.get_by_role("heading", name=f"{BOT} on {DATASET}").wait_for()
    seen(page, METRIC)
    page = visit("/audit")
    seen(page, f"create bot {BOT} (bot)")
    seen(page, f"create metric {METRIC} (bot/is_it_polite)")
