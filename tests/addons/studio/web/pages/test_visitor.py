"""Times in the zone of whoever reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.finished import Finished
from tests.addons.studio.web.pages.conftest import paged

pytestmark = pytest.mark.browser


@pytest.fixture(name="pages", scope="module")
def _pages(finished: Finished) -> Iterator[Server]:
    with paged(finished.folder) as server:
        yield server


def test_times_are_in_the_zone_of_the_browser(browser: Any, pages: Server, finished: Finished) -> None:
    created = datetime.fromisoformat(json.loads(pages.ask("GET", f"/api/v1/runs/{finished.worse}").body)["created_at"])
    in_utc = f"{created.astimezone(UTC):%-d %b %Y, %H:%M} UTC"
    context = browser.new_context(timezone_id="Asia/Kolkata")
    context.add_cookies([pages.cookie])
    page = context.new_page()
    address = f"{pages.address.url}/runs/{finished.worse}"
    for cookie in ("", "../../etc/passwd", "Europe", "No/Where"):  # at first none, then what is not a zone
        if cookie:
            context.add_cookies([{"name": "evalflow-zone", "value": cookie, "url": pages.address.url}])
        page.goto(address)
        page.get_by_text(in_utc).first.wait_for()
    page.reload()
    page.get_by_text(f"{created.astimezone(ZoneInfo('Asia/Kolkata')):%-d %b %Y, %H:%M}").first.wait_for()
    assert in_utc not in page.locator("main").inner_text()
    context.close()
