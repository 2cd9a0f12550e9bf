"""Many comparisons in one table: p-values adjusted so that a few of them are not significant by their number alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

Adjustment = Literal["holm", "bh", "by"]


def adjust(p_values: ArrayLike, method: Adjustment = "holm") -> Floats:
    """Adjusted p-values, in the order given.

    Args:
        p_values: One family. NaN stands for a test that could not be made, and belongs to no family.
        method: holm holds the chance of a single false finding, under any dependence (Holm 1979); bh the share of
            false ones among the findings, where tests are independent or positively dependent (Benjamini & Hochberg
            1995); by the same under any dependence (Benjamini & Yekutieli 2001).
    """
    import numpy as np

    p = np.asarray(p_values, dtype=np.float64)
    made = np.flatnonzero(~np.isnan(p))
    order = made[np.argsort(p[made], kind="stable")]
    m = order.size
    adjusted = np.full(p.shape, np.nan)
    if not m:
        return adjusted
    rank = np.arange(1, m + 1)
    if method == "holm":
        found = np.maximum.accumulate((m - rank + 1) * p[order])
    else:
        factor = (1 / rank).sum() if method == "by" else 1.0
        found = np.minimum.accumulate((factor * m * p[order] / rank)[::-1])[::-1]
    adjusted[order] = np.minimum(found, 1.0)
    return adjusted
