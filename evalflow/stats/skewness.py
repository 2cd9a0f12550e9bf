"""Whether Student's t can be trusted with a mean of scores without fixed ends, such as seconds, dollars or counts.

With few large scores the t interval ends too low: the sample that misses them has a low mean and shows little variance.
Cochran 1977 (Sampling Techniques, sec. 2.15) asks for more than 25 times the squared skewness of the scores as cases,
which makes the skewness of the mean at most 1 / 5. Here that of what each case or cluster adds to a mean, or to a
difference of means, is compared with it; fewer than FEWEST of them show no skewness. Otherwise there is no interval.

No rule finds outliers that a sample misses, and no interval for such a mean holds for all distributions (Bahadur &
Savage 1956, Annals of Mathematical Statistics 27:1115); `unseen_outliers` says how many of them that may be.
"""

from __future__ import annotations

import math

from evalflow.lazy import np
from evalflow.stats.arrays import Floats

FEWEST = 10
TOO_SKEWED = "too skewed"
MOST = 0.2
MANY = 300
"""Cases from which on outliers of 1 % of all cases are hardly ever missed."""


def mean_skewness(parts: Floats) -> float:
    """Skewness of a mean, regardless of its sign, by the centred part of each case or cluster in it; 0 if all are 0."""
    most = float(np.abs(parts).max(initial=0.0))
    if not most:
        return 0.0
    scaled = parts / most  # powers of tiny parts are 0
    return abs(float((scaled**3).sum())) / float((scaled**2).sum()) ** 1.5


def unreliable(skewness: float, n: float, units: str = "cases") -> str:
    """Why t cannot be trusted with a mean over so many cases or clusters; empty if it can."""
    if n < FEWEST:
        return f"fewer than {FEWEST} {units} of a score without fixed ends"
    return f"{TOO_SKEWED} for {n:,.0f} {units}" if skewness > MOST else ""


def unseen_outliers(n: float, units: str = "cases") -> str:
    """What the sample may miss, by the rule of three (Hanley & Lippman-Hand 1983); empty from MANY on."""
    return f"outliers in up to {math.ceil(300 / n)} % of {units} may be missing" if n < MANY else ""
