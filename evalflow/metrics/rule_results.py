"""Shared parts of score rules: results, declared numbers, and the judge's probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from evalflow.config.schema import Word
from evalflow.errors import Problem, did_you_mean
from evalflow.metrics.returns import ItemKind, LabelType, Observed, Rows, StepConfig, cell_of

Steps = Mapping[str, StepConfig]
Replies = Mapping[str, Observed]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a score rule. `undefined` says why there is no score; `weighted`, that it used probabilities."""

    score: float | None
    value: object = None
    undefined: str | None = None
    weighted: bool = False


def _unit_or_undefined(value: object) -> object:
    """Give a single error message; a union would give one for each of its types."""
    if value == "undefined":
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"must be a number from 0 to 1, or undefined, not {value!r}")
    return float(value)


def unit_values(values: dict[str, float]) -> dict[str, float]:
    """Refuse scores outside 0..1."""
    outside = [f"{label}: {number:g}" for label, number in values.items() if not 0 <= number <= 1]
    if outside:
        raise ValueError(f"the number of each label must lie in 0..1, not {', '.join(outside)}")
    return values


UnitValues = Annotated[dict[Word, float], AfterValidator(unit_values)]
UnitScore = Annotated[float | Literal["undefined"], BeforeValidator(_unit_or_undefined)]
"""A declared score: a number from 0 to 1, or `undefined` (nothing to score)."""


def table_problems(declared: ItemKind, values: Mapping[str, float], where: str) -> Iterator[Problem]:
    """Problems of a table that should give each label of a field a number."""
    if not isinstance(declared, LabelType):
        yield Problem(f"expected a label, but the field is a {declared.type}", f"{where}.field")
        return
    for label in values:
        if label not in declared.labels:
            yield Problem(f"unknown label {label!r}", f"{where}.values", did_you_mean(label, declared.labels))
    missing = [label for label in declared.labels if label not in values]
    if missing:
        yield Problem(f"no number for {', '.join(missing)}", f"{where}.values", "every label needs its number")


def distributions(listed: Rows, field: str | None, weighted: bool) -> tuple[list[Mapping[Any, float]], bool]:
    """Each row's distribution, and whether they are the judge's own: only if all rows have one."""
    if weighted and listed.probabilities is not None and field is not None:
        own = [distribution.get(field) or {} for distribution in listed.probabilities]
        totals = [sum(chances.values()) for chances in own]
        if len(own) == len(listed.rows) and all(total > 0 for total in totals):
            pairs = zip(own, totals, strict=True)
            return [{value: chance / total for value, chance in chances.items()} for chances, total in pairs], True
    return [{cell_of(row, field): 1.0} for row in listed.rows], False


def probability(chances: Mapping[Any, float], values: Sequence[object]) -> float:
    """The probability of any of several values."""
    return sum(chance for value, chance in chances.items() if value in values)


def expected(chances: Mapping[Any, float], number: Callable[[Any], float]) -> float:
    """The expectation of `number` over the values."""
    return sum(chance * number(value) for value, chance in chances.items())


def clamped(score: float) -> float:
    """A score kept within 0..1 despite rounding errors."""
    return min(1.0, max(0.0, score))
