"""Scores to one row of counts and moments per unit. A unit is a slice (dataset, target, metric, judge) and a tag.

Three ideas keep ten million rows cheap. Strings are met only while scanning: each row is reduced to the number of its
`part`, a slice and the exact tags of its cases. What is additive is summed over parts first and spread to tags then.
And only what is not additive (medians, clusters) is spread row by row, a bounded number of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.summary.schema import SLICE

if TYPE_CHECKING:
    import polars as pl

_SEPARATOR = "\x1f"
_ROWS_AT_ONCE = 4_000_000
STATES = ("scored", "undefined", "error", "skipped")


@dataclass(frozen=True, slots=True)
class Units:
    """How rows fall into units.

    Attributes:
        parts: One row per slice and exact tags: part, the slice, tagset, counts and sums.
        links: Which parts make up which unit: unit, part, rows.
        table: One row per unit: unit, the slice, tag (null for all).
    """

    parts: pl.DataFrame
    links: pl.DataFrame
    table: pl.DataFrame

    @property
    def repeated(self) -> bool:
        """Whether some case was answered or judged more than once."""
        return bool(self.parts["repeated"].any())

    @property
    def clustered(self) -> bool:
        """Whether some case carries a group."""
        return bool(self.parts["grouped"].any())

    def mark(self, cells: pl.LazyFrame) -> pl.LazyFrame:
        """The cells with their `part`."""
        parts = self.parts.lazy().select("part", *SLICE, "tagset")
        return cells.join(parts, on=[*SLICE, "tagset"], nulls_equal=True)

    def chunks(self) -> Iterator[pl.DataFrame]:
        """The links, a bounded number of rows (or one unit) at a time."""
        import polars as pl

        sizes = self.links.group_by("unit").agg(pl.col("rows").sum()).sort("unit")
        chunk = (pl.col("rows").cum_sum() - 1) // _ROWS_AT_ONCE
        for part in sizes.with_columns(chunk=chunk).partition_by("chunk", maintain_order=True):
            yield self.links.join(part.select("unit"), on="unit", how="semi").select("unit", "part")


def own_cells(scores: pl.LazyFrame) -> pl.LazyFrame:
    """The rows that count: a panel's members are shown by the panel. Adds `tagset`, the tags as one text."""
    import polars as pl

    return scores.filter(pl.col("member_of").is_null()).with_columns(
        tagset=pl.col("tags").list.join(_SEPARATOR).fill_null("")
    )


def find_units(cells: pl.LazyFrame) -> Units:
    """Find all units, and sum over parts what can be summed."""
    import polars as pl

    parts = cells.group_by(*SLICE, "tagset").agg(*_sums()).collect(engine="streaming")
    parts = parts.sort(*SLICE, "tagset").with_row_index("part")
    names = [(text, tag) for text in parts["tagset"].unique().to_list() for tag in _tags(text)]
    tags = pl.DataFrame(names, schema={"tagset": pl.String, "tag": pl.String}, orient="row")
    spread = parts.select("part", *SLICE, "tagset", rows="n").join(tags, on="tagset")
    table = spread.select(*SLICE, "tag").unique().sort(*SLICE, "tag").with_row_index("unit")
    links = spread.join(table, on=[*SLICE, "tag"], nulls_equal=True).select("unit", "part", "rows")
    return Units(parts, links, table)


def counts(units: Units) -> pl.DataFrame:
    """Per unit: cells by state, cost, tokens. A sum with an unknown term is unknown."""
    import polars as pl

    sums = ["n", *(f"n_{state}" for state in STATES), *_SPENT, *(f"unknown_{name}" for name in _SPENT)]
    totals = units.links.join(units.parts, on="part").group_by("unit").agg(pl.col(sums).sum())
    return totals.with_columns(
        pl.when(pl.col(f"unknown_{name}") == 0).then(pl.col(name)).alias(name) for name in _SPENT
    ).drop(f"unknown_{name}" for name in _SPENT)


def measures(cells: pl.LazyFrame, units: Units) -> pl.DataFrame:
    """Per unit: moments of the cases' scores and passes, bounds, median, latency. One row per unit that has cells."""
    import polars as pl

    cases = _cases(cells, units).collect(engine="streaming")
    calls = cases if not units.repeated else units.mark(cells).select("part", _LATENCY()).collect(engine="streaming")
    found: list[pl.DataFrame] = []
    for links in units.chunks():
        spread = cases.lazy().join(links.lazy(), on="part")
        row = spread.group_by("unit").agg(*_moments("score"), *_moments("passed"), *_bounds())
        latency = calls.lazy().join(links.lazy(), on="part").group_by("unit").agg(*_quantiles())
        row = row.join(latency, on="unit")
        if units.clustered:
            for name in ("score", "passed"):
                row = row.join(_clusters(spread, name), on="unit", how="left")
        found.append(row.collect(engine="streaming"))
    return pl.concat(found)


