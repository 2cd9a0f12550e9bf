"""Two runs on different cases: what is held against what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from evalflow.records import FigureSpec, ScoreRecord
from evalflow.summary.compare import compare_samples
from evalflow.summary.pairing import Traits

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
    assert (row.statistic, row.difference.n, row.difference.clusters, common) == ("mean", 90, 90, 1)
    assert (row.difference.value_a, row.difference.value_b) == (0.25, 0.6)
    assert row.difference.method == "newcombe_fisher: 40 against 50 cases"


def test_a_group_that_both_runs_have_is_one_cluster(record: Make, compared: Callable[..., Any]):
    a = [record(i / 40, i, group=f"g{i % 12}") for i in range(36)]
    b = [record(i / 50, i, group=f"g{i % 12}") for i in range(50, 98)]
    [row], common = compared(a, b)
    assert (row.difference.clusters, row.difference.method, common) == (
        12,
        "unpaired_cr2_t_rare: 36 against 48 cases",
        0,
    )


def test_datasets_of_other_names_are_compared_where_each_run_has_one(record: Make, compared: Callable[..., Any]):
    a = [record(i / 40, i, dataset="may") for i in range(40)]
    b = [record(i / 40, i, dataset="june") for i in range(40)]
    [row], common = compared(a, b)
    assert (row.dataset, row.difference.n, common) == ("may → june", 80, 0)
    other = [record(0.5, i, dataset="july") for i in range(4)]
    assert compared(a, b + other) == ([], 0)


def test_tags_that_both_runs_have_get_rows_on_request(record: Make, compared: Callable[..., Any]):
    a = [record(float(i % 2), i, tags=("x",) if i < 20 else ("only",)) for i in range(40)]
    b = [record(float(i % 3 == 0), i, tags=("x > y",)) for i in range(50, 90)]
    rows, _ = compared(a, b, by_tag=True)
    assert [(row.tag, row.difference.n) for row in rows] == [(None, 80), ("x", 60)]


def test_a_case_of_another_dataset_is_another_case(record: Make, compared: Callable[..., Any]):
    a = [record(float(i % 2), i, dataset="may") for i in range(40)]
    b = [record(float(i % 4 > 0), i, dataset="june") for i in range(40)]
    [row], _ = compared(a, b)
    assert (row.difference.clusters, row.difference.method) == (80, "newcombe_fisher: 40 against 40 cases")


SAID = [(True, True)] * 20 + [(True, False)] * 10 + [(False, True)] * 6 + [(False, False)] * 24


def said(record: Make, pairs: list[tuple[Any, ...]], first: int = 0, **fields: Any) -> list[ScoreRecord]:
    names = ("truth", "prediction", "confidence")
    values = [dict(zip(names, pair, strict=False)) for pair in pairs]
    return [
        record(float(v["truth"] == v["prediction"]), first + i, value=v, tags=("x",) if i % 2 else (), **fields)
        for i, v in enumerate(values)
    ]


@pytest.fixture
def figures(record: Make, table: Table) -> Callable[..., dict[tuple[str | None, str], Any]]:
    def make(a: list[ScoreRecord], b: list[ScoreRecord], spec: FigureSpec, **how: Any) -> Any:
        traits = {"m": Traits(bounded=True, figures=spec)}
        left, right = table(a).collect().lazy(), table(b).collect().lazy()
        rows, _ = compare_samples(left, right, ("a", "b"), traits, **how)
        return {(row.tag, row.statistic): row for row in rows}

    return make


def test_figures_of_a_positive_label(record: Make, figures: Callable[..., Any]):
    better = [(True, True)] * 36 + [(True, False)] * 4 + [(False, False)] * 40
    spec = FigureSpec("classification", True)
    found = figures(said(record, SAID), said(record, better, 100), spec, by_tag=True)
    assert [name for tag, name in found if tag is None] == ["mean", "precision", "recall", "f1", "mcc"]
    assert "accuracy" in found[None, "mean"].also
    recall, f1, mcc = (found[None, name].difference for name in ("recall", "f1", "mcc"))
    assert (recall.n, recall.value_a, recall.value_b) == (70, 20 / 30, 0.9)
    assert recall.method == "newcombe_fisher: 30 against 40 cases"
    assert (f1.n, f1.value_b, f1.method) == (140, pytest.approx(72 / 76), "unpaired_bootstrap_t: 60 against 80 cases")
    assert (mcc.low or 0) > 0
    assert found["x", "f1"].difference.n == 70


def test_figures_of_classes_labels_measures_and_sureness(record: Make, figures: Callable[..., Any]):
    classes = [("x", "x", 0.9)] * 20 + [("y", "x", 0.6)] * 10 + [("z", "z", 0.7)] * 20
    spec = FigureSpec("classification", confidence=True)
    found = figures(said(record, classes), said(record, classes[:45], 100), spec, by_class=True)
    assert found[None, "brier"].difference.method == "welch_t_rare: 50 against 45 cases"
    assert found[None, "ece"].difference.method == "unpaired_bootstrap_t: 50 against 45 cases"
    assert not found[None, "ece"].higher_is_better
    assert found[None, "recall[x]"].difference.method == "newcombe_fisher: 20 against 20 cases"
    labels = [({"spam": i % 2 == 0}, {"spam": i % 3 == 0}) for i in range(40)]
    per_label = FigureSpec("classification", per_label=True)
    a, b = said(record, labels), said(record, labels, 100)
    assert list(figures(a, b, per_label)) == [(None, "mean")]
    assert (None, "f1[spam]") in figures(a, b, per_label, by_class=True)
    measured = [
        [record(0.5, i + first, value={"mrr": 1 / (1 + i % k)}) for i in range(40)] for first, k in ((0, 4), (100, 2))
    ]
    found = figures(*measured, FigureSpec("retrieval", measures=("mrr",)))
    assert found[None, "mrr"].difference.method == "welch_t_rare: 40 against 40 cases"
    assert found[None, "mrr"].difference.difference > 0
