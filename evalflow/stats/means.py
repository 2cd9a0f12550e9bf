"""A mean over records as a figure, by the rule that all means have (see `intervals`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow.records import Figure
from evalflow.stats.intervals import interval

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray


def mean_figure(statistic: str, values: pl.Series, counts: pl.DataFrame, seed: int = 0) -> Figure:
    """The mean of a measure over those records for which it is defined.

    Args:
        statistic: Its name.
        values: One of 0..1 per row of `counts`; null where the measure is undefined.
        counts: Columns: cluster (any), n (records of one cluster), clusters (how many clusters alike the row stands
            for).
        seed: Of a bootstrap.

    Returns:
        The mean; `n` is the records that it is over, `details` their median, min, max and std (n - 1; null below two)
        and how many records are undefined.
    """
    import numpy as np

    repeats = (counts["n"] * counts["clusters"]).to_numpy()
    known = values.is_not_null().to_numpy()
    scores = np.repeat(values.drop_nulls().to_numpy(), repeats[known])
    undefined = int(repeats[~known].sum())
    if not scores.size:
        return Figure(statistic=statistic, value=None, n=0, ci_method="none: undefined in every case")
    found = interval(scores, _clusters(counts, known, repeats), bounded=True, seed=seed)
    spread = {
        "median": float(np.median(scores)),
        "min": float(scores.min()),
        "max": float(scores.max()),
        "std": float(scores.std(ddof=1)) if scores.size > 1 else None,
        "undefined": undefined,
    }
    return Figure(
        statistic=statistic, value=float(scores.mean()), n=scores.size, std_error=found.std_error, ci_low=found.low,
        ci_high=found.high, ci_method=found.method, details=spread,
    )  # fmt: skip


def _clusters(counts: pl.DataFrame, known: NDArray[np.bool_], repeats: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """The cluster of each record; None where each is a cluster of its own."""
    import numpy as np

    names = counts["cluster"].hash().to_numpy()[known]
    if (counts["n"].to_numpy()[known] == 1).all() and np.unique(names).size == names.size:
        return None
    return np.repeat(names, repeats[known])
