"""Label sheets: answers for people to label, written as CSV for spreadsheets or as JSON lines, and read back."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.errors import Problem
from evalflow.files import replacing, safe_text
from evalflow.labels.draw import Key
from evalflow.labels.read import plain_name
from evalflow.records import Case

SHEET_COLUMNS = (
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
    """Write the rows, with SHEET_COLUMNS first; replaces the file.

    CSV begins with a byte order mark, so that spreadsheets read it as UTF-8. Text that they would run as a formula gets
    a leading apostrophe.
    """
    table = [dict(row) for row in rows]
    columns = list(dict.fromkeys((*SHEET_COLUMNS, *(column for row in table for column in row))))
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
    """The question, or the whole conversation if there are earlier turns."""
    if not case.history:
        return case.question or ""
    return "\n".join(f"{turn.role}: {turn.content}" for turn in case.messages)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _cell(value: Any) -> Any:
    return safe_text(value) if isinstance(value, str) else "" if value is None else value


CELL = ("dataset", "case_id", "target", "target_repeat")
"""The columns that identify an answer."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A parsed label sheet.

    Attributes:
        rows: All rows, labelled or not.
        answers: The answers and their hashes.
        asked: Pairs of an answer and a metric to label.
        weighted: Whether the sample was stratified.
        grouped: Whether whole groups were sampled.
    """

    rows: Sequence[dict[str, Any]]
    answers: Mapping[Key, str]
    asked: Set[tuple[Key, str]]
    weighted: bool
    grouped: bool


def read_sheet(rows: Iterable[tuple[str, dict[str, Any]]]) -> tuple[Sheet, list[Problem]]:
    """Read a sheet's rows.

    Returns:
        The sheet, and a problem for each invalid row.
    """
    kept: list[dict[str, Any]] = []
    answers: dict[Key, str] = {}
    asked: set[tuple[Key, str]] = set()
    weighted = grouped = False
    problems: list[Problem] = []
    for where, row in rows:
        try:
            key = key_of(row)
            asked.add((key, plain_name(row["metric"])))
            answers[key] = plain_name(row["answer_hash"])
            weighted |= float(row["weight"]) != 1
            grouped |= bool(row.get("group"))
        except (KeyError, TypeError, ValueError):
            what = "this is no row of a sheet that calibrate --sample wrote"
            problems.append(Problem(what, where, "name another file: --out FILE"))
            continue
        kept.append(row)
    return Sheet(kept, answers, asked, weighted, grouped), problems


def key_of(row: Mapping[str, Any]) -> Key:
    """The key of the row's answer.

    Raises:
        KeyError, TypeError, ValueError: A part of the key is missing or invalid.
    """
    dataset, case_id, target = (plain_name(row[name]) for name in CELL[:3])
    return dataset, case_id, target, int(row["target_repeat"])
