"""Sample size planning: cases needed for a difference or an interval width, from measured or assumed variances.

A closed formula gives a first guess. The plan is then made by simulated runs, with the intervals and the test that runs
and comparisons report; for large numbers, where the two agree, by the formula alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evalflow.lazy import np
from evalflow.stats.arrays import LEVEL
from evalflow.stats.inverse import beta_quantile
from evalflow.stats.power import (
    cases_for_rate_width,
    cases_for_width,
    cases_needed,
    cases_needed_to_flip,
    detectable_difference,
    flips_expected,
    paired_variance,
)
from evalflow.stats.simulation import (
    MANY,
    Pairs,
    Population,
    fewest,
    flipping,
    power,
    shifted,
    solved,
    typical_width,
    widths,
)
from evalflow.stats.variance import Components

REPEATS = (1, 2, 3, 5, 10)
JUDGEMENTS = (1, 3)
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Level:
    """The two-sided significance level of a family of tests, their number, and the power of a planned test."""

    alpha: float = LEVEL
    power: float = 0.8
    comparisons: int = 1

    @property
    def each(self) -> float:
        """The level of a single test, by Bonferroni; Holm's is no lower."""
        return self.alpha / self.comparisons


@dataclass(frozen=True, slots=True)
class Basis:
    """The measured or assumed values that a plan is based on, with all assumptions in words."""

    name: str
    assumptions: Sequence[str]
    # Variance components of a run's scores (of the second run if two are known), and of the first run.
    scores: Components
    other: Components
    difference_spread: float  # variance of the true difference of two runs over cases
    # What simulated runs draw from: scores of one run (None if unknown), and differences of two.
    cases: Population | None
    differences: Population
    # The pass rate, if cases pass or fail without repeats.
    rate: float | None = None
    # Share of cases that pass in only one of two runs; if unknown, by `rate` and the runs' `correlation`.
    flips: float | None = None
    correlation: float = 0.0
    design_effect: float = 1.0  # factor by which clusters increase the variance; 1 if the spread already includes it
    sampled: int = 0  # number of the pilot's cases; 0 for guesses
    # Factors to the upper limits of the variances (`variance_limit`).
    scores_limit: float = 1.0
    difference_limit: float = 1.0
    chance: float | None = (
        None  # probability that a planned width holds, over pilots and runs; None for the typical width
    )

    def assured(self, chance: float) -> Basis:
        """The basis for plans that hold with this probability, whichever cases the pilot happened to have.

        Variances, and shares by Jeffreys' posterior, are at upper limits for tests; widths are simulated.
        """
        return replace(
            self,
            difference_spread=self.difference_spread * self.difference_limit,
            scores=self.scores.scaled(self.scores_limit),
            other=self.other.scaled(self.scores_limit),
            flips=None if self.flips is None else _share_below(self.flips, self.sampled, chance),
            rate=None if self.rate is None else _nearer_half(self.rate, self.sampled, chance),
            chance=chance,
        )

    @property
    def repeats(self) -> list[tuple[int, int]]:
        """Numbers of answers and judgements to plan with; repeats are only used if their noise is known."""
        answers = REPEATS if self.scores.generator_noise is not None else (1,)
        judgements = JUDGEMENTS if answers != (1,) else REPEATS
        return [(k, j) for k in answers for j in (judgements if self.scores.judge_noise is not None else (1,))]

    def flips_at(self, difference: float) -> float | None:
        """Share of cases that flip if the pass rates differ by this; None for graded scores."""
        if self.flips is not None:
            return max(self.flips, difference)
        return None if self.rate is None else flips_expected(self.rate, difference, self.correlation)

    def difference_variance(self, answers: float, judgements: float) -> float:
        """Variance of one case's difference, without the effect of clusters."""
        noise = (run.noise(answers, judgements) for run in (self.other, self.scores))
        return paired_variance(self.difference_spread, *noise)


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans for one basis and goal. The first design is simulated; others are scaled from it by the formulas."""

    basis: Basis
    level: Level
    _ratios: dict[str, float] = field(default_factory=dict[str, float])

    def cases_to_detect(self, difference: float, answers: float, judgements: float) -> int:
        """Number of cases with which `compare` detects a true difference."""

        def simulated(first: float) -> float:
            pairs, bounded = self._pairs(difference), self.basis.differences.bounded
            at = math.sqrt(first)
            each, wanted = self.level.each, self.level.power
            return (
                solved(
                    lambda x, seed: power(pairs, max(2, round(x * x)), each, bounded=bounded, seed=seed),
                    at,
                    wanted,
                    each,
                )
                ** 2
            )

        formula = self._formula_to_detect(difference, answers, judgements)
        first = self._formula_to_detect(difference, *self.basis.repeats[0])
        if self._units(first, self.basis.differences) <= MANY and "detect" not in self._ratios:
            self._ratios["detect"] = simulated(first) / first
        return max(2, math.ceil(formula * self._ratios.get("detect", 1.0)))

    def detectable(self, cases: int, answers: float, judgements: float) -> float | None:
        """The smallest true difference detectable with this number of cases; None if no difference is."""
        ratio = self._ratios.get("detect")
        if ratio is not None:
            return self._formula_detectable(cases / ratio, answers, judgements)
        difference = self._formula_detectable(cases, answers, judgements)
        if difference is None or self._units(cases, self.basis.differences) > MANY:
            return difference
        if "detectable" not in self._ratios:
            bounded, each = self.basis.differences.bounded, self.level.each
            most = self._most

            def reached(x: float, seed: int) -> float:
                return power(self._pairs(min(x, most)), cases, each, bounded=bounded, seed=seed)

            self._ratios["detectable"] = solved(reached, difference, self.level.power, each) / difference
        difference *= self._ratios["detectable"]
        return difference if difference <= self._most else None

    def cases_for_width(self, width: float, answers: float, judgements: float) -> int:
        """Number of cases whose 95 % interval is no wider than this, with the basis' chance."""
        formula = self._formula_for_width(width, answers, judgements)
        if self.basis.cases is None or self._units(formula, self.basis.cases) > MANY:
            return math.ceil(formula)
        if self._exact:
            return fewest(lambda n: (self.width(n, answers, judgements) or math.inf) <= width, math.ceil(formula))
        if "width" not in self._ratios:
            first = self._formula_for_width(width, *self.basis.repeats[0])
            enough = fewest(lambda n: (self.width(n, *self.basis.repeats[0]) or math.inf) <= width, math.ceil(first))
            self._ratios["width"] = enough / first
        return max(2, math.ceil(formula * self._ratios["width"]))

    def width(self, cases: int, answers: float, judgements: float) -> float | None:
        """Width of the 95 % interval for this number of cases; None if there is none, or it is unknown."""
        basis = self.basis
        if basis.cases is None:
            return None
        limit = 1.0 if basis.chance is None else basis.scores_limit
        variance = basis.scores.variance(answers, judgements) * basis.design_effect
        many = self._units(cases, basis.cases) > MANY and not self._exact
        population = basis.cases.scaled(variance if many else variance / limit)
        if basis.chance is None or many:
            interval_width = typical_width(replace(population, clusters=None) if many else population, cases)
        else:
            every = widths(population, cases, unknown=True)
            interval_width = float(np.quantile(np.where(np.isnan(every), np.inf, every), basis.chance))
        return interval_width if math.isfinite(interval_width) else None

    @property
    def _exact(self) -> bool:
        return self.basis.chance is None and self.basis.cases is not None and self.basis.cases.clusters is None

    @property
    def _most(self) -> float:
        """The largest possible difference of pass rates; unknown for scores."""
        if self.basis.flips_at(0.0) is None:
            return math.inf
        return self.basis.flips or max(self.basis.rate or 0.0, 1 - (self.basis.rate or 0.0))

    @staticmethod
    def _units(cases: float, population: Population) -> float:
        return cases * population.units / population.values.size

    def _pairs(self, difference: float) -> Pairs:
        basis = self.basis
        flips, population = basis.flips_at(difference), basis.differences
        if flips is not None and population.clusters is None:
            return flipping((flips - difference) / 2, (flips + difference) / 2)
        variance = basis.difference_variance(*basis.repeats[0]) if flips is None else flips - difference**2
        return shifted(population.scaled(variance * basis.design_effect), difference)

    def _formula_to_detect(self, difference: float, answers: float, judgements: float) -> float:
        flips, level = self.basis.flips_at(difference), self.level
        if flips is None:
            variance = self.basis.difference_variance(answers, judgements)
            cases = cases_needed(variance, difference, alpha=level.each, power=level.power)
        else:
            worse, better = (flips - difference) / 2, (flips + difference) / 2
            cases = cases_needed_to_flip(worse, better, alpha=level.each, power=level.power)
        return max(2.0, cases * self.basis.design_effect)

    def _formula_detectable(self, cases: float, answers: float, judgements: float) -> float | None:
        basis, level = self.basis, self.level
        if basis.flips_at(0.0) is None:
            variance = basis.difference_variance(answers, judgements) * basis.design_effect
            return detectable_difference(math.sqrt(variance / cases), alpha=level.each, power=level.power)
        low, high = 0.0, self._most
        if self._formula_to_detect(high, answers, judgements) > cases:
            return None
        while high - low > _CLOSE:
            middle = (low + high) / 2
            enough = self._formula_to_detect(middle, answers, judgements) <= cases
            low, high = (low, middle) if enough else (middle, high)
        return high

    def _formula_for_width(self, width: float, answers: float, judgements: float) -> float:
        basis = self.basis
        if basis.rate is not None:
            return cases_for_rate_width(basis.rate, width) * basis.design_effect
        return cases_for_width(basis.scores.variance(answers, judgements) * basis.design_effect, width)


def _share_below(share: float, n: int, chance: float) -> float:
    """The upper limit of the true share, with this probability, from a share observed in n cases."""
    return beta_quantile(n * share + 0.5, n * (1 - share) + 0.5, chance)


def _nearer_half(rate: float, n: int, chance: float) -> float:
    """The rate nearer to 1/2 whose p (1 - p) exceeds the true rate's with this probability."""
    further = max(rate, 1 - rate)
    limit = max(0.5, 1 - _share_below(1 - further, n, chance))
    return limit if rate >= 0.5 else 1 - limit


def difference_variance(spread: float, correlation: float) -> float:
    """Variance of the true difference of two runs with the same spread of cases: 2 spread (1 - correlation)."""
    return 2 * spread * (1 - correlation)
