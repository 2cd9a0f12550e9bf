"""Verdicts from intervals and p-values. No other module compares an interval or a p-value with a number."""

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
"""Verdicts on B compared with A: higher or lower instead of better or worse if more than the answers may differ."""
Standing = Literal[Verdict, "best", "first", "no_agreement", "undefined", "not_comparable"]
"""Verdicts on a run or judge compared with the first of its ranking.

The first is best if another is worse and none is better.
"""
ItemKind = Literal["key_suspect", "reversed", "separates", "all_pass", "all_fail", "alike"]
"""Verdicts on a case over several runs.

It is reversed if better runs score worse on it, and suspect if that exceeds chance.
"""
SUSPECT: tuple[ItemKind, ...] = ("key_suspect", "reversed")
Sight = Literal["seen", "not seen", "kept", "not kept", "cannot tell"]
"""Whether a metric detects a fault, or keeps its score if a change should not matter."""
Preference = Literal["first", "second", "cannot_tell"]
"""Which of two runs' answers people prefer."""
Operator = Literal[">=", "<=", ">", "<", "=="]
SAMPLING_LEVEL = 0.01
"""Below this p-value the labelled answers are considered not a random sample."""
_PERFECT = 1 - 1e-9
STOPPED_BY_LOOKS = "stopped by looks"
"""Why a run stopped by looks has no intervals for differences or after correction by labels."""


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
        outcomes = {">=": reaches, "<=": stays, ">": not stays, "<": not reaches, "==": reaches and stays}
        return bool(outcomes[self.operator])


def against_limit(condition: Condition, low: float, high: float) -> bool | None:
    """Whether all values of an interval meet the condition (True), none does (False), or only some (None).

    An estimate without an interval counts as an interval of one point.
    """
    outcomes = {condition.holds(low), condition.holds(high)}
    return outcomes.pop() if len(outcomes) == 1 else None


def overall(outcomes: Iterable[bool | None]) -> bool | None:
    """Combine outcomes: False if one is False, else None (undecided) if one is None or there are none, else True."""
    known = set(outcomes)
    return False if False in known else None if None in known or not known else True


def too_many_errors(errors: int, scores: int, allowed: float) -> bool:
    """Whether the share of scores that are errors is above the allowed one, so that a run is inconclusive."""
    return bool(scores) and not passes(errors / scores, allowed, higher_is_better=False)


def side_of(value: float, low: float | None, high: float | None) -> Literal[-1, 0, 1]:
    """Whether an interval lies above a value (1), below it (-1), or neither (0); 0 without an interval."""
    if low is None or high is None:
        return 0
    return 1 if low > value else -1 if high < value else 0


def is_significant(p: float | None, level: float = LEVEL) -> bool:
    """Whether a p-value (adjusted if it is one of several) is below the level."""
    return p is not None and p < level


def level_of_each(tests: int) -> float:
    """The Bonferroni level of each of several tests whose joint level is LEVEL."""
    return LEVEL / max(1, tests)


def of_difference(
    comparison: Difference, p_adjusted: float | None, *, higher_is_better: bool, of_answers: bool = True
) -> Verdict:
    """B compared with A: significant if the adjusted p-value is below LEVEL and the interval, if any, excludes 0.

    Only a difference of answers judged in the same way (`of_answers`) is better or worse.
    """
    if not is_significant(p_adjusted) or not comparison.difference:
        return "cannot_tell"
    if comparison.low is not None and comparison.high is not None and not excludes_zero(comparison):
        return "cannot_tell"
    if not of_answers:
        return "higher" if comparison.difference > 0 else "lower"
    return "better" if (comparison.difference > 0) == higher_is_better else "worse"


def excludes_zero(comparison: Difference) -> bool:
    """Whether the difference's interval, if it has one, excludes 0."""
    return side_of(0, comparison.low, comparison.high) != 0


