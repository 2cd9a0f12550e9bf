"""Test for sampling bias: does the judge score labelled answers like all others?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.lazy import np
from evalflow.stats.arrays import mean_ranks
from evalflow.stats.paired import t_test

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from evalflow.stats.arrays import Floats, Ints


LEVEL = 0.01
"""Below this p-value the labelled answers are taken to be a biased sample."""
FEW_CLUSTERS = 7
"""With fewer labelled clusters the test has almost no power, since t with so few degrees of freedom is wide."""


@dataclass(frozen=True, slots=True)
class SamplingBias:
    """The difference between labelled answers and the others.

    Attributes:
        labelled, rest: Mean score of the labelled answers, and of the others.
        p_value: Of the difference; None if one side is empty, or nothing varies.
        method: fisher, mann_whitney, or score_cr0 for clustered answers.
        clusters: Number of clusters of labelled answers; None if each answer stands alone.
    """

    labelled: float | None
    rest: float | None
    p_value: float | None
    method: str
    clusters: int | None = None

    @property
    def has_power(self) -> bool:
        """Whether there are enough clusters for the test."""
        return self.clusters is None or self.clusters >= FEW_CLUSTERS

    @property
    def biased(self) -> bool:
        """Whether the labelled answers are unlikely to be a random sample."""
        return self.p_value is not None and self.p_value < LEVEL


def sampling_bias(
    labelled: ArrayLike,
    rest: ArrayLike,
    clusters: ArrayLike | None = None,
    rest_clusters: ArrayLike | None = None,
) -> SamplingBias:
    """Compare the judge's scores of labelled answers with its scores of the others, two-sided.

    Fisher's exact test for two values (Fisher 1922, JRSS 85:87), else the Mann-Whitney test with ties (Mann & Whitney
    1947, Ann. Math. Stat. 18:50); a score test over clusters if answers share them.

    Args:
        labelled: The judge's scores, or whether the answer passed, of the labelled answers.
        rest: The same of all others.
        clusters: The cluster of each labelled answer; None where each stands alone.
        rest_clusters: Those of the others, by the same names.
    """
    a, b = np.asarray(labelled, dtype=np.float64), np.asarray(rest, dtype=np.float64)
    labelled_mean, rest_mean = (float(side.mean()) if side.size else None for side in (a, b))
    values = np.unique(np.concatenate([a, b]))
    codes = None
    if clusters is not None and rest_clusters is not None:
        names, codes = np.unique(np.concatenate([clusters, rest_clusters]), return_inverse=True)
        codes = None if names.size == codes.size else codes
    clustered = None if codes is None else int(np.unique(codes[: a.size]).size)
    method = "score_cr0" if codes is not None else "fisher" if values.size <= 2 else "mann_whitney"
    if not a.size or not b.size or values.size < 2:
        return SamplingBias(labelled_mean, rest_mean, None, method, clustered)
    p = _independent_test(a, b, method) if codes is None else _clustered_test(a, b, codes)
    return SamplingBias(labelled_mean, rest_mean, p, method, clustered)


def _independent_test(a: Floats, b: Floats, method: str) -> float:
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    untyped: Any = stats
    if method == "mann_whitney":
        return float(untyped.mannwhitneyu(a, b).pvalue)
    high = max(a.max(), b.max())
    table = [[int((side == high).sum()), int((side != high).sum())] for side in (a, b)]
    return float(untyped.fisher_exact(table).pvalue)


def _clustered_test(a: Floats, b: Floats, codes: Ints) -> float | None:
    """p-value over clusters; None if a side has a single cluster."""
    ranks = mean_ranks(np.concatenate([a, b]))
    drawn = np.repeat([1.0, 0.0], [a.size, b.size])
    parts = np.bincount(codes, (drawn - drawn.mean()) * (ranks - ranks.mean()))
    fewest = min(np.unique(side).size for side in (codes[: a.size], codes[a.size :]))
    error = float(np.sqrt((parts**2).sum()))
    return t_test(float(parts.sum()), error, fewest - 1) if fewest > 1 and error else None
