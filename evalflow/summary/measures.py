"""What an interval, a median and a bound need to know of each unit: moments, quantiles, clusters of its cases.

Moments are taken part by part and merged. Quantiles and clusters cannot be merged: they are found unit by unit, in the
rows of its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalflow.stats.intervals import FEW_CASES
from evalflow.stats.paired import cluster_sums
from evalflow.summary.cases import cluster, clusters_of
from evalflow.summary.moments import NAMES, merged, moments
from evalflow.summary.units import Units

if TYPE_CHECKING:
    import polars as pl


def measures(cells: pl.LazyFrame, cases: pl.DataFrame | None, units: Units) -> pl.DataFrame:
    """One row per unit.

    Args:
        cells: As `own_cells` gives them.
        cases: As `repeats_of` gives them; None where nothing is repeated, and the cells are the cases.
        units: Of these cells.

    Returns:
        Columns score_* and passed_* with n (cases), mean, std, low, high, binary, few (the numbers themselves, of
        fewer than FEW_CASES cases), and where cases carry groups clusters and ss; then floor and ceiling (the mean
        score with what is missing at 0 and at 1), median, latency_p50 and latency_p95 (seconds).
    """
    import polars as pl

    # A cached reply tells nothing of how long a call takes.
    latency = pl.when(~pl.col("cached")).then("latency_s").alias("latency")
    if cases is None:
        groups = [cluster()] if units.clustered else []
        cases = calls = cells.select("part", *NAMES, latency, *groups).collect(engine="streaming")
        parts = _cell_bounds(units.parts)
    else:
        calls = cells.select("part", latency).collect(engine="streaming")
        parts = cases.group_by("part").agg(*moments(*NAMES), *_case_bounds())
    columns = [name for name in ("part", *NAMES, "cluster") if name in cases.columns]
    spread = [{"unit": unit, **_spread(rows)} for unit, rows in units.rows(cases.select(columns))]
    waits = [
        {"unit": unit, **_latencies(rows["latency"])} for unit, rows in units.rows(calls.select("part", "latency"))
    ]
    return _merged(parts, units).join(_frame(spread), on="unit").join(_frame(waits), on="unit")


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


def _spread(cases: pl.DataFrame) -> dict[str, Any]:
    """Of a unit's cases: their median score; their numbers, where they are few; what their clusters sum to."""
    import polars as pl

    found: dict[str, Any] = {"median": cases["score"].quantile(0.5, "linear")}
    groups = clusters_of(cases) if "cluster" in cases.columns else None
    for name in NAMES:
        column = cases[name].cast(pl.Float64)
        numbers = column.drop_nulls().to_numpy()
        found[f"{name}_few"] = numbers if numbers.size < FEW_CASES else None
        if "cluster" in cases.columns:
            centred = numbers - numbers.mean() if numbers.size else numbers
            sums = cluster_sums(centred, None if groups is None else groups[column.is_not_null().to_numpy()])
            found |= {f"{name}_clusters": sums.size, f"{name}_ss": float((sums**2).sum())}
    return found


def _latencies(seconds: pl.Series) -> dict[str, Any]:
    return {f"latency_p{share}": seconds.quantile(share / 100, "linear") for share in (50, 95)}


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows by unit."""
    import polars as pl

    few = {f"{name}_few": pl.List(pl.Float64) for name in NAMES}
    types = {name: few.get(name, pl.Float64()) for name in rows[0]}
    return pl.DataFrame(rows, schema=types | {"unit": pl.UInt32()})
