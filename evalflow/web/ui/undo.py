"""The bar that offers to undo a deletion or another change, for some seconds after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from evalflow.app.studio.space import Workspace
from evalflow.app.studio.trash import restore
from evalflow.web.ui.faults import path_of
from evalflow.web.ui.forms import attempt, leave
from evalflow.web.ui.parts import button, text

SHOWN_S = 20.0
PARAMETER = "undo"
"""The query parameter with the id of what was deleted, for the page that is opened after a deletion."""
_FORGET = """const here = new URL(location); here.searchParams.delete("undo"); history.replaceState(null, "", here)"""


def offer_undo(
    workspace: Workspace, deleted: int, what: str = "Deleted.", then: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Offer to bring back what was deleted. It is left out of the address, so that a reload does not offer it again.

    `then` shows what was brought back; without it, its page is opened.
    """

    async def undo(by: ui.button) -> bool:
        restored = await attempt(lambda: restore(workspace, deleted), by=by)
        if restored is not None and then is not None:
            await then()
        elif restored is not None:
            leave(path_of(restored))
        return restored is not None

    undo_bar(what, undo)
    ui.run_javascript(_FORGET)


def undo_bar(what: str, undo: Callable[[ui.button], Awaitable[bool]]) -> None:
    """Show for some seconds what was done, with a button; `undo` gets it and returns whether all is as before."""

    async def undone() -> None:
        if await undo(pressed) and not bar.is_deleted:
            bar.delete()

    with ui.context.client.layout, ui.element("div").classes("undo").props("role=status") as bar:
        text(what, "span")
        pressed = button("Undo", undone, icon="undo")
        ui.timer(SHOWN_S, bar.delete, once=True)
