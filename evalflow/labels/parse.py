"""Labels out of rows, as a file or a case holds them: what each says, before anything is known of the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from evalflow.errors import Problem, did_you_mean
from evalflow.frozen import record
from evalflow.records import Case, Label

REQUIRED = ("case_id", "metric", "value")
UNNAMED = "unnamed"
"""Who labelled, where nobody says."""
_FORMULA = ("'=", "'+", "'-", "'@")


@record()
class Given:
    """A label, and where it stands."""

    where: str
    label: Label


@dataclass(frozen=True, slots=True)
class Parsed:
    """What rows say.

    Attributes:
        given: The labels, in order.
        blank: Rows whose value is still empty.
        problems: What is wrong with the others.
    """

    given: list[Given]
    blank: int
    problems: list[Problem]


def parse(rows: Iterable[tuple[str, Mapping[str, Any]]], file: str) -> Parsed:
    """Read rows of a labels file.

    Args:
        rows: Where each stands, and its columns: case_id, metric, value, and perhaps by, dataset, target,
            target_repeat, answer_hash, weight, comment, at; all others are passed over. Cells may be text.
        file: The file's name, for messages.
    """
    given: list[Given] = []
    problems: list[Problem] = []
    blank = 0
    seen: set[str] = set()
    for where, row in rows:
        seen.update(row)
        if _is_blank(row.get("value")):
            blank += 1
            continue
        found = _label(where, row)
        if isinstance(found, Given):
            given.append(found)
        else:
            problems += found
    missing = [name for name in REQUIRED if name not in seen]
    if missing and seen:
        hint = "; ".join(f"{name}: {did_you_mean(name, seen)}" for name in missing)
        return Parsed([], blank, [Problem(f"the file has no column {' and no column '.join(missing)}", file, hint)])
    return Parsed(given, blank, problems)


def parse_case(case: Case) -> Parsed:
    """Read the labels that a case of a dataset brings along.

    `{metric: value}`, or `{metric: [...]}` with a value of each person, or an object of value, by, and so on.
    """
    given: list[Given] = []
    problems: list[Problem] = []
    for metric, said in (case.labels or {}).items():
        for number, entry in enumerate(cast("list[Any]", said) if isinstance(said, list) else [said], 1):
            fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {"value": entry}
            if _is_blank(fields.get("value")):
                continue
            several = isinstance(said, list)
            where = f"dataset {case.dataset}, case {case.id}, labels.{metric}{f'[{number - 1}]' if several else ''}"
            by = f"person {number}" if several else UNNAMED
            row = {"by": by, **fields, "case_id": case.id, "dataset": case.dataset, "metric": metric}
            found = _label(where, row)
            if isinstance(found, Given):
                given.append(found)
            else:
                problems += found
    return Parsed(given, 0, problems)


def _label(where: str, row: Mapping[str, Any]) -> Given | list[Problem]:
    fields: dict[str, Any] = {"value": row["value"], "by": UNNAMED}
    problems: list[Problem] = []
    for name, convert in _FIELDS.items():
        value = row.get(name)
        if _is_blank(value):
            if name in REQUIRED:
                problems.append(Problem(f"no {name}", where, "a label names its case, its metric and a value"))
            continue
        try:
            fields[name] = convert(value)
        except ValueError as error:
            problems.append(Problem(f"{name}: {error}", where))
    return problems or Given(where, Label(**fields))


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def plain_name(cell: Any) -> str:
    """A name out of a cell, without the apostrophe that keeps a spreadsheet from running it as a formula.

    Raises:
        ValueError: It is no text.
    """
    if not isinstance(cell, str | int) or isinstance(cell, bool):
        raise ValueError(f"expected text, got {cell!r}")
    text = str(cell).strip()
    return text[1:] if text.startswith(_FORMULA) else text


def _count(value: Any) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not number.is_integer() or number < 0:
        raise ValueError(f"{value!r} is not a whole number from 0 on")
    return int(number)


def _weight(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number <= 0:
        raise ValueError(f"{value!r} is not a number above 0")
    return number


_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "case_id": plain_name,
    "metric": plain_name,
    "by": plain_name,
    "dataset": plain_name,
    "target": plain_name,
    "target_repeat": _count,
    "answer_hash": plain_name,
    "weight": _weight,
    "comment": str,
    "at": str,
}
