"""Outcomes of gates, as gates.json has them."""

from __future__ import annotations

from typing import Any, cast

from evalflow.summary.rows import GateOutcome

NOTHING = dict.fromkeys(GateOutcome.__annotations__)
WORDS = dict.fromkeys(("metric", "statistic", "condition", "name", "basis", "of", "note", "message", "in_spite"), "")


def gate_outcome(**given: Any) -> GateOutcome:
    """An outcome with these values, and nothing else known."""
    assert not given.keys() - NOTHING.keys()
    return cast("GateOutcome", {**NOTHING, **WORDS, "limit": 0.0, **given})
