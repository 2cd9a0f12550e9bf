"""The difference of two runs on the same cases, B minus A: estimate, interval, test, margins, adjusted p-values."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

from evalflow.lazy import np
from evalflow.records import TOLERANCE
from evalflow.stats.arrays import CONFIDENCE, UPPER, Array, ArrayLike, Floats, cluster_sums, is_binary
from evalflow.stats.intervals import FEW_CLUSTERS, UNEVEN, mean_error, t_interval, wilson
from evalflow.stats.quantiles import heads, quantile, student_tail, upper_tail
from evalflow.stats.rare import NO_RARE_CHANGES, RareChanges, rare_changes, rare_interval, rare_t
from evalflow.stats.skewness import mean_skewness, unreliable, unseen_outliers

_Z2 = NormalDist().inv_cdf(0.975) ** 2
_CLOSE = 1e-6
Adjustment = Literal["holm", "bh", "by"]


class PairedTable(NamedTuple):
    """Number of cases that pass in both runs, in only one of them, in neither."""

    both: int
    only_a: int
    only_b: int
    neither: int


def paired_table(a: ArrayLike, b: ArrayLike) -> PairedTable:
    """Count the four outcomes of cases that pass (1) or fail (0) in two runs."""
    x, y = np.asarray(a) == 1, np.asarray(b) == 1
    return PairedTable(*(int(cell.sum()) for cell in (x & y, x & ~y, ~x & y, ~x & ~y)))


def mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided exact p-value of McNemar's test (1947, binomial form): as many cases flip one way as the other."""
    return min(1.0, 2 * heads(min(only_a, only_b), only_a + only_b))


def newcombe(both: int, only_a: int, only_b: int, neither: int) -> tuple[float, float]:
    """Interval of the share that passes in B minus that in A, on the same cases.

    Newcombe 1998 (Statistics in Medicine 17:2635), method 10: Wilson's bounds, combined by the correlation of the two
    with continuity correction. NaN without cases.
    """
    n = both + only_a + only_b + neither
    if not n:
        return math.nan, math.nan
    k_a, k_b = both + only_a, both + only_b
    low, high = wilson([k_b, k_a], [n, n])
    p_b, p_a = k_b / n, k_a / n
    phi = _phi(both, only_a, only_b, neither)
    down, up = (p_b - low[0], high[1] - p_a), (high[0] - p_b, p_a - low[1])
    lower, upper = (math.sqrt(max(0.0, s * s - 2 * phi * s * t + t * t)) for s, t in (down, up))
    return p_b - p_a - lower, p_b - p_a + upper


def _phi(both: int, only_a: int, only_b: int, neither: int) -> float:
    n = both + only_a + only_b + neither
    k_a, k_b = both + only_a, both + only_b
    below = math.sqrt(k_a * (n - k_a) * k_b * (n - k_b))
    above = both * neither - only_a * only_b
    return (max(above - n / 2, 0.0) if above > 0 else above) / below if below else 0.0


DRAWS = 9_999
RULE_OF_THREE = "rule_of_three"  # method name if no case differs
EXACT_UNITS = 20
MANY_UNITS = 10_000
_CHUNK = 4_000_000
_KEPT = 200_000  # random flips up to this number are kept
# Sums that differ by less than this share of the largest possible sum are equal up to rounding.
_TIE = 1e-10


