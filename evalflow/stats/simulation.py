"""Simulated runs: how wide the interval of a run of n cases is, and how often two such runs are told apart.

A simulated run draws its cases, or whole clusters, with replacement from a `Population`: a pilot's, or one made up by
`guessed`. It uses the functions of reports and comparisons, so that a plan follows their methods.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from evalflow.lazy import np
from evalflow.stats.arrays import LEVEL, ArrayLike, Floats, Ints, cluster_sums, is_binary
from evalflow.stats.intervals import Moments, intervals, mean_error, moments, row_moments, stacked
from evalflow.stats.inverse import beta_quantile
from evalflow.stats.paired import (
    DRAWS,
    MANY_UNITS,
    PairedTable,
    mcnemar,
    newcombe,
    paired_table,
    sign_flip_test,
    standard_error,
)
from evalflow.stats.quantiles import normal_quantile, quantile
from evalflow.stats.skewness import mean_skewness, unreliable
from evalflow.stats.variance import variance_df

RUNS = 400
"""Number of simulated runs for each number of cases tried."""
MANY = 1_000
"""With this many clusters or more, large-sample formulas are as good as a simulation."""
_FLIPS = 999
_SIMILAR = 100  # above this number of cases or clusters, sign flips give the p-value of the t-test
_TRIES = 4
_CLOSE = 0.01
_SEED = 20
_MIDDLE = 0.5
_GUESSED = 4_000
_STEP = 1.25


@dataclass(frozen=True, slots=True)
class Population:
    """The cases that simulated runs draw from: a score each, and its cluster's number; None without clusters.

    `bounded` scores lie between 0 and 1. If the scores are differences of two runs, `base` has the first run's scores.
    """

    values: Floats
    clusters: Ints | None = None
    bounded: bool = True
    base: Floats | None = None

    @property
    def binary(self) -> bool:
        """Whether every score is exactly 0 or 1."""
        return is_binary(self.values)

    @property
    def variance(self) -> float:
        """The variance of one case times the design effect: n times the squared standard error."""
        return self.values.size * mean_error(self.values, self.clusters)[0] ** 2

    @property
    def units(self) -> int:
        """Number of cases or clusters."""
        return self.values.size if self.clusters is None else int(self.clusters.max()) + 1

    def scaled(self, variance: float) -> Population:
        """The same cases scaled to this variance about their mean; equal cases, which show no shape, become normal."""
        own = self.variance
        if not own and variance:
            normal = guessed("normal", float(self.values.mean()), math.sqrt(variance))
            return Population(normal.values, bounded=self.bounded)
        factor = math.sqrt(variance / own) if own else 1.0
        return self if abs(factor - 1) < _CLOSE / 10 else self.stretched(factor)

    def stretched(self, factor: float) -> Population:
        """The same cases, with distances to the mean times a factor."""
        mean = self.values.mean()
        return Population(mean + (self.values - mean) * factor, self.clusters, self.bounded, self.base)

    def drawer(self) -> Callable[[np.random.Generator, int, Floats | None], tuple[Ints, Ints | None]]:
        """Return a function that draws the indices of n cases and each one's cluster number; optionally weighted."""
        if self.clusters is None:
            return lambda rng, n, weights: (_picked(rng, self.values.size, n, weights), None)
        order = np.argsort(self.clusters, kind="stable")
        sizes = np.bincount(self.clusters)
        starts = np.cumsum(sizes) - sizes

        def draw(rng: np.random.Generator, n: int, weights: Floats | None) -> tuple[Ints, Ints | None]:
            picked = np.zeros(0, dtype=np.int64)
            while sizes[picked].sum() < n:
                more = _picked(rng, sizes.size, math.ceil(1.2 * n / sizes.mean()) + 2, weights)
                picked = np.append(picked, more)
            ends = np.cumsum(sizes[picked])
            picked = picked[: int(np.searchsorted(ends, n)) + 1]
            own = np.repeat(np.arange(picked.size), sizes[picked])
            within = np.arange(own.size) - (ends[: picked.size] - sizes[picked])[own]
            return order[starts[picked][own] + within][:n], own[:n]

        return draw


def _picked(rng: np.random.Generator, size: int, n: int, weights: Floats | None) -> Ints:
    """Draw n indices below `size`, with replacement."""
    if weights is None:
        return rng.integers(0, size, n, dtype=np.int64)
    return np.minimum(np.searchsorted(np.cumsum(weights), rng.random(n)), size - 1).astype(np.int64)


