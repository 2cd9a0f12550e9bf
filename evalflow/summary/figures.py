"""Figures of the metrics that declare some: their scores' values, counted per cluster, handed to stats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.summary.journal import json_text
from evalflow.summary.units import Units

if TYPE_CHECKING:
    import polars as pl

    from evalflow.protocols import Measured
    from evalflow.records import Figure, FigureSpec


@dataclass(frozen=True, slots=True)
class Slice:
    """The figures of one unit.

    Attributes:
        unit: Its number in `Units`.
        key: dataset, target, metric, judge, tag.
        figures: In the order that tables show them.
    """

    unit: int
    key: Mapping[str, str | None]
    figures: Sequence[Figure]


def figures(cells: pl.LazyFrame, units: Units, metrics: Mapping[str, Measured], seed: int) -> list[Slice]:
    """Compute all figures, unit by unit.

    Args:
        cells: Scores with their `part`; the value of a classification is JSON text {"truth": ..., "prediction": ...}.
        units: Of these cells.
        metrics: The metrics by name.
        seed: Of bootstrap intervals.
    """
    import polars as pl

    specs = {name: metric.figures for name, metric in metrics.items() if metric.figures is not None}
    if not specs:
        return []
    counted = _counted(cells.filter(pl.col("metric").is_in(list(specs))), alone=not (units.repeated or units.clustered))
    found: list[Slice] = []
    for row in units.table.filter(pl.col("metric").is_in(list(specs))).iter_rows(named=True):
        parts = units.links.filter(pl.col("unit") == row["unit"]).select("part")
        unit = row.pop("unit")
        spec = specs[row["metric"]]
        found.append(Slice(unit, row, compute(spec, counted.join(parts, on="part"), seed)))
    return found


def compute(spec: FigureSpec, counts: pl.DataFrame, seed: int = 0) -> list[Figure]:
    """The figures that a metric declares.

    Args:
        spec: What it declares.
        counts: As `classification_figures` takes them.
        seed: Of bootstrap intervals.
    """
    from evalflow.stats.classification import classification_figures

    positive = None if spec.positive is None else json_text(spec.positive)
    return classification_figures(counts, positive, seed)


def statistics(spec: FigureSpec) -> list[str]:
    """Names of the figures that a metric will have for certain; those of single classes depend on the data."""
    kind = "" if spec.positive is not None else "macro_"
    return ["accuracy", *(f"{kind}{name}" for name in ("precision", "recall", "f1"))]


def _counted(cells: pl.LazyFrame, *, alone: bool) -> pl.DataFrame:
    """Columns part, cluster (the group, else the case: repeats are no new cases), truth, prediction, n, clusters.

    Where each record is `alone` in its cluster, those with the same value are one row.
    """
    import polars as pl

    scored = cells.filter(pl.col("status") == "scored")
    if alone:
        same = scored.group_by("part", "value").agg(clusters=pl.len()).collect(engine="streaming")
        counted = same.with_row_index("cluster").with_columns(n=pl.lit(1, pl.UInt32))
    else:
        case = pl.when(pl.col("group").is_null()).then("case_id")
        cluster = pl.struct(dataset="dataset", group="group", case=case).alias("cluster")
        counted = scored.group_by("part", cluster, "value").agg(n=pl.len()).collect(engine="streaming")
        counted = counted.with_columns(clusters=pl.lit(1, pl.UInt32))
    pairs = pl.DataFrame(
        list(_pairs(counted["value"].unique().to_list())),
        schema={"value": pl.String, "truth": pl.String, "prediction": pl.String},
        orient="row",
    )
    return counted.join(pairs, on="value").drop("value")


def _pairs(values: Iterable[Any]) -> Iterable[tuple[str, str, str]]:
    for value in values:
        pair = json.loads(value)
        yield value, json_text(pair["truth"]), json_text(pair["prediction"])