@dataclass(frozen=True, slots=True)
class Difference:
    """B minus A on the same cases. Text after a colon in `method` is a caveat, or why there is no interval.

    std_error, df and the interval are None if the data show no variation; `p_value` is two-sided; `leverage` is the
    weight of a single case in the rule of three; `rare` widens the interval for changes that the sample may have
    missed.
    """

    n: int
    clusters: int
    value_a: float | None = None
    value_b: float | None = None
    difference: float | None = None
    std_error: float | None = None
    df: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    method: str = ""
    leverage: float = 1.0
    rare: RareChanges = NO_RARE_CHANGES

    def document(self) -> dict[str, object]:
        ends = {"ci_low": self.low, "ci_high": self.high}
        return {"value": self.difference, **ends, "p_value": self.p_value, "method": self.method}


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    clusters: ArrayLike | None = None,
    seed: int = 0,
    *,
    bounded: bool = False,
    draws: int = DRAWS,
) -> Difference:
    """Compare the scores of two runs on the same cases.

    Args:
        a: The scores of A.
        b: The scores of B, of the same cases.
        clusters: The cluster of each case; None if each stands alone.
        seed: The seed of the random sign flips.
        bounded: Whether scores lie in 0..1; the interval then allows for rare large changes (`rare_interval`).
        draws: Number of random sign flips; 0 for none.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if not x.size:
        return Difference(0, 0, method="none: no common cases")
    d = y - x
    sums = cluster_sums(d, clusters)
    n, groups, mean = int(x.size), int(sums.size), float(d.mean())
    units = "cases" if groups == n else "clusters"
    (error, df), rare = standard_error(d, clusters), NO_RARE_CHANGES
    if bounded and not d.any():
        return no_difference(n, groups, (float(x.mean()), float(y.mean())), groups)
    binary = is_binary(x) and is_binary(y)
    has_ends = bounded or binary or not error
    if groups == n and binary:
        table = paired_table(x, y)
        low, high = newcombe(*table)
        p, method = mcnemar(table.only_a, table.only_b), "newcombe_mcnemar"
    elif not has_ends and (why := unreliable(mean_skewness(cluster_sums(d - mean, clusters)), groups, units)):
        return Difference(n, groups, float(x.mean()), float(y.mean()), mean, method=f"none: {why}")
    else:
        if bounded and error:
            rare = rare_changes(d, clusters)
            low, high = rare_interval(mean, error, df, rare)
        else:
            low, high = (float(end) for end in t_interval(mean, error or np.nan, df))
        p, flips = _p_value(sums, mean, error, df, seed, draws)
        method = _method(n, groups, error, df, f"{'_rare' if bounded else ''}{flips}")
        if not has_ends and ":" not in method and (missing := unseen_outliers(groups, units)):
            method = f"{method}: {missing}"
    bounds = (None, None) if method.startswith("none") or low != low else (low, high)
    means = float(x.mean()), float(y.mean()), mean
    return Difference(n, groups, *means, error, df if error else None, *bounds, p, method, rare=rare)


def untold(comparison: Difference, why: str) -> Difference:
    """Return the difference without interval and test, for this reason."""
    return replace(comparison, std_error=None, df=None, low=None, high=None, p_value=None, method=f"none: {why}")


def max_share_changed(n: int) -> float:
    """Upper 95 % bound of the share of cases that differ, if none of n do: 1 - 0.05^(1/n)."""
    return float(1 - (1 - CONFIDENCE) ** (1 / n))


def no_difference(
    n: int, clusters: int, values: tuple[float, float], counted: int, leverage: float = 1.0
) -> Difference:
    """The difference of runs in which all cases are equal, by the rule of three."""
    share = max_share_changed(counted)
    most = leverage * share / (1 + (leverage - 1) * share)
    what = "cases" if clusters == n else "clusters"
    which = f"{counted:,} of {counted:,}" if counted == clusters else f"the {counted:,} that count of {clusters:,}"
    method = f"{RULE_OF_THREE}: {which} {what} alike"
    return Difference(n, clusters, *values, 0.0, None, None, -most, most, 1.0, method, leverage)


def identical_cases_needed(share: float) -> int:
    """Number of identical cases that shows that the share of differing cases is below this."""
    return math.floor(math.log(1 - CONFIDENCE) / math.log1p(-share)) + 1


def identical_cases_to_decide(comparison: Difference, margin: float) -> int | None:
    """Number of identical cases that would keep the difference within a margin; None if impossible."""
    if not comparison.high or not sys.float_info.epsilon < margin < 1:
        return None
    now, wanted = (
        bound / (comparison.leverage - (comparison.leverage - 1) * bound) for bound in (comparison.high, margin)
    )
    counted = round(math.log(1 - CONFIDENCE) / math.log1p(-now))
    return math.ceil(comparison.n * identical_cases_needed(wanted) / counted)


def standard_error(d: ArrayLike, clusters: ArrayLike | None = None) -> tuple[float | None, float]:
    """Standard error of the mean of differences, as in `mean_error`, and its degrees of freedom.

    The error is None for fewer than two cases or clusters, and if nothing varies.
    """
    values = np.asarray(d, dtype=np.float64)
    error, df = mean_error(values, clusters)
    known = bool(values.size) and error > _TIE * float(np.abs(values).max())
    return error if known else None, df


def t_test(mean: float, std_error: float, df: float) -> float:
    """Two-sided p-value of Student's t for a mean difference of 0."""
    return 2 * upper_tail(df, abs(mean) / std_error)


