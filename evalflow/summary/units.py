"""Which score rows make up which rows of the summary, and what can be summed over them.

A unit is a slice (dataset, target, metric, judge) and a tag: the rows of a summary, but for their statistic. A part is
a slice and the exact tags of a case. Strings are met only while scanning: each row is reduced to a 64-bit hash of its
part (of which there are few, so that two do not meet), and what is additive is summed over parts first, in one pass,
and spread to tags then. That keeps ten million rows cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.datasets import tag_levels
from evalflow.summary.moments import moments, moments_of_verdicts
from evalflow.summary.schema import SLICE

if TYPE_CHECKING:
    import polars as pl

STATES = ("scored", "undefined", "error", "skipped")


@dataclass(frozen=True, slots=True)
class Units:
    """How rows fall into units.

    Attributes:
        parts: One row per slice, exact tags, state of the cells, and whether they asked: counts, sums, moments.
        links: Which parts make up which unit: unit, part.
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
    def keys(self) -> dict[int, dict[str, Any]]:
        """What each unit is: dataset, target, metric, judge, tag."""
        return self.table.rows_by_key("unit", named=True, unique=True)

    def rows(self, table: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        """Each unit, in order, with its rows of a table that has a `part`; that column is dropped."""
        import polars as pl

        parts = table.partition_by("part", as_dict=True, include_key=False)
        nothing = table.clear().drop("part")
        for unit, own in self.links.group_by("unit").agg(pl.col("part").sort()).sort("unit").iter_rows():
            found = [parts[part,] for part in own if (part,) in parts]
            yield unit, pl.concat(found) if found else nothing


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

    status = pl.col("status")
    # What is undefined or skipped may never have asked. A cached reply cost nothing, whatever it did when it was made.
    asked = pl.col("judge").is_not_null() & ~pl.col("cached")
    asked &= status.is_in(["scored", "error"]) | pl.col("latency_s").is_not_null()
    sums = [*_sums(), *moments("score"), *moments_of_verdicts("passed")]
    named = (
        cells.with_columns(asked=asked).group_by("part", "status", "asked").agg(pl.col(*SLICE, "tags").first(), *sums)
    )
    parts = named.collect(engine="streaming")
    exact = parts.group_by("part").agg(pl.col(*SLICE, "tags").first())
    names = [(part, tag) for part, tags in exact.select("part", "tags").iter_rows() for tag in _spread(tags or ())]
    tags = pl.DataFrame(names, schema={"part": parts.schema["part"], "tag": pl.String}, orient="row")
    spread = exact.drop("tags").join(tags, on="part")
    table = spread.select(*SLICE, "tag").unique().sort(*SLICE, "tag").with_row_index("unit")
    links = spread.join(table, on=[*SLICE, "tag"], nulls_equal=True).select("unit", "part")
    return Units(parts, links, table)


def counts(units: Units) -> pl.DataFrame:
    """Per unit: cells by state, cost, tokens. A sum with an unknown term is unknown."""
    import polars as pl

    n, asked = pl.col("n"), pl.col("asked")
    by_state = [n.filter(pl.col("status") == state).sum().alias(f"n_{state}") for state in STATES]
    spent = [
        pl.when((asked & (pl.col(f"{name}_nulls") > 0)).any()).then(None).otherwise(pl.col(name).sum()).alias(name)
        for name in _SPENT
    ]
    return units.links.join(units.parts, on="part").group_by("unit").agg(n.sum(), *by_state, *spent)


_SPENT = ("cost_usd", "input_tokens", "output_tokens")


def _sums() -> list[pl.Expr]:
    import polars as pl

    return [
        pl.len().cast(pl.Int64).alias("n"),
        pl.col(_SPENT).sum(),
        pl.col(_SPENT).null_count().name.suffix("_nulls"),
        ((pl.col("repeat") > 0) | (pl.col("target_repeat") > 0)).any().alias("repeated"),
        pl.col("group").is_not_null().any().alias("grouped"),
    ]


def _spread(tags: Iterable[str]) -> list[str | None]:
    """The tags that a case's tags stand for: each, its ancestors ("A > B" is also "A"), and None for all cases."""
    found: dict[str | None, None] = {None: None}
    for tag in tags:
        found |= dict.fromkeys(tag_levels(tag))
    return list(found)
