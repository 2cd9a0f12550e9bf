"""Figures over pairs of answers that a judge was asked about in both orders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalflow.records import Figure
from evalflow.stats.intervals import mean_figure
from evalflow.stats.paired import mcnemar

if TYPE_CHECKING:
    import polars as pl

PREFERENCE_FIGURES = ("win_rate", "consistency", "first_preferred", "longer_preferred")


def preference_figures(counts: pl.DataFrame, seed: int = 0) -> list[Figure]:
    """How often the answer is preferred, and how far the judge's verdicts are its own.

    - win_rate: the mean of the scores, a tie as half a win.
    - consistency: the share of the pairs whose verdict does not change with the order.
    - first_preferred: of those whose verdict does change, the share in which the judge leans to what it reads first.
      Its details give the exact sign test of that share against one half, over clusters: `p_value`, `first` and
      `second` (clusters that lean to either place). This is the swap test for position bias.
    - longer_preferred: of the pairs that are won or lost and of unequal length, the share in which the longer answer
      is preferred. A longer answer may well be better: this alone shows no bias.

    Args:
        counts: Columns: score, lean (1 where the judge leans to what it reads first, -1 to what it reads second, 0
            where the order decides nothing), longer (1 or 0), each null where a pair has none; cluster (any), n
            (records of one cluster), clusters (how many clusters alike the row stands for).
        seed: Of bootstrap intervals.
    """
    import polars as pl

    lean = pl.col("lean")
    columns = counts.select(
        win_rate="score",
        consistency=(lean == 0).cast(pl.Float64),
        first_preferred=pl.when(lean != 0).then((lean > 0).cast(pl.Float64)),
        longer_preferred="longer",
    )
    details = {
        "win_rate": _verdicts(counts),
        "consistency": {},
        "first_preferred": swap_test(counts),
        "longer_preferred": {},
    }
    return [
        replace(mean_figure(name, columns[name], counts, seed), details=details[name]) for name in PREFERENCE_FIGURES
    ]


def swap_test(counts: pl.DataFrame) -> dict[str, Any]:
    """The exact sign test of position bias: do verdicts that change with the order go to one place more than the other?

    Records of one cluster count once, to the place that most of them go to: they are no further evidence.

    Args:
        counts: As for `preference_figures`.

    Returns:
        first, second: Clusters that lean to either place; p_value: two-sided, None where none leans.
    """
    import polars as pl

    net = (pl.col("lean") * pl.col("n")).sum()
    leaning = counts.group_by("cluster").agg(net=net, alike=pl.col("clusters").first())
    first, second = (int(leaning.filter(side)["alike"].sum()) for side in (pl.col("net") > 0, pl.col("net") < 0))
    return {"first": first, "second": second, "p_value": mcnemar(first, second) if first + second else None}


def _verdicts(counts: pl.DataFrame) -> dict[str, int]:
    import polars as pl

    pairs = pl.col("n") * pl.col("clusters")
    kinds = {
        "wins": pl.col("score") > 0.5,  # of a panel: most of it
        "losses": pl.col("score") < 0.5,
        "ties": (pl.col("score") == 0.5) & (pl.col("lean").fill_null(0) == 0),
        "decided_by_order": pl.col("lean") != 0,
    }
    return {name: int(counts.select(pairs.filter(kind).sum()).item()) for name, kind in kinds.items()}
