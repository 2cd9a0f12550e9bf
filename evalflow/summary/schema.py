"""The columns of scores and of the summary, as they stand in the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

SLICE = ("dataset", "target", "metric", "judge")
"""What a row of the summary is about, its tag and its statistic apart."""


def scores_schema() -> pl.Schema:
    """Columns of scores.parquet, in order: a record's without `index` and bill, and what a threshold makes of it."""
    import polars as pl

    derived = {"threshold": pl.Float64(), "passed": pl.Boolean()}
    schema: dict[str, pl.DataType] = {}
    for name, dtype in journal_schema().items():
        if name not in {"index", "bill"}:
            schema[name] = dtype
        if name == "value":
            schema |= derived
    return pl.Schema(schema)


def journal_schema() -> pl.Schema:
    """Columns of a line of scores.jsonl: the fields of ScoreRecord; value and steps are JSON text."""
    import polars as pl

    text, number, count = pl.String, pl.Float64, pl.Int64
    bill = pl.Struct({
        "requests": count, "reasks": count, "input_tokens": count, "output_tokens": count, "remembered": count,
        "saved_usd": number, "paid": pl.List(count),
    })  # fmt: skip
    return pl.Schema({
        "run_id": text, "dataset": text, "index": count, "case_id": text, "group": text, "tags": pl.List(text),
        "target": text, "target_repeat": count, "metric": text, "metric_version": count, "judge": text,
        "repeat": count, "member_of": text, "status": text, "score": number, "value": text, "reason": text,
        "steps": text, "error_type": text, "error": text, "path": text, "input_tokens": count,
        "output_tokens": count, "cost_usd": number, "latency_s": number, "cached": pl.Boolean, "bill": bill,
        "finished_at": text,
    })  # fmt: skip


def summary_schema() -> pl.Schema:
    """Columns of summary.parquet, in order."""
    import polars as pl

    text, number, count = pl.String, pl.Float64, pl.Int64
    return pl.Schema({
        "dataset": text, "target": text, "metric": text, "statistic": text, "judge": text, "tag": text, "n": count,
        "n_scored": count, "n_undefined": count, "n_error": count, "n_skipped": count, "value": number, "std": number,
        "std_error": number, "ci_low": number, "ci_high": number, "ci_method": text, "worst": number, "best": number,
        "median": number, "pass_rate": number, "pass_rate_low": number, "pass_rate_high": number, "cost_usd": number,
        "input_tokens": count, "output_tokens": count, "latency_p50": number, "latency_p95": number,
    })  # fmt: skip
