"""Quantiles and tails of the normal, Student's t and the binomial distribution.

Every run and comparison needs these. scipy.special has them, but importing it takes longer than a small run.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from evalflow.lazy import np
from evalflow.stats.arrays import ArrayLike, Floats

_SERIES_FROM = 1000
_COUNTED_THROWS = 500
_TINY = 1e-300
_ACCURACY = 1e-15


def normal_quantile(p: float) -> float:
    """The normal quantile, for p in (0, 1)."""
    return NormalDist().inv_cdf(p)


def quantile(p: float, df: float = math.inf) -> float:
    """Quantile of Student's t; of the normal distribution if `df` is infinite."""
    if p < 0.5:
        return -quantile(1 - p, df)
    return normal_quantile(p) if math.isinf(df) else float(student_quantile(df, p))


def student_quantile(df: ArrayLike, p: float) -> Floats:
    """Student's t quantile, p in [0.5, 1), for each number of degrees of freedom; NaN if not positive."""
    freedom, place = np.unique(np.asarray(df, dtype=np.float64), return_inverse=True)
    found = np.array([_quantile(one, p) if one > 0 else math.nan for one in freedom.tolist()])
    return found[place].reshape(np.shape(df))


@lru_cache(maxsize=4096)  # successive comparisons ask for the same quantiles, a simulation for the same ones 400 times
def _quantile(df: float, p: float) -> float:
    guess = _series(df, normal_quantile(p))
    if df >= _SERIES_FROM or p == 0.5:
        return guess
    if df == 1:
        return math.tan(math.pi * (p - 0.5))
    if df == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    return _root(df, 1 - p, guess)


def _series(df: float, z: float) -> float:
    """The Cornish-Fisher expansion (Abramowitz & Stegun 26.7.5), exact to double precision for a large `df`."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / df**power for power, term in enumerate(terms, start=1))


def _root(df: float, tail: float, guess: float) -> float:
    """Solve for the quantile with this upper tail: Newton's method, kept inside a bracket."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    low, high, t = 0.0, math.inf, guess
    for _ in range(100):
        excess = upper_tail(df, t) - tail
        low, high = (t, high) if excess > 0 else (low, t)
        step = excess / (scale * (1 + t * t / df) ** (-(df + 1) / 2))
        following = t + step
        if not low <= following <= high:
            following = 2 * t if math.isinf(high) else (low + high) / 2
        if abs(following - t) <= 4 * _ACCURACY * abs(t):
            return following
        t = following
    return t


def upper_tail(df: float, t: float) -> float:
    """P(T > t) for t >= 0: half of the regularised incomplete beta function (Abramowitz & Stegun 26.7.1)."""
    if math.isinf(df):
        return math.erfc(t / math.sqrt(2)) / 2
    return _beta(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t)) / 2


def heads(k: int, n: int) -> float:
    """P(at most k heads in n throws of a fair coin) (Abramowitz & Stegun 26.5.24)."""
    if n <= _COUNTED_THROWS:
        return sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    return 1.0 if k >= n else _beta(n - k, k + 1, 0.5, 0.5)


def _beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function at x, which is 1 - `rest`."""
    if rest == 0 or x == 0:
        return float(rest == 0)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, rest) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8) by Lentz's method."""
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or _TINY)
    value = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            value *= c * d
        if abs(c * d - 1) < _ACCURACY:
            break
    return value
