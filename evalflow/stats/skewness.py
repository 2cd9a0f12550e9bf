"""Whether Student's t can be trusted for a mean of scores without fixed ends, such as seconds, dollars or counts.

If large scores are rare, the t interval ends too low: a sample that misses them has a low mean and shows little
variance. Cochran 1977 (Sampling Techniques, sec. 2.15) asks for more cases than 25 times the squared skewness of the
scores, which makes the skewness of the mean at most 1 / 5. The same limit applies here to what cases or clusters, at
least FEWEST, add to a mean or a difference of means. Otherwise there is no interval.

No rule finds outliers that a sample misses, and no interval for such a mean holds for all distributions (Bahadur &
Savage 1956, Annals of Mathematical Statistics 27:1115); `unseen_outliers` bounds their share.
"""

from __future__ import annotations

import math

from evalflow.lazy import np
from evalflow.stats.arrays import Floats

FEWEST = 10
TOO_SKEWED = "too skewed"
MOST = 0.2
MANY = 300
"""With this many cases or more, outliers of 1 % of all cases are hardly ever missed."""


def mean_skewness(parts: Floats) -> float:
    """Absolute skewness of a mean, from each case's or cluster's centred part of it; 0 if all parts are 0."""
    most = float(np.abs(parts).max(initial=0.0))
    if not most:
        return 0.0
    scaled = parts / most  # powers of tiny parts would underflow to 0
    return abs(float((scaled**3).sum())) / float((scaled**2).sum()) ** 1.5


def unreliable(skewness: float, n: float, units: str = "cases") -> str:
    """Why t cannot be trusted for a mean over this many cases or clusters; empty if it can."""
    if n < FEWEST:
        return f"fewer than {FEWEST} {units} of a score without fixed ends"
    return f"{TOO_SKEWED} for {n:,.0f} {units}" if skewness > MOST else ""


def unseen_outliers(n: float, units: str = "cases") -> str:
    """How many outliers the sample may miss, by the rule of three (Hanley & Lippman-Hand 1983); empty from MANY on."""
    return f"outliers in up to {math.ceil(300 / n)} % of {units} may be missing" if n < MANY else ""
