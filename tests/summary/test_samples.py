"""Two runs on different cases: what is held against what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from evalflow.records import ScoreRecord
from evalflow.summary import Traits, compare_samples

Make = Callable[..., ScoreRecord]
Table = Callable[[list[ScoreRecord]], pl.LazyFrame]
BOUNDED = {"m": Traits(bounded=True)}


@pytest.fixture
def compared(record: Make, table: Table) -> Callable[..., Any]:
    def make(a: list[ScoreRecord], b: list[ScoreRecord], **how: Any) -> Any:
        left, right = table(a).collect().lazy(), table(b).collect().lazy()
        return compare_samples(left, right, ("a", "b"), BOUNDED, **how)

    return make


def test_repeats_are_averaged_and_unscored_cases_are_left_out(record: Make, compared: Callable[..., Any]):
    a = [record(float(i < 10), i) for i in range(40)] + [record(None, 99, status="error")]
    b = [record(float(i < 80), i, repeat=k) for i in range(50, 100) for k in range(2)]
    [row], common = compared(a, b)
    assert (row.statistic, row.found.n, row.found.clusters, common) == ("mean", 90, 90, 1)
    assert (row.found.value_a, row.found.value_b) == (0.25, 0.6)
    assert row.found.method == "newcombe_fisher: 40 against 50 cases"


def test_a_group_that_both_runs_have_is_one_cluster(record: Make, compared: Callable[..., Any]):
    a = [record(i / 40, i, group=f"g{i % 12}") for i in range(36)]
    b = [record(i / 50, i, group=f"g{i % 12}") for i in range(50, 98)]
    [row], common = compared(a, b)
    assert (row.found.clusters, row.found.method, common) == (12, "unpaired_cr1_t: 36 against 48 cases", 0)


def test_datasets_of_other_names_are_compared_where_each_run_has_one(record: Make, compared: Callable[..., Any]):
    a = [record(i / 40, i, dataset="may") for i in range(40)]
    b = [record(i / 40, i, dataset="june") for i in range(40)]
    [row], common = compared(a, b)
    assert (row.dataset, row.found.n, common) == ("may → june", 80, 0)
    other = [record(0.5, i, dataset="july") for i in range(4)]
    assert compared(a, b + other) == ([], 0)


def test_tags_that_both_runs_have_get_rows_on_request(record: Make, compared: Callable[..., Any]):
    a = [record(float(i % 2), i, tags=("x",) if i < 20 else ("only",)) for i in range(40)]
    b = [record(float(i % 3 == 0), i, tags=("x > y",)) for i in range(50, 90)]
    rows, _ = compared(a, b, by_tag=True)
    assert [(row.tag, row.found.n) for row in rows] == [(None, 80), ("x", 60)]
