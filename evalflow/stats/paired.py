"""The difference of two runs on the same cases, B minus A: estimate, interval and test.

The rule (`paired_difference`), after the repeats of a case have been averaged:

    no case                                   none
    bounded scores, and no case differs       the rule of three on the share of cases that could differ
    some cluster holds several cases          interval by CR1 and t with G - 1; t test, and sign flips of clusters
    every score on both sides is 0 or 1       Newcombe's interval and McNemar's exact test
    otherwise                                 paired t interval; t test, and sign flips

Where no case differs, nothing shows how much a difference varies. But where none of n differs, the share that does is
with 95 % confidence below 1 - 0.05^(1/n), about 3 / n (Hanley & Lippman-Hand 1983, JAMA 249:1743), and on a scale of 0
to 1 no case differs by more than 1: the mean difference lies within that share of 0. Clusters count as cases do.

The sign-flip test holds its level whatever the scores' distribution, where a case's difference is as likely to be +d as
-d (Fisher 1935; Good 2005, ch. 3); it does not where two runs are alike on average alone and differ in shape, and the
t test does not where a few clusters hold most cases. So the p-value is the larger of the two (`bench/type1.py` has the
rates). Sign flips are exact for up to 20 cases or clusters, drawn at random beyond, and left out where there are so
many that the two tests agree.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.stats.intervals import CONFIDENCE, FEW_CLUSTERS, cr1, t_interval
from evalflow.stats.proportions import mcnemar, newcombe, paired_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

DRAWS = 9_999
RULE_OF_THREE = "rule_of_three"
"""The method's name where no case differs."""
EXACT_UNITS = 20
MANY_UNITS = 10_000
_CHUNK = 4_000_000
# Sums that differ by less than this share of the largest possible one are equal but for rounding.
_TIE = 1e-10


@dataclass(frozen=True, slots=True)
class Difference:
    """B minus A on the same cases.

    Attributes:
        n, clusters: Cases, and what they fall into; clusters equals n where each case stands alone.
        value_a, value_b, difference: Means over the cases; None without any.
        std_error, df: Of the difference; None where nothing shows how much it varies.
        low, high: 95 % interval of the difference; None where there is none to give.
        p_value: Two-sided; None without cases.
        method: How interval and p-value were made; what follows a colon qualifies it, or says why there is none.
        leverage: How many times a case that differs may count, where the rule of three made the interval.
    """

    n: int
    clusters: int
    value_a: float | None
    value_b: float | None
    difference: float | None
    std_error: float | None
    df: float | None
    low: float | None
    high: float | None
    p_value: float | None
    method: str
    leverage: float = 1.0


def paired_difference(
    a: ArrayLike, b: ArrayLike, clusters: ArrayLike | None = None, seed: int = 0, *, bounded: bool = False
) -> Difference:
    """Compare two scores of the same cases, by the rule of this module.

    Args:
        a: One score per case, the mean of its repeats; no NaN.
        b: The other run's, in the same order.
        clusters: The cluster of each case; None where each stands alone.
        seed: Of the sign flips that are drawn.
        bounded: Whether scores lie in 0..1.
    """
    import numpy as np

    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if not x.size:
        return Difference(0, 0, None, None, None, None, None, None, None, None, "none: no common cases")
    d = y - x
    sums = cluster_sums(d, clusters)
    n, groups, mean = int(x.size), int(sums.size), float(d.mean())
    error = standard_error(d, clusters)
    if bounded and not d.any():
        return alike(n, groups, (float(x.mean()), float(y.mean())), groups)
    if groups == n and bool(np.isin(x, (0.0, 1.0)).all() and np.isin(y, (0.0, 1.0)).all()):
        table = paired_table(x, y)
        low, high = newcombe(*table)
        p, method = mcnemar(table.only_a, table.only_b), "newcombe_mcnemar"
    else:
        low, high = (float(end) for end in t_interval(mean, error or np.nan, groups - 1))
        p, flips = _p_value(sums, mean, error, seed)
        method = _method(n, groups, error, flips)
    bounds = (None, None) if method.startswith("none") or low != low else (low, high)
    df = groups - 1 if error else None
    return Difference(n, groups, float(x.mean()), float(y.mean()), mean, error, df, *bounds, p, method)


def most_that_differ(n: int) -> float:
    """The share of cases that, with 95 % confidence, differ at most, where none of n does: 1 - 0.05^(1/n)."""
    return float(1 - (1 - CONFIDENCE) ** (1 / n))


