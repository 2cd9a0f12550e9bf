"""Fields of a test case: its question or conversation, and its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from evalflow.app.studio.case_rows import irregular_turns
from evalflow.web.ui.parts import About, Field, FormOption, area, button, choices, line, pick, text, written

Message = Mapping[str, Any]
WAYS = (
    FormOption("question", "A question", "One message to answer.", "help_outline"),
    FormOption("conversation", "A conversation", "Turns of user and bot; the bot answers the last one.", "forum"),
)
_ROLES = {"user": "User", "assistant": "Bot", "system": "System"}
_NOTHING: Message = {"role": "user", "content": ""}


@dataclass(frozen=True, slots=True)
class _Turn:
    row: ui.element
    role: ui.select | None
    content: Field
    before: Message

    def read(self) -> Message:
        """The message; what a turn has beside role and text stays."""
        role = self.role.value if self.role else "user"
        return {**self.before, "role": role, "content": self.content.value or ""}


class Turns:
    """The fields of the messages.

    Args:
        messages: To begin with, as in a row of JSON lines.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._before = list(messages)
        self._messages = list(messages) or [_NOTHING]
        self._turns: list[_Turn] = []
        single = len(messages) < 2 and all(message["role"] == "user" for message in messages)
        self._way = "question" if single else "conversation"
        choices("What is asked", WAYS, self._way, self._choose)
        self._place = ui.element("div").classes("stack")
        self._fill()

    @property
    def last(self) -> Field:
        """The field of the last turn."""
        return self._turns[-1].content

    def read(self) -> list[Message] | None:
        """The messages that the fields say; None where something is wrong with them, which is shown beside each."""
        found = [turn.read() for turn in self._turns]
        for turn in self._turns:
            turn.content.error = None
        if found == self._before:  # which may have come from a file in an order of its own
            return found
        empty = [(i, "is required") for i, message in enumerate(found) if not message["content"].strip()]
        faults = empty or irregular_turns(found)
        for number, what in faults:
            self._turns[number].content.error = what
        if faults:
            self._turns[faults[0][0]].content.run_method("focus")
            return None
        return found

    def _choose(self, way: str) -> None:
        found = [turn.read() for turn in self._turns]
        if self._way == "conversation":
            self._messages = found or [_NOTHING]
        else:  # the turns before the question are as they were
            self._messages = [*self._messages[: self._asked()], *found]
        self._way = way
        self._fill()

    def _asked(self) -> int:
        """Where the last user message is."""
        return max((i for i, message in enumerate(self._messages) if message["role"] == "user"), default=0)

    def _fill(self) -> None:
        self._turns.clear()
        self._place.clear()
        with self._place:
            if self._way == "question":
                message = self._messages[self._asked()]
                about = About(
                    "Question", "The question, as a user would ask it.", "What does the licence cost?", required=True
                )
                row = ui.element("div")
                with row:
                    self._turns.append(_Turn(row, None, area(about, message["content"]), message))
                return
            self._rows = ui.element("div").classes("stack")
            for message in self._messages:
                self._add(message)
            with ui.element("div").classes("actions"):
                button("Add a turn", self._another, icon="add")

    def _add(self, message: Message) -> None:
        with self._rows, ui.element("div").classes("turn") as row:
            roles = {message["role"]: message["role"], **_ROLES}
            role = pick(About("Who", "Whose turn it is.", required=True), roles, message["role"])
            content = area(
                About("Says", "The text of the message.", "What does the licence cost?", required=True),
                message["content"],
            )
            turn = _Turn(row, role, content, message)
            remove = button("", lambda: self._remove(turn), kind="quiet", icon="close")
            remove.props('aria-label="Remove this turn"')
        self._turns.append(turn)

    def _another(self) -> None:
        last = self._turns[-1].read()["role"] if self._turns else ""
        self._add({"role": "assistant" if last == "user" else "user", "content": ""})
        self._turns[-1].content.run_method("focus")

    def _remove(self, turn: _Turn) -> None:
        if len(self._turns) > 1:
            self._turns.remove(turn)
            turn.row.delete()


_HELP = "The passages that the bot answers from. Metrics such as faithfulness compare the answer with them."


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
                About("Text", "A passage, as given to the bot.", "The licence costs 40 pounds a year.", required=True),
                piece.get("text"),
            )
            with ui.element("div").classes("pair"):
                title = line(About("Title", "The document's title.", "Fees"), piece.get("title"))
                path = line(About("Source", "A path or a URL.", "/guides/fees"), piece.get("path"))
            one = _Piece(row, said, title, path)
            with ui.element("div").classes("actions"):
                button("Remove this piece", lambda: self._remove(one), kind="quiet", icon="close")
        self._pieces.append(one)
        return said

    def _remove(self, piece: _Piece) -> None:
        self._pieces.remove(piece)
        self._known_empty = False
        piece.row.delete()