def guessed(
    kind: Literal["graded", "normal", "pass", "flips"], mean: float, sd: float, size: float = 1.0, icc: float = 0.0
) -> Population:
    """Make up cases with a mean and standard deviation: beta, normal, pass or fail, or differences of pass and fail.

    `flips` are differences of pass and fail with a mean of 0.

    Groups have about `size` cases. Each case takes its group's draw with probability sqrt(icc), so that cases of a
    group correlate by `icc`.
    """
    rng, groups = np.random.default_rng(_SEED), None
    at = (np.arange(_GUESSED) + _MIDDLE) / _GUESSED
    if size > 1 and icc > 0:
        sizes = np.diff(np.floor(np.arange(_GUESSED / size + 1) * size)).astype(np.int64)
        groups = np.repeat(np.arange(sizes.size), sizes)
        shared = rng.permutation((np.arange(sizes.size) + _MIDDLE) / sizes.size)[groups]
        own = rng.permutation((np.arange(groups.size) + _MIDDLE) / groups.size)
        at = np.where(rng.random(groups.size) < math.sqrt(icc), shared, own)
    if kind == "pass":
        return Population((at < mean).astype(np.float64), groups)
    if kind == "graded":
        weight = mean * (1 - mean) / sd**2 - 1
        values = _each(lambda p: beta_quantile(mean * weight, (1 - mean) * weight, p), at)
    elif kind == "flips":
        values = (at > 1 - sd**2 / 2).astype(np.float64) - (at < sd**2 / 2)
    else:
        values = mean + sd * _each(normal_quantile, at)
    effect = 1 if groups is None else max(1.0, 1 + (size - 1) * icc)
    return Population(values, groups).scaled(sd**2 * effect)


def unrelated(population: Population) -> Population:
    """The differences of two runs whose scores are unrelated: each case is compared with a case of another cluster."""
    clusters = np.arange(population.values.size) if population.clusters is None else population.clusters
    order, sizes = np.argsort(clusters, kind="stable"), np.bincount(clusters)
    starts, rng = np.cumsum(sizes) - sizes, np.random.default_rng(_SEED)
    base, values, numbers = list[Floats](), list[Floats](), list[Ints]()
    for copy in range(math.ceil(MANY / population.values.size)):
        partner = rng.permutation(sizes.size)[clusters]
        other = order[starts[partner] + rng.integers(0, sizes[partner])]
        base.append(population.values)
        values.append(population.values[other] - population.values)
        numbers.append(clusters + copy * sizes.size)
    groups = None if population.clusters is None else np.concatenate(numbers)
    return Population(np.concatenate(values), groups, population.bounded, np.concatenate(base))


def typical_width(population: Population, n: int) -> float:
    """The width of the interval of n cases with the population's mean and variance; NaN or infinite if there is none.

    For clusters, the median width of simulated runs.
    """
    if population.clusters is not None:
        every = widths(population, n, share=4)
        return float(np.median(np.where(np.isnan(every), np.inf, every)))
    own = moments(population.values, bounded=population.bounded)
    size = np.array([float(n)])
    skewness = own.skewness * np.sqrt(own.n / size)
    sample_moments = own._replace(n=size, clusters=size, skewness=skewness)
    return float(np.diff(_ends(sample_moments, bounded=population.bounded))[0, 0])