_SPENT = ("cost_usd", "input_tokens", "output_tokens")


def _sums() -> list[pl.Expr]:
    import polars as pl

    status = pl.col("status")
    # What is undefined or skipped may never have asked. A cached reply cost nothing, whatever it did when it was made.
    asked = pl.col("judge").is_not_null() & ~pl.col("cached")
    asked &= status.is_in(["scored", "error"]) | pl.col("latency_s").is_not_null()
    return [
        pl.len().cast(pl.Int64).alias("n"),
        *((status == state).sum().cast(pl.Int64).alias(f"n_{state}") for state in STATES),
        *(pl.col(name).sum() for name in _SPENT),
        *((asked & pl.col(name).is_null()).sum().cast(pl.Int64).alias(f"unknown_{name}") for name in _SPENT),
        ((pl.col("repeat") > 0) | (pl.col("target_repeat") > 0)).any().alias("repeated"),
        pl.col("group").is_not_null().any().alias("grouped"),
    ]


def _tags(text: str) -> list[str | None]:
    """The tags that a case's tags stand for: each, its ancestors ("A > B" is also "A"), and None for all cases."""
    found: dict[str | None, None] = {None: None}
    for tag in filter(None, text.split(_SEPARATOR)):
        names = [name.strip() for name in tag.split(">")]
        found |= dict.fromkeys(" > ".join(names[: i + 1]) for i in range(len(names)))
    return list(found)


def _LATENCY() -> pl.Expr:
    import polars as pl

    return pl.when(~pl.col("cached")).then("latency_s").alias("latency")


def _cases(cells: pl.LazyFrame, units: Units) -> pl.LazyFrame:
    """One row per case and slice: part, score and passed (means over repeats), share (of what should be scored)."""
    import polars as pl

    status = pl.col("status")
    share = pl.when(status == "scored").then(1.0).when(status != "skipped").then(0.0)
    group = [pl.col("group").cast(pl.Categorical)] if units.clustered else []
    marked = units.mark(cells)
    passed = pl.col("passed").cast(pl.Float64)
    if not units.repeated:
        return marked.select("part", *group, "score", passed, share.alias("share"), _LATENCY())
    means = [pl.col("score").mean(), passed.mean(), share.mean().alias("share")]
    return marked.group_by("part", "case_id").agg(*(g.first() for g in group), *means).drop("case_id")


def _moments(name: str) -> list[pl.Expr]:
    import polars as pl

    x = pl.col(name)
    parts = {
        "n": x.count(),
        "mean": x.mean(),
        "std": x.std(),
        "low": x.min(),
        "high": x.max(),
        "binary": ((x == 0) | (x == 1)).all(),
        "median": x.median(),
    }
    return [expression.alias(f"{name}_{part}") for part, expression in parts.items()]


def _bounds() -> list[pl.Expr]:
    """Means over the cases that should have a score, with what is missing at 0 and at 1."""
    import polars as pl

    share = pl.col("share")
    known = pl.col("score").fill_null(0.0) * share
    cases = share.count()
    floor, ceiling = known.sum() / cases, (known.sum() + (1 - share).sum()) / cases
    return [floor.fill_nan(None).alias("floor"), ceiling.fill_nan(None).alias("ceiling")]


def _quantiles() -> list[pl.Expr]:
    import polars as pl

    latency = pl.col("latency")
    return [latency.quantile(q / 100, "linear").alias(f"latency_p{q}") for q in (50, 95)]


def _clusters(spread: pl.LazyFrame, name: str) -> pl.LazyFrame:
    """Per unit: clusters, and the sum over them of their squared summed residuals. A case without a group is one."""
    import polars as pl

    x = pl.col(name)
    scored = spread.filter(x.is_not_null()).select("unit", "group", x)
    centred = scored.with_columns(residual=x - x.mean().over("unit"))
    alone = pl.col("group").is_null()
    singles = (
        centred.filter(alone).group_by("unit").agg(clusters=pl.len().cast(pl.Int64), ss=(pl.col("residual") ** 2).sum())
    )
    groups = (
        centred.filter(~alone)
        .group_by("unit", "group")
        .agg(pl.col("residual").sum())
        .group_by("unit")
        .agg(clusters=pl.len().cast(pl.Int64), ss=(pl.col("residual") ** 2).sum())
    )
    both = pl.concat([singles, groups]).group_by("unit").agg(pl.col("clusters", "ss").sum())
    return both.rename({"clusters": f"{name}_clusters", "ss": f"{name}_ss"})
