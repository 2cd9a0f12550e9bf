"""The columns of labels, in files and as rows; label sheets, the reader, exports of reviews and docs follow them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_args

from evalflow.paths import FORMULA
from evalflow.records.scores import Draw, LabelKind, Missing

_FORMULA = tuple(f"'{character}" for character in FORMULA)


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """A column: how a cell is read (ValueError if it is invalid), and what it means."""

    read: Callable[[object], object]
    meaning: str


def plain_name(cell: object) -> str:
    """Read a name, without the apostrophe against formulas; ValueError if it is neither text nor a whole number."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if not isinstance(cell, str | int) or isinstance(cell, bool):
        raise ValueError(f"expected text, got {cell!r}")
    return _unescaped(str(cell).strip())


def _unescaped(text: str) -> str:
    return text[1:] if text.startswith(_FORMULA) else text


def _value(cell: object) -> object:
    return _unescaped(cell) if isinstance(cell, str) else cell


def _text(cell: object) -> str:
    return str(_value(cell))


def number(cell: object) -> float:
    """The number of a cell, which may be text; NaN for anything else."""
    try:
        return float(cell) if isinstance(cell, str | int | float) and not isinstance(cell, bool) else math.nan
    except ValueError:
        return math.nan


def count(value: object) -> int:
    """The whole number of a cell; ValueError for anything else, and below 0."""
    count = number(value)
    if not count.is_integer() or count < 0:
        raise ValueError(f"{value!r} is not a whole number of at least 0")
    return int(count)


def _seed(value: object) -> int:
    if not number(value).is_integer():
        raise ValueError(f"{value!r} is not a whole number")
    return int(value if isinstance(value, int) else str(value).strip().removesuffix(".0"))


def _number_that(fits: Callable[[float], bool], what: str) -> Callable[[object], float]:
    def read(value: object) -> float:
        cell = number(value)
        if not (math.isfinite(cell) and fits(cell)):
            raise ValueError(f"{value!r} is not {what}")
        return cell

    return read


_seconds = _number_that(lambda cell: cell >= 0, "a number from 0 on")
_weight = _number_that(lambda cell: cell > 0, "a number above 0")
_probability = _number_that(lambda cell: 0 < cell <= 1, "a probability above 0")


def _truth(value: object) -> bool:
    truth = {"true": True, "false": False, "1": True, "0": False}.get(str(value).strip().lower())
    if truth is None:
        raise ValueError(f"{value!r} is not true or false")
    return truth


def _one_of(choices: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        word = plain_name(value).lower()
        if word not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return word

    return read


LABEL_COLUMNS: Mapping[str, LabelColumn] = MappingProxyType(
    {
        "dataset": LabelColumn(plain_name, "dataset of the case; needed only if several have a case of this id"),
        "case_id": LabelColumn(plain_name, "the case (required)"),
        "target": LabelColumn(plain_name, "target whose answer was labelled; empty: any"),
        "target_repeat": LabelColumn(count, "repeat of the target, from 0; empty: any"),
        "answer_hash": LabelColumn(plain_name, "hash of the answer; empty: the answer recorded in the dataset"),
        "metric": LabelColumn(plain_name, "the metric (required)"),
        "value": LabelColumn(
            _value,
            "the grade on the metric's own scale, or `undefined` if nothing is to score (required, or `missing`)",
        ),
        "by": LabelColumn(plain_name, "who labelled; empty: unnamed"),
        "comment": LabelColumn(_text, "why"),
        "weight": LabelColumn(_weight, "number of answers that this one represents; empty: 1 / `pi`, else 1"),
        "group": LabelColumn(plain_name, "group that was drawn as a whole"),
        "at": LabelColumn(str, "when"),
        "review": LabelColumn(plain_name, "review in which it was labelled"),
        "position": LabelColumn(count, "place of the answer in the review's random order, else in the run, from 0"),
        "seconds": LabelColumn(_seconds, "time that the person took for the answer"),
        "draw": LabelColumn(_one_of(get_args(Draw)), "how the answer was chosen: random, strata, groups, or hand"),
        "seed": LabelColumn(_seed, "seed of the draw"),
        "population": LabelColumn(count, "number of answers that it was drawn from"),
        "pi": LabelColumn(_probability, "probability with which the answer was drawn"),
        "kind": LabelColumn(_one_of(get_args(LabelKind)), "label, or resolution of a disagreement; empty: label"),
        "blind": LabelColumn(_truth, "false if the person saw the judge's score; empty: true"),
        "seen_before": LabelColumn(
            _truth, "true if the person had opened the run's results, or a comparison, before; empty: false"
        ),
        "rubric": LabelColumn(count, "version of the guidelines"),
        "missing": LabelColumn(
            _one_of(get_args(Missing)),
            "why the value is missing: cannot_tell, declined, unfinished; blank: the row was left empty",
        ),
    }
)
REQUIRED_COLUMNS = ("case_id", "metric", "value")
