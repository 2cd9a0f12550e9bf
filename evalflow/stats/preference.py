"""Figures over pairs of answers that a judge compared in both orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evalflow.lazy import pl
from evalflow.records import Figure
from evalflow.stats.intervals import mean_figure
from evalflow.stats.paired import mcnemar

PREFERENCE_FIGURES = ("win_rate", "consistency", "first_preferred", "longer_preferred")


def preference_figures(counts: pl.DataFrame, seed: int = 0) -> list[Figure]:
    """Win rate, consistency, position bias and length preference of pairwise verdicts.

    - win_rate: the mean of the scores; a tie counts half.
    - consistency: the share of the pairs whose verdict does not change with the order.
    - first_preferred: of those whose verdict does change, the share that prefers the answer read first. Its
      details have the exact sign test of that share against one half, over clusters: `p_value`, `first` and `second`
      (number of clusters that lean to each position). This is the swap test for position bias.
    - longer_preferred: of the pairs won or lost that differ in length, the share in which the longer answer is
      preferred. A longer answer may be better, so this alone is no evidence of bias.

    Args:
        counts: Columns: score, lean (1 if the judge leans to the answer read first, -1 to the second, 0 if the order
            does not matter), longer (1 or 0), each null if undefined; cluster (any), n (records of one cluster),
            clusters (number of equal clusters that the row stands for).
        seed: Seed of bootstrap intervals.
    """
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
    """Exact sign test for position bias: do verdicts that change with the order favour one position?

    A cluster counts once, for the position that most of its records favour, since its records are not independent.

    Returns:
        first, second: Number of clusters that lean to each position; p_value: two-sided, None if none leans.
    """
    net = (pl.col("lean") * pl.col("n")).sum()
    leaning = counts.group_by("cluster").agg(net=net, alike=pl.col("clusters").first())
    first, second = (int(leaning.filter(side)["alike"].sum()) for side in (pl.col("net") > 0, pl.col("net") < 0))
    return {"first": first, "second": second, "p_value": mcnemar(first, second) if first + second else None}


def _verdicts(counts: pl.DataFrame) -> dict[str, int]:
    pairs = pl.col("n") * pl.col("clusters")
    kinds = {
        "wins": pl.col("score") > 0.5,  # for a panel: the majority
        "losses": pl.col("score") < 0.5,
        "ties": (pl.col("score") == 0.5) & (pl.col("lean").fill_null(0) == 0),
        "decided_by_order": pl.col("lean") != 0,
    }
    return {name: int(counts.select(pairs.filter(kind).sum()).item()) for name, kind in kinds.items()}
