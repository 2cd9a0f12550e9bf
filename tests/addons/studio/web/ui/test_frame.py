"""What is logged of work that a page has started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from nicegui import Client, app, background_tasks, core, ui
from starlette.requests import Request

from evalflow.addons.studio.web.ui import frame
from evalflow.errors import Problem, UserError


def show() -> None:
    ui.label("done")


def fail() -> None:
    raise RuntimeError("a bug")


@pytest.mark.anyio
@pytest.mark.parametrize(("does", "left", "logged"), [(show, "page", False), (show, "row", True), (fail, "page", True)])
async def test_work_whose_page_was_left_logs_no_traceback_unless_it_fails_itself(
    does: Callable[[], None],
    left: str,
    logged: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
    monkeypatch.setattr(app, "_exception_handlers", app._exception_handlers[:1])
    monkeypatch.setattr(app, "_delete_handlers", [])
    frame.add()
    kept: list[str] = []
    page, is_left = Client(ui.page("/of-this-test")), asyncio.Event()
    with page:
        row = ui.row()
        with row:
            button = ui.button()

    async def work() -> None:
        await is_left.wait()
        kept.append("the result")
        does()

    task = background_tasks.create(work(), context=button.parent_slot)
    await asyncio.sleep(0)
    (page if left == "page" else row).delete()
    del row, button
    is_left.set()
    await asyncio.wait([task])
    assert kept == ["the result"]
    assert ("Traceback" in caplog.text) is logged
    if left == "row":
        page.delete()


@pytest.mark.anyio
async def test_an_error_that_a_page_shows_is_one_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
    monkeypatch.setattr(app, "_exception_handlers", app._exception_handlers[:1])
    frame.add()
    request = Request({"type": "http", "method": "GET", "path": "/runs/r1", "headers": [], "server": ("host", 80)})
    with Client(ui.page("/runs/{run}"), request=request) as page:
        button = ui.button()

    async def work() -> None:
        raise UserError(Problem("the run r1 is running", hint="wait until\nit has ended"))

    await asyncio.wait([background_tasks.create(work(), context=button.parent_slot)])
    page.delete()
    (line,) = [record for record in caplog.records if "r1 is running" in record.getMessage()]
    assert line.getMessage() == "/runs/r1: nobody: The run r1 is running. Wait until it has ended."
    assert "Traceback" not in caplog.text
