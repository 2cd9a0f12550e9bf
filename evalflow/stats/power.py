"""Power analysis: the smallest detectable difference, and the number of cases needed for a difference or a width."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from evalflow.stats.arrays import LEVEL, UPPER
from evalflow.stats.intervals import wilson
from evalflow.stats.quantiles import quantile

POWER = 0.8


def detectable_difference(
    std_error: float, *, df: float = math.inf, alpha: float = LEVEL, power: float = POWER
) -> float:
    """The smallest true difference that is detected with probability `power`: (t_{1-alpha/2} + t_power) SE.

    `df` is infinite if the variance is known (Miller 2024, arXiv:2411.00640, section 5).
    """
    return (quantile(1 - alpha / 2, df) + quantile(power, df)) * std_error


def paired_variance(spread: float, noise_a: float, noise_b: float) -> float:
    """Variance of one case's difference: of the true difference, plus each run's noise (Miller 2024, section 5)."""
    return spread + noise_a + noise_b


def cases_needed(variance: float, difference: float, *, alpha: float = LEVEL, power: float = POWER) -> float:
    """Unrounded number of cases that detects a difference with this power: (z_{1-alpha/2} + z_power)^2 V / d^2."""
    return ((quantile(1 - alpha / 2) + quantile(power)) / difference) ** 2 * variance


def cases_needed_to_flip(worse: float, better: float, *, alpha: float = LEVEL, power: float = POWER) -> float:
    """Number of cases at which McNemar's test shows more flips to `better` than to `worse`, as shares (Connor 1987)."""
    flips, net = worse + better, better - worse
    reach = quantile(1 - alpha / 2) * math.sqrt(flips) + quantile(power) * math.sqrt(flips - net**2)
    return (reach / net) ** 2


def flips_expected(rate: float, difference: float, correlation: float = 0.0) -> float:
    """Expected share of cases that pass in only one of two runs; at least the difference of their pass rates.

    The other rate is `rate` plus the difference, or minus it if the sum would exceed 1.
    """
    other = rate + difference if rate + difference <= 1 else rate - difference
    together = correlation * math.sqrt(rate * (1 - rate) * other * (1 - other))
    return max(abs(difference), rate * (1 - other) + other * (1 - rate) - 2 * together)


def cases_for_width(variance: float, width: float) -> int:
    """Smallest number of cases at which the t interval of the mean is no wider than `width`."""
    return _fewest(lambda n: 2 * quantile(UPPER, n - 1) * math.sqrt(variance / n) <= width)


def cases_for_rate_width(rate: float, width: float) -> int:
    """Smallest number of cases at which the Wilson interval is no wider than `width` at this pass rate."""
    return _fewest(lambda n: rate_width(rate, n) <= width)


def rate_width(rate: float, cases: float) -> float:
    """Width of the Wilson interval of a pass rate."""
    low, high = wilson(rate * cases, cases)
    return float(high - low)


def _fewest(enough: Callable[[int], bool]) -> int:
    """The smallest number from 2 on that is enough, assuming that every larger number is too."""
    high = 2
    while not enough(high):
        high *= 2
    return bisect_left(range(high + 1), True, lo=2, key=enough)
