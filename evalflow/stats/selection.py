"""Whether some answers can have been drawn at random out of all: are the judge's scores of them like the rest's?

Labels correct a judge's mean only where the labelled answers are like the others. People who label what looked wrong
label answers that the judge failed, and these are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LEVEL = 0.01
"""Below this p-value the labelled are taken to be chosen."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How the labelled answers differ from the others.

    Attributes:
        labelled, rest: The mean of the labelled, and of the others.
        p_value: Of the difference; None where one side is empty, or nothing varies.
        method: fisher, or mann_whitney.
    """

    labelled: float | None
    rest: float | None
    p_value: float | None
    method: str

    @property
    def chosen(self) -> bool:
        """Whether they can hardly have been drawn at random."""
        return self.p_value is not None and self.p_value < LEVEL


def selection(labelled: ArrayLike, rest: ArrayLike) -> Selection:
    """Hold the judge's scores of labelled answers against its scores of the others.

    Fisher's exact test where there are two values (Fisher 1922, JRSS 85:87), else the Mann-Whitney test with ties
    (Mann & Whitney 1947, Ann. Math. Stat. 18:50), two-sided.

    Args:
        labelled: The judge's scores, or whether the answer passed, of the labelled answers.
        rest: The same of all others.
    """
    import numpy as np
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    a, b = np.asarray(labelled, dtype=np.float64), np.asarray(rest, dtype=np.float64)
    labelled_mean, rest_mean = (float(side.mean()) if side.size else None for side in (a, b))
    values = np.unique(np.concatenate([a, b]))
    method = "fisher" if values.size <= 2 else "mann_whitney"
    if not a.size or not b.size or values.size < 2:
        return Selection(labelled_mean, rest_mean, None, method)
    if method == "fisher":
        high = values[-1]
        table = [[int((side == high).sum()), int((side != high).sum())] for side in (a, b)]
        p = stats.fisher_exact(table).pvalue  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]
    else:
        p = stats.mannwhitneyu(a, b).pvalue  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return Selection(labelled_mean, rest_mean, float(p), method)  # pyright: ignore[reportUnknownArgumentType]
