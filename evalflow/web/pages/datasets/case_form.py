"""The form of a case: what is asked, what is known about a good answer, and what belongs to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from evalflow.web.pages.datasets.pieces import Pieces
from evalflow.web.pages.datasets.turns import Turns
from evalflow.web.pages.forms import About, Field, area, fieldset, line, written
from evalflow.web.pages.pairs import Pairs, as_text, as_value
from evalflow.web.pages.parts import text

_TEXTS = {
    "reference": About("Expected answer", "An answer that you would be glad of.", "It costs 40 pounds a year."),
    "answer": About(
        "Recorded answer",
        "What the bot said when it was last asked; scored where no bot is asked.",
        "40 pounds, I think.",
    ),
}
_LABELS = {
    "expected": About(
        "Expected label", "For bots that classify or retrieve: the true label, or a list of ids.", "allowed"
    ),
    "actual": About("Recorded label", "What such a bot said.", "refused"),
}
_TAGS = About("Tags", 'With ; between them; levels of one with " > " between them.', "Fees > Refunds; hard")
_GROUP = About("Group", "Cases that hang together, such as by their source document, count as one draw.", "handbook")
_ID = About("Id", "Its name in every table; left empty, it is made of the content.", "fees-017", code=True)
_UNSEEN = {
    "checks": "checks",
    "labels": "labels",
    "demo_answer": "an example answer",
    "failure": "why it has no answer",
}


class CaseForm:
    """The fields, and what they say as a row of JSON lines.

    Args:
        body: To begin with. Fields that have no place here are kept as they are.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = dict(body)
        self.fields: dict[str, Field] = {}
        self._turns = Turns(body.get("messages") or [])
        with fieldset("A good answer", "group"):
            for name, about in _TEXTS.items():
                self.fields[name] = area(about, body.get(name))
        self._contexts = Pieces(body.get("contexts"))
        help = "What else a prompt or a template may name, as vars.NAME."
        self._vars = Pairs("Additional inputs", help, ("plan", "basic"), body.get("vars") or {})
        with fieldset("How it is found and grouped", "group"):
            self.fields["tags"] = line(_TAGS, "; ".join(body.get("tags") or []))
            with ui.element("div").classes("pair"):
                self.fields["group"] = line(_GROUP, body.get("group"))
                self.fields["id"] = line(_ID, body.get("id"))
        with ui.expansion(
            "Labels and metadata", value=any(body.get(name) is not None for name in (*_LABELS, "metadata"))
        ):
            with ui.element("div").classes("pair"):
                for name, about in _LABELS.items():
                    value = body.get(name)
                    self.fields[name] = line(about, None if value is None else as_text(value))
            help = "What the bot sent beside its answer; checks by JSONPath look there."
            self._metadata = Pairs("Metadata", help, ("language", "en"), body.get("metadata") or {})
        kept = [said for name, said in _UNSEEN.items() if body.get(name) is not None]
        if kept:
            text(f"It also has {' and '.join(kept)}, which stay as they are.", "p", "aside")

    def read(self) -> dict[str, Any] | None:
        """The row; None where something cannot be read, which is shown beside it."""
        messages, inputs, metadata = self._turns.read(), self._vars.read(), self._metadata.read()
        if messages is None or inputs is None or metadata is None:
            return None
        values: dict[str, Any] = {
            "id": written(self.fields["id"]),
            "messages": messages or None,
            **{name: self._text(name) for name in _TEXTS},
            **{name: self._label(name) for name in _LABELS},
            "contexts": self._contexts.read(),
            "vars": inputs or None,
            "metadata": metadata or None,
            "tags": written(self.fields["tags"]),
            "group": written(self.fields["group"]),
        }
        return {name: value for name, value in {**self._body, **values}.items() if value is not None}

    def focus(self) -> None:
        """Go to what is asked with the cursor."""
        self._turns.last.run_method("focus")

    @property
    def places(self) -> Mapping[str, Field]:
        """The field of each key, for faults."""
        return {**self.fields, "messages": self._turns.last, "question": self._turns.last}

    def _text(self, name: str) -> str | None:
        said = str(self.fields[name].value or "")
        return said if said.strip() else None

    def _label(self, name: str) -> Any:
        said = written(self.fields[name])
        return None if said is None else as_value(said)
