"""A sheet of answers for people to label, as CSV for spreadsheets or as JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evalflow.files import replacing
from evalflow.records import Case
from evalflow.summary.summarise import safe_text

COLUMNS = (
    "case_id", "dataset", "target", "target_repeat", "metric", "answer_hash", "weight", "group", "question", "answer",
    "contexts", "reference", "scale", "value", "by", "comment",
)  # fmt: skip
"""Columns of a sheet. The judge's score is left out, because it would bias people."""

_CONTEXTS, _REFERENCE = 6000, 2000


def shown_case(case: Case) -> dict[str, str]:
    """What a person needs to read of an answered case: question, answer, contexts, reference."""
    passages = [f"{c.title}\n{c.text}" if c.title else c.text for c in case.contexts or ()]
    said = case.answer
    if said is None and case.actual is not None:
        said = json.dumps(case.actual, ensure_ascii=False, default=str)
    return {
        "question": _conversation(case),
        "answer": said or "",
        "contexts": _short("\n\n".join(passages), _CONTEXTS),
        "reference": _short(case.reference or "", _REFERENCE),
    }


def write_label_sheet(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the rows, with COLUMNS first; replaces the file.

    CSV begins with a byte order mark, without which spreadsheets take it for another encoding, and text that they would
    run as a formula gets a leading apostrophe.

    Args:
        path: Ends in .csv, else JSON lines are written.
        rows: By column.
    """
    table = [dict(row) for row in rows]
    columns = list(dict.fromkeys((*COLUMNS, *(column for row in table for column in row))))
    as_csv = path.suffix.lower() == ".csv"
    with replacing(path, newline="") as file:
        if not as_csv:
            lines = ({column: row.get(column) for column in columns} for row in table)
            file.writelines(json.dumps(line, ensure_ascii=False, default=str) + "\n" for line in lines)
            return
        file.write("\ufeff")
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([_cell(row.get(column)) for column in columns] for row in table)


def _conversation(case: Case) -> str:
    """The question; where something was said before it, the whole conversation."""
    if not case.history:
        return case.question or ""
    return "\n".join(f"{turn.role}: {turn.content}" for turn in case.messages)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _cell(value: Any) -> Any:
    return safe_text(value) if isinstance(value, str) else "" if value is None else value
