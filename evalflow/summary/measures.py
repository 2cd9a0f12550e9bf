"""What an interval, a median and a bound need to know of each unit: moments, quantiles, clusters of its cases.

Moments are taken part by part and merged. Quantiles and clusters cannot be merged: the rows of each part are kept as
lists, and those of a unit's parts are strung together, a bounded number of rows at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalflow.stats.intervals import FEW_CASES
from evalflow.summary.moments import NAMES, merged, moments
from evalflow.summary.units import Units

if TYPE_CHECKING:
    import polars as pl


def measures(cells: pl.LazyFrame, units: Units) -> pl.DataFrame:
    """One row per unit.

    Args:
        cells: As `own_cells` gives them.
        units: Of these cells.

    Returns:
        Columns score_* and passed_* with n (cases), mean, std, low, high, binary, where fewer than FEW_CASES cases
        may be neither 0 nor 1 few (the numbers themselves), and where cases carry groups clusters and ss; then floor
        and ceiling (the mean score with what is missing at 0 and at 1), median, latency_p50 and latency_p95 (seconds).
    """
    cases = _cases(cells, units).collect(engine="streaming")
    calls = cells.select("part", _latency()).collect(engine="streaming") if units.repeated else cases
    parts = cases.group_by("part").agg(*moments(), *_case_bounds()) if units.repeated else _cell_bounds(units.parts)
    found = _merged(parts, units)
    found = found.join(_by_unit(cases, units, "score", [_quantile("score", 0.5, "median"), _few("score")]), on="unit")
    if units.repeated:
        found = found.join(_by_unit(cases, units, "passed", [_few("passed")]), on="unit")
    latencies = [_quantile("latency", 0.5, "latency_p50"), _quantile("latency", 0.95, "latency_p95")]
    found = found.join(_by_unit(calls, units, "latency", latencies), on="unit")
    return found.join(_clusters(cases, units, found), on="unit") if units.clustered else found


def _cases(cells: pl.LazyFrame, units: Units) -> pl.LazyFrame:
    """One row per case and slice: part, score, and where needed group, passed, share (of what should be scored).

    Score and passed are means over repeats. `group` is a number; a case without one gets its own. Where cells are not
    repeated, they are the cases: their moments are known, and their latency is taken along.
    """
    import polars as pl

    if units.repeated:
        status = pl.col("status")
        share = pl.when(status == "scored").then(1.0).when(status != "skipped").then(0.0).alias("share")
        means = [pl.col("score").mean(), pl.col("passed").cast(pl.Float64).mean(), share.mean()]
        cases = cells.group_by("part", "case_id").agg(pl.col("group").first(), *means).drop("case_id")
        return _numbered(cases) if units.clustered else cases.drop("group")
    if units.clustered:
        return _numbered(cells.select("part", "group", "score", "passed", _latency()))
    return cells.select("part", "score", _latency())


def _numbered(cases: pl.LazyFrame) -> pl.LazyFrame:
    import polars as pl

    alone = -1 - pl.int_range(pl.len(), dtype=pl.Int64)
    number = pl.col("group").cast(pl.Categorical).to_physical().cast(pl.Int64)
    return cases.with_columns(group=pl.when(pl.col("group").is_null()).then(alone).otherwise(number))


def _latency() -> pl.Expr:
    """Seconds of the calls that were made; a cached reply tells nothing of them."""
    import polars as pl

    return pl.when(~pl.col("cached")).then("latency_s").alias("latency")


def _case_bounds() -> list[pl.Expr]:
    """Of cases: the sum of the known scores, how much is missing, and how many cases should have a score."""
    import polars as pl

    share, score = pl.col("share"), pl.col("score")
    known = (score.fill_null(0.0) * share).sum()
    return [known.alias("known"), (1 - share).sum().alias("missing"), share.count().alias("wanted")]


def _cell_bounds(parts: pl.DataFrame) -> pl.DataFrame:
    """The same of cells that are cases, by their state."""
    import polars as pl

    n, status = pl.col("n"), pl.col("status")
    return parts.with_columns(
        known=(pl.col("score_mean") * pl.col("score_n")).fill_null(0.0),
        missing=pl.when(status.is_in(["undefined", "error"])).then(n).otherwise(0),
        wanted=pl.when(status != "skipped").then(n).otherwise(0),
    )


def _merged(parts: pl.DataFrame, units: Units) -> pl.DataFrame:
    import polars as pl

    known, missing, wanted = (pl.col(name).sum() for name in ("known", "missing", "wanted"))
    bounds = {"floor": known / wanted, "ceiling": (known + missing) / wanted}
    rows = units.links.join(parts, on="part").group_by("unit").agg(*merged(), **bounds)
    return rows.with_columns(pl.col("floor", "ceiling").fill_nan(None))


def _quantile(column: str, share: float, name: str) -> pl.Expr:
    import polars as pl

    return pl.col(column).explode().quantile(share, "linear").alias(name)


def _few(column: str) -> pl.Expr:
    import polars as pl

    return pl.col(column).explode().drop_nulls().head(FEW_CASES).alias(f"{column}_few")


def _by_unit(rows: pl.DataFrame, units: Units, column: str, aggregates: Sequence[pl.Expr]) -> pl.DataFrame:
    """Aggregate a column of rows that have a `part` by `unit`, a column that holds the lists of the unit's parts."""
    import polars as pl

    lists = rows.group_by("part").agg(column)
    return pl.concat([links.join(lists, on="part").group_by("unit").agg(aggregates) for links in units.chunks()])


def _clusters(cases: pl.DataFrame, units: Units, means: pl.DataFrame) -> pl.DataFrame:
    """Per unit: clusters, and the sum over them of their squared summed residuals, of scores and of passes."""
    import polars as pl

    x = pl.col(NAMES).cast(pl.Float64)
    sums = [x.sum().name.suffix("_sum"), x.count().cast(pl.Int64).name.suffix("_count")]
    lists = cases.group_by("part", "group").agg(sums).group_by("part").agg(pl.all())
    columns = [f"{name}_{part}" for part in ("sum", "count") for name in NAMES]
    found: list[pl.Expr] = []
    for name in NAMES:
        total, count = pl.col(f"{name}_sum"), pl.col(f"{name}_count")
        residual = total - count * pl.col(f"{name}_mean")
        found += [(count > 0).sum().alias(f"{name}_clusters"), (residual**2).sum().alias(f"{name}_ss")]
    centres = means.select("unit", *(f"{name}_mean" for name in NAMES))

    def aggregate(links: pl.DataFrame) -> pl.DataFrame:
        rows = links.join(lists, on="part").drop("part").explode("group", *columns)
        clusters = rows.group_by("unit", "group").agg(pl.all().sum())
        return clusters.join(centres, on="unit").group_by("unit").agg(found)

    return pl.concat([aggregate(links) for links in units.chunks()])
