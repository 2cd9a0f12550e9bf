"""The model that plays the users of a run's cases with a situation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from nicegui import ui

from evalflow.web.ui import forms
from evalflow.web.ui.endpoint import ADDRESS, CALLED, KEY, endpoint_fields
from evalflow.web.ui.parts import text

_KIND = "openai"
_LINES = {
    "model": forms.About("Model of the user", "Plays the user. Empty: no user is simulated.", "gpt-4.1-mini"),
    "base_url": replace(ADDRESS, label="Address of the user's model"),
    "api_key_env": replace(KEY, label="API key of the user's model", help=f"{KEY.help} Empty: none is sent."),
}
_CONNECTION = forms.About("Connection of the user's model", "The service and its key.")
_TURNS = forms.About("Turns at most", "Answers of the bot in one conversation; empty: 10.", "10")


class SimulatorFields:
    """The fields of a model that plays the user; any other simulator of a request is kept as it is."""

    def __init__(self, given: Mapping[str, Any], connections: Sequence[str] | None) -> None:
        self._given = dict(given)
        self._limits: Mapping[str, Any] = given.get("limits") or {}
        self.fields: dict[str, forms.Field] = {}
        if given.get("kind", _KIND) != _KIND:
            return
        with ui.expansion("Simulated users", value=bool(given)).classes("more"), forms.fieldset("", "bare"):
            text("For test cases with a situation: this model plays their user.", classes="help")
            self._endpoint = endpoint_fields(_LINES, given, connections, about=_CONNECTION)
            self._turns = forms.number_field(_TURNS, self._limits.get("turns"))
        self.fields = {f"simulator.{key}": field for key, field in self._endpoint.items()}
        if connections is not None:
            self.fields |= {f"simulator.{key}": self._endpoint["connection"] for key in CALLED}
        self.fields |= {"simulator": self._endpoint["model"], "simulator.limits.turns": cast("Any", self._turns)}

    def read(self) -> dict[str, Any] | None:
        """The option `simulator` of the run; None where no user is simulated."""
        if not self.fields:
            return self._given or None
        values = {key: forms.written(field) for key, field in self._endpoint.items()}
        if values["model"] is None:
            return None
        if values.get("connection", "") is None:
            del values["connection"]
        turns = forms.number_of(self._turns)
        limits = {**self._limits, "turns": turns} if turns is not None else dict(self._limits)
        return {**self._given, "kind": _KIND, **values, **({"limits": limits} if limits else {})}