def reversed_verdict(verdict: Verdict) -> Verdict:
    """A compared with B, given B compared with A."""
    other: dict[Verdict, Verdict] = {"better": "worse", "worse": "better", "higher": "lower", "lower": "higher"}
    return other.get(verdict, verdict)


def oriented(comparison: Difference, *, higher_is_better: bool) -> tuple[float | None, float | None, float | None]:
    """The difference and its interval's bounds, with the sign changed if lower is better."""
    sign = 1 if higher_is_better else -1
    low, high = (None if end is None else sign * end for end in (comparison.low, comparison.high)[::sign])
    return None if comparison.difference is None else sign * comparison.difference, low, high


def not_worse(comparison: Difference, margin: float, *, higher_is_better: bool) -> bool | None:
    """Whether B is not worse than A by more than the margin; None if the margin lies within the interval."""
    _, low, high = oriented(comparison, higher_is_better=higher_is_better)
    if low is None or high is None:
        return None
    return True if passes(low, -margin) else None if passes(high, -margin) else False


def unseen_share(comparison: Difference, margin: float, *, higher_is_better: bool) -> float | None:
    """The share of cases that may drop from best to worst unseen, and so make B worse by the margin although it passes.

    The t interval does not allow for drops that the sample does not show. That share of drops is absent from more than
    1 - CONFIDENCE of such samples. None if the margin is not passed, if the drops would hardly go unseen, or if the
    interval does not depend on single changes (`evalflow.stats.rare`).
    """
    difference, _, _ = oriented(comparison, higher_is_better=higher_is_better)
    if difference is None or difference <= 0 or not any(comparison.rare):
        return None
    share = (margin + difference) / (1 + difference)
    is_missed = (1 - share) ** comparison.clusters > 1 - CONFIDENCE
    return share if is_missed and not_worse(comparison, margin, higher_is_better=higher_is_better) else None


def cases_to_decide(comparison: Difference, margin: float, *, higher_is_better: bool) -> int | None:
    """Number of cases that would show whether B is worse by more than the margin; None if unknown or already shown."""
    difference, low, high = oriented(comparison, higher_is_better=higher_is_better)
    if difference is None or low is None or high is None:
        return None
    if not_worse(comparison, margin, higher_is_better=higher_is_better) is not None:
        return None
    if comparison.method.startswith(RULE_OF_THREE):
        return identical_cases_to_decide(comparison, margin)
    if any(comparison.rare):
        return cases_needed_at_margin(comparison, margin, higher_is_better=higher_is_better)
    return cases_needed(difference, low, high, -margin, comparison.n)


def of_first(others: Collection[Standing], *, agrees: bool = True) -> Standing:
    """The verdict on the first of a ranking, from the verdicts on the others.

    A judge must agree with people beyond chance.
    """
    if not agrees:
        return "no_agreement"
    return "cannot_tell" if "better" in others else "best" if "worse" in others else "first"


def of_judge(p_adjusted: float | None) -> Standing:
    """A judge's agreement with people compared with that of the first, which is at least as high."""
    return "worse" if is_significant(p_adjusted) else "cannot_tell"


def of_taught_judge(comparison: Difference | None) -> Verdict:
    """A judge's agreement with people on held-out labels: after teaching compared with before.

    Always unclear without a difference, or if `method` says that the interval is too narrow for so few labels.
    """
    if comparison is None or ":" in comparison.method:
        return "cannot_tell"
    return of_difference(comparison, comparison.p_value, higher_is_better=True)


def helps(verdict: Verdict) -> bool | None:
    """Whether a change is for the better (True) or the worse (False); None if unclear."""
    known: dict[Verdict, bool] = {"better": True, "worse": False}
    return known.get(verdict)


def above_chance(value: float | None, low: float | None) -> bool:
    """Whether a chance-corrected agreement and its interval lie above 0. Perfect agreement has no interval."""
    return value is not None and (value > _PERFECT if low is None else low > 0)


