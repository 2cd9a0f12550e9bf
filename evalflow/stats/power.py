"""How small a difference a number of cases can show, and how many cases a difference needs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from evalflow.stats.intervals import wilson

ALPHA = 0.05
POWER = 0.8


def detectable_difference(
    std_error: float, *, df: float = math.inf, alpha: float = ALPHA, power: float = POWER
) -> float:
    """The smallest true difference that would be found with probability `power`: (t_{1-alpha/2} + t_power) SE.

    Args:
        std_error: Of the difference.
        df: Its degrees of freedom; infinite where the variance is known (Miller 2024, arXiv:2411.00640, section 5).
        alpha: Two-sided level of the test.
        power: Probability of finding it.
    """
    return (quantile(1 - alpha / 2, df) + quantile(power, df)) * std_error


def paired_variance(spread: float, noise_a: float, noise_b: float, repeats_a: float = 1, repeats_b: float = 1) -> float:
    """Variance of one case's difference: spread + noise_a / repeats_a + noise_b / repeats_b (Miller 2024, section 5).

    Args:
        spread: Variance over cases of the true difference.
        noise_a: Variance of a case's score about its own mean, in A.
        noise_b: The same in B.
        repeats_a: How often each case is repeated in A; infinite for none of the noise.
        repeats_b: The same in B.
    """
    return spread + noise_a / repeats_a + noise_b / repeats_b


def cases_needed(variance: float, difference: float, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """Cases with which a true difference is found with probability `power`: (z_{1-alpha/2} + z_power)^2 V / d^2.

    Args:
        variance: Of one case's difference, as `paired_variance` gives it.
        difference: What is to be found, not 0.
        alpha: Two-sided level of the test.
        power: Probability of finding it.

    Returns:
        Not rounded; round up.
    """
    return ((quantile(1 - alpha / 2) + quantile(power)) / difference) ** 2 * variance


def cases_needed_to_flip(worse: float, better: float, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """Cases with which McNemar's test finds that more cases flip one way than the other (Connor 1987).

    Args:
        worse: Share of all cases that pass in A alone.
        better: Share that pass in B alone; another than `worse`.
        alpha: Two-sided level of the test.
        power: Probability of finding it.
    """
    flips, net = worse + better, better - worse
    reach = quantile(1 - alpha / 2) * math.sqrt(flips) + quantile(power) * math.sqrt(flips - net**2)
    return (reach / net) ** 2


def quantile(p: float, df: float = math.inf) -> float:
    """Quantile of Student's t; of the normal distribution where `df` is infinite."""
    from scipy.special import ndtri, stdtrit  # pyright: ignore[reportMissingTypeStubs]

    return float(ndtri(p) if math.isinf(df) else stdtrit(df, p))


def flips_expected(rate: float, difference: float, correlation: float = 0.0) -> float:
    """Share of cases that pass in one run alone, of two runs whose pass rates differ: at least the difference.

    Args:
        rate: Pass rate of one run.
        difference: To the other's, above it where there is room.
        correlation: Of a case's verdicts in the two; 0 where one says nothing of the other.
    """
    other = rate + difference if rate + difference <= 1 else rate - difference
    together = correlation * math.sqrt(rate * (1 - rate) * other * (1 - other))
    return max(abs(difference), rate * (1 - other) + other * (1 - rate) - 2 * together)


def cases_for_width(variance: float, width: float, confidence: float = 0.95) -> int:
    """The fewest cases whose t interval of the mean is no wider than `width`, from its low to its high end.

    Args:
        variance: Of one case's score.
        width: Wanted, more than 0.
        confidence: Coverage.
    """

    def wide(n: int) -> float:
        return 2 * quantile(0.5 + confidence / 2, n - 1) * math.sqrt(variance / n)

    return _fewest(lambda n: wide(n) <= width)


def cases_for_rate_width(rate: float, width: float, confidence: float = 0.95) -> int:
    """The fewest cases whose Wilson interval of a pass rate is no wider than `width`, if this is the rate."""
    return _fewest(lambda n: rate_width(rate, n, confidence) <= width)


def rate_width(rate: float, cases: float, confidence: float = 0.95) -> float:
    """Width of the Wilson interval of a pass rate."""
    low, high = wilson(rate * cases, cases, confidence)
    return float(high - low)


def _fewest(enough: Callable[[int], bool]) -> int:
    """The smallest number from 2 on that is enough, of which each larger one is too."""
    high = 2
    while not enough(high):
        high *= 2
    return bisect_left(range(high + 1), True, lo=2, key=enough)
