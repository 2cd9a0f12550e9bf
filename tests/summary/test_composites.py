"""Composites beside the scores that they are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest

from evalflow.metrics.kinds.composite import CompositeMetricConfig
from evalflow.records import ScoreRecord
from evalflow.summary.journal import journal_row, journal_schema
from evalflow.summary.scan import Composite, Source, with_composites
from evalflow.summary.summarise import Threshold, passing_rates, with_passed

Make = Callable[..., ScoreRecord]
JUDGED, PLAIN = Source(True, "higher_is_better", 0.5), Source(False, "higher_is_better", None)


def composite(sources: dict[str, Source], **keys: Any) -> Composite:
    config = CompositeMetricConfig.model_validate({"kind": "composite", "of": list(sources), **keys})
    return Composite("both", "j", config, sources)


def frame(records: Sequence[ScoreRecord]) -> pl.DataFrame:
    return pl.DataFrame([journal_row(one) for one in records], schema=journal_schema())


def made(records: Sequence[ScoreRecord], one: Composite, at_once: int = 100) -> list[dict[str, Any]]:
    """All rows after the composite was added, from batches of so many rows."""
    rows = frame(records)
    batches = [rows[start : start + at_once] for start in range(0, rows.height, at_once)]
    done = pl.concat(with_composites(batches, [one]))
    assert done.schema == journal_schema()
    return done.to_dicts()


def test_a_weighted_mean_of_equal_scores_passes_their_threshold(record: Make) -> None:
    """(0.1 * 0.7 + 0.1 * 0.7) / (0.1 + 0.1) is below 0.7 by rounding, and so is a part that is such a mean."""
    both = composite({"a": JUDGED, "b": JUDGED}, of={"a": 0.1, "b": 0.1}, op="mean")
    *_, row = made([record(0.7, metric="a"), record(0.7, metric="b")], both)
    assert row["score"] < 0.7
    scores = pl.LazyFrame([row], schema=journal_schema())
    assert with_passed(scores, [Threshold("both", "j", 0.7)]).collect()["passed"].to_list() == [True]
    [rate] = passing_rates(scores, "both", "j", [0.7])
    assert rate.rate == 1
    whole = composite({"a": Source(True, "higher_is_better", 0.7)}, op="all")
    *_, row = made([record(row["score"], metric="a")], whole)
    assert row["score"] == 1


def answers(record: Make, count: int, *, repeats: int = 1) -> list[ScoreRecord]:
    """Cases with a judged metric a, in each repeat, and a plain one b."""
    return [
        one
        for case in range(count)
        for one in [
            *(record(0.2 * (case % 4) + 0.1 * repeat, case, metric="a", repeat=repeat) for repeat in range(repeats)),
            record(1.0, case, metric="b", judge=None),
        ]
    ]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 100])
def test_each_answer_gets_its_row_after_its_parts_however_the_rows_come(record: Make, at_once: int) -> None:
    rows = made(answers(record, 5), composite({"a": JUDGED, "b": PLAIN}), at_once)
    assert [(row["index"], row["metric"]) for row in rows] == [
        (case, metric) for case in range(5) for metric in ("a", "b", "both")
    ]
    assert [row["score"] for row in rows if row["metric"] == "both"] == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.5])


def test_there_is_one_for_each_repeat_of_the_judge(record: Make) -> None:
    rows = made(answers(record, 1, repeats=3), composite({"a": JUDGED, "b": PLAIN}))
    both = [row for row in rows if row["metric"] == "both"]
    assert [(row["repeat"], row["score"]) for row in both] == [
        (0, pytest.approx(0.5)),
        (1, pytest.approx(0.55)),
        (2, pytest.approx(0.6)),
    ]


def test_what_is_not_finished_has_no_row_yet(record: Make) -> None:
    one = composite({"a": JUDGED, "b": JUDGED})
    assert [row["metric"] for row in made([record(1.0, metric="a")], one)] == ["a"]
    records = [record(1.0, metric="a"), record(1.0, metric="a", repeat=1), record(0.0, metric="b")]
    assert [row["repeat"] for row in made(records, one) if row["metric"] == "both"] == [0]


def test_it_is_filed_where_its_parts_are_and_cost_nothing(record: Make) -> None:
    place = {"target_repeat": 1, "group": "g", "tags": ("x",)}
    row = made(
        [record(1.0, 3, metric="a", **place), record(0.0, 3, metric="b", **place)],
        composite({"a": JUDGED, "b": JUDGED}),
    )[-1]
    assert {key: row[key] for key in ("index", "case_id", "target_repeat", "group", "tags", "judge", "cost_usd")} == {
        "index": 3,
        "case_id": "c3",
        "target_repeat": 1,
        "group": "g",
        "tags": ["x"],
        "judge": "j",
        "cost_usd": 0.0,
    }
    assert (row["latency_s"], row["bill"]["requests"], row["input_tokens"]) == (None, 0, 0)
    assert json.loads(row["value"]) == {"a": 1.0, "b": 0.0}


def test_members_of_a_panel_are_no_parts(record: Make) -> None:
    records = [record(1.0, metric="a"), record(0.0, metric="a", judge="k", member_of="j"), record(1.0, metric="b")]
    assert made(records, composite({"a": JUDGED, "b": JUDGED}))[-1]["score"] == 1.0


def test_thresholds_decide_what_passes_in_each_parts_own_direction(record: Make) -> None:
    sources = {"a": JUDGED, "b": Source(True, "lower_is_better", 0.3)}
    one = composite(sources, op="share_passed")
    records = [record(0.5, metric="a"), record(0.4, metric="b")]
    assert json.loads(made(records, one)[-1]["value"]) == {"a": True, "b": False}
    inverted = made(records, composite(sources))[-1]
    assert inverted["score"] == pytest.approx((0.5 + 0.6) / 2)


def test_the_state_of_a_part_is_the_composites(record: Make) -> None:
    records = [record(1.0, metric="a"), record(None, metric="b", status="error", error_type="timeout", error="late")]
    row = made(records, composite({"a": JUDGED, "b": JUDGED}))[-1]
    assert (row["status"], row["score"], row["error_type"], row["error"]) == ("error", None, "timeout", "b: late")
