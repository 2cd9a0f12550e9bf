"""Matthews' correlation coefficient: how far predictions go with the truth, whatever the share of each class.

1 is perfect, 0 is no better than chance, -1 is all wrong. Of two classes it is (TP TN - FP FN) over the root of the
product of the four margins (Matthews 1975, BBA 405:442); of several, Gorodkin's R_K (2004, Comput. Biol. Chem. 28:367),
which is the same of two. Undefined where all records bear, or are given, one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from evalflow.stats.ratios import Of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def matthews(pairs: Sequence[tuple[str, str]], positive: str | None = None) -> Of:
    """The coefficient as a function of cell totals; NaN where it is undefined.

    Args:
        pairs: Truth and prediction of each cell.
        positive: The class that is held against all others; None for each by itself.
    """
    import numpy as np

    sides = [[side if positive is None else str(side == positive) for side in pair] for pair in pairs]
    labels = sorted({label for pair in sides for label in pair})
    true, predicted = (np.array([[float(pair[i] == k) for k in labels] for pair in sides]) for i in (0, 1))
    return partial(_coefficient, true, predicted)


def _coefficient(true: Floats, predicted: Floats, totals: Floats) -> Floats:
    import numpy as np

    n = totals.sum(axis=1)
    occur, given = totals @ true, totals @ predicted
    hits = totals @ (true * predicted).sum(axis=1)
    above = hits * n - (occur * given).sum(axis=1)
    below: Floats = np.sqrt((n**2 - (occur**2).sum(axis=1)) * (n**2 - (given**2).sum(axis=1)))
    return np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0)
