"""What an interval, a median and a bound need to know of each unit: moments, quantiles, clusters of its cases.

Moments are taken part by part and merged. Quantiles and clusters cannot be merged: their rows are spread to the units,
a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.summary.units import Units

if TYPE_CHECKING:
    import polars as pl

    Aggregate = Callable[[pl.LazyFrame], pl.LazyFrame]


def measures(cells: pl.LazyFrame, units: Units) -> pl.DataFrame:
    """One row per unit.

    Args:
        cells: As `own_cells` gives them.
        units: Of these cells.

    Returns:
        Columns score_* and passed_* with n (cases), mean, std, low, high, binary, and where cases carry groups clusters
        and ss; then floor and ceiling (the mean score with what is missing at 0 and at 1), median, latency_p50 and
        latency_p95 (seconds).
    """
    cases = _cases(cells, units).collect(engine="streaming")
    found = _merged(cases, units)
    median, latency = _quantiles({"median": ("score", 0.5)}), _quantiles(_LATENCIES)
    if units.repeated:
        calls = cells.select("part", _latency()).collect(engine="streaming")
        found = found.join(_by_unit(cases, units, median), on="unit").join(_by_unit(calls, units, latency), on="unit")
    else:
        both = _quantiles({"median": ("score", 0.5), **_LATENCIES})
        found = found.join(_by_unit(cases.select("part", "score", "latency"), units, both), on="unit")
    if units.clustered:
        found = found.join(_by_unit(_cluster_sums(cases), units, lambda rows: _clusters(rows, found.lazy())), on="unit")
    return found


_LATENCIES = {"latency_p50": ("latency", 0.5), "latency_p95": ("latency", 0.95)}


def _cases(cells: pl.LazyFrame, units: Units) -> pl.LazyFrame:
    """One row per case and slice: part, score and passed (means over repeats), share (of what should be scored).

    `group` is a number; a case without one gets its own.
    """
    import polars as pl

    status = pl.col("status")
    share = pl.when(status == "scored").then(1.0).when(status != "skipped").then(0.0).alias("share")
    if units.repeated:
        means = [pl.col("score").mean(), pl.col("passed").cast(pl.Float64).mean(), share.mean()]
        group = [pl.col("group").first()] if units.clustered else []
        cases = cells.group_by("part", "case_id").agg(*group, *means).drop("case_id")
    else:
        group = ["group"] if units.clustered else []
        cases = cells.select("part", *group, "score", "passed", share, _latency())
    if not units.clustered:
        return cases
    alone = -1 - pl.int_range(pl.len(), dtype=pl.Int64)
    number = pl.col("group").cast(pl.Categorical).to_physical().cast(pl.Int64)
    return cases.with_columns(group=pl.when(pl.col("group").is_null()).then(alone).otherwise(number))


def _latency() -> pl.Expr:
    """Seconds of the calls that were made; a cached reply tells nothing of them."""
    import polars as pl

    return pl.when(~pl.col("cached")).then("latency_s").alias("latency")


def _merged(cases: pl.DataFrame, units: Units) -> pl.DataFrame:
    """Moments per part, merged per unit (Chan, Golub & LeVeque 1983: sums of squares about a common mean)."""
    import polars as pl

    names = ("score", "passed")
    share, score = pl.col("share"), pl.col("score")
    bounds = [
        (score.fill_null(0.0) * share).sum().alias("known"),
        (1 - share).sum().alias("missing"),
        share.count().alias("wanted"),
    ]
    moments = [moment for name in names for moment in _moments(name)]
    parts = cases.lazy().group_by("part").agg(*moments, *bounds).collect(engine="streaming")
    known, missing, wanted = (pl.col(name).sum() for name in ("known", "missing", "wanted"))
    merged = (
        units.links.join(parts, on="part")
        .group_by("unit")
        .agg(
            *(merged for name in names for merged in _merge(name)),
            floor=known / wanted,
            ceiling=(known + missing) / wanted,
        )
    )
    return merged.with_columns(pl.col("floor", "ceiling").fill_nan(None))


def _moments(name: str) -> list[pl.Expr]:
    import polars as pl

    x = pl.col(name).cast(pl.Float64)
    parts = {
        "n": x.count().cast(pl.Int64),
        "mean": x.mean(),
        "m2": x.var(ddof=0) * x.count(),
        "low": x.min(),
        "high": x.max(),
        "binary": ((x == 0) | (x == 1)).all(),
    }
    return [expression.alias(f"{name}_{part}") for part, expression in parts.items()]


def _merge(name: str) -> list[pl.Expr]:
    import polars as pl

    n, mean, m2, low, high, binary = (pl.col(f"{name}_{part}") for part in ("n", "mean", "m2", "low", "high", "binary"))
    total = n.sum()
    grand = (n * mean).sum() / total
    squares = m2.sum() + (n * (mean - grand) ** 2).sum()
    merged = {
        "n": total,
        "mean": grand.fill_nan(None),
        "std": pl.when(total > 1).then((squares / (total - 1)).sqrt()),
        "low": low.min(),
        "high": high.max(),
        "binary": binary.all(),
    }
    return [expression.alias(f"{name}_{part}") for part, expression in merged.items()]


def _quantiles(wanted: dict[str, tuple[str, float]]) -> Aggregate:
    import polars as pl

    found = [pl.col(column).quantile(q, "linear").alias(name) for name, (column, q) in wanted.items()]
    return lambda rows: rows.group_by("unit").agg(found)


def _cluster_sums(cases: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    x = pl.col("score", "passed").cast(pl.Float64)
    sums = [x.sum().name.suffix("_sum"), x.count().cast(pl.Int64).name.suffix("_count")]
    return cases.lazy().group_by("part", "group").agg(*sums).collect(engine="streaming")


def _clusters(rows: pl.LazyFrame, means: pl.LazyFrame) -> pl.LazyFrame:
    """Per unit: clusters, and the sum over them of their squared summed residuals, of scores and of passes."""
    import polars as pl

    names = ("score", "passed")
    sums = rows.group_by("unit", "group").agg(pl.exclude("unit", "group").sum())
    centred = sums.join(means.select("unit", *(f"{name}_mean" for name in names)), on="unit")
    found: list[pl.Expr] = []
    for name in names:
        total, count = pl.col(f"{name}_sum"), pl.col(f"{name}_count")
        residual = total - count * pl.col(f"{name}_mean")
        found += [(count > 0).sum().alias(f"{name}_clusters"), (residual**2).sum().alias(f"{name}_ss")]
    return centred.group_by("unit").agg(found)


def _by_unit(frame: pl.DataFrame, units: Units, aggregate: Aggregate) -> pl.DataFrame:
    """Aggregate rows that have a `part` by `unit`."""
    import polars as pl

    if not units.tagged:
        rows = frame.lazy().join(units.links.lazy().select("unit", "part"), on="part").drop("part")
        return aggregate(rows).collect(engine="streaming")
    rows = _Rows.sorted(frame)
    return pl.concat([aggregate(rows.spread(links)).collect(engine="streaming") for links in units.chunks()])


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows sorted by part, and where each part begins: so a unit's rows are fetched, never searched for."""

    frame: pl.DataFrame
    spans: pl.DataFrame

    @classmethod
    def sorted(cls, frame: pl.DataFrame) -> _Rows:
        import polars as pl

        frame = frame.lazy().sort("part").collect(engine="streaming")
        spans = frame["part"].rle().struct.unnest().rename({"len": "length", "value": "part"})
        length = pl.col("length").cast(pl.Int64)
        return cls(frame.drop("part"), spans.with_columns(length, begin=length.cum_sum() - length))

    def spread(self, links: pl.DataFrame) -> pl.LazyFrame:
        """The rows of these units, with their `unit`; a row stands there once for each."""
        import polars as pl

        spans = links.join(self.spans, on="part").sort("unit")
        rows = pl.int_ranges("begin", pl.col("begin") + pl.col("length")).alias("row")
        wanted = spans.select("unit", rows).explode("row")
        return self.frame.select(pl.all().gather(wanted["row"])).with_columns(wanted["unit"]).lazy()
