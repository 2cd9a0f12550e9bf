"""The numbers that hold in a run's summary: corrected by labels where these may correct them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import polars as pl

from evalflow.records import ScoreRecord
from evalflow.summary.agreement import label_frame
from evalflow.summary.calibration import CalibrationRow, calibrate_scores
from evalflow.summary.finding import RAW, judge_alone, with_labels
from evalflow.summary.pairing import Traits
from evalflow.summary.rows import SummaryRow, rows_of, summary_schema
from evalflow.summary.summarise import Summary, Threshold, summarise, with_passed

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]
N = 200


def judged(record: Make, table: Table) -> pl.LazyFrame:
    """A judge who gives .2 too much to every second answer; half of the answers are tagged, two bear a tag alone."""
    tags = [("all", *(("even",) if i % 2 == 0 else ()), *(("few",) if i > N - 3 else ())) for i in range(N)]
    cells = [record(round(0.4 + 0.2 * (i % 2) + 0.1 * (i % 3), 2), i, tags=tags[i]) for i in range(N)]
    return with_passed(table(cells), [Threshold("m", "j", 0.6)])


def said(record: Make, rows: Collection[int]) -> pl.DataFrame:
    about = {"use": "label", "by": "ana", "value": "x", "weight": 1.0, "comment": None, "target_repeat": 0}
    key = {"dataset": record(1.0, 0).dataset, "target": record(1.0, 0).target, "metric": "m"}
    given = [{**about, **key, "case_id": record(1.0, i).case_id, "human": 0.4 + 0.1 * (i % 3)} for i in sorted(rows)]
    return label_frame(given)


def compared(
    record: Make, table: Table, declare: Callable[..., Any], rows: Collection[int]
) -> tuple[Summary, Summary, list[CalibrationRow]]:
    scores = judged(record, table)
    before = summarise(scores, {"m": declare()})
    found = calibrate_scores(scores, said(record, rows), {"m": Traits(bounded=True)})
    return before, with_labels(before, found), found


def means_of(summary: Summary) -> dict[str | None, SummaryRow]:
    return {row.tag: row for row in rows_of(summary.frame) if row.statistic == "mean"}


def test_means_and_pass_rates_hold_as_labels_correct_them_and_the_judges_stay_beside_them(
    record: Make, table: Table, declare: Callable[..., Any]
):
    before, after, [found] = compared(record, table, declare, random.Random(1).sample(range(N), 60))
    assert after.frame.schema == before.frame.schema
    old, new = means_of(before), means_of(after)
    assert list(old) == list(new)
    row = new[None]
    assert found.pass_rate is not None
    held = (row.value, row.ci_low, row.ci_high, row.std_error, row.ci_method)
    mean = found.corrected
    assert held == (mean.estimate, mean.low, mean.high, mean.std_error, mean.method)
    assert (row.pass_rate, row.pass_rate_low) == (found.pass_rate.estimate, found.pass_rate.low)
    assert (row.n_labels, row.uncorrected) == (60, None)
    assert row.value is not None
    assert row.value < (old[None].value or 0.0)
    assert [getattr(judge_alone(row), name) for name in RAW] == [getattr(old[None], name) for name in RAW]
    assert (row.n_missing_labels, new["even"].n_missing_labels) == (0, None)
    same = {*summary_schema()} - {*RAW, *RAW.values(), "std_error", "n_labels", "n_missing_labels"}
    assert {name: getattr(row, name) for name in same} == {name: getattr(old[None], name) for name in same}
    assert replace(new["all"], tag=None) == row
    assert new["even"].n_labels == found.tags[0].corrected.n


def test_few_labels_of_a_tag_correct_nothing_of_it(record: Make, table: Table, declare: Callable[..., Any]):
    before, after, _ = compared(record, table, declare, random.Random(1).sample(range(N - 2), 60))
    row, old = means_of(after)["few"], means_of(before)["few"]
    assert (row.n_labels, row.uncorrected) == (0, "fewer than 15 labels")
    assert all(getattr(row, name) == getattr(old, name) for name in RAW)
    assert all(getattr(row, name) is None for name in RAW.values())
    assert judge_alone(row) == row


def test_labels_that_are_no_random_sample_correct_neither_the_whole_nor_a_tag(
    record: Make, table: Table, declare: Callable[..., Any]
):
    before, after, [found] = compared(record, table, declare, range(1, N, 2))
    assert found.biased_sample
    for tag, row in means_of(after).items():
        assert row.uncorrected == "the labelled answers are hardly a random sample"
        assert (row.value, row.raw_value) == (means_of(before)[tag].value, None)


def test_without_labels_nothing_changes(record: Make, table: Table, declare: Callable[..., Any]):
    before = summarise(judged(record, table), {"m": declare()})
    assert with_labels(before, []) is before
    other = calibrate_scores(judged(record, table), said(record, range(60)), {"m": Traits(bounded=True)})
    renamed = before.frame.with_columns(judge=pl.lit("other"))
    assert with_labels(Summary(renamed, []), other).frame.equals(renamed)
