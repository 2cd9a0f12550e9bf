"""Members of a panel or cascade: their own means, their agreement, and the cells on which they differ most."""

from __future__ import annotations

from typing import Any

from evalflow.lazy import pl
from evalflow.summary.journal import SLICE
from evalflow.summary.slices import cluster_name

_BETWEEN = "\x1f"
_LISTED = 10
_CELL = ("case_id", "target_repeat", "repeat")
_MEMBER_COLUMNS = (
    "judge", "n", "n_scored", "n_undefined", "n_error", "n_skipped", "value", "ci_low", "ci_high", "ci_method",
    "cost_usd",
)  # fmt: skip


def member_key() -> pl.Expr:
    """A name for a member that is unique over all panels."""
    return pl.concat_str("member_of", "judge", separator=_BETWEEN)


def panel_details(members: pl.LazyFrame, alone: pl.DataFrame, seed: int = 0) -> list[dict[str, Any]]:
    """Details of the slices whose judge has members.

    `alone` is the summary of the members' rows, with each member as a judge named by `member_key`.

    Returns:
        The keys of every detail, n (cells that two members or more scored), and `panel`: members (judge, the counts by
        state, value with its interval, cost_usd, and cost_per_score if a call was made and its price is known),
        alpha (Krippendorff's, of the scores as intervals: value, ci_low, ci_high, n, method), mean_range (of a cell's
        scores, highest minus lowest) and widest (the cells with the largest ranges: case_id, target_repeat, repeat,
        range, scores by member).
    """
    overall = (pl.col("statistic") == "mean") & pl.col("tag").is_null()
    parts = pl.col("judge").str.split_exact(_BETWEEN, 1).struct
    means = alone.filter(overall).with_columns(panel=parts.field("field_0"), judge=parts.field("field_1"))
    spent = _spent(members)
    found: list[dict[str, Any]] = []
    for values, rows in means.group_by("dataset", "target", "metric", "panel", maintain_order=True):
        key = dict(zip(SLICE, values, strict=True))
        own = [pl.col("member_of" if name == "judge" else name) == value for name, value in key.items()]
        names = rows["judge"].to_list()
        costs = dict(spent.filter(*own).select("judge", "cost_per_score").iter_rows())
        cells = _cells(members.filter(*own), names)
        about = {
            "members": [
                {**{name: row[name] for name in _MEMBER_COLUMNS}, "cost_per_score": costs.get(row["judge"])}
                for row in rows.iter_rows(named=True)
            ],
            "alpha": _alpha(cells, names, seed),
            "mean_range": cells["range"].mean(),
            "widest": _widest(cells, names),
        }
        found.append({**key, "tag": None, "statistic": "mean", "n": cells.height, "panel": about})
    return found


def _spent(members: pl.LazyFrame) -> pl.DataFrame:
    """Mean cost of a score of each member, without cached replies."""
    asked = members.filter(~pl.col("cached") & pl.col("latency_s").is_not_null())
    keys = ("dataset", "target", "metric", "member_of", "judge")
    return asked.group_by(keys).agg(cost_per_score=pl.col("cost_usd").mean()).collect(engine="streaming")


def _cells(members: pl.LazyFrame, names: list[str]) -> pl.DataFrame:
    """One row for each cell scored by at least two members: its cluster, each member's score, and their range."""
    cluster = cluster_name(pl.col("group"), pl.col("case_id")).first()
    scores = [pl.col("score").filter(pl.col("judge") == name).first().alias(name) for name in names]
    n, high, low = pl.len(), pl.col("score").max(), pl.col("score").min()
    return (
        members.filter(pl.col("status") == "scored")
        .group_by(_CELL, maintain_order=True)
        .agg(*scores, cluster=cluster, range=high - low, n=n)
        .filter(pl.col("n") > 1)
        .collect(engine="streaming")
    )


def _alpha(cells: pl.DataFrame, names: list[str], seed: int) -> dict[str, Any]:
    from evalflow.stats.raters import krippendorff_alpha

    ratings = cells.select(names).fill_null(float("nan")).to_numpy().T
    found = krippendorff_alpha(ratings, "interval", cells["cluster"].to_numpy(), seed=seed)
    return {
        "value": found.value, "ci_low": found.low, "ci_high": found.high, "n": found.n, "method": found.method,
    }  # fmt: skip


def _widest(cells: pl.DataFrame, names: list[str]) -> list[dict[str, Any]]:
    """The cells whose members differ most; empty if they never differ."""
    differing = cells.filter(pl.col("range") > 0).sort(pl.col("range").round(9), maintain_order=True, descending=True)
    return [
        {**{name: row[name] for name in (*_CELL, "range")}, "scores": {name: row[name] for name in names}}
        for row in differing.head(_LISTED).iter_rows(named=True)
    ]
