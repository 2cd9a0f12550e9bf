"""Which score rows make up which rows of the summary, and what can be summed over them.

A unit is a slice (dataset, target, metric, judge) and a tag: the rows of a summary, but for their statistic. A part is
a slice and the exact tags of a case. Strings are met only while scanning: each row is reduced to a 64-bit hash of its
part (of which there are few, so that two do not meet), and what is additive is summed over parts first and spread to
tags then. That keeps ten million rows cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.datasets import tag_levels
from evalflow.summary.schema import SLICE

if TYPE_CHECKING:
    import polars as pl

_ROWS_AT_ONCE = 1_000_000
STATES = ("scored", "undefined", "error", "skipped")


@dataclass(frozen=True, slots=True)
class Units:
    """How rows fall into units.

    Attributes:
        parts: One row per slice and exact tags: part, the slice, tags, counts and sums.
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

    @property
    def tagged(self) -> bool:
        """Whether some part belongs to several units."""
        return self.links.height > self.parts.height

    def chunks(self) -> Iterator[pl.DataFrame]:
        """The links, a bounded number of rows (or one unit) at a time."""
        import polars as pl

        sizes = self.links.group_by("unit").agg(pl.col("rows").sum()).sort("unit")
        chunk = (pl.col("rows").cum_sum() - 1) // _ROWS_AT_ONCE
        for part in sizes.with_columns(chunk=chunk).partition_by("chunk", maintain_order=True):
            yield self.links.join(part.select("unit"), on="unit", how="semi").select("unit", "part")


def own_cells(scores: pl.LazyFrame) -> pl.LazyFrame:
    """The rows that count, with their `part`. A panel's members do not: the panel stands for them."""
    import polars as pl

    part = pl.lit(0, pl.UInt64)
    for seed, name in enumerate((*SLICE, "tags")):
        part = part ^ pl.col(name).hash(seed)
    return scores.filter(pl.col("member_of").is_null()).with_columns(part=part)


def find_units(cells: pl.LazyFrame) -> Units:
    """Find all units, and sum over parts what can be summed."""
    import polars as pl

    parts = cells.group_by("part").agg(pl.col(*SLICE, "tags").first(), *_sums()).collect(engine="streaming")
    names = [(part, tag) for part, tags in parts.select("part", "tags").iter_rows() for tag in _spread(tags or ())]
    tags = pl.DataFrame(names, schema={"part": parts.schema["part"], "tag": pl.String}, orient="row")
    spread = parts.select("part", *SLICE, rows="n").join(tags, on="part")
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


def _spread(tags: Iterable[str]) -> list[str | None]:
    """The tags that a case's tags stand for: each, its ancestors ("A > B" is also "A"), and None for all cases."""
    found: dict[str | None, None] = {None: None}
    for tag in tags:
        found |= dict.fromkeys(tag_levels(tag))
    return list(found)
