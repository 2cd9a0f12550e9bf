"""Two runs side by side: which cases enter, what is told of them, and in which direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest

from evalflow.records import ScoreRecord
from evalflow.summary import ComparisonRow, adjusted, compare_cases, not_worse, pair_scores

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]


def frame(table: Table, records: Sequence[ScoreRecord], threshold: float | None = None) -> pl.LazyFrame:
    return table(records, threshold).collect().lazy()


@pytest.fixture
def rows(record: Make, table: Table) -> Callable[..., list[ComparisonRow]]:
    """Compares two lists of scores, case by case."""

    def make(a: Sequence[float], b: Sequence[float], **options: Any) -> list[ComparisonRow]:
        threshold, directions = options.pop("threshold", None), options.pop("directions", {})
        sides = [frame(table, [record(s, i) for i, s in enumerate(side)], threshold) for side in (a, b)]
        found = compare_cases(pair_scores(*sides).cases, ("a", "b"), directions, **options)
        return adjusted(found, "holm")

    return make


def test_repeats_are_averaged_and_what_is_in_one_run_alone_is_counted(record: Make, table: Table):
    a = [record(0.0, 0, repeat=0), record(1.0, 0, repeat=1), record(0.2, 1), record(0.3, 2)]
    b = [record(0.4, 0), record(None, 1, status="error"), record(0.7, 3), record(0.9, 0, member_of="j", judge="k")]
    found = pair_scores(frame(table, a), frame(table, b))
    assert found.cases.select("case_id", "score_a", "score_b").rows() == [("c0", 0.5, 0.4)]
    assert found.counts.row(0, named=True) == {
        "dataset": "d", "metric": "m", "common": 1, "only_a": 1, "only_b": 1, "unscored": 1,
    }  # fmt: skip


def test_better_worse_and_cannot_tell(rows: Callable[..., list[ComparisonRow]]):
    low = [0.1 + 0.01 * (i % 7) for i in range(30)]
    high = [score + 0.3 + 0.02 * (i % 3) for i, score in enumerate(low)]
    mixed = [score + (0.1 if i % 2 else -0.1) for i, score in enumerate(low)]
    assert [rows(low, other)[0].verdict for other in (high, mixed)] == ["better", "cannot_tell"]
    assert rows(high, low)[0].verdict == "worse"
    lower = {"m": "lower_is_better"}
    assert rows(low, high, directions=lower)[0].verdict == "worse"
    assert rows(high, low, directions=lower)[0].verdict == "better"


def test_pass_rates_are_a_row_of_their_own_unless_they_are_the_scores(rows: Callable[..., list[ComparisonRow]]):
    a, b = [0.2, 0.4, 0.6, 0.9], [0.3, 0.7, 0.8, 1.0]
    found = rows(a, b, threshold=0.5)
    assert [(row.statistic, row.found.method) for row in found] == [
        ("mean", "paired_t_sign_flip"), ("pass_rate", "newcombe_mcnemar"),
    ]  # fmt: skip
    assert [row.statistic for row in rows([0.0, 1.0, 1.0], [1.0, 1.0, 0.0], threshold=0.5)] == ["mean"]
    assert [row.statistic for row in rows(a, b)] == ["mean"]


def test_a_family_is_adjusted_together_and_can_detect_less(rows: Callable[..., list[ComparisonRow]]):
    low = [0.1 * (i % 5) for i in range(12)]
    high = [s + 0.02 + 0.05 * (i % 4) for i, s in enumerate(low)]
    [alone] = rows(low, high)
    pair = adjusted([alone, alone], "holm")
    assert alone.found.p_value is not None
    assert alone.p_adjusted == alone.found.p_value
    assert pair[0].p_adjusted == pytest.approx(2 * alone.found.p_value)
    assert (pair[0].detectable or 0) > (alone.detectable or 0) > 0


def test_tags_get_rows_of_their_own_on_request(record: Make, table: Table):
    tags = [("Safety > Jailbreak",), ("Safety",), (), ("Other",)]
    a, b = ([record(s, i, tags=tags[i]) for i, s in enumerate(side)] for side in ([0.1] * 4, [0.2, 0.3, 0.4, 0.5]))
    cases = pair_scores(frame(table, a), frame(table, b)).cases
    found = compare_cases(cases, ("a", "b"), {}, by_tag=True)
    assert [(row.tag, row.found.n) for row in found] == [
        (None, 4), ("Other", 1), ("Safety", 2), ("Safety > Jailbreak", 1),
    ]  # fmt: skip


def test_a_group_is_the_cluster(record: Make, table: Table):
    a, b = ([record(s, i, group=f"g{i // 3}") for i, s in enumerate(side)] for side in ([0.1] * 6, [0.2, 0.3, 0.1] * 2))
    found = compare_cases(pair_scores(frame(table, a), frame(table, b)).cases, ("a", "b"), {})
    assert (found[0].found.n, found[0].found.clusters) == (6, 2)


def test_not_worse_by_more_than_a_margin(rows: Callable[..., list[ComparisonRow]]):
    base = [0.5 + 0.03 * (i % 5) for i in range(40)]
    [slightly] = rows(base, [s - 0.01 + 0.01 * (i % 2) for i, s in enumerate(base)])
    held = [not_worse(slightly.found, margin, higher_is_better=True) for margin in (0.05, 0.005, 0.001)]
    assert held == [True, None, False]
    assert not_worse(slightly.found, 0.001, higher_is_better=False) is True
    document = slightly.document(0.05)
    assert document["not_worse"] is True
    assert document["p_not_inferior"] < 0.025 < 1
    assert "not_worse" not in slightly.document()


def test_nothing_in_common_is_no_row(record: Make, table: Table):
    pairing = pair_scores(frame(table, [record(1.0, 0)]), frame(table, [record(1.0, 1)]))
    assert compare_cases(pairing.cases, ("a", "b"), {}) == []