def widths(population: Population, n: int, *, unknown: bool = False, share: int = 1) -> Floats:
    """The widths of the intervals of RUNS // `share` simulated runs of n cases, NaN for a run without an interval.

    `unknown`: the population is itself a sample, and each run draws from a different plausible population: by the
    distribution of the variance (`variance_df`), or of the shares (Jeffreys' posterior, over clusters).
    """
    rng, draw = np.random.default_rng(_SEED), population.drawer()
    binary, mean = population.binary, float(population.values.mean())
    shapes = np.ones(population.units)
    values = population.values
    if unknown and binary:
        values, draw, shapes = _with_ends(population)
    df = variance_df(population.values, population.clusters) if unknown and not binary else math.inf
    runs: list[tuple[Floats, Ints | None]] = []
    for _ in range(RUNS // share):
        places, clusters = draw(rng, n, rng.dirichlet(shapes) if unknown and binary else None)
        scores = values[places]
        if df < math.inf:
            scores = mean + (scores - mean) * math.sqrt(df / rng.chisquare(df))
        runs.append((scores, clusters))
    bounded = population.bounded
    if population.clusters is None:
        rows = row_moments(np.stack([scores for scores, _ in runs]), bounded=bounded)
    else:
        rows = stacked(moments(scores, clusters, bounded=bounded) for scores, clusters in runs)
    low, high = _ends(rows, bounded=bounded).T
    return high - low


def _each(quantile_at: Callable[[float], float], at: Floats) -> Floats:
    return np.array([quantile_at(p) for p in at.tolist()], dtype=np.float64)


def _ends(rows: Moments, *, bounded: bool) -> Floats:
    row_intervals = intervals(rows, bounded=bounded)
    return np.stack([row_intervals.low, row_intervals.high], axis=1)


def _with_ends(population: Population) -> tuple[Floats, Callable[..., tuple[Ints, Ints | None]], Floats]:
    """Return the population with half a passing and half a failing case or cluster added."""
    values, clusters = np.append(population.values, [0.0, 1.0]), None
    if population.clusters is not None:
        size = max(1, round(population.values.size / population.units))
        values = np.concatenate([population.values, np.zeros(size), np.ones(size)])
        more = np.repeat(np.arange(2), size) + population.units
        clusters = np.concatenate([population.clusters, more])
    whole = Population(values, clusters, population.bounded)
    return values, whole.drawer(), np.append(np.ones(population.units), [0.5, 0.5])


Pairs = Callable[["np.random.Generator", int], tuple[Floats, Floats, "Ints | None"]]
"""Draws n cases: their scores in two runs, and the number of each one's cluster."""


def shifted(population: Population, difference: float) -> Pairs:
    """Return pairs with the differences of a population, shifted to have this mean."""
    draw = population.drawer()
    base = np.full(population.values.size, _MIDDLE) if population.base is None else population.base
    other = base + population.values - population.values.mean() + difference

    def pairs(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Ints | None]:
        places, clusters = draw(rng, n, None)
        return base[places], other[places], clusters

    return pairs


def flipping(worse: float, better: float) -> Pairs:
    """Return pairs that pass or fail: the first share passes in the first run alone, the second in the second alone."""
    shares = np.cumsum([worse, better])

    def pairs(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Ints | None]:
        outcomes = np.searchsorted(shares, rng.random(n), side="right")
        return (outcomes != 1).astype(np.float64), (outcomes != 0).astype(np.float64), None

    return pairs


def power(pairs: Pairs, n: int, alpha: float, *, bounded: bool, seed: int = 0) -> float:
    """How often a comparison of n such cases at this level finds that the second run's mean is higher."""
    rng, detected = np.random.default_rng([_SEED, seed]), 0
    for _ in range(RUNS):
        a, b, clusters = pairs(rng, n)
        is_small = (n if clusters is None else clusters[-1]) <= _SIMILAR
        draws = max(_FLIPS, math.ceil(20 / alpha)) if is_small else 0
        detected += is_higher(a, b, clusters, alpha, bounded=bounded, draws=draws)
    return detected / RUNS


def is_higher(a: Floats, b: Floats, clusters: ArrayLike | None, alpha: float, *, bounded: bool, draws: int) -> bool:
    """Whether `paired_difference` finds that B is higher: p below `alpha`, and its 95 % interval above 0.

    A simulation asks this often. The interval excludes 0 if and only if t does (`rare_interval`), and sign flips can
    only raise the p-value, so they are drawn only if t finds it.
    """
    d = b - a
    mean = float(d.mean())
    if mean <= 0:
        return False
    sums = cluster_sums(d, clusters)
    binary = is_binary(a) and is_binary(b)
    if binary and sums.size == d.size:
        return _flips_show(paired_table(a, b), alpha)
    error, df = standard_error(d, clusters)
    if error is None:
        return sign_flip_test(sums, draws=draws or DRAWS) < alpha
    if mean <= quantile(1 - min(alpha, LEVEL) / 2, df) * error:
        return False
    if not (bounded or binary) and unreliable(mean_skewness(cluster_sums(d - mean, clusters)), sums.size, ""):
        return False
    return not draws or int(np.count_nonzero(sums)) > MANY_UNITS or sign_flip_test(sums, draws=draws) < alpha


@lru_cache(maxsize=4096)  # the runs of a simulation have few different tables
def _flips_show(table: PairedTable, alpha: float) -> bool:
    return mcnemar(table.only_a, table.only_b) < alpha and newcombe(*table)[0] > 0


def fewest(enough: Callable[[int], bool], start: int) -> int:
    """The smallest number from 2 on that is enough, assuming that every larger number is too; `start` is a guess."""
    low = high = max(2, start)
    while not enough(high):
        low, high = high, math.ceil(high * _STEP) + 1
    while low > 2 and enough(low):
        high, low = low, max(2, int(low / _STEP))
    return bisect_left(range(high + 1), True, lo=low, key=enough)


def solved(power_at: Callable[[float, int], float], start: float, wanted: float, alpha: float) -> float:
    """The effect, in units of `start`, that has the wanted power; each try gets a number as its seed.

    Assumes that the normal quantile of the power is linear in the effect, with that of alpha / 2 at no effect, which
    holds near the solution. Returns the mean of the later tries.
    """
    at, effects = start, list[float]()
    for trial in range(_TRIES):
        reached = min(max(power_at(at, trial), 0.5 / RUNS), 1 - 0.5 / RUNS)
        now, target = (quantile(p) + quantile(1 - alpha / 2) for p in (reached, wanted))
        at *= min(max(target / max(now, _CLOSE), 0.5), 2.0)
        effects.append(at)
    return float(np.mean(effects[1:]))
