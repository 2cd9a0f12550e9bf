"""Verdicts: what a finding says about a question. Nothing else compares an interval or a p-value with a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from evalflow.records import passes
from evalflow.stats.arrays import CONFIDENCE
from evalflow.stats.paired import (
    RULE_OF_THREE,
    Difference,
    cases_needed,
    cases_needed_at_margin,
    identical_cases_to_decide,
)

Verdict = Literal["better", "worse", "higher", "lower", "cannot_tell"]
"""Of B compared with A: higher or lower instead of better or worse if not only the answers may differ."""
Operator = Literal[">=", "<=", ">", "<", "=="]
LEVEL = 0.05
STOPPED_BY_LOOKS = "stopped by looks"
"""Why a run that its looks stopped has no intervals, of differences or after people's labels."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with a number, such as `>= 0.8`."""

    operator: Operator
    limit: float

    def __str__(self) -> str:
        return f"{self.operator} {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Whether the value meets the condition; values that differ only by rounding count as equal."""
        reaches, stays = passes(value, self.limit), passes(value, self.limit, higher_is_better=False)
        found = {">=": reaches, "<=": stays, ">": not stays, "<": not reaches, "==": reaches and stays}
        return bool(found[self.operator])


def against_limit(condition: Condition, low: float, high: float) -> bool | None:
    """Whether all values of an interval meet the condition (True), none does (False), or only some (None).

    An estimate without its interval is an interval of one point.
    """
    outcomes = {condition.holds(low), condition.holds(high)}
    return outcomes.pop() if len(outcomes) == 1 else None


def overall(outcomes: Iterable[bool | None]) -> bool | None:
    """One outcome of several: False if one is, else None, which is undecided, if one is or there are none."""
    known = set(outcomes)
    return False if False in known else None if None in known or not known else True


def side_of(value: float, low: float | None, high: float | None) -> Literal[-1, 0, 1]:
    """Whether an interval lies above a value (1), below it (-1), or neither (0), as without an interval."""
    if low is None or high is None:
        return 0
    return 1 if low > value else -1 if high < value else 0


def is_significant(p: float | None) -> bool:
    """Whether a p-value, adjusted if it is one of several, is below LEVEL."""
    return p is not None and p < LEVEL


def of_difference(
    found: Difference, p_adjusted: float | None, *, higher_is_better: bool, of_answers: bool = True
) -> Verdict:
    """B compared with A: significant if the adjusted p-value is below LEVEL and the interval, if any, excludes 0.

    Only a difference of answers that were judged alike (`of_answers`) is better or worse.
    """
    if not is_significant(p_adjusted) or not found.difference:
        return "cannot_tell"
    if found.low is not None and found.high is not None and not excludes_zero(found):
        return "cannot_tell"
    if not of_answers:
        return "higher" if found.difference > 0 else "lower"
    return "better" if (found.difference > 0) == higher_is_better else "worse"


def excludes_zero(found: Difference) -> bool:
    """Whether the difference's interval, if it has one, excludes 0."""
    return side_of(0, found.low, found.high) != 0


def reversed_verdict(verdict: Verdict) -> Verdict:
    """A compared with B, given B compared with A."""
    other: dict[Verdict, Verdict] = {"better": "worse", "worse": "better", "higher": "lower", "lower": "higher"}
    return other.get(verdict, verdict)


def oriented(found: Difference, *, higher_is_better: bool) -> tuple[float | None, float | None, float | None]:
    """The difference and the bounds of its interval, with higher as better."""
    sign = 1 if higher_is_better else -1
    low, high = (None if end is None else sign * end for end in (found.low, found.high)[::sign])
    return None if found.difference is None else sign * found.difference, low, high


def not_worse(found: Difference, margin: float, *, higher_is_better: bool) -> bool | None:
    """Whether B is not worse than A by more than the margin: by the interval's bounds, None between them."""
    _, low, high = oriented(found, higher_is_better=higher_is_better)
    if low is None or high is None:
        return None
    return True if passes(low, -margin) else None if passes(high, -margin) else False


def unseen_share(found: Difference, margin: float, *, higher_is_better: bool) -> float | None:
    """The share of cases that may go from best to worst unseen, and make B worse by the margin although this passes it.

    Where B is better, its interval is that of t, which knows of no drop that the sample does not show. So many drops
    are missing from more than 1 - CONFIDENCE of such samples. None if the margin is not passed, if they would hardly be
    missed, and where the interval does not rest on single changes (`evalflow.stats.rare`).
    """
    difference, _, _ = oriented(found, higher_is_better=higher_is_better)
    if difference is None or difference <= 0 or not any(found.rare):
        return None
    share = (margin + difference) / (1 + difference)
    is_missed = (1 - share) ** found.clusters > 1 - CONFIDENCE
    return share if is_missed and not_worse(found, margin, higher_is_better=higher_is_better) else None


def cases_to_decide(found: Difference, margin: float, *, higher_is_better: bool) -> int | None:
    """Number of cases that would show whether B is worse by more than the margin; None if unknown, or shown."""
    difference, low, high = oriented(found, higher_is_better=higher_is_better)
    if difference is None or low is None or high is None:
        return None
    if not_worse(found, margin, higher_is_better=higher_is_better) is not None:
        return None
    if found.method.startswith(RULE_OF_THREE):
        return identical_cases_to_decide(found, margin)
    if any(found.rare):
        return cases_needed_at_margin(found, margin, higher_is_better=higher_is_better)
    return cases_needed(difference, low, high, -margin, found.n)
