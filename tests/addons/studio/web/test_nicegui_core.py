"""A page that was left is freed at once."""

from __future__ import annotations

import gc
import weakref

import pytest
from nicegui import Client, app, ui

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
