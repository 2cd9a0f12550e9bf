"""Two runs on different cases, as two samples: their means, pass rates and figures, not case by case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evalflow.stats.paired import Difference
from evalflow.stats.unpaired import unpaired_difference
from evalflow.summary.compare import ComparisonRow, Traits
from evalflow.summary.figure_differences import LOWER_IS_BETTER, Said, figure_differences, read_said, same_as_mean
from evalflow.summary.pairing import by_case, slices

if TYPE_CHECKING:
    import polars as pl

Sides = tuple["pl.DataFrame", "pl.DataFrame"]


def compare_samples(
    a: pl.LazyFrame,
    b: pl.LazyFrame,
    pair: tuple[str, str],
    metrics: Mapping[str, Traits],
    *,
    by_tag: bool = False,
    by_class: bool = False,
    seed: int = 0,
) -> tuple[list[ComparisonRow], int]:
    """The differences of two runs whose cases are samples of their own, not yet adjusted for their number.

    A dataset is held against the other run's of the same name; where each run has one alone, against that.

    Args:
        a: The columns of scores.parquet.
        b: Those of the other run.
        pair: The runs' names.
        metrics: What is known of each metric, by name.
        by_tag: Whether each tag gets rows of its own.
        by_class: Whether the figures of each class, or label, get rows of their own.
        seed: Of all that is drawn.

    Returns:
        The rows, and how many cases are in both runs.
    """
    import polars as pl

    sides = by_case(a).collect(engine="streaming"), by_case(b).collect(engine="streaming")
    common = sides[0].select("dataset", "case_id").unique().join(sides[1], on=["dataset", "case_id"], how="semi").height
    rows: list[ComparisonRow] = []
    for names in _datasets(sides):
        own = tuple(
            side.filter(pl.col("dataset") == name).drop_nulls("score").sort("place").with_columns(_cluster())
            for side, name in zip(sides, names, strict=True)
        )
        for metric in own[0]["metric"].unique(maintain_order=True):
            left, right = (side.filter(pl.col("metric") == metric) for side in own)
            if left.height and right.height:
                about = (pair, " → ".join(dict.fromkeys(names)), metric, _judges(left, right))
                traits = metrics.get(metric, Traits())
                spec = traits.figures
                wanted = spec and (by_class or not spec.per_label)
                said = read_said((a, b), (left, right), spec, paired=False) if spec and wanted else None
                for tag, also_tags, (one, other) in slices((left, right), by_tag=by_tag):
                    found = _differences((one, other), traits, said, seed, by_class=by_class)
                    rows += [ComparisonRow(*about, tag, *row, also_tags=also_tags) for row in found]
    return rows, common


def _cluster() -> pl.Expr:
    """The group, whichever dataset it is in; of a case without one, the case."""
    import polars as pl

    case = pl.concat_str(pl.lit("case:"), "dataset", pl.lit(":"), "case_id")
    return pl.when(pl.col("group").is_null()).then(case).otherwise("group:" + pl.col("group")).alias("cluster")


def _datasets(sides: Sides) -> list[tuple[str, str]]:
    a, b = (side["dataset"].unique(maintain_order=True).to_list() for side in sides)
    return [(a[0], b[0])] if len(a) == len(b) == 1 else [(name, name) for name in a if name in b]


def _judges(left: pl.DataFrame, right: pl.DataFrame) -> str | None:
    return " → ".join(dict.fromkeys(judge for judge in (left["judge"][0], right["judge"][0]) if judge)) or None


def _differences(
    sides: Sides, traits: Traits, said: Said | None, seed: int, *, by_class: bool
) -> Iterator[tuple[str, bool, Difference, Sequence[str], bool]]:
    """The mean, the pass rate where both runs give one, and figures; those that are the mean over again go with it."""
    a, b = (side.drop_nulls("passed") for side in sides)
    whole = a.height == sides[0].height and b.height == sides[1].height
    again = traits.higher_is_better and whole and all((side["passed"] == side["score"]).all() for side in sides)
    also = [*(["pass_rate"] if again else ()), *(same_as_mean(traits.figures) if traits.figures else ())]
    yield "mean", traits.higher_is_better, _difference(sides, "score"), also, traits.bounded
    if not again and a.height and b.height:
        yield "pass_rate", True, _difference((a, b), "passed"), (), True
    for name, found in figure_differences(said, sides, seed, by_class=by_class) if said else ():
        if name not in also:
            yield name, name not in LOWER_IS_BETTER, found, (), True


def _difference(sides: Sides, column: str) -> Difference:
    a, b = sides
    return unpaired_difference(a[column], b[column], a["cluster"].to_numpy(), b["cluster"].to_numpy())
