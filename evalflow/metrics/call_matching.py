"""Matches expected tool calls with actual ones, one to one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from operator import contains, itemgetter
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import Field

from evalflow.config.schema import Strict, Word
from evalflow.lazy import np
from evalflow.limited import deadline
from evalflow.records import ToolCall
from evalflow.values.jsonvalues import is_object

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.bool_]

MOST = 1000
"""Maximum calls on one side. An agent that makes more is in a loop, and matching them would delay other cases."""

PATIENCE_S = 5.0
"""Time limit in seconds for the comparison of all arguments."""

Arguments = Literal["exact", "ignore", "subset", "superset"] | Annotated[list[Word], Field(min_length=1)]


class Tolerance(Strict):
    """How far a number may be from the expected one: the sum of both limits.

    Attributes:
        absolute: As a number.
        relative: As a share of the expected number.
    """

    absolute: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    relative: float = Field(default=0.0, ge=0, le=1)


class ArgumentRule(Strict):
    """How the arguments of two calls of one tool are compared.

    Attributes:
        arguments: exact; ignore; subset: the actual call may lack expected arguments; superset: it may have additional
            ones; or a list of the arguments to compare (nested ones as dotted paths).
        tolerance: How far numbers may differ: a number, or {absolute, relative}; null: not at all.
        ignore_case: Whether to ignore upper and lower case in texts.
        contains: Whether it is enough that a text contains the expected one.
    """

    arguments: Arguments = "exact"
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Tolerance | None = None
    ignore_case: bool = False
    contains: bool = False

    @property
    def limits(self) -> Tolerance | None:
        return Tolerance(absolute=self.tolerance) if isinstance(self.tolerance, int | float) else self.tolerance


Rules = Callable[[str], ArgumentRule]
Check = Callable[[], None]
Pairs = list[tuple[int, int]]
"""Positions of an expected call and of the actual call matched with it."""


def fitting(expected: Sequence[ToolCall], actual: Sequence[ToolCall], rules: Rules) -> Matrix:
    """Which actual call (column) fits which expected call (row): the same tool, and arguments by the tool's rule.

    An expected call without arguments accepts any. Arguments that are not a JSON object fit only where any are
    accepted. LimitExceeded if it takes too long.
    """
    check_time = deadline(PATIENCE_S, "matching the calls")
    fits = np.zeros((len(expected), len(actual)), dtype=bool)
    rows, columns = _by_name(expected), _by_name(actual)
    for name in rows.keys() & columns.keys():
        ours, theirs = [expected[i] for i in rows[name]], [actual[j] for j in columns[name]]
        fits[np.ix_(rows[name], columns[name])] = _block(ours, theirs, rules(name), check_time)
    return fits


def matched(fits: Matrix) -> Pairs:
    """As many pairs as possible in any order; among equally good matchings, pairs that are close in position."""
    if not fits.any():
        return []
    if fits.sum(0).max() <= 1 and fits.sum(1).max() <= 1:
        return [(int(i), int(j)) for i, j in np.argwhere(fits)]
    import lap  # pyright: ignore[reportMissingTypeStubs]

    rows, columns = (np.flatnonzero(fits.any(axis)) for axis in (1, 0))
    some = fits[np.ix_(rows, columns)]
    # All distances together weigh less than one pair.
    apart = np.abs(rows[:, None] - columns[None, :]) / (4.0 * max(fits.shape) ** 2)
    solve = cast("Callable[..., tuple[NDArray[np.int_], NDArray[np.int_]]]", lap.lapjv)
    chosen, _ = solve(np.where(some, apart, 1.0), extend_cost=True, return_cost=False)
    return [(int(rows[i]), int(columns[j])) for i, j in enumerate(chosen) if j >= 0 and some[i, j]]


def matched_in_order(fits: Matrix) -> Pairs:
    """A longest common subsequence, the earliest if there are several."""
    count, width = fits.shape
    length = np.zeros((count + 1, width + 1), dtype=np.int32)
    for i in reversed(range(count)):
        best = np.maximum(length[i + 1, :-1], length[i + 1, 1:] + fits[i])
        length[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    pairs: Pairs = []
    i = j = 0
    while i < count and j < width and length[i, j]:
        if fits[i, j] and length[i, j] == length[i + 1, j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif length[i, j + 1] == length[i, j]:
            j += 1
        else:
            i += 1
    return pairs


def json_key(value: object, numbers: list[float] | None = None, text: Callable[[str], Hashable] = str) -> Hashable:
    """A key that is equal for equal JSON: 1 and 1.0 have the same key, true and 1 do not.

    With `numbers` the key leaves the numbers out, and they are appended to `numbers`. `text` makes the key of a text.
    """
    if isinstance(value, str):
        return text(value)
    if value is None or value is _ABSENT:
        return value
    if is_object(value):
        entries = sorted(value.items(), key=itemgetter(0))
        return ("map", *[(key, json_key(one, numbers, text)) for key, one in entries])
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float):
        if numbers is None or abs(value) > _LARGE:
            return value
        numbers.append(float(value))
        return ("number",)
    return ("list", *[json_key(one, numbers, text) for one in cast("Iterable[object]", value)])


_LARGE = 10**150  # a float cannot hold every whole number above this
_ABSENT: object = object()  # the value of an argument that a call does not have


def _by_name(calls: Sequence[ToolCall]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        places.setdefault(call.name, []).append(place)
    return places


def _block(expected: Sequence[ToolCall], actual: Sequence[ToolCall], rule: ArgumentRule, check_time: Check) -> Matrix:
    anything = np.array([call.arguments is None for call in expected])
    fits = np.ones((len(expected), len(actual)), dtype=bool)
    if rule.arguments == "ignore" or anything.all():
        return fits
    readable = np.array([not isinstance(call.arguments, str) for call in actual])
    ours, theirs = ([_arguments(call) for call in calls] for calls in (expected, actual))
    if rule.arguments == "exact":
        fits = _equal(ours, theirs, rule, check_time)
    elif isinstance(rule.arguments, list):
        for path in rule.arguments:
            mine, yours = ([_at(path, one) for one in side] for side in (ours, theirs))
            fits &= _equal(mine, yours, rule, check_time)
    else:
        for key in dict.fromkeys(key for one in (*ours, *theirs) for key in one):
            mine, yours = ([one.get(key, _ABSENT) for one in side] for side in (ours, theirs))
            lacks = [value is _ABSENT for value in (yours if rule.arguments == "subset" else mine)]
            may_lack = np.array(lacks)[None, :] if rule.arguments == "subset" else np.array(lacks)[:, None]
            fits &= _equal(mine, yours, rule, check_time) | may_lack
    return anything[:, None] | fits & readable[None, :]


def _arguments(call: ToolCall) -> Mapping[str, object]:
    return {} if call.arguments is None or isinstance(call.arguments, str) else call.arguments


def _at(path: str, arguments: Mapping[str, object]) -> object:
    """The value of an argument of this name, else the one at the dotted path."""
    here: object = arguments
    for part in [path] if path in arguments else path.split("."):
        if not is_object(here) or part not in here:
            return _ABSENT
        here = here[part]
    return here


def _equal(expected: Sequence[object], actual: Sequence[object], rule: ArgumentRule, check_time: Check) -> Matrix:
    """Which values are equal as JSON, numbers and texts by the rule. Two absent values are equal."""
    check_time()
    values, rows, limits = (*expected, *actual), len(expected), rule.limits
    numbers: list[list[float]] = [[] for _ in values]
    texts: list[list[str]] = [[] for _ in values]
    keys = [
        json_key(value, own_numbers if limits else None, partial(_text_key, rule, own_texts))
        for value, own_numbers, own_texts in zip(values, numbers, texts, strict=True)
    ]
    codes: dict[Hashable, int] = {}
    shapes = np.array([codes.setdefault(key, len(codes)) for key in keys])
    same = shapes[:rows, None] == shapes[None, rows:]
    for i, j in np.argwhere(same).tolist() if rule.contains else ():
        check_time()
        same[i, j] = all(map(contains, texts[rows + j], texts[i]))
    return same if limits is None else same & _near(numbers, rows, limits, check_time)


def _text_key(rule: ArgumentRule, texts: list[str], text: str) -> Hashable:
    """The text as the rule compares it. With `contains` it is instead appended to `texts`."""
    folded = text.casefold() if rule.ignore_case else text
    if not rule.contains:
        return folded
    texts.append(folded)
    return ("text",)


def _near(numbers: list[list[float]], rows: int, limits: Tolerance, check_time: Check) -> Matrix:
    """Which values have the same count of numbers, all within the limits."""
    same = np.ones((rows, len(numbers) - rows), dtype=bool)
    counts = np.array([len(own_numbers) for own_numbers in numbers])
    for count in {*counts.tolist()} - {0}:
        ours, theirs = np.flatnonzero(counts[:rows] == count), np.flatnonzero(counts[rows:] == count)
        wanted, given = (np.array([numbers[at] for at in side]) for side in (ours, theirs + rows))
        if not len(ours) or not len(theirs):
            continue
        for mine, yours in zip(wanted.T, given.T, strict=True):  # the first number of each, the second ...
            check_time()
            reach = limits.absolute + limits.relative * np.abs(mine)
            same[np.ix_(ours, theirs)] &= np.abs(mine[:, None] - yours[None, :]) <= reach[:, None]
    return same
