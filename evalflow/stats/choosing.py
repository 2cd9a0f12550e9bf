"""Which of several judges agrees most with people, and which cannot be told apart: on the same labelled answers.

The difference of two judges' agreement has a percentile bootstrap interval: answers, or clusters of them, are drawn
with what people and all judges said of them, so that the pairing stays (Efron & Tibshirani 1993, ch. 13). The p-value
is that of t on the bootstrap's standard error: at the level of 5 % it told 2 to 7 % of pairs apart that agree equally
well, on 20 to 100 answers, in 200 simulations of each size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evalflow.stats.agreement import counts_of
from evalflow.stats.bootstrap import DRAWS, percentiles
from evalflow.stats.intervals import FEW_CASES, FEW_CLUSTERS
from evalflow.stats.labelled import constant
from evalflow.stats.paired import Difference, t_test
from evalflow.stats.rank import mean_ranks, pearson
from evalflow.stats.ratios import MAX_UNDEFINED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

Measure = Literal["kappa", "spearman", "accuracy"]
# Chance agreement this close to 1 is that of one class.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Agreements:
    """How far each of several judges agrees with people.

    Attributes:
        values: By judge; NaN where undefined.
        draws: The same in each resample, shape (draws, judges).
        n, clusters: Answers, and what they fall into.
    """

    values: Floats
    draws: Floats
    n: int
    clusters: int

    def interval(self, judge: int) -> tuple[float | None, float | None]:
        """Of one judge's agreement; None where it is often undefined, or nothing varies."""
        return _bounds(self.draws[:, judge])

    def difference(self, a: int, b: int) -> Difference:
        """Judge B's agreement minus judge A's."""
        import numpy as np

        left, right = float(self.values[a]), float(self.values[b])
        if np.isnan(left) or np.isnan(right):
            a_value, b_value = (None if np.isnan(value) else value for value in (left, right))
            return Difference(
                self.n, self.clusters, a_value, b_value, None, None, None, None, None, None, "none: undefined"
            )
        difference, found = right - left, self.draws[:, b] - self.draws[:, a]
        low, high = _bounds(found)
        if low is None:
            p, why = 1.0 if difference == 0 else None, "none: the resamples do not differ"
            return Difference(self.n, self.clusters, left, right, difference, None, None, None, None, p, why)
        error, df = float(np.nanstd(found, ddof=1)), self.clusters - 1
        alone = self.clusters == self.n
        name, few, what = ("", FEW_CASES, "answers") if alone else ("cluster_", FEW_CLUSTERS, "clusters")
        method = f"paired_{name}bootstrap" + (f": fewer than {few} {what}" if self.clusters < few else "")
        p = t_test(difference, error, df)
        return Difference(self.n, self.clusters, left, right, difference, error, df, low, high, p, method)


def agreements(
    human: ArrayLike,
    judges: ArrayLike,
    measure: Measure,
    clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    seed: int = 0,
) -> Agreements:
    """Hold several judges against the same labels.

    Args:
        human: One label per answer; for kappa and accuracy a class, by its number.
        judges: Shape (judges, answers), of the same kind.
        measure: Of agreement.
        clusters: The cluster of each answer; None where each stands alone.
        weights: How many answers each stands for; None where all were as likely to be labelled.
        seed: Of the resamples, in which all judges share the answers.
    """
    import numpy as np

    x, table = np.asarray(human, dtype=np.float64), np.asarray(judges, dtype=np.float64)
    stands_for = counts_of(weights, x.size)
    names = np.arange(x.size) if clusters is None else np.asarray(clusters)
    _, codes = np.unique(names, return_inverse=True)
    groups = int(codes.max()) + 1 if codes.size else 0
    members: list[NDArray[np.int64]] = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    rng = np.random.default_rng(seed)
    draws = np.empty((DRAWS, len(table)))
    for number in range(DRAWS):
        picked: NDArray[np.int64] = rng.integers(groups, size=groups)
        chosen = np.concatenate([members[int(group)] for group in picked.tolist()])
        draws[number] = _agree(x[chosen], table[:, chosen], stands_for[chosen], measure)
    return Agreements(_agree(x, table, stands_for, measure), draws, x.size, groups)


def _agree(human: Floats, judges: Floats, weights: Floats, measure: Measure) -> Floats:
    """Agreement of each judge, NaN where it is undefined."""
    import numpy as np

    if measure == "accuracy":
        return (judges == human) @ weights / weights.sum()
    one = _spearman if measure == "spearman" else _kappa
    return np.array([one(human, judge, weights) for judge in judges])


def _kappa(x: Floats, y: Floats, count: Floats) -> float:
    import numpy as np

    values, codes = np.unique(np.concatenate([x, y]), return_inverse=True)
    n = float(count.sum())
    a, b = (np.bincount(side, count, values.size) / n for side in (codes[: x.size], codes[x.size :]))
    by_chance = float(a @ b)
    return (float((x == y) @ count) / n - by_chance) / (1 - by_chance) if by_chance < 1 - _ROUNDING else float("nan")


def _spearman(x: Floats, y: Floats, count: Floats) -> float:
    if constant(x) or constant(y):
        return float("nan")
    return pearson(mean_ranks(x, count), mean_ranks(y, count), count)


def _bounds(found: Floats) -> tuple[float | None, float | None]:
    import numpy as np

    defined = found[~np.isnan(found)]
    if defined.size < (1 - MAX_UNDEFINED) * found.size or constant(defined):
        return None, None
    return percentiles(defined)
