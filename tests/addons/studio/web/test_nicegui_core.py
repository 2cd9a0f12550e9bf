"""What the application does to NiceGUI's pages gives the same pages."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from nicegui import Client, app, client, ui

from evalflow.addons.studio.web import nicegui_core


@pytest.mark.anyio
async def test_what_a_page_was_made_of_is_freed_when_it_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a search for cycles, which holds up everything."""
    monkeypatch.setattr(app, "_delete_handlers", [])
    nicegui_core.free_at_once()
    page = Client(ui.page("/of-this-test"))
    with page:
        row = ui.element("tr").classes("one").props("id=row")
        parts = [weakref.ref(part) for part in (row, row.classes, row.style, row.props)]
    gc.collect()
    gc.disable()
    try:
        page.delete()
        del row
        assert [part() for part in parts] == [None] * 4
    finally:
        gc.enable()


def test_what_is_replaced_quickly_is_replaced_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    content: dict[str, Any] = {"1": {"text": "</script>${`&amp;`}<b>é</b>"}}
    monkeypatch.setattr(client, "json", client.json)
    nicegui_core.replace_quickly()
    page = client.json.dumps(content)
    assert page.translate(client.HTML_ESCAPE_TABLE) == str(page).translate(client.HTML_ESCAPE_TABLE)
    assert client.json.loads(str(page)) == content
