"""Quantiles and tails of the normal, Student's t and the binomial distribution.

Every run and comparison needs these. scipy.special has them, but importing it takes longer than a small run, and its
files take 130 MB. Tests compare both, to 12 digits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from evalflow.lazy import np
from evalflow.stats.arrays import ArrayLike, Floats

_SERIES_FROM = 1000
_COUNTED_THROWS = 500
_TINY = 1e-300
_ACCURACY = 1e-15
_STIRLING_FROM = 100


def normal_quantile(p: float) -> float:
    """The normal quantile, for p in (0, 1)."""
    return NormalDist().inv_cdf(p)


def quantile(p: float, df: float = math.inf) -> float:
    """Quantile of Student's t; of the normal distribution if `df` is infinite."""
    if p < 0.5:
        return -quantile(1 - p, df)
    if math.isinf(df):
        return normal_quantile(p)
    return _quantile(float(df), p) if df > 0 else math.nan


def student_quantile(df: ArrayLike, p: float) -> Floats:
    """Student's t quantile, p in [0.5, 1), for each number of degrees of freedom; NaN if not positive."""
    freedom, place = np.unique(np.asarray(df, dtype=np.float64), return_inverse=True)
    quantiles = np.full(freedom.shape, np.nan)
    many = freedom >= _SERIES_FROM
    quantiles[many] = _series(freedom[many], normal_quantile(p))
    for at in np.flatnonzero((freedom > 0) & ~many):
        quantiles[at] = _quantile(float(freedom[at]), p)
    return quantiles[place].reshape(np.shape(df))


@lru_cache(maxsize=4096)  # successive comparisons ask for the same quantiles, a simulation for the same ones 400 times
def _quantile(df: float, p: float) -> float:
    guess: float = _series(df, normal_quantile(p))
    if df >= _SERIES_FROM or p == 0.5:
        return guess
    if df == 1:
        return math.tan(math.pi * (p - 0.5))
    if df == 2:
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    return _root(df, 1 - p, guess)


def _series(df: Any, z: float) -> Any:
    """The Cornish-Fisher expansion (Abramowitz & Stegun 26.7.5), exact to double precision for a large `df`.

    `df` is a number or an array.
    """
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
    return beta_tail(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t)) / 2


def student_tail(df: ArrayLike, t: ArrayLike) -> Floats:
    """P(T < t) of Student's t, for each pair; NaN without degrees of freedom."""
    pairs = np.broadcast(np.asarray(df, dtype=np.float64), np.asarray(t, dtype=np.float64))
    probabilities = [_lower_tail(float(one), float(at)) for one, at in pairs]
    return np.array(probabilities, dtype=np.float64).reshape(pairs.shape)


def _lower_tail(df: float, t: float) -> float:
    if not df > 0 or math.isnan(t):
        return math.nan
    if math.isinf(t):
        return float(t > 0)
    return 1 - upper_tail(df, t) if t > 0 else upper_tail(df, -t)


def heads(k: int, n: int) -> float:
    """P(at most k heads in n throws of a fair coin) (Abramowitz & Stegun 26.5.24)."""
    if n <= _COUNTED_THROWS:
        return sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    return 1.0 if k >= n else beta_tail(n - k, k + 1, 0.5, 0.5)


def beta_tail(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function at x, which is 1 - `rest`."""
    if rest == 0 or x == 0:
        return float(rest == 0)
    if x < (a + 1) / (a + b + 2):
        return beta_density(a, b, x, rest) / _beta_fraction(a, b, x, rest)
    return 1 - beta_density(a, b, x, rest) / _beta_fraction(b, a, rest, x)


def beta_density(a: float, b: float, x: float, rest: float) -> float:
    """x^a `rest`^b / B(a, b), without the cancellation of large logarithms; `rest` is 1 - x."""
    if a < b:
        a, b, x, rest = b, a, rest, x
    log_x = math.log1p(-rest) if rest < 0.5 else math.log(x)
    log_rest = math.log1p(-x) if x < 0.5 else math.log(rest)
    if a + b < _STIRLING_FROM:
        return math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * log_x + b * log_rest)
    corrections = stirling_rest(a + b) - stirling_rest(a)
    if b < _STIRLING_FROM / 4:
        grown = (a + b - 0.5) * math.log1p(b / a) - b + corrections
        return math.exp(grown - math.lgamma(b) + b * (math.log(a) + log_rest) + a * log_x)
    apart = x * b - a * rest
    power = a * _log1p_rest(apart / a, x * (a + b) / a) + b * _log1p_rest(-apart / b, rest * (a + b) / b)
    return math.sqrt(a * b / (2 * math.pi * (a + b))) * math.exp(power + corrections - stirling_rest(b))


def _log1p_rest(u: float, whole: float) -> float:
    """log(1 + u) - u, with `whole` = 1 + u."""
    return (math.log1p(u) if abs(u) < 0.5 else math.log(whole)) - u


def stirling_rest(z: float) -> float:
    """The logarithm of gamma(z) without Stirling's formula, for z > 10 (Abramowitz & Stegun 6.1.41)."""
    w = 1 / (z * z)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / z


def _beta_fraction(a: float, b: float, x: float, rest: float) -> float:
    """`beta_density` by `beta_tail`: the even part of the fraction of Abramowitz & Stegun 26.5.8, by Lentz's method.

    `rest` keeps its terms exact where x is close to 1.
    """
    value = c = (a * (a * rest - b * x + 1) / (a + 1)) or _TINY
    d = 0.0
    for m in range(1, 100_000):
        odd = a + 2 * m - 1
        numerator = (a + m - 1) * (a + b + m - 1) * m * (b - m) * (x / odd) ** 2
        denominator = m + m * (b - m) * x / odd + (a + m) * (a * rest - b * x + 1 + m * (1 + rest)) / (odd + 2)
        d = 1 / ((denominator + numerator * d) or _TINY)
        c = (denominator + numerator / c) or _TINY
        value *= c * d
        if abs(c * d - 1) < _ACCURACY:
            break
    return value
