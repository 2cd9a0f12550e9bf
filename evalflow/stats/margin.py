"""Whether a difference stays within a margin: not inferior, or equivalent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from evalflow.records import TOLERANCE

ALPHA = 0.025
_Z2 = NormalDist().inv_cdf(0.975) ** 2
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class WithinMargin:
    """A difference held against a margin.

    Attributes:
        bound: Lower one-sided bound of the difference at level 1 - alpha.
        p_not_inferior: That the difference is no lower than -margin.
        p_equivalent: That it lies between -margin and margin (two one-sided tests, Schuirmann 1987).
    """

    bound: float
    p_not_inferior: float
    p_equivalent: float


def within_margin(difference: float, std_error: float, df: float, margin: float, alpha: float = ALPHA) -> WithinMargin:
    """Test a difference, positive where B is better, against a margin.

    Args:
        difference: B minus A, turned so that more is better.
        std_error: Of the difference, above 0.
        df: Its degrees of freedom.
        margin: How much worse is still acceptable, above 0.
        alpha: One-sided level; 0.025 goes with a 95 % interval.
    """
    from scipy.special import stdtr, stdtrit  # pyright: ignore[reportMissingTypeStubs]

    bound = difference - float(stdtrit(df, 1 - alpha)) * std_error
    lower = float(stdtr(df, -(difference + margin) / std_error))
    upper = float(stdtr(df, (difference - margin) / std_error))
    return WithinMargin(bound, lower, max(lower, upper))


def cases_needed(value: float, low: float, high: float, limit: float, n: int) -> int | None:
    """With how many cases an interval would leave a limit out that it holds now, if the estimate stayed as it is.

    Exact for Wilson's interval, which leaves out L where (p - L)^2 > z^2 L (1 - L) / n. The width of all others is
    taken to shrink with the root of the number of cases.

    Args:
        value: The estimate.
        low: The lower end of its interval.
        high: The upper end.
        limit: What it is held against.
        n: How many cases there are.

    Returns:
        The number; None where the estimate is the limit, or so close to it that no number of cases decides.
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
    """Of how many trials Wilson's interval would be this one; None where it is no such interval."""
    inner = [end for end in (low, high) if 0 < end < 1 and end != value]
    trials = [_Z2 * end * (1 - end) / (value - end) ** 2 for end in inner]
    known = len(trials) == (1 if value in (0.0, 1.0) else 2)
    return trials[0] if known and math.isclose(trials[0], trials[-1], rel_tol=_CLOSE) else None