def sign_flip_test(sums: ArrayLike, seed: int = 0, draws: int = DRAWS) -> float:
    """Two-sided p-value of the sign-flip test on the sum of differences, by case or summed by cluster.

    Exact for at most EXACT_UNITS nonzero differences, or as many as `draws` allow if that is fewer; else p is (1 +
    number at least as extreme) / (1 + draws), which is never 0 and valid (Phipson & Smyth 2010).
    """
    units = np.asarray(sums, dtype=np.float64)
    units = units[units != 0]
    limit = abs(float(units.sum())) - _TIE * float(np.abs(units).sum())
    if units.size <= (EXACT_UNITS if draws >= DRAWS else math.log2(draws)):
        totals = np.zeros(1)
        for unit in units:
            totals = np.concatenate([totals + unit, totals - unit])
        return float((np.abs(totals) >= limit).mean())
    far = sum(int((np.abs(totals) >= limit).sum()) for totals in _random_sums(units, seed, draws))
    return (1 + far) / (1 + draws)


def _random_sums(units: Floats, seed: int, draws: int) -> Any:
    if draws * units.size <= _KEPT:
        yield 2 * (_few_flips(units.size, seed, draws) @ units) - units.sum()
        return
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // units.size)
    for start in range(0, draws, step):
        shape = (min(step, draws - start), -(-units.size // 8))
        yield 2 * (_flips(rng, *shape, units.size) @ units) - units.sum()


def _flips(rng: np.random.Generator, draws: int, eighth: int, units: int) -> Array:
    return np.unpackbits(rng.integers(0, 256, size=(draws, eighth), dtype=np.uint8), axis=1, count=units)


@lru_cache(maxsize=2)  # a simulation asks for the same ones 400 times
def _few_flips(units: int, seed: int, draws: int) -> Floats:
    return _flips(np.random.default_rng(seed), draws, -(-units // 8), units).astype(np.float64)


def _p_value(sums: Floats, mean: float, error: float | None, df: float, seed: int, draws: int) -> tuple[float, str]:
    """The p-value, and the suffix of the method's name if sign flips were used."""
    if error is None:
        return sign_flip_test(sums, seed, draws or DRAWS), ""
    p = t_test(mean, error, df)
    if not draws or np.count_nonzero(sums) > MANY_UNITS:
        return p, ""
    return max(p, sign_flip_test(sums, seed, draws)), "_sign_flip"


def _method(n: int, groups: int, error: float | None, df: float, suffix: str) -> str:
    if groups == 1:
        return "none: one case" if n == 1 else "none: one cluster"
    if error is None:
        return "none: all differences equal"
    if groups == n:
        return f"paired_t{suffix}"
    caveat = f": fewer than {FEW_CLUSTERS} clusters" if groups < FEW_CLUSTERS else ""
    return f"paired_cr2_t{suffix}{caveat or (f': {UNEVEN}' if df < (groups - 1) / 2 else '')}"


@dataclass(frozen=True, slots=True)
class WithinMargin:
    """P-values for non-inferiority (above -margin) and equivalence (within the margin; TOST, Schuirmann 1987)."""

    p_not_inferior: float
    p_equivalent: float


def within_margin(comparison: Difference, margin: float, *, higher_is_better: bool = True) -> WithinMargin | None:
    """Test a difference against a margin, by the variance of its interval; None without a standard error."""
    if comparison.difference is None or comparison.std_error is None or comparison.df is None:
        return None
    sign = 1 if higher_is_better else -1
    worse, better = (
        sign * rare_t(comparison.difference, comparison.std_error, comparison.rare, at)
        for at in (-sign * margin, sign * margin)
    )
    lower, upper = float(student_tail(comparison.df, -worse)), float(student_tail(comparison.df, better))
    return WithinMargin(lower, max(lower, upper))


def cases_needed_at_margin(comparison: Difference, margin: float, *, higher_is_better: bool = True) -> int | None:
    """Number of cases at which the interval of a difference would exclude -margin, if nothing else changed.

    Both parts of its variance shrink with the number of cases. None if no number of cases would decide.
    """
    if comparison.difference is None or comparison.std_error is None or comparison.df is None:
        return None
    at = -margin if higher_is_better else margin
    if abs(comparison.difference - at) <= TOLERANCE:
        return None
    ratio = quantile(UPPER, comparison.df) / rare_t(comparison.difference, comparison.std_error, comparison.rare, at)
    needed = comparison.n * ratio * ratio
    return math.ceil(needed) if math.isfinite(needed) else None


def cases_needed(value: float, low: float, high: float, limit: float, n: int) -> int | None:
    """Number of cases at which an interval would exclude a limit that it now contains, with the same estimate.

    Exact for Wilson's interval, which excludes L if (p - L)^2 > z^2 L (1 - L) / n. Other intervals are assumed to
    shrink with the square root of the number of cases. None if no number of cases would decide.
    """
    gap = value - limit
    if abs(gap) <= TOLERANCE:
        return None
    trials = _wilson_trials(value, low, high)
    if trials is not None and 0 < limit < 1:
        needed = n * _Z2 * limit * (1 - limit) / gap / gap / trials
    else:
        times = (value - low if value > limit else high - value) / gap
        needed = n * times * times
    return math.ceil(needed) if math.isfinite(needed) else None


def _wilson_trials(value: float, low: float, high: float) -> float | None:
    """The number of trials that gives this Wilson interval; None if there is none."""
    inner = [end for end in (low, high) if 0 < end < 1 and end != value]
    trials = [_Z2 * end * (1 - end) / (value - end) ** 2 for end in inner]
    known = len(trials) == (1 if value in (0.0, 1.0) else 2)
    return trials[0] if known and math.isclose(trials[0], trials[-1], rel_tol=_CLOSE) else None


def adjust(p_values: ArrayLike, method: Adjustment = "holm") -> Floats:
    """Adjusted p-values of one family of tests, in the same order; NaN is a missing test, outside the family.

    holm controls the family-wise error rate under any dependence (Holm 1979); bh the false discovery rate of
    independent or positively dependent tests (Benjamini & Hochberg 1995); by does so under any dependence (Benjamini &
    Yekutieli 2001).
    """
    p = np.asarray(p_values, dtype=np.float64)
    made = np.flatnonzero(~np.isnan(p))
    order = made[np.argsort(p[made], kind="stable")]
    m = order.size
    adjusted = np.full(p.shape, np.nan)
    if not m:
        return adjusted
    rank = np.arange(1, m + 1)
    if method == "holm":
        monotone = np.maximum.accumulate((m - rank + 1) * p[order])
    else:
        factor = (1 / rank).sum() if method == "by" else 1.0
        monotone = np.minimum.accumulate((factor * m * p[order] / rank)[::-1])[::-1]
    adjusted[order] = np.minimum(monotone, 1.0)
    return adjusted


def adjust_in_order(p_values: ArrayLike, after: Sequence[int | None]) -> Floats:
    """Adjusted p-values of a family in which a test counts only if its predecessor is significant.

    Holm's method treats each sequence like a single test. Within a sequence each test inherits the level of its
    predecessor (fixed sequence: Maurer, Hothorn & Lehmacher 1995); a finished sequence passes its level to the others.
    This is the graphical procedure of Bretz et al. 2009 (Statistics in Medicine 28:586, algorithm 2). It controls the
    family-wise error rate under any dependence, and without sequences it is Holm's method.

    Args:
        p_values: The p-values of all tests; NaN for a missing test, which is never significant.
        after: For each test, the index of its predecessor; None for the first of a sequence.
    """
    p = np.nan_to_num(np.asarray(p_values, dtype=np.float64), nan=1.0)
    first = np.array([before is None for before in after])
    level, flow = first / max(1, first.sum()), np.zeros((p.size, p.size))
    for place, before in enumerate(after):
        if before is not None:
            flow[before, place] = 1
    last = flow.sum(axis=1) == 0
    flow[last] = first / max(1, first.sum() - 1)
    # the level does not return to the start of its own sequence, which is already significant
    for place in np.flatnonzero(last):
        start = int(place)
        while (before := after[start]) is not None:
            start = before
        flow[place, start] = 0
    adjusted, reached, left = np.ones(p.size), 0.0, np.ones(p.size, dtype=bool)
    while (left & (level > 0)).any():
        with np.errstate(divide="ignore", invalid="ignore"):
            place = int(np.where(left & (level > 0), p / level, np.inf).argmin())
        reached = max(reached, p[place] / level[place])
        adjusted[place], left[place] = min(1.0, reached), False
        level = level + level[place] * flow[place]
        back = flow[place] * flow[:, place]
        with np.errstate(divide="ignore", invalid="ignore"):
            flow = np.where(
                back[:, None] < 1, (flow + np.outer(flow[:, place], flow[place])) / (1 - back[:, None]), 0.0
            )
        np.fill_diagonal(flow, 0)
        level[~left], flow[:, ~left] = 0, 0
    return adjusted
