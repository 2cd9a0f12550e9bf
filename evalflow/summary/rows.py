"""What results are read as: rows of tables and entries of documents, by the names of their columns and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

SummaryRow: TypeAlias = Mapping[str, Any]
"""A row of the summary, by the columns of `summary_schema`; in a sweep it has the column `run` too."""
Detail: TypeAlias = Mapping[str, Any]
"""An entry of `details` in summary.json, or of a list in one: a result that is not one number."""
Board: TypeAlias = Mapping[str, Any]
"""A leaderboard, which is a detail of a sweep's summary; the rows of its key `leaderboard` have a place each."""
GateOutcome: TypeAlias = Mapping[str, Any]
"""An entry of gates.json: a gate's name, `passed`, message and what it is about."""
