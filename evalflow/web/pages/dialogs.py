"""Questions that stand over a page: one to confirm, and one for a single value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from evalflow.web.pages.parts import button, text


def confirmation(
    title: str, about: str, action: str, do: Callable[[], Awaitable[None]], keep: str = "Keep it"
) -> ui.dialog:
    """A dialog that does what cannot be undone once it is confirmed."""

    async def confirmed() -> None:
        doing.props("loading")
        try:
            await do()
        finally:
            doing.props(remove="loading")
            asked.close()

    with ui.dialog() as asked, ui.element("div").classes("card stack").props("role=document"):
        text(title, "h2")
        text(about, "p", "muted")
        with ui.element("div").classes("actions"):
            doing = button(action, confirmed, kind="danger")
            button(keep, asked.close)
    asked.props["aria-label"] = title
    return asked
