"""Turns scores into scores.parquet and the summary: one row per dataset, target, metric, statistic, judge and tag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalflow.config.schema import MetricConfig
from evalflow.lazy import pl
from evalflow.paths import completed, safe_text, write_atomically
from evalflow.protocols import Measured
from evalflow.records import CASES, Direction, FigureSpec, passes
from evalflow.stats.arrays import Floats
from evalflow.stats.intervals import Moments, intervals
from evalflow.summary.details import PASS_SHARE, draws_of_cases, member_key, noise, panel_details
from evalflow.summary.figures import Slice, figures
from evalflow.summary.journal import SLICE, scores_schema
from evalflow.summary.passing_cases import passing_cases, passing_metrics
from evalflow.summary.rows import Detail, summary_schema
from evalflow.summary.scan import Composite, InputOrder, JournalReader, rank
from evalflow.summary.slices import (
    Units,
    case_arrays,
    cluster,
    counts,
    find_units,
    mean_of,
    measures,
    own_cells,
    values_of,
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run, or of several.

    `frame` has the columns of `summary_schema`, in the order of tables. `details` are results that are not a single
    number, such as a confusion matrix. Each has the key of its row, statistic and n (the denominator), then its own
    keys.
    """

    frame: pl.DataFrame
    details: list[dict[str, object]]


def summarise(
    scores: pl.LazyFrame, metrics: Mapping[str, Measured], seed: int = 0, *, pass_share: float = PASS_SHARE
) -> Summary:
    """Summarise a run's scores, as in `summarise_metrics`.

    If several metrics have pass and fail, or cases bring checks, the metric `cases` follows: the pass rate is the share
    of cases that pass everything (`passing_cases`).
    """
    summary = summarise_metrics(scores, metrics, seed, pass_share=pass_share)
    counted = passing_metrics(scores) if summary.frame.height else {}
    checks = {name for name, metric in metrics.items() if metric.config.kind == "checks"}
    if len(counted) < 2 and checks.isdisjoint(counted):
        return summary
    cases = passing_cases(scores, counted).lazy()
    rates = summarise_metrics(cases, {CASES: _OfCases()}, seed, pass_share=pass_share).frame.with_columns(
        *(pl.lit(None, pl.Float64).alias(name) for name in ("std", "median", "lowest")), statistic=pl.lit("pass_rate")
    )
    places = {name: place for place, name in enumerate(summary.frame["dataset"].unique(maintain_order=True))}
    order = pl.col("dataset").replace_strict(places, return_dtype=pl.Int64), "target"
    rows = pl.concat([summary.frame, rates]).sort(*order, nulls_last=True, maintain_order=True)
    return Summary(rows, summary.details)


@dataclass(frozen=True, slots=True)
class _OfCases:
    """The metric `cases`; implements Measured."""

    config: MetricConfig = field(default_factory=lambda: MetricConfig(kind=CASES))
    bounded: bool = True
    figures: FigureSpec | None = None


def summarise_metrics(
    scores: pl.LazyFrame, metrics: Mapping[str, Measured], seed: int = 0, *, pass_share: float = PASS_SHARE
) -> Summary:
    """Summarise a table of scores, of the metrics by name in the order composed; `seed` is for bootstrap intervals.

    Counts are of cells. Values, intervals and pass rates are over cases: the repeats of a case are averaged first.
    Only cells in state `scored` are included. `bound_low` and `bound_high` are the value if all cells in state
    `undefined` or `error` had the lowest or highest score; `lowest` is the value of the lowest case. A panel's members
    are left out. Metrics that are not in `metrics` (checks of cases) follow by name, count as unbounded, and have no
    figures. For `pass_share` see `repeat_rates`.
    """
    cells = own_cells(scores)
    units = find_units(cells)
    if not units.table.height:
        return Summary(pl.DataFrame(schema=summary_schema()), [])
    values = values_of(cells, units, repeats=units.repeated)
    calls, cases = units.arrays(values.select("part", "latency")), case_arrays(values, units)
    bounded = [name for name, metric in metrics.items() if metric.bounded]
    means = _mean_rows(units, measures(cases, calls, units, bounded), metrics)
    extra, details = _figure_rows(figures(cells, units, metrics, seed), means)
    rows = pl.concat([means.with_columns(place=pl.lit(0, pl.Int64)), extra], how="diagonal")
    ordered = rows.sort(
        "dataset", "target", rank("metric", list(metrics)), "metric", "judge", "tag", "place", nulls_last=False
    )
    repeats = noise(cases, units, values["case_id"], pass_share) if units.repeated else []
    table = _with_repeats(ordered, repeats or draws_of_cases(cells, units, pass_share))
    return Summary(table, details + repeats + _panels(scores, metrics, seed))