def agrees_more(alphas: AlphaComparison) -> Literal["more", "less"] | None:
    """Whether a judge agrees with people more or less than they do with each other; None if that is not clear.

    With fewer than 30 answers or clusters it is always unclear, because the interval is too narrow: with equally good
    judge and people it excluded 0 in 4 to 6 % of 400 simulations each for 30 to 100 answers, but in 6 to 11 % for 15
    to 20.
    """
    rough = ":" in alphas.difference.method
    side = 0 if rough else side_of(0, alphas.difference.low, alphas.difference.high)
    return "more" if side > 0 else "less" if side < 0 else None


@dataclass(frozen=True, slots=True)
class Replacement:
    """Whether a judge may replace a person, by the alternative annotator test.

    Against `won` of the `people`, the test shows that it is worse by less than the allowance, if at all. `may` is None
    without a test.
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
    """The judge may replace a person if it wins against at least half of the people and `agrees` beyond chance.

    Winning is not enough: a judge that always gives the commonest label can win, too.
    """
    adjusted = [float(p) for p in test.p_adjusted if not np.isnan(p)]
    won = sum(is_significant(p) for p in adjusted)
    return Replacement(agrees and 2 * won >= len(adjusted) if adjusted else None, won, len(adjusted), agrees)


def is_limit(ceiling: Estimated) -> bool:
    """Whether people's disagreement limits how well a judge can correlate with them: all of its interval is below 1.

    Never with fewer than 30 answers or clusters, because the interval is too narrow.
    """
    return side_of(_PERFECT, ceiling.low, ceiling.high) < 0 and ":" not in ceiling.method


def of_change(rate: Estimated, *, fault: bool) -> Sight:
    """Whether a metric reacts as it should to more than half of the changed answers, or to less than half."""
    side = side_of(0.5, rate.low, rate.high)
    if fault:
        return "seen" if side > 0 else "not seen" if side < 0 else "cannot tell"
    return "kept" if side > 0 else "not kept" if side < 0 else "cannot tell"


def of_preference(share: Estimated) -> Preference:
    """Whose answers people prefer, by the mean preference for the second run's: its interval excludes one half."""
    side = side_of(0.5, share.low, share.high)
    return "second" if side > 0 else "first" if side < 0 else "cannot_tell"


def is_biased_sample(bias: SamplingBias) -> bool:
    """Whether the labelled answers are unlikely to be a random sample."""
    return is_significant(bias.p_value, SAMPLING_LEVEL)


def of_items(item_stats: Items, passed: Floats | None) -> list[ItemKind]:
    """The verdict on each case over several runs; `passed` has the shape (cases, runs)."""
    constant = item_stats.spread == 0
    all_pass, all_fail = (constant & (False if passed is None else (passed == end).all(axis=1)) for end in (1, 0))
    kinds = np.select(
        [all_pass, all_fail, constant, item_stats.p_adjusted < LEVEL, item_stats.high < 0],
        ["all_pass", "all_fail", "alike", "key_suspect", "reversed"],
        "separates",
    )
    return kinds.tolist()


def reversed_by_chance(cases: int) -> float:
    """How many of these cases would be reversed by chance: each has one tail of a 95 % interval."""
    return cases * (1 - CONFIDENCE) / 2


@dataclass(frozen=True, slots=True)
class Leaders:
    """Which runs may be the best, and which are among the first so many; both empty if no runs can be distinguished."""

    may_lead: Collection[str]
    among_first: Mapping[str, int]


def of_ranks(ranges: Mapping[str, tuple[int, int]]) -> Leaders:
    """The leaders by the joint intervals of the ranks."""
    runs = len(ranges)
    if all(ends == (1, runs) for ends in ranges.values()):
        return Leaders([], {})
    may_lead = [run for run, (low, _) in ranges.items() if low == 1]
    return Leaders(may_lead, {run: high for run, (_, high) in ranges.items() if high < runs})
