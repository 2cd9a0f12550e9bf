"""Fields for the context of a case, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from evalflow.web.pages.forms import About, Field, area, line, written
from evalflow.web.pages.parts import button, text

_HELP = "What the bot found or was given to answer from. Metrics such as faithfulness compare the answer with it."


@dataclass(frozen=True, slots=True)
class _Piece:
    row: ui.element
    text: Field
    title: Field
    path: Field


class Pieces:
    """As many pieces as are wanted.

    Args:
        contexts: To begin with, as in a row of JSON lines; None: it is not known, which is not the same as none.
    """

    def __init__(self, contexts: Sequence[Mapping[str, Any]] | None) -> None:
        self._known_empty = contexts is not None and not contexts
        self._pieces: list[_Piece] = []
        with ui.element("fieldset").classes("field"):
            text("Context", "legend", "label")
            text(_HELP, classes="help")
            self._rows = ui.element("div").classes("stack pieces")
            for piece in contexts or ():
                self._add(piece)
            with ui.element("div").classes("actions"):
                button("Add a piece", lambda: self._add({}).run_method("focus"), icon="add")

    def read(self) -> list[dict[str, str]] | None:
        """The pieces; None where there are none, unless it was known that nothing was found."""
        found = [
            {
                key: value
                for key, value in (("text", said), ("title", written(one.title)), ("path", written(one.path)))
                if value
            }
            for one in self._pieces
            if (said := one.text.value or "").strip()
        ]
        return found or ([] if self._known_empty else None)

    def _add(self, piece: Mapping[str, Any]) -> Field:
        with self._rows, ui.element("div").classes("piece card") as row:
            said = area(
                About(
                    "Text", "A passage, as the bot was given it.", "The licence costs 40 pounds a year.", required=True
                ),
                piece.get("text"),
            )
            with ui.element("div").classes("pair"):
                title = line(About("Title", "Of the document.", "Fees"), piece.get("title"))
                path = line(About("Where it is from", "A path or an address.", "/guides/fees"), piece.get("path"))
            one = _Piece(row, said, title, path)
            with ui.element("div").classes("actions"):
                button("Remove this piece", lambda: self._remove(one), kind="quiet", icon="close")
        self._pieces.append(one)
        return said

    def _remove(self, piece: _Piece) -> None:
        self._pieces.remove(piece)
        self._known_empty = False
        piece.row.delete()
