"""Pages say that the database is away, and show what they should once it is back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.addons.studio.web.conftest import Api
from tests.addons.studio.web.pages.conftest import paged


def test_pages_recover_from_an_outage(browser: Any, tmp_path: Path) -> None:
    database, away = (tmp_path / ".evalflow" / name for name in ("evalflow.db", "away.db"))
    with paged(tmp_path) as server:
        api = Api(server)
        api("POST", "/bots", {"name": "desk", "config": {"kind": "recorded"}})
        made = api("POST", "/runs", {"bot": "desk", "datasets": ["rag"], "metrics": ["exact_match"]})
        assert made.status == 201, made.body
        context = browser.new_context()
        context.add_cookies([server.cookie])
        context.set_default_timeout(60_000)
        page, late = context.new_page(), context.new_page()
        page.goto(f"{server.address.url}/runs/{made.json['run_id']}")
        page.get_by_text("waiting", exact=True).wait_for()
        database.rename(away)
        page.get_by_text("This page tries again").wait_for()
        assert late.goto(f"{server.address.url}/runs").status == 503
        late.get_by_role("heading", name="Not available now").first.wait_for()
        away.rename(database)
        late.get_by_text("exact match").wait_for()
        page.get_by_text("This page tries again").wait_for(state="detached")
        api("POST", f"/runs/{made.json['run_id']}/cancel")
        page.get_by_text("cancelled", exact=True).wait_for()
        context.close()
