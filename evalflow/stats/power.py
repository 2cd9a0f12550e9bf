"""How small a difference a number of cases can show, and how many cases a difference needs."""

from __future__ import annotations

import math

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
