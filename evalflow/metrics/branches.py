"""The branches of a decision graph's node: finds values without a branch, and branches that are never taken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pydantic import Field

from evalflow.config.schema import Strict, Word, with_examples
from evalflow.errors import Problem
from evalflow.metrics.returns import BoolType, LabelType, NumberType, value_fault
from evalflow.metrics.rule_results import UnitScore

Decided = LabelType | BoolType | NumberType
"""The types of a value that a branch can depend on."""


class Route(Strict):
    """What comes next: either another node or the score.

    Attributes:
        next: The node that comes next.
        score: The score if the path ends here: a number from 0 to 1, or undefined.
    """

    next: Word | None = None
    score: UnitScore | None = None


class Branch(Route):
    """The path for some values; without a condition, for all remaining values.

    Attributes:
        equals: The value that takes it.
        in: The values that take it.
        min: The lowest number that takes it.
        max: The highest number that takes it.
    """

    model_config = with_examples(
        {"equals": "fully", "next": "answered"},
        {"in": ["partly", "not_at_all"], "score": 0.5},
        {"min": 4, "score": 1},
        {"score": "undefined"},
        populate_by_name=True,
    )

    equals: object = None
    in_: list[object] | None = Field(default=None, alias="in", min_length=1)
    min: float | None = Field(default=None, allow_inf_nan=False)
    max: float | None = Field(default=None, allow_inf_nan=False)

    @property
    def values(self) -> Sequence[object] | None:
        """The single values that take this branch; None if it has bounds or no condition."""
        return self.in_ if self.in_ is not None else None if self.equals is None else [self.equals]

    @property
    def is_bounded(self) -> bool:
        return self.min is not None or self.max is not None

    @property
    def bounds(self) -> tuple[float, float]:
        return -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max

    def fits(self, value: object) -> bool:
        if self.values is not None:
            return value in self.values
        low, high = self.bounds
        return not self.is_bounded or (isinstance(value, int | float) and low <= value <= high)


def branch_problems(branches: Sequence[Branch], declared: Decided, where: str) -> Iterator[Problem]:
    """Conditions that no value of that type meets, branches that are never taken, and values without a branch."""
    left, is_sound = _all_of(declared), True
    for place, branch in enumerate(branches):
        key = f"{where}[{place}]"
        faults = list(_condition_problems(branch, declared, key))
        yield from faults
        if faults:
            is_sound = False
            continue
        rest = _without(left, branch, declared)
        if rest == left:
            what = "this branch is never taken: earlier branches take all its values"
            yield Problem(what, key, "delete it, or move it before them")
        left = rest
    if left and is_sound:
        what = f"there is no branch for {_described(left)}"
        yield Problem(what, where, "add a branch, or a last one for all other values: {score: undefined}")


def _condition_problems(branch: Branch, declared: Decided, key: str) -> Iterator[Problem]:
    given = [name for name in ("equals", "in_") if getattr(branch, name) is not None]
    if len(given) + branch.is_bounded > 1:
        yield Problem("a branch has only one of `equals`, `in`, and `min` and `max`", key)
        return
    for value in branch.values or ():
        if fault := value_fault(declared, value):
            yield Problem(fault[0], f"{key}.{given[0].rstrip('_')}", fault[1])
    low, high = branch.bounds
    if branch.is_bounded and not isinstance(declared, NumberType):
        yield Problem(f"`min` and `max` are for numbers, but the value is a {declared.type}", key, "use `equals`")
    elif low > high:
        yield Problem(f"no number is at least {low:g} and at most {high:g}", key)


Point = tuple[float, int]
"""One end of an interval: a number and 0, or -1 (1) for the point just below (above) the number."""
Interval = tuple[Point, Point]
Left = Sequence[str | bool | Interval]
"""The values without a branch so far: labels, booleans or intervals."""


def _all_of(declared: Decided) -> Left:
    match declared:
        case LabelType():
            return declared.labels
        case BoolType():
            return [True, False]
        case NumberType():
            low = -math.inf if declared.min is None else declared.min
            high = math.inf if declared.max is None else declared.max
            return [((low, 0), (high, 0))]


def _without(left: Left, branch: Branch, declared: Decided) -> Left:
    if not isinstance(declared, NumberType):
        return [value for value in left if not branch.fits(value)]
    points = None if branch.values is None else [value for value in branch.values if isinstance(value, int | float)]
    intervals = [value for value in left if isinstance(value, tuple)]
    for low, high in [branch.bounds] if points is None else [(point, point) for point in points]:
        intervals = [one for cut in intervals for one in _cut(cut, low, high, whole=declared.type == "int")]
    return intervals


def _cut(interval: Interval, low: float, high: float, *, whole: bool) -> Iterator[Interval]:
    below, above = (low, -1), (high, 1)
    if whole:
        below = (math.ceil(low) - 1, 0) if math.isfinite(low) else below
        above = (math.floor(high) + 1, 0) if math.isfinite(high) else above
        if math.isfinite(high - low) and math.ceil(low) > math.floor(high):
            yield interval  # no whole number lies between the two
            return
    first, last = interval
    yield from (piece for piece in ((first, min(last, below)), (max(first, above), last)) if piece[0] <= piece[1])


def _described(left: Left) -> str:
    first = left[0]
    if not isinstance(first, tuple):
        return " and ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in left)
    (low, after), (high, before) = first
    if low == high:
        return f"{low:g}"
    parts = [f"{'above' if after else 'from'} {low:g}"] if math.isfinite(low) else []
    parts += [f"{'below' if before else 'up to'} {high:g}"] if math.isfinite(high) else []
    return f"numbers {' '.join(parts)}".strip()