def alike(n: int, clusters: int, values: tuple[float, float], touched: int, leverage: float = 1.0) -> Difference:
    """The difference where no case differs, by the rule of three.

    Args:
        n: Cases.
        clusters: What they fall into.
        values: Of the two runs.
        touched: How many cases, or clusters, the figure is about.
        leverage: How many times a case that differs may count.
    """
    share = most_that_differ(touched)
    most = leverage * share / (1 + (leverage - 1) * share)
    what = "cases" if clusters == n else "clusters"
    told = f"{touched:,} of {touched:,}" if touched == clusters else f"the {touched:,} that count of {clusters:,}"
    method = f"{RULE_OF_THREE}: {told} {what} alike"
    return Difference(n, clusters, *values, 0.0, None, None, -most, most, 1.0, method, leverage)


def alike_needed(share: float) -> int:
    """How many cases, none of which differs, show that fewer than this share do.

    Args:
        share: Between 0 and 1, both excluded.
    """
    return math.floor(math.log(1 - CONFIDENCE) / math.log1p(-share)) + 1


def alike_to_decide(found: Difference, margin: float) -> int | None:
    """How many cases like these, of which none differs, would keep the difference within a margin.

    Args:
        found: Of the rule of three.
        margin: Above 0.

    Returns:
        The number; None for a margin that nothing could exceed, or that is too small for any number.
    """
    if not found.high or not sys.float_info.epsilon < margin < 1:
        return None
    now, wanted = (bound / (found.leverage - (found.leverage - 1) * bound) for bound in (found.high, margin))
    touched = round(math.log(1 - CONFIDENCE) / math.log1p(-now))
    return math.ceil(found.n * alike_needed(wanted) / touched)


def standard_error(d: ArrayLike, clusters: ArrayLike | None = None) -> float | None:
    """Standard error of the mean of differences: sd / sqrt(n), or CR1 over clusters (Miller 2024, arXiv:2411.00640).

    None for fewer than two cases or clusters, and where nothing varies.
    """
    import numpy as np

    values = np.asarray(d, dtype=np.float64)
    if not values.size:
        return None
    residuals = cluster_sums(values - values.mean(), clusters)
    error = float(cr1(values.size, residuals.size, float((residuals**2).sum())))
    scale = float(np.abs(values).max())
    return error if error > _TIE * scale else None


def t_test(mean: float, std_error: float, df: float) -> float:
    """Two-sided p-value of Student's t for a mean difference of 0."""
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]

    return float(2 * stdtr(df, -abs(mean) / std_error))


def sign_flip_test(sums: ArrayLike, seed: int = 0, draws: int = DRAWS) -> float:
    """Two-sided p-value of the sign-flip test on the sum.

    Args:
        sums: The difference of each case, or the summed differences of each cluster.
        seed: Of the flips that are drawn where there are more than EXACT_UNITS that are not 0.
        draws: How many; p is (1 + those at least as far from 0) / (1 + draws), which is never 0 and is valid as it
            stands (Phipson & Smyth 2010).
    """
    import numpy as np

    units = np.asarray(sums, dtype=np.float64)
    units = units[units != 0]
    limit = abs(float(units.sum())) - _TIE * float(np.abs(units).sum())
    if units.size <= EXACT_UNITS:
        totals = np.zeros(1)
        for unit in units:
            totals = np.concatenate([totals + unit, totals - unit])
        return float((np.abs(totals) >= limit).mean())
    far = sum(int((np.abs(totals) >= limit).sum()) for totals in _drawn(units, seed, draws))
    return (1 + far) / (1 + draws)


def cluster_sums(values: ArrayLike, clusters: ArrayLike | None) -> Floats:
    """The values summed by cluster; as they are where each stands alone."""
    import numpy as np

    x = np.asarray(values, dtype=np.float64)
    if clusters is None:
        return x
    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    return np.bincount(codes, weights=x).astype(np.float64)


def _drawn(units: Floats, seed: int, draws: int) -> Any:
    """Sums under random signs, some at a time."""
    import numpy as np

    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // units.size)
    for start in range(0, draws, step):
        shape = (min(step, draws - start), -(-units.size // 8))
        bits = np.unpackbits(rng.integers(0, 256, size=shape, dtype=np.uint8), axis=1, count=units.size)
        yield 2 * (bits @ units) - units.sum()


def _p_value(sums: Floats, mean: float, error: float | None, seed: int) -> tuple[float, str]:
    """The p-value, and what the method's name says of sign flips."""
    import numpy as np

    if error is None:
        return sign_flip_test(sums, seed), ""
    p = t_test(mean, error, sums.size - 1)
    if np.count_nonzero(sums) > MANY_UNITS:
        return p, ""
    return max(p, sign_flip_test(sums, seed)), "_sign_flip"


def _method(n: int, groups: int, error: float | None, flips: str) -> str:
    if groups == 1:
        return "none: one case" if n == 1 else "none: one cluster"
    if error is None:
        return "none: all differences equal"
    if groups == n:
        return f"paired_t{flips}"
    few = f": fewer than {FEW_CLUSTERS} clusters" if groups < FEW_CLUSTERS else ""
    return f"paired_cr1_t{flips}{few}"
