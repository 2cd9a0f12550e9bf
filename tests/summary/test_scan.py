"""The score table: its columns, and what a threshold makes of a score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from evalflow.records import ScoreRecord
from evalflow.summary.journal import scores_schema
from evalflow.summary.summarise import Threshold, with_passed, write_scores

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]


def test_columns_are_those_of_the_contract(record: Make, table: Table, tmp_path: Path):
    frame = table([record()])
    assert frame.collect_schema() == scores_schema()
    assert ",".join(scores_schema()) == (
        "run_id,dataset,case_id,group,tags,target,target_repeat,metric,metric_version,judge,repeat,member_of,status,score,"
        "value,threshold,passed,reason,steps,error_type,error,remedy,path,input_tokens,output_tokens,cost_usd,latency_s,"
        "cached,finished_at,finish_reason,extracted"
    )
    write_scores(frame, tmp_path / "scores.parquet")
    assert pl.read_parquet(tmp_path / "scores.parquet").equals(frame.collect())


def test_an_empty_table_can_be_written(table: Table, tmp_path: Path):
    write_scores(table([]), tmp_path / "scores.parquet")
    assert pl.read_parquet(tmp_path / "scores.parquet").schema == scores_schema()


@pytest.mark.parametrize(
    ("direction", "passed"), [("higher_is_better", [False, True, True]), ("lower_is_better", [True, True, False])]
)
def test_the_threshold_itself_passes(record: Make, table: Table, direction: str, passed: list[bool]):
    found = table([record(0.4, 0), record(0.5, 1), record(0.6, 2)], 0.5, direction).collect()
    assert found["passed"].to_list() == passed
    assert found["threshold"].to_list() == [0.5] * 3


@pytest.mark.parametrize("status", ["undefined", "error", "skipped"])
def test_without_a_score_there_is_neither_pass_nor_fail(record: Make, table: Table, status: str):
    found = table([record(None, status=status), record(1.0, 1)], 0.5).collect()
    assert found["passed"].to_list() == [None, True]
    assert found["threshold"].to_list() == [0.5, 0.5]


def test_a_threshold_holds_for_its_metric_and_judge_only(record: Make, table: Table):
    cells = [record(judge="a"), record(judge="b"), record(judge=None), record(judge="a", metric="other")]
    found = with_passed(table(cells), [Threshold("m", "a", 0.5), Threshold("m", None, 2.0)]).collect()
    rows = {(row["metric"], row["judge"]): row["passed"] for row in found.to_dicts()}
    assert rows == {("m", "a"): True, ("m", "b"): None, ("m", None): False, ("other", "a"): None}


def test_a_new_threshold_replaces_the_old_and_keeps_the_order(record: Make, table: Table):
    scores = table([record(i / 10, i) for i in range(10)], 0.5)
    again = with_passed(scores, [Threshold("m", "j", 0.9)]).collect()
    assert again["passed"].to_list() == [False] * 9 + [True]
    assert again.columns == list(scores_schema())
