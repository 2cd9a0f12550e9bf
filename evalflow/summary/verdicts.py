"""Verdicts: what a finding says about a question. Nothing else compares an interval or a p-value with a number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalflow.lazy import np
from evalflow.records import passes
from evalflow.stats.arrays import CONFIDENCE, LEVEL
from evalflow.stats.paired import (
    RULE_OF_THREE,
    Difference,
    cases_needed,
    cases_needed_at_margin,
    identical_cases_to_decide,
)

if TYPE_CHECKING:
    from evalflow.stats.arrays import Estimated, Floats
    from evalflow.stats.items import Items
    from evalflow.stats.labelled import SamplingBias
    from evalflow.stats.raters import AlphaComparison, AltTest

Verdict = Literal["better", "worse", "higher", "lower", "cannot_tell"]
"""Of B compared with A: higher or lower instead of better or worse if not only the answers may differ."""
Standing = Literal[Verdict, "best", "first", "no_agreement", "undefined", "not_comparable"]
"""Of a run or judge in a ranking, compared with its first; the first is best if another is worse and none better."""
ItemKind = Literal["key_suspect", "reversed", "separates", "all_pass", "all_fail", "alike"]
"""What a case says about several runs; one that better runs score worse on is reversed, and beyond chance suspect."""
SUSPECT: tuple[ItemKind, ...] = ("key_suspect", "reversed")
Sight = Literal["seen", "not seen", "kept", "not kept", "cannot tell"]
"""Whether a metric sees a fault, or keeps its score when a change should not matter."""
Operator = Literal[">=", "<=", ">", "<", "=="]
SAMPLING_LEVEL = 0.01
"""Below this p-value the labelled answers are taken to be no random sample."""
_PERFECT = 1 - 1e-9
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


def is_significant(p: float | None, level: float = LEVEL) -> bool:
    """Whether a p-value, adjusted if it is one of several, is below the level."""
    return p is not None and p < level


def level_of_each(tests: int) -> float:
    """The level of the strictest of several tests that together err at LEVEL (Bonferroni)."""
    return LEVEL / max(1, tests)


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


def of_first(others: Collection[Standing], *, agrees: bool = True) -> Standing:
    """The first of a ranking, by the verdicts on the others; a judge must agree with people beyond chance."""
    if not agrees:
        return "no_agreement"
    return "cannot_tell" if "better" in others else "best" if "worse" in others else "first"


def of_judge(p_adjusted: float | None) -> Standing:
    """A judge's agreement with people compared with that of the first, which is never lower."""
    return "worse" if is_significant(p_adjusted) else "cannot_tell"


def of_taught_judge(found: Difference | None) -> Verdict:
    """A judge's agreement with people on held-out labels, after it was taught compared with before.

    Never clear without a difference, or by an interval that is too narrow for so few labels, which `method` says.
    """
    if found is None or ":" in found.method:
        return "cannot_tell"
    return of_difference(found, found.p_value, higher_is_better=True)


def helps(verdict: Verdict) -> bool | None:
    """Whether a change is for the better (True) or the worse (False); None if that is not known."""
    known: dict[Verdict, bool] = {"better": True, "worse": False}
    return known.get(verdict)


def above_chance(value: float | None, low: float | None) -> bool:
    """Whether a measure of agreement beyond chance lies above 0 with its interval; perfect agreement has none."""
    return value is not None and (value > _PERFECT if low is None else low > 0)


def agrees_more(found: AlphaComparison) -> Literal["more", "less"] | None:
    """Whether a judge agrees with people more or less than they do with each other; None if that is not clear.

    Nor is it with fewer than 30 answers or clusters, where the interval is too narrow: where judge and people were
    equally good, it left 0 out in 4 to 6 % of 400 simulations each with 30 to 100 answers, in 6 to 11 % with 15 to 20.
    """
    rough = ":" in found.difference.method
    side = 0 if rough else side_of(0, found.difference.low, found.difference.high)
    return "more" if side > 0 else "less" if side < 0 else None


@dataclass(frozen=True, slots=True)
class Replacement:
    """Whether a judge may replace a person, by the alternative annotator test.

    It is shown to be behind `won` of the `people` by less than the test's allowance; `may` is None without a test.
    """

    may: bool | None
    won: int
    people: int
    agrees: bool

    @property
    def rate(self) -> float | None:
        """The share of the people; None without a test."""
        return None if self.may is None else self.won / self.people


def may_replace(test: AltTest, *, agrees: bool) -> Replacement:
    """The judge may if it is not behind half of the people or more, and `agrees` with people beyond chance.

    One that gives all answers the commonest label can win too.
    """
    adjusted = [float(p) for p in test.p_adjusted if not np.isnan(p)]
    won = sum(is_significant(p) for p in adjusted)
    return Replacement(agrees and 2 * won >= len(adjusted) if adjusted else None, won, len(adjusted), agrees)


def is_limit(ceiling: Estimated) -> bool:
    """Whether people's disagreement limits how well a judge can correlate with them: all of its interval is below 1.

    Not with fewer than 30 answers or clusters, where the interval is too narrow.
    """
    return side_of(_PERFECT, ceiling.low, ceiling.high) < 0 and ":" not in ceiling.method


def of_change(rate: Estimated, *, fault: bool) -> Sight:
    """Whether a metric reacts as it should to more than half of the changed answers, or to less than half."""
    side = side_of(0.5, rate.low, rate.high)
    if fault:
        return "seen" if side > 0 else "not seen" if side < 0 else "cannot tell"
    return "kept" if side > 0 else "not kept" if side < 0 else "cannot tell"


def is_biased_sample(found: SamplingBias) -> bool:
    """Whether the labelled answers are unlikely to be a random sample."""
    return is_significant(found.p_value, SAMPLING_LEVEL)


def of_items(found: Items, passed: Floats | None) -> list[ItemKind]:
    """What each case says about several runs; `passed` has the shape (cases, runs)."""
    constant = found.spread == 0
    all_pass, all_fail = (constant & (False if passed is None else (passed == end).all(axis=1)) for end in (1, 0))
    kinds = np.select(
        [all_pass, all_fail, constant, found.p_adjusted < LEVEL, found.high < 0],
        ["all_pass", "all_fail", "alike", "key_suspect", "reversed"],
        "separates",
    )
    return kinds.tolist()


def reversed_by_chance(cases: int) -> float:
    """How many of these cases better runs would score worse on by chance: each has one end of a 95 % interval."""
    return cases * (1 - CONFIDENCE) / 2


@dataclass(frozen=True, slots=True)
class Leaders:
    """Which runs may be the best, and which are among how many first; both empty if no run can be told from another."""

    may_lead: Collection[str]
    among_first: Mapping[str, int]


def of_ranks(ranges: Mapping[str, tuple[int, int]]) -> Leaders:
    """Who leads, by the joint intervals of the ranks."""
    runs = len(ranges)
    if all(ends == (1, runs) for ends in ranges.values()):
        return Leaders([], {})
    may_lead = [run for run, (low, _) in ranges.items() if low == 1]
    return Leaders(may_lead, {run: high for run, (_, high) in ranges.items() if high < runs})
