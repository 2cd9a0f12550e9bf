"""Sample size planning: cases for a difference or an interval width, from measured or assumed variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalflow.stats.power import (
    cases_for_rate_width,
    cases_for_width,
    cases_needed,
    cases_needed_to_flip,
    detectable_difference,
    flips_expected,
    paired_variance,
    rate_width,
)
from evalflow.stats.quantiles import quantile
from evalflow.stats.variance import Components

REPEATS = (1, 2, 3, 5, 10)
JUDGEMENTS = (1, 3)
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Level:
    """The two-sided significance level and the power of a planned test."""

    alpha: float = 0.05
    power: float = 0.8


@dataclass(frozen=True, slots=True)
class Basis:
    """The measured or assumed values that a plan is based on, with all assumptions in words."""

    name: str
    assumptions: Sequence[str]
    # Variance components of a run's scores (of the second run if two are known), and of the first run.
    scores: Components
    other: Components
    difference_spread: float  # variance of the true difference of two runs over cases
    # The pass rate, if cases pass or fail without repeats; exact formulas then replace the normal approximation.
    rate: float | None = None
    # Share of cases that pass in only one of two runs; if unknown, by `rate` and the runs' `correlation`.
    flips: float | None = None
    correlation: float = 0.0
    design_effect: float = 1.0  # factor by which clusters increase the variance; 1 if the spread includes it
    sampled: int = 0  # number of the pilot's cases; 0 for guesses
    # Factors to the upper limits of the variances (`variance_limit`).
    scores_limit: float = 1.0
    difference_limit: float = 1.0

    def assured(self, chance: float) -> Basis:
        """The basis with variances, and shares by Jeffreys' posterior, at upper limits that hold with this chance."""
        return replace(
            self,
            scores=self.scores.scaled(self.scores_limit),
            other=self.other.scaled(self.scores_limit),
            difference_spread=self.difference_spread * self.difference_limit,
            rate=None if self.rate is None else _nearer_half(self.rate, self.sampled, chance),
            flips=None if self.flips is None else _share_below(self.flips, self.sampled, chance),
        )

    @property
    def repeats(self) -> list[tuple[int, int]]:
        """Numbers of answers and judgements to plan with: repeats only help if the noise is known."""
        answers = REPEATS if self.scores.generator_noise is not None else (1,)
        judgements = JUDGEMENTS if answers != (1,) else REPEATS
        return [(k, j) for k in answers for j in (judgements if self.scores.judge_noise is not None else (1,))]

    def cases_to_detect(self, difference: float, answers: float, judgements: float, level: Level) -> int:
        """Number of cases with which `compare` detects a true difference."""
        flips = self._flips(difference)
        if flips is None:
            variance = self._difference(answers, judgements)
            found = cases_needed(variance, difference, alpha=level.alpha, power=level.power)
        else:
            worse, better = (flips - difference) / 2, (flips + difference) / 2
            found = cases_needed_to_flip(worse, better, alpha=level.alpha, power=level.power)
        return max(2, math.ceil(found * self.design_effect))

    def cases_for_width(self, width: float, answers: float, judgements: float) -> int:
        """Number of cases whose 95 % interval is no wider than this."""
        if self.rate is not None:
            return math.ceil(cases_for_rate_width(self.rate, width) * self.design_effect)
        return cases_for_width(self.scores.variance(answers, judgements) * self.design_effect, width)

    def detectable(self, cases: int, answers: float, judgements: float, level: Level) -> float | None:
        """The smallest true difference detectable with this number of cases; None if it is too small for any."""
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
        """Expected width of the 95 % interval for this number of cases; None for a single one."""
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


def _share_below(share: float, n: int, chance: float) -> float:
    """The limit that a share seen in n cases is below, with this probability."""
    from scipy.special import betaincinv  # pyright: ignore[reportMissingTypeStubs]

    return float(betaincinv(n * share + 0.5, n * (1 - share) + 0.5, chance))


def _nearer_half(rate: float, n: int, chance: float) -> float:
    """The rate whose p (1 - p) is above that of the true one with this probability."""
    further = max(rate, 1 - rate)
    limit = max(0.5, 1 - _share_below(1 - further, n, chance))
    return limit if rate >= 0.5 else 1 - limit


def difference_variance(spread: float, correlation: float) -> float:
    """Variance of the true difference of two runs with the same spread of cases: 2 spread (1 - correlation)."""
    return 2 * spread * (1 - correlation)
