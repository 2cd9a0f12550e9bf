"""How many cases a wanted difference or interval needs, under what is known or assumed of the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalflow.stats.power import (
    cases_for_rate_width,
    cases_for_width,
    cases_needed,
    cases_needed_to_flip,
    detectable_difference,
    flips_expected,
    paired_variance,
    quantile,
    rate_width,
)
from evalflow.stats.variance import Components

REPEATS = (1, 2, 3, 5, 10)
JUDGEMENTS = (1, 3)
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Level:
    """How sure a plan is to be: the two-sided level of the test, and its power."""

    alpha: float = 0.05
    power: float = 0.8


@dataclass(frozen=True, slots=True)
class Basis:
    """What a plan rests on.

    Attributes:
        name: What it is about, such as a metric and its judge.
        assumptions: All of it, in words.
        scores: The components of a run's scores, of the second run where two are known.
        other: Those of the first run.
        difference_spread: Variance over cases of the true difference of two runs.
        rate: The pass rate, where cases pass or fail and are not repeated; then the normal approximation of a mean is
            not needed.
        flips: Share of cases that pass in one of two runs alone, where measured or stated.
        correlation: Of two runs' verdicts of one case, where `flips` is to follow from `rate`.
        design_effect: By what cases of one group are worth less than cases of their own; 1 where that is in the spread.
    """

    name: str
    assumptions: Sequence[str]
    scores: Components
    other: Components
    difference_spread: float
    rate: float | None = None
    flips: float | None = None
    correlation: float = 0.0
    design_effect: float = 1.0

    @property
    def repeats(self) -> list[tuple[int, int]]:
        """Answers and judgements that can be planned with: only a noise that is known can be repeated away."""
        answers = REPEATS if self.scores.generator_noise is not None else (1,)
        judgements = JUDGEMENTS if answers != (1,) else REPEATS
        return [(k, j) for k in answers for j in (judgements if self.scores.judge_noise is not None else (1,))]

    def cases_to_detect(self, difference: float, answers: float, judgements: float, level: Level) -> int:
        """Cases with which `compare` finds a true difference."""
        flips = self._flips(difference)
        if flips is None:
            variance = self._difference(answers, judgements)
            found = cases_needed(variance, difference, alpha=level.alpha, power=level.power)
        else:
            worse, better = (flips - difference) / 2, (flips + difference) / 2
            found = cases_needed_to_flip(worse, better, alpha=level.alpha, power=level.power)
        return max(2, math.ceil(found * self.design_effect))

    def cases_for_width(self, width: float, answers: float, judgements: float) -> int:
        """Cases whose 95 % interval is no wider than this, from low to high."""
        if self.rate is not None:
            return math.ceil(cases_for_rate_width(self.rate, width) * self.design_effect)
        return cases_for_width(self.scores.variance(answers, judgements) * self.design_effect, width)

    def detectable(self, cases: int, answers: float, judgements: float, level: Level) -> float | None:
        """The smallest true difference that so many cases find; None where they are too few for any."""
        if self._flips(0.0) is None:
            variance = self._difference(answers, judgements) * self.design_effect
            return detectable_difference(math.sqrt(variance / cases), alpha=level.alpha, power=level.power)
        low, high = 0.0, self.flips or max(self.rate or 0.0, 1 - (self.rate or 0.0))
        if self.cases_to_detect(high, answers, judgements, level) > cases:
            return None
        while high - low > _CLOSE:
            middle = (low + high) / 2
            enough = self.cases_to_detect(middle, answers, judgements, level) <= cases
            low, high = (low, middle) if enough else (middle, high)
        return high

    def width(self, cases: int, answers: float, judgements: float) -> float | None:
        """How wide the 95 % interval of so many cases will be; None for a single one."""
        if self.rate is not None:
            return rate_width(self.rate, cases / self.design_effect)
        if cases < 2:
            return None
        variance = self.scores.variance(answers, judgements) * self.design_effect
        return 2 * quantile(0.975, cases - 1) * math.sqrt(variance / cases)

    def _flips(self, difference: float) -> float | None:
        if self.flips is not None:
            return max(self.flips, difference)
        return None if self.rate is None else flips_expected(self.rate, difference, self.correlation)

    def _difference(self, answers: float, judgements: float) -> float:
        noise = (run.noise(answers, judgements) for run in (self.other, self.scores))
        return paired_variance(self.difference_spread, *noise)


def alike(spread: float, correlation: float) -> float:
    """Variance of the true difference of two runs whose cases are spread alike: 2 spread (1 - correlation)."""
    return 2 * spread * (1 - correlation)
