from __future__ import annotations

from collections.abc import Iterator

import pytest
from nicegui import Client, ui
from nicegui.page import page
from starlette.requests import Request

from evalflow.addons.studio.web.ui.rows import RowList


class Row:
    def __init__(self, value: str) -> None:
        self.field = ui.input(value=value)

    def read(self) -> str:
        return str(self.field.value)


@pytest.fixture(name="_page")
def _page_() -> Iterator[None]:
    client = Client(page("/"), request=Request({"type": "http", "path": "/", "root_path": "", "headers": []}))
    with client:
        yield
    client.delete()


@pytest.mark.usefixtures("_page")
def test_rows_are_removed_and_moved_with_what_was_typed_in_them() -> None:
    seen: list[list[str]] = []
    rows = RowList[Row](lambda _, value: Row(value), "", "name", lambda: seen.append(rows.read()))
    rows.show(["a", "b", "c"])
    rows.rows[2].field.value = "z"
    rows.move(2, -1)
    rows.move(0, -1)  # the first stays where it is
    rows.remove(0)
    assert seen == [["a", "z", "b"], ["z", "b"]]
