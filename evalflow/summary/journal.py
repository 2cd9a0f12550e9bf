"""How a score stands in the journal, scores.jsonl: one JSON object per line, the fields of ScoreRecord.

`value` and `steps`, which may hold any JSON, stand in the line as JSON text: so every column has one type, and the
file is scanned without guessing. A line counts once it ends in a newline; a run that was killed leaves at most one
torn line, the last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from evalflow.bill import Bill
from evalflow.records import ScoreRecord

_TAIL = 1 << 16
_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":"))
_BILL = tuple(field.name for field in fields(Bill))
_NAMES = tuple(field.name for field in fields(ScoreRecord))


def journal_row(record: ScoreRecord) -> dict[str, Any]:
    """A record as the object of its line.

    Raises:
        ValueError: It is scored without a finite score or has a score without being scored, or its value is no JSON.
    """
    scored = record.score is not None and math.isfinite(record.score)
    if scored != (record.status == "scored") or (record.score is not None and not scored):
        raise ValueError(f"a cell in state {record.status!r} cannot have the score {record.score!r}")
    row = {name: getattr(record, name) for name in _NAMES}
    row["tags"] = list(record.tags)
    row["value"] = None if record.value is None else json_text(record.value)
    row["steps"] = json_text(record.steps)
    row["bill"] = bill_row(record.bill)
    return row


def bill_row(bill: Bill) -> dict[str, Any]:
    """A bill as it stands in a line."""
    return {name: getattr(bill, name) for name in _BILL}


def journal_record(row: Mapping[str, Any]) -> ScoreRecord:
    """The record of a line: `journal_row` backwards, but a tuple in a step comes back as a list."""
    values = {name: row[name] for name in _NAMES if name in row}
    values["tags"] = tuple(row["tags"] or ())
    values["value"] = None if row["value"] is None else json.loads(row["value"])
    values["steps"] = tuple(json.loads(row["steps"] or "[]"))
    values["bill"] = _bill(row["bill"])
    return ScoreRecord(**values)


def _bill(row: Mapping[str, Any]) -> Bill:
    values = {name: row[name] for name in _BILL}
    values["paid"] = tuple(row["paid"])
    return Bill(**values)


def json_text(value: Any) -> str:
    """Canonical JSON text: sorted keys, no spaces. Equal values of the same types have equal texts; 1 and 1.0 do not.

    Raises:
        ValueError: A number is not finite.
        TypeError: Something in it is no JSON.
    """
    return _CANONICAL.encode(value)


def torn_tail(path: Path) -> int:
    """How many bytes at the end of the file belong to a line that was never finished; 0 for a sound file.

    Whoever appends to a journal cuts them off first, or the next line would be lost with them.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        seen = 0
        while seen < size:
            step = min(_TAIL, size - seen)
            file.seek(size - seen - step)
            at = file.read(step).rfind(b"\n")
            if at >= 0:
                return seen + step - at - 1
            seen += step
    return size
