"""Two shares of the same cases that pass: McNemar's test and Newcombe's interval of the paired difference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from evalflow.stats.intervals import CONFIDENCE, wilson

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class PairedTable(NamedTuple):
    """How many cases pass in both runs, in one of them, in neither."""

    both: int
    only_a: int
    only_b: int
    neither: int


def paired_table(a: ArrayLike, b: ArrayLike) -> PairedTable:
    """Count the four outcomes of cases that pass (1) or fail (0) in two runs."""
    import numpy as np

    x, y = np.asarray(a) == 1, np.asarray(b) == 1
    return PairedTable(*(int(cell.sum()) for cell in (x & y, x & ~y, ~x & y, ~x & ~y)))


def mcnemar(only_a: int, only_b: int, *, mid_p: bool = False) -> float:
    """Two-sided exact p-value that cases flip one way as often as the other (McNemar 1947, binomial form).

    Args:
        only_a: Cases that pass in A alone.
        only_b: Cases that pass in B alone.
        mid_p: Count the observed outcome half: nearer to its level, which it may exceed slightly (Fagerland, Lydersen
            & Laake 2013).
    """
    from scipy.special import bdtr  # pyright: ignore[reportMissingTypeStubs]

    flips, fewer = only_a + only_b, min(only_a, only_b)
    p = 2 * float(bdtr(fewer, flips, 0.5))
    if mid_p:
        p -= float(bdtr(fewer, flips, 0.5)) - (float(bdtr(fewer - 1, flips, 0.5)) if fewer else 0.0)
    return min(1.0, p)


def newcombe(both: int, only_a: int, only_b: int, neither: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval of the share that passes in B minus that in A, on the same cases.

    Newcombe 1998 (Statistics in Medicine 17:2635), method 10: Wilson's bounds, joined by the correlation of the two
    with its continuity correction. NaN without cases.
    """
    n = both + only_a + only_b + neither
    if not n:
        return math.nan, math.nan
    k_a, k_b = both + only_a, both + only_b
    low, high = wilson([k_b, k_a], [n, n], confidence)
    p_b, p_a = k_b / n, k_a / n
    phi = _phi(both, only_a, only_b, neither)
    down, up = (p_b - low[0], high[1] - p_a), (high[0] - p_b, p_a - low[1])
    lower, upper = (math.sqrt(max(0.0, s * s - 2 * phi * s * t + t * t)) for s, t in (down, up))
    return p_b - p_a - lower, p_b - p_a + upper


def _phi(both: int, only_a: int, only_b: int, neither: int) -> float:
    n = both + only_a + only_b + neither
    k_a, k_b = both + only_a, both + only_b
    below = math.sqrt(k_a * (n - k_a) * k_b * (n - k_b))
    above = both * neither - only_a * only_b
    return (max(above - n / 2, 0.0) if above > 0 else above) / below if below else 0.0
