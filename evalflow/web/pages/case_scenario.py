"""The fields of a simulated user: the situation, who the user is, what they want and know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from evalflow.web.ui import forms
from evalflow.web.ui.faults import reveal
from evalflow.web.ui.parts import text

_ABOUT = {
    "scenario": forms.About(
        "Situation", "What the user is in. The bot never sees it.", "You have moved and want to park at your new home."
    ),
    "persona": forms.About("Persona", "Who the user is, and how they write.", "A nurse, friendly, short messages."),
    "goal": forms.About("Goal", "The conversation ends when it is reached.", "Learn what a permit costs."),
    "facts": forms.About("Facts", "All that the user knows, one fact a line.", "You live in Mill Lane 4."),
}
_NO_SITUATION = "Write the situation: without it nobody is simulated."


class ScenarioFields:
    """What a second model is told that plays the user; without a situation the case is asked as it stands."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        with ui.expansion("Simulated user", value=bool(body.get("scenario"))).classes("more"):
            about = "A model plays this user and talks with the bot. Turns above are then how the conversation begins."
            text(about, classes="help")
            shown = {name: body.get(name) for name in ("scenario", "persona", "goal")}
            shown["facts"] = "\n".join(body.get("facts") or ())
            self.fields: dict[str, forms.Field] = {}
            for names in (("scenario", "goal"), ("persona", "facts")):
                with forms.pair():
                    for name in names:
                        self.fields[name] = forms.area(_ABOUT[name], shown[name])
        self._before = {name: field.value for name, field in self.fields.items()}

    @property
    def is_given(self) -> bool:
        """Whether the user of this case is simulated."""
        return forms.written(self.fields["scenario"]) is not None

    def on_change(self, call: Callable[[], object]) -> None:
        self.fields["scenario"].on_value_change(lambda _: call())

    def read(self) -> dict[str, Any] | None:
        """The values; None if there is no situation to the others (its field then says so)."""
        values = {name: self._read(name) for name in self.fields}
        situation = self.fields["scenario"]
        situation.error = None
        if not self.is_given and any(values.values()):
            situation.error = _NO_SITUATION
            reveal(situation)
            situation.run_method("focus")
            return None
        return values

    def _read(self, name: str) -> Any:
        """The value of a field; as it was, if nobody changed it: a fact may have several lines."""
        field = self.fields[name]
        if field.value == self._before[name]:
            return self._body.get(name)
        return forms.lines_of(field) or None if name == "facts" else forms.written(field)
