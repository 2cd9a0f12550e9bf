"""Read a label sheet: the answers in it, and their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from evalflow.errors import Problem
from evalflow.labels.draw import Key
from evalflow.labels.read import plain_name

CELL = ("dataset", "case_id", "target", "target_repeat")
"""The columns that say which answer a row is of."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a sheet holds.

    Attributes:
        rows: As they were read, labelled or not.
        answers: The answers in it, with the hash of each.
        asked: These with each metric that the sheet asks for.
        weighted: Whether it was drawn by strata.
        grouped: Whether whole groups were drawn.
    """

    rows: Sequence[dict[str, Any]]
    answers: Mapping[Key, str]
    asked: Set[tuple[Key, str]]
    weighted: bool
    grouped: bool


def read_sheet(rows: Iterable[tuple[str, dict[str, Any]]]) -> tuple[Sheet, list[Problem]]:
    """Read a sheet's rows.

    Args:
        rows: Where each stands, and its columns.

    Returns:
        The sheet, and each row that is none of one.
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
    """The answer that a row is of.

    Raises:
        KeyError, TypeError, ValueError: It does not say.
    """
    dataset, case_id, target = (plain_name(row[name]) for name in CELL[:3])
    return dataset, case_id, target, int(row["target_repeat"])
