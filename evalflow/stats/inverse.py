"""Quantiles of the beta and the chi-square distribution, by Newton's method on the logarithm of the smaller tail."""

from __future__ import annotations

import math
from collections.abc import Callable

from evalflow.stats.quantiles import beta_density, beta_tail, stirling_rest

_FURTHEST = 700.0
_CLOSE = 1e-15
_TINY = 1e-300
_MANY = 100.0


def beta_quantile(a: float, b: float, p: float) -> float:
    """Quantile of the beta distribution; 0 for p = 0 and 1 for p = 1."""
    if not 0 < p < 1:
        return p
    odds = _log_odds(a, b, p) if p <= 0.5 else -_log_odds(b, a, 1 - p)
    return 1 / (1 + math.exp(-odds))


def _log_odds(a: float, b: float, p: float) -> float:
    """log(x / (1 - x)) of the quantile x."""

    def at(y: float) -> Place:
        x, rest = 1 / (1 + math.exp(-y)), 1 / (1 + math.exp(y))
        return beta_tail(a, b, x, rest), beta_density(a, b, x, rest)

    return _solved(at, p, math.log(a / b))


def chi_square_quantile(df: float, p: float) -> float:
    """Quantile of the chi-square distribution, for p in (0, 1)."""
    a, is_lower = df / 2, p <= 0.5

    def at(y: float) -> Place:
        x = math.exp(y)
        density = _gamma_density(a, x)
        if x < a + 1:
            lower = density * _gamma_series(a, x)
            return lower if is_lower else 1 - lower, density
        upper = density * _gamma_fraction(a, x)
        return 1 - upper if is_lower else upper, density

    return 2 * math.exp(_solved(at, p if is_lower else 1 - p, math.log(a), 1 if is_lower else -1))


Place = tuple[float, float]
"""The smaller tail, and the absolute value of its derivative."""


def _solved(at: Callable[[float], Place], wanted: float, y: float, sign: int = 1) -> float:
    """The y whose tail is `wanted`, kept inside a bracket; with the sign -1 the tail falls."""
    low, high = -_FURTHEST, _FURTHEST
    for _ in range(300):
        tail, slope = at(y)
        low, high = (y, high) if (tail < wanted) == (sign > 0) else (low, y)
        step = sign * tail * math.log(wanted / tail) / slope if tail > 0 and slope > 0 else math.inf
        following = y + step
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - y) <= _CLOSE * max(1.0, abs(y)):
            return following
        y = following
    return y


def _gamma_density(a: float, x: float) -> float:
    """x^a e^-x / gamma(a)."""
    if a < _MANY:
        return math.exp(a * math.log(x) - x - math.lgamma(a))
    apart = (x - a) / a
    log1p = math.log1p(apart) if abs(apart) < 0.5 else math.log(x / a)
    return math.sqrt(a / (2 * math.pi)) * math.exp(a * (log1p - apart) - stirling_rest(a))


def _gamma_series(a: float, x: float) -> float:
    """The lower incomplete gamma function by its density (Abramowitz & Stegun 6.5.29)."""
    term = total = 1 / a
    n = a
    while term > _CLOSE / 10 * total:
        n += 1
        term *= x / n
        total += term
    return total


def _gamma_fraction(a: float, x: float) -> float:
    """The upper incomplete gamma function by its density (Abramowitz & Stegun 6.5.31), by Lentz's method."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    for n in range(1, 100_000):
        term = n * (a - n)
        b += 2
        d = 1 / ((b + term * d) or _TINY)
        c = (b + term / c) or _TINY
        value *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return value
