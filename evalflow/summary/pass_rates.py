"""Pass rates at other thresholds, with the summary's intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from evalflow.lazy import np, pl
from evalflow.records import passes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Passing:
    """The pass rate of one dataset and target at a threshold.

    Attributes:
        n: Cases; the repeats of a case are averaged first, as in the summary.
        rate, low, high: The pass rate and its 95 % interval, 0..1; the bounds are None if there is none.
        method: Method of the interval, or the reason why there is none.
    """

    dataset: str
    target: str
    threshold: float
    n: int
    rate: float
    low: float | None
    high: float | None
    method: str


def passing_rates(
    scores: pl.LazyFrame,
    metric: str,
    judge: str | None,
    thresholds: Sequence[float],
    *,
    higher_is_better: bool = True,
    seed: int = 0,
) -> list[Passing]:
    """The pass rate at each threshold, equal to the summary of a run with that threshold.

    Returns:
        By dataset and target in the order of the table, then in the order of `thresholds`; empty if nothing was scored.
    """
    wanted = (pl.col("metric") == metric) & pl.col("judge").eq_missing(pl.lit(judge, pl.String))
    rows = scores.filter(wanted, pl.col("member_of").is_null(), pl.col("score").is_not_null())
    columns = ("dataset", "target", "case_id", "group", "score")
    found = rows.select(columns).collect(engine="streaming")
    return [
        one
        for (dataset, target), part in found.group_by("dataset", "target", maintain_order=True)
        for one in _rates(str(dataset), str(target), part, thresholds, higher_is_better, seed)
    ]


def _rates(
    dataset: str, target: str, part: pl.DataFrame, thresholds: Sequence[float], higher: bool, seed: int
) -> Iterator[Passing]:
    from evalflow.stats.intervals import FEW_CASES, Moments, intervals, moments

    scores, case, clusters = _cases(part)
    counts = np.bincount(case)
    shares = [np.bincount(case, passes(scores, t, higher_is_better=higher)) / counts for t in thresholds]
    each = [moments(share, clusters) for share in shares]
    if not each:
        return
    names = [field.name for field in fields(Moments)]
    joined = Moments(**{name: np.concatenate([getattr(one, name) for one in each]) for name in names})
    few = dict(enumerate(shares)) if counts.size < FEW_CASES else {}
    bounds = intervals(joined, few, bounded=True, seed=seed)
    for i, (threshold, share) in enumerate(zip(thresholds, shares, strict=True)):
        one = bounds[i]
        yield Passing(dataset, target, threshold, counts.size, float(share.mean()), one.low, one.high, one.method)


def _cases(part: pl.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64] | None]:
    """Scores, the number of the case of each, and the cluster of each case; None if each case is its own cluster."""
    numbered = part.with_columns(case=pl.col("case_id").rank("dense").cast(pl.Int64) - 1)
    groups = numbered.group_by("case").agg(pl.col("group").first()).sort("case")["group"]
    clusters = None
    if groups.null_count() < groups.len():
        alone = -1 - pl.int_range(groups.len(), dtype=pl.Int64, eager=True)
        ranks = groups.rank("dense").cast(pl.Int64)
        clusters = pl.select(pl.when(groups.is_null()).then(alone).otherwise(ranks)).to_series().to_numpy()
    return numbered["score"].to_numpy(), numbered["case"].to_numpy(), clusters
