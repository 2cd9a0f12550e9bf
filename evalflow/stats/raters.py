"""How reliable people's own ratings are, and what the best judge could reach against them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reliability:
    """Intraclass correlations (Shrout & Fleiss 1979, Psychological Bulletin 86:420); None where undefined.

    Attributes:
        icc1: Of one rating, each answer with raters of its own.
        icc2: Of one rating, all answers with the same raters, who stand for others.
        icc3: Of one rating, these raters alone: a rater who is stricter throughout does not count.
        icc1k, icc2k, icc3k: The same of the mean of the k raters.
    """

    icc1: float | None
    icc2: float | None
    icc3: float | None
    icc1k: float | None
    icc2k: float | None
    icc3k: float | None


def icc(ratings: ArrayLike) -> Reliability:
    """Intraclass correlations of a table without gaps.

    Args:
        ratings: Shape (answers, raters), two of each or more.
    """
    import numpy as np

    table = np.asarray(ratings, dtype=np.float64)
    n, k = table.shape
    if n < 2 or k < 2:
        return Reliability(None, None, None, None, None, None)
    whole = table - table.mean()
    rows, columns = k * float((whole.mean(axis=1) ** 2).sum()), n * float((whole.mean(axis=0) ** 2).sum())
    within = max(0.0, float((whole**2).sum()) - rows)
    between, inside = rows / (n - 1), within / (n * (k - 1))
    raters, rest = columns / (k - 1), max(0.0, within - columns) / ((n - 1) * (k - 1))
    return Reliability(
        _ratio(between - inside, between + (k - 1) * inside),
        _ratio(between - rest, between + (k - 1) * rest + k * (raters - rest) / n),
        _ratio(between - rest, between + (k - 1) * rest),
        _ratio(between - inside, between),
        _ratio(between - rest, between + (raters - rest) / n),
        _ratio(between - rest, between),
    )


def spearman_brown(reliability: float, times: float) -> float:
    """Reliability of the mean of so many times as many ratings (Spearman 1910; Brown 1910): m r / (1 + (m - 1) r)."""
    return times * reliability / (1 + (times - 1) * reliability)


def noise_ceiling(reliability: float) -> float | None:
    """The highest correlation with ratings of this reliability: its square root (Spearman 1904). None below 0."""
    return math.sqrt(reliability) if reliability >= 0 else None


def fleiss_kappa(counts: ArrayLike) -> float | None:
    """Agreement beyond chance of several raters of each answer (Fleiss 1971, Psychological Bulletin 76:378).

    Args:
        counts: Shape (answers, classes): how many raters gave the class; equally many raters of each answer, two or
            more.

    Returns:
        None where all ratings are of one class.
    """
    table, agree = _pairs(counts)
    shares = table.sum(axis=0) / table.sum()
    return _ratio(agree - float((shares**2).sum()), 1 - float((shares**2).sum()))


def gwet_ac1(counts: ArrayLike) -> float | None:
    """Agreement beyond chance where one class is rare, of which kappa makes little (Gwet 2008, BJMSP 61:29).

    Arguments as of `fleiss_kappa`; None for a single class.
    """
    table, agree = _pairs(counts)
    classes = table.shape[1]
    if classes < 2:
        return None
    shares = table.sum(axis=0) / table.sum()
    chance = float((shares * (1 - shares)).sum()) / (classes - 1)
    return _ratio(agree - chance, 1 - chance)


def _pairs(counts: ArrayLike) -> tuple[Floats, float]:
    """The counts, and the share of pairs of ratings of one answer that agree."""
    import numpy as np

    table = np.asarray(counts, dtype=np.float64)
    raters = table.sum(axis=1)
    return table, float(((table * (table - 1)).sum(axis=1) / (raters * (raters - 1))).mean())


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 1e-12 else None
