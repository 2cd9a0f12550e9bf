"""Two runs on different cases, as two samples: their means and pass rates, not case by case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evalflow.stats.paired import Difference
from evalflow.stats.unpaired import unpaired_difference
from evalflow.summary.compare import ComparisonRow, Traits
from evalflow.summary.pairing import by_case, tags_of

if TYPE_CHECKING:
    import polars as pl

Sides = tuple["pl.DataFrame", "pl.DataFrame"]


def compare_samples(
    a: pl.LazyFrame, b: pl.LazyFrame, pair: tuple[str, str], metrics: Mapping[str, Traits], *, by_tag: bool = False
) -> tuple[list[ComparisonRow], int]:
    """The differences of two runs whose cases are samples of their own, not yet adjusted for their number.

    A dataset is held against the other run's of the same name; where each run has one alone, against that.

    Args:
        a: The columns of scores.parquet.
        b: Those of the other run.
        pair: The runs' names.
        metrics: What is known of each metric, by name.
        by_tag: Whether each tag gets rows of its own.

    Returns:
        The rows, and how many cases are in both runs.
    """
    import polars as pl

    sides = by_case(a).collect(engine="streaming"), by_case(b).collect(engine="streaming")
    common = sides[0].select("dataset", "case_id").unique().join(sides[1], on=["dataset", "case_id"], how="semi").height
    rows: list[ComparisonRow] = []
    for names in _datasets(sides):
        own = tuple(
            side.filter(pl.col("dataset") == name).drop_nulls("score").sort("place")
            for side, name in zip(sides, names, strict=True)
        )
        for metric in own[0]["metric"].unique(maintain_order=True):
            left, right = (side.filter(pl.col("metric") == metric) for side in own)
            if left.height and right.height:
                about = (pair, " → ".join(dict.fromkeys(names)), metric, _judges(left, right))
                rows += _rows(about, (left, right), metrics.get(metric, Traits()), by_tag=by_tag)
    return rows, common


def _datasets(sides: Sides) -> list[tuple[str, str]]:
    a, b = (side["dataset"].unique(maintain_order=True).to_list() for side in sides)
    return [(a[0], b[0])] if len(a) == len(b) == 1 else [(name, name) for name in a if name in b]


def _judges(left: pl.DataFrame, right: pl.DataFrame) -> str | None:
    return " → ".join(dict.fromkeys(judge for judge in (left["judge"][0], right["judge"][0]) if judge)) or None


def _rows(
    about: tuple[tuple[str, str], str, str, str | None], sides: Sides, traits: Traits, *, by_tag: bool
) -> Iterator[ComparisonRow]:
    import polars as pl

    tagged = [tags_of(side) for side in sides]
    for tag in (None, *(name for name in tagged[0] if by_tag and name in tagged[1])):
        own = sides if tag is None else tuple(
            side.filter(pl.col("tags").list.eval(pl.element().is_in(known[tag])).list.any())
            for side, known in zip(sides, tagged, strict=True)
        )  # fmt: skip
        passed = tuple(side.drop_nulls("passed") for side in own)
        whole = all(kept.height == side.height for kept, side in zip(passed, own, strict=True))
        again = traits.higher_is_better and whole and all((side["passed"] == side["score"]).all() for side in own)
        also = ("pass_rate",) if again else ()
        yield ComparisonRow(
            *about, tag, "mean", traits.higher_is_better, _difference(own, "score"), also, traits.bounded
        )
        if not again and all(side.height for side in passed):
            yield ComparisonRow(*about, tag, "pass_rate", True, _difference(passed, "passed"))


def _difference(sides: tuple[pl.DataFrame, ...], column: str) -> Difference:
    import polars as pl

    group = pl.when(pl.col("group").is_null()).then("case:" + pl.col("case_id")).otherwise("group:" + pl.col("group"))
    clusters = [side.select(group).to_series().to_numpy() for side in sides]
    a, b = (side[column].to_numpy() for side in sides)
    return unpaired_difference(a, b, *clusters)