def _with_repeats(rows: pl.DataFrame, details: Sequence[Detail]) -> pl.DataFrame:
    """The rows in the columns of a summary, with the statistics of repeats for units with repeats."""
    schema = summary_schema()
    repeat_rows = [
        {**{name: one[name] for name in (*SLICE, "tag")}, "statistic": "mean", **_repeat_columns(rates)}
        for one in details
        if (rates := one["noise"]["repeats"])
    ]
    if repeat_rows:
        own = pl.DataFrame(
            repeat_rows, schema={name: dtype for name, dtype in schema.items() if name in repeat_rows[0]}
        )
        keys = [*SLICE, "tag", "statistic"]
        rows = rows.join(own, on=keys, how="left", nulls_equal=True, maintain_order="left")
    missing = (pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in rows.columns)
    return rows.with_columns(missing).select(list(schema))


def _repeat_columns(rates: Detail) -> dict[str, object]:
    columns: dict[str, object] = {"repeats": rates["repeats"]}
    for name in ("pass_hat_k", "repeat_pass_share"):
        columns |= {name: rates[name]["value"], f"{name}_low": rates[name]["ci_low"]}
        columns[f"{name}_high"] = rates[name]["ci_high"]
    return columns


def _panels(scores: pl.LazyFrame, metrics: Mapping[str, Measured], seed: int) -> list[dict[str, object]]:
    members = scores.filter(pl.col("member_of").is_not_null())
    if members.head(1).collect().is_empty():
        return []
    alone = members.with_columns(judge=member_key(), member_of=pl.lit(None, pl.String))
    return panel_details(members, summarise_metrics(alone, metrics, seed).frame, seed)


def _mean_rows(
    units: Units, measured: tuple[pl.DataFrame, Moments, Moments], metrics: Mapping[str, Measured]
) -> pl.DataFrame:
    """The rows of the statistic `mean`, with their unit."""
    table, scores, passes = measured
    rows = units.table.join(counts(units), on="unit").join(table, on="unit").sort("unit")
    bounded = rows["metric"].is_in([name for name, metric in metrics.items() if metric.bounded])
    score, passed = intervals(scores, bounded=bounded.to_numpy()), intervals(passes, bounded=True)
    return rows.with_columns(
        statistic=pl.lit("mean"),
        value=_numbers(scores.mean),
        std=_numbers(scores.std),
        bound_low=pl.when(bounded).then("floor"),
        bound_high=pl.when(bounded).then("ceiling"),
        std_error=_numbers(score.std_error),
        ci_low=_numbers(score.low),
        ci_high=_numbers(score.high),
        ci_method=pl.Series(score.method.tolist(), dtype=pl.String),
        pass_rate=_numbers(passes.mean),
        pass_rate_low=_numbers(passed.low),
        pass_rate_high=_numbers(passed.high),
    )


def _numbers(values: Floats) -> pl.Series:
    return pl.Series(values, dtype=pl.Float64).fill_nan(None)


def _figure_rows(slices: list[Slice], means: pl.DataFrame) -> tuple[pl.DataFrame, list[dict[str, object]]]:
    """Rows of the figures, with the counts and costs of their unit and their own value and interval; and details."""
    rows: list[tuple[object, ...]] = []
    details: list[dict[str, object]] = []
    for part in slices:
        for place, figure in enumerate(part.figures, start=1):
            rows.append(
                (
                    part.unit,
                    place,
                    figure.statistic,
                    figure.value,
                    figure.std_error,
                    figure.low,
                    figure.high,
                    figure.method,
                )
            )
            details.append({**part.key, "statistic": figure.statistic, "n": figure.n, **(figure.details or {})})
    schema = summary_schema()
    own = ("statistic", "value", "std_error", "ci_low", "ci_high", "ci_method")
    frame = pl.DataFrame(
        rows, schema={"unit": pl.UInt32, "place": pl.Int64, **{name: schema[name] for name in own}}, orient="row"
    )
    shared = [*SLICE, "tag", "n", "n_scored", "n_undefined", "n_error", "n_skipped", "n_cut_off", "cost_usd"]
    shared += ["input_tokens", "output_tokens", "latency_p50", "latency_p95"]
    return frame.join(means.select("unit", *shared), on="unit", how="left"), details


