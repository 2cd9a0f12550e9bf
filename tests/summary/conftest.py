"""Score rows and metrics to summarise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.config.schema import MetricConfig
from evalflow.records import Direction, FigureSpec, ScoreRecord
from evalflow.summary.journal import journal_line, json_text
from evalflow.summary.scan import InputOrder, scan_journal
from evalflow.summary.summarise import Threshold, score_table

RECORD = ScoreRecord(
    run_id="r",
    dataset="d",
    index=0,
    case_id="c0",
    group=None,
    tags=(),
    target="recorded",
    target_repeat=0,
    metric="m",
    metric_version=1,
    judge="j",
    repeat=0,
    status="scored",
    score=1.0,
    cost_usd=0.5,
    input_tokens=10,
    output_tokens=1,
    latency_s=1.0,
)


@dataclass(frozen=True)
class Declared:
    """What the summary wants to know of a metric; it never scores."""

    name: str
    config: MetricConfig
    bounded: bool = True
    figures: FigureSpec | None = None


def _declare(name: str = "m", *, bounded: bool = True, figures: FigureSpec | None = None, **config: Any) -> Any:
    return Declared(name, MetricConfig(kind=config.pop("kind", "judge"), **config), bounded, figures)


def _record(score: float | None = 1.0, case: int = 0, **fields: Any) -> ScoreRecord:
    status = fields.pop("status", "scored")
    return replace(RECORD, index=case, case_id=f"c{case}", score=score, status=status, **fields)


@pytest.fixture
def declare() -> Callable[..., Any]:
    """Makes a metric: declare(name, bounded=..., figures=..., and keys of its YAML)."""
    return _declare


@pytest.fixture
def record() -> Callable[..., ScoreRecord]:
    """Makes a record: record(score, case, and other fields). Without a score its state must be given."""
    return _record


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., pl.LazyFrame]:
    """Records to a score table, by way of a journal file, as a run does it."""

    def make(
        records: Sequence[ScoreRecord], threshold: float | None = None, direction: Direction = "higher_is_better"
    ) -> pl.LazyFrame:
        path = tmp_path / "scores.jsonl"
        path.write_text("".join(json_text(journal_line(r)) + "\n" for r in records), encoding="utf-8")
        keys = {(r.metric, r.judge) for r in records}
        thresholds = [] if threshold is None else [Threshold(m, j, threshold, direction) for m, j in sorted(keys)]
        return score_table(scan_journal(path, "r"), thresholds, InputOrder(["d"], ["m"]))

    return make
