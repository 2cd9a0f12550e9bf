"""The gates of a run: what was asked of it, and whether that holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from evalflow.report.wording import number
from evalflow.web.pages.parts import Tone, badge, section, text

_OUTCOMES: dict[bool | None, tuple[str, Tone]] = {
    True: ("passed", "pass"),
    False: ("failed", "fail"),
    None: ("undecided", "warn"),
}


def gates(found: Sequence[Mapping[str, Any]]) -> None:
    """A line for each gate; nothing where there are none."""
    if not found:
        return
    with section("Gates", "What this run had to reach."), ui.element("ul").classes("gate-list card"):
        for gate in found:
            with ui.element("li"):
                badge(*_OUTCOMES[gate["passed"]])
                text(str(gate["name"]), "span", "mono")
                if gate["value"] is not None:
                    text(f"is {_estimate(gate)}", "span", "muted")
                if gate["passed"] is not None and gate["basis"]:
                    text(gate["basis"], "span", "muted small")
                if gate["passed"] is None and gate.get("message"):
                    text(str(gate["message"]), "span", "muted small")


def _estimate(gate: Mapping[str, Any]) -> str:
    if gate["ci_low"] is None:
        return number(gate["value"])
    return f"{number(gate['value'])} ({number(gate['ci_low'])} to {number(gate['ci_high'])})"