def write_summary(summary: Summary, folder: Path) -> None:
    """Write summary.parquet, summary.csv and summary.json into an existing folder; see `safe_text` for texts in CSV."""
    with completed(folder / "summary.parquet") as draft:
        summary.frame.write_parquet(draft)
    texts = pl.col(pl.String).map_elements(safe_text, return_dtype=pl.String)
    with completed(folder / "summary.csv") as draft:
        summary.frame.with_columns(texts).write_csv(draft)
    text = json.dumps(summary_document(summary), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(folder / "summary.json", text + "\n")


def summary_document(summary: Summary) -> dict[str, object]:
    """The summary as one JSON document with rows and details."""
    return {"rows": summary.frame.to_dicts(), "details": summary.details}


@dataclass(frozen=True, slots=True)
class Threshold:
    """The passing score (inclusive) of one metric and judge."""

    metric: str
    judge: str | None
    value: float
    direction: Direction = "higher_is_better"


def score_table(
    journal: JournalReader, thresholds: Sequence[Threshold], order: InputOrder, composites: Sequence[Composite] = ()
) -> pl.LazyFrame:
    """Scores and composites in input order, each cell once; `passed` is null without score or threshold."""
    return with_passed(journal.ordered(order, composites), thresholds).select(list(scores_schema()))


def with_passed(scores: pl.LazyFrame, thresholds: Sequence[Threshold]) -> pl.LazyFrame:
    """Add (or replace) `threshold` and `passed`."""
    limits = pl.LazyFrame(
        [(t.metric, t.judge, t.value, t.direction == "higher_is_better") for t in thresholds],
        schema={"metric": pl.String, "judge": pl.String, "_limit": pl.Float64, "_higher": pl.Boolean},
        orient="row",
    )
    score, limit = pl.col("score"), pl.col("_limit")
    return (
        scores.join(limits, on=["metric", "judge"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            threshold=limit,
            passed=pl.when("_higher")
            .then(passes(score, limit))
            .otherwise(passes(score, limit, higher_is_better=False)),
        )
        .drop("_limit", "_higher")
    )


def write_scores(scores: pl.LazyFrame, path: Path) -> None:
    """Write scores.parquet."""
    # Small row groups, because the writer keeps several of them in memory, with long texts.
    # The file is opened here, because Polars may still create it after it has reported a failure.
    with completed(path) as draft, draft.open("wb") as file:
        scores.sink_parquet(file, compression="zstd", row_group_size=16_384)


@dataclass(frozen=True, slots=True)
class Passing:
    """The pass rate of one dataset and target at a threshold, over cases; its 95 % interval, or why there is none."""

    dataset: str
    target: str
    threshold: float
    n: int
    rate: float
    low: float | None
    high: float | None
    method: str


def passing_rates(
    scores: pl.LazyFrame, metric: str, judge: str | None, thresholds: Sequence[float], *, higher_is_better: bool = True
) -> list[Passing]:
    """The pass rate that a run would have at each threshold, by dataset and target in the order of the table."""
    wanted = (pl.col("metric") == metric) & pl.col("judge").eq_missing(pl.lit(judge, pl.String))
    rows = scores.filter(wanted, pl.col("member_of").is_null(), pl.col("score").is_not_null())
    table = rows.select("dataset", "target", "case_id", "score", cluster()).collect(engine="streaming")
    shares = [
        passes(pl.col("score"), threshold, higher_is_better=higher_is_better).mean().alias(str(place))
        for place, threshold in enumerate(thresholds)
    ]
    passing: list[Passing] = []
    for (dataset, target), part in table.group_by("dataset", "target", maintain_order=True):
        cases = part.group_by("case_id", maintain_order=True).agg(pl.col("cluster").first(), *shares)
        for place, threshold in enumerate(thresholds):
            rate = mean_of(cases, pl.col(str(place)), bounded=True)
            ends = (rate.low, rate.high, rate.method)
            passing.append(Passing(str(dataset), str(target), threshold, rate.n, rate.value or 0.0, *ends))
    return passing
