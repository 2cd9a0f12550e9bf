"""Cases as rows of a table: what is asked, what is expected, how they are tagged."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from nicegui import ui

from evalflow.app.workspace.case_rows import question_of
from evalflow.app.workspace.cases import StoredCase
from evalflow.web.pages.parts import badge, text

_CLIPPED = 300
_TAGS = 4


@contextmanager
def case_table(
    *, selectable: bool, on_all: Callable[[bool], object] | None = None, all_on: bool = False
) -> Generator[None]:
    """A table; its rows are built within."""
    with ui.element("table").classes("cases"):
        with ui.element("thead"), ui.element("tr"):
            if selectable:
                with ui.element("th").classes("tick"):
                    tick("Select this page", on=all_on, on_change=on_all or (lambda _: None))
            for name in ("Question", "Expected", "Tags"):
                text(name, "th").props("scope=col")
        with ui.element("tbody"):
            yield


def tick(label: str, *, on: bool, on_change: Callable[[bool], object]) -> None:
    """A box to tick."""
    box = ui.element("input").props("type=checkbox").classes("tick-box")
    box.props["aria-label"] = label
    box.props["checked"] = on
    box.on("change", lambda event: on_change(bool(event.args)), js_handler="(event) => emit(event.target.checked)")


def stored_row(
    case: StoredCase, path: str, *, on: bool, on_change: Callable[[bool], object], here: bool = False
) -> None:
    """A case that can be opened and selected; `here` marks the one that one comes back from."""
    with ui.element("tr").classes("here" if here else ""):
        with ui.element("td").classes("tick"):
            tick(f"Select {clipped(case.question) or case.body['id']}", on=on, on_change=on_change)
        with ui.element("td").classes("question"):
            ui.link(clipped(case.question) or "(no question)", path).classes("clamp")
            _foot(case.body)
        _known(case.body)


def declared_row(row: Mapping[str, Any]) -> None:
    """A case that can only be read."""
    with ui.element("tr"):
        with ui.element("td").classes("question"):
            text(clipped(question_of(row)) or "(no question)", classes="clamp")
            _foot(row)
        _known(row)


def clipped(value: object) -> str:
    """A text that is not longer than a table can bear."""
    said = "" if value is None else str(value)
    return said if len(said) <= _CLIPPED else said[:_CLIPPED] + "…"


def _foot(row: Mapping[str, Any]) -> None:
    """What else there is, in small print."""
    turns = len(row.get("messages") or ())
    pieces = row.get("contexts")
    said = [
        f"conversation of {turns}" if turns > 1 else "",
        "recorded answer" if row.get("answer") is not None else "",
        f"{len(pieces)} pieces of context"
        if pieces is not None and len(pieces) != 1
        else "1 piece of context"
        if pieces
        else "",
        ", ".join(row.get("vars") or ()),
        f"group {clipped(row['group'])}" if row.get("group") else "",
    ]
    if any(said):
        text(" · ".join(part for part in said if part), classes="small muted line")


def _known(row: Mapping[str, Any]) -> None:
    expected = row.get("reference", row.get("expected"))
    with ui.element("td").classes("expected"):
        if expected is not None:
            text(clipped(expected), classes="clamp small")
    tags = cast("list[str]", row.get("tags") or [])
    with ui.element("td").classes("tags"), ui.element("div").classes("badges"):
        for tag in tags[:_TAGS]:
            badge(tag)
        if len(tags) > _TAGS:
            badge(f"+{len(tags) - _TAGS}")
