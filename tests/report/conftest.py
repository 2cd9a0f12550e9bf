"""A finished run, made of whatever cells a test names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from evalflow.config.schema import MetricConfig
from evalflow.records import Answer, Case, Message
from evalflow.report.html import Reported
from evalflow.summary.rows import summary_schema
from tests.manifests import manifest_of

SCORES = {
    "run_id": pl.String,
    "dataset": pl.String,
    "case_id": pl.String,
    "group": pl.String,
    "tags": pl.List(pl.String),
    "target": pl.String,
    "target_repeat": pl.Int64,
    "metric": pl.String,
    "metric_version": pl.Int64,
    "judge": pl.String,
    "repeat": pl.Int64,
    "member_of": pl.String,
    "status": pl.String,
    "score": pl.Float64,
    "value": pl.String,
    "threshold": pl.Float64,
    "passed": pl.Boolean,
    "reason": pl.String,
    "steps": pl.String,
    "error_type": pl.String,
    "error": pl.String,
    "path": pl.String,
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "cost_usd": pl.Float64,
    "latency_s": pl.Float64,
    "cached": pl.Boolean,
    "finished_at": pl.String,
    "finish_reason": pl.String,
    "extracted": pl.Boolean,
}
Cell = Mapping[str, Any]


def make_scores(cells: Sequence[Cell]) -> pl.LazyFrame:
    """scores.parquet of cells that name only what matters to the test."""
    common = {
        "run_id": "run",
        "dataset": "rag",
        "target": "recorded",
        "target_repeat": 0,
        "metric": "faithfulness",
        "metric_version": 1,
        "judge": "embedded",
        "repeat": 0,
        "status": "scored",
        "cached": False,
        "tags": [],
        "steps": "[]",
        "finished_at": "2026-11-21T14:03:22Z",
    }
    return pl.DataFrame([{**common, **cell} for cell in cells], schema=SCORES, orient="row").lazy()


def make_summary(scores: pl.LazyFrame) -> pl.DataFrame:
    """A mean for every metric, judge and target; the intervals are wide enough to see, not right."""
    status = pl.col("status")
    keys = ("dataset", "target", "metric", "judge")
    rows = (
        scores.group_by(*keys, maintain_order=True)
        .agg(
            pl.lit("mean").alias("statistic"),
            pl.lit("t").alias("ci_method"),
            pl.len().alias("n"),
            *[(status == state).sum().alias(f"n_{state}") for state in ("scored", "undefined", "error", "skipped")],
            pl.col("score").mean().alias("value"),
            pl.col("score").median().alias("median"),
            pl.col("passed").mean().alias("pass_rate"),
            pl.lit(0).alias("n_cut_off"),
        )
        .with_columns(
            ci_low=pl.col("value") - 0.04,
            ci_high=pl.col("value") + 0.04,
            pass_rate_low=pl.col("pass_rate") - 0.05,
            pass_rate_high=pl.col("pass_rate") + 0.05,
        )
        .collect()
        .to_dicts()
    )
    return pl.DataFrame(rows, schema=summary_schema(), orient="row")


def make_case(number: int, **fields: Any) -> Case:
    question = fields.pop("question", f"What does rule {number} say?")
    return Case(
        **{
            "dataset": "rag",
            "index": number,
            "id": f"case-{number}",
            "messages": (Message("user", question),),
            "answer": f"Rule {number} says so.",
            **fields,
        }
    )


def make_run(cases: Sequence[Case], cells: Sequence[Cell], **fields: Any) -> Reported:
    scores = make_scores(cells)
    return Reported(
        **{
            "scores": scores,
            "summary": make_summary(scores),
            "details": [],
            "gates": [],
            "manifest": manifest_of(
                run_id="2026-11-21T14-03-22Z_rag_faithfulness_x7k2",
                judges={"embedded": {"nature": "text overlap, not an LLM", "calibrated": False}},
                cost_usd=None,
            ),
            "metrics": {"faithfulness": MetricConfig(kind="judge", description="Share of claims supported.")},
            "cases": cases,
            "answers": recorded,
            **fields,
        }
    )


def recorded(case: Case, target: str, target_repeat: int) -> Answer:
    return Answer(
        dataset=case.dataset,
        index=case.index,
        case_id=case.id,
        target=target,
        target_repeat=target_repeat,
        messages=case.messages,
        answer=case.answer,
        actual=case.actual,
        contexts=case.contexts,
    )


@pytest.fixture(scope="session", name="make_run")
def _make_run() -> Callable[..., Reported]:
    return make_run


@pytest.fixture(scope="session", name="make_case")
def _make_case() -> Callable[..., Case]:
    return make_case


@pytest.fixture(scope="session", name="make_scores")
def _make_scores() -> Callable[..., pl.LazyFrame]:
    return make_scores
