"""What score rules share: their result, the numbers that a file states, and the judge's probabilities."""

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
    """The result of a score rule: no score has a reason, `undefined`; `weighted` by the judge's probabilities."""

    score: float | None
    value: object = None
    undefined: str | None = None
    weighted: bool = False


def _unit_or_undefined(value: object) -> object:
    """Give one error message, where a union would give one for each member."""
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
"""A score that a file states: a number from 0 to 1, or `undefined`: there is nothing to score."""


def table_problems(declared: ItemKind, values: Mapping[str, float], where: str) -> Iterator[Problem]:
    """Why the table does not give each label of a field exactly one number."""
    if not isinstance(declared, LabelType):
        yield Problem(f"a label is wanted, but the field is a {declared.type}", f"{where}.field")
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
    """The expected number, where `number` gives that of each value."""
    return sum(chance * number(value) for value, chance in chances.items())


def clamped(score: float) -> float:
    """A score in 0..1, despite the last bit of a float."""
    return min(1.0, max(0.0, score))
