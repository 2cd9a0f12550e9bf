"""What each case says about several systems: how hard it is, whether it separates them, and whether its key is suspect.

Discrimination is the correlation, over the systems, of a case's scores with the systems' mean scores on all other cases
(item-rest correlation; Lord & Novick 1968, ch. 15), with Fisher's interval. A case on which better systems score worse
may have a wrong key. Its one-sided p-value is that of Student's t, and at least the smallest that a permutation of
these scores could have: one divided by the number of their distinct orders. So few systems never look like proof. The
p-values are adjusted for the number of cases (Benjamini & Hochberg 1995).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.lazy import np
from evalflow.stats.arrays import ROUNDING, UPPER
from evalflow.stats.paired import adjust
from evalflow.stats.quantiles import normal_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from evalflow.stats.arrays import Floats


FEWEST_SYSTEMS = 5
"""Fewer systems have no discrimination: four points correlate by chance with 0.95 or more in one of twenty cases."""


@dataclass(frozen=True, slots=True)
class Items:
    """One entry per case: its mean score and standard deviation over the systems; 0 if it tells none of them apart.

    `discrimination` with its interval is NaN for fewer than `FEWEST_SYSTEMS`, and for a case without spread, and so is
    `p_adjusted`: that better systems do not score worse.
    """

    mean: Floats
    spread: Floats
    discrimination: Floats
    low: Floats
    high: Floats
    p_adjusted: Floats


def items(scores: ArrayLike) -> Items:
    """The item statistics of scores of shape (cases, systems), with higher as better."""
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]

    table = np.asarray(scores, dtype=np.float64)
    cases, systems = table.shape
    mean, spread = table.mean(axis=1), table.std(axis=1, ddof=1)
    spread = np.where(spread <= ROUNDING * np.maximum(1.0, np.abs(table).max(axis=1)), 0.0, spread)
    if systems < FEWEST_SYSTEMS or cases < 2:
        none = np.full(cases, np.nan)
        return Items(mean, spread, none, none, none, none)
    rest = (table.sum(axis=0) - table) / (cases - 1)
    own, other = (part - part.mean(axis=1, keepdims=True) for part in (table, rest))
    size = np.sqrt((own**2).sum(axis=1) * (other**2).sum(axis=1))
    known = (spread > 0) & (size > ROUNDING)
    r = np.full(cases, np.nan)
    r[known] = np.clip((own * other).sum(axis=1)[known] / size[known], -1, 1)
    with np.errstate(divide="ignore"):
        half = normal_quantile(UPPER) / np.sqrt(systems - 3)
        low, high = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
        below = stdtr(systems - 2, r * np.sqrt((systems - 2) / (1 - r**2)))
    p = np.where(known, np.maximum(below, _least_p(table)), np.nan)
    return Items(mean, spread, r, low, high, adjust(p, "bh"))


def _least_p(table: Floats) -> Floats:
    """One divided by the number of distinct orders of each case's scores."""
    from scipy.special import gammaln  # pyright: ignore[reportMissingTypeStubs]

    systems = table.shape[1]
    ordered = np.sort(table, axis=1)
    starts = np.ones(table.shape, dtype=bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    runs = np.cumsum(starts.ravel()) - 1
    sizes = np.bincount(runs)
    of_case = np.nonzero(starts.ravel())[0] // systems
    ties = np.bincount(of_case, gammaln(sizes + 1.0), table.shape[0])
    return np.exp(ties - gammaln(systems + 1.0))
