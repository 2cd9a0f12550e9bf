"""The journal of scores: what is written is read, torn lines, the order of the input, a cell asked again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.records import ScoreRecord, Spend, Usage
from evalflow.summary.journal import (
    journal_line,
    journal_row,
    journal_schema,
    json_line,
    json_text,
    spend_of_row,
    torn_tail,
)
from evalflow.summary.scan import InputOrder, scan_journal

Make = Callable[..., ScoreRecord]
ORDER = InputOrder(["d"], ["m"])
PAID = Spend(requests=2, reasks=1, usage=Usage(9, 3), cost_usd=0.5, cached=1, saved_usd=None, paid=(-1, 2**62))


def write(path: Path, records: Iterable[ScoreRecord], tail: bytes = b"") -> Path:
    lines = [json.dumps(journal_line(r), ensure_ascii=False) + "\n" for r in records]
    path.write_bytes("".join(lines).encode() + tail)
    return path


def record_of(row: Mapping[str, Any]) -> ScoreRecord:
    """What a row says; a tuple in a step becomes a list."""
    values = {field.name: row[field.name] for field in fields(ScoreRecord) if field.name in row}
    values["tags"] = tuple(row["tags"] or ())
    values["value"] = None if row["value"] is None else json.loads(row["value"])
    values["steps"] = tuple(json.loads(row["steps"] or "[]"))
    values["bill"] = spend_of_row(row["bill"], row["cost_usd"])
    return ScoreRecord(**values)


@pytest.mark.parametrize("value", [None, 3, 0.5, True, "yes", "null", [1, "a"], {"truth": True, "prediction": None}])
def test_a_record_comes_back_as_it_was(record: Make, value: Any):
    steps = ({"id": "claims", "reply": {"claims": ["é\n"]}},)
    written = record(value=value, tags=("a", "b > c"), steps=steps, bill=PAID)
    assert record_of(json.loads(json.dumps(journal_row(written)))) == written


def test_a_line_has_the_journal_columns_and_they_scan(record: Make, tmp_path: Path):
    failed = record(None, 1, status="error", error_type="timeout", tags=("x",), cost_usd=None, input_tokens=None)
    written = [record(value={"a": [1, "b"]}, steps=({"id": "s"},), group="g"), failed]
    assert list(journal_row(written[0])) == sorted(journal_schema(), key=list(journal_row(written[0])).index)
    rows = scan_journal(write(tmp_path / "j", written), "r").frame().collect().to_dicts()
    assert rows[0]["value"] == '{"a":[1,"b"]}'
    assert [record_of(row) for row in rows] == written


def test_a_line_leaves_out_what_is_empty_and_the_id_of_its_run(record: Make):
    plain = record(judge=None, cost_usd=None, input_tokens=None, output_tokens=None, latency_s=None)
    cell = ["dataset", "index", "case_id", "target", "metric"]
    assert list(journal_line(plain)) == [*cell, "status", "score", "finished_at"]
    again = record(target_repeat=1, repeat=2, metric_version=3)
    assert {"target_repeat", "repeat", "metric_version"} <= journal_line(again).keys()
    full = record(group="g", tags=("a",), cached=True, steps=({"id": "s"},), bill=PAID, reason="so")
    assert {"judge", "group", "tags", "cached", "steps", "bill", "reason"} <= journal_line(full).keys()


def test_what_lines_leave_out_reads_as_its_value_however_many_lack_it(record: Make, tmp_path: Path):
    """More lines than a reader would look at to find the columns."""
    written = [record(case=case) for case in range(1500)]
    last = {"tags": ("a",), "group": "g", "cached": True, "steps": ({"id": "s"},), "bill": PAID, "error": "no"}
    written += [record(case=1500, reason="so", **last)]
    journal = scan_journal(write(tmp_path / "j", written), "r")
    assert [record_of(row) for row in journal.frame().collect().to_dicts()] == written
    ordered = journal.ordered(ORDER).collect()
    assert [record_of(row) for row in ordered.to_dicts()] == written
    whole = ["run_id", "tags", "steps", "cached", "bill"]
    assert ordered.select(pl.col(whole).null_count()).row(0) == (0,) * len(whole)


@pytest.mark.parametrize(
    ("status", "score"), [("scored", None), ("scored", float("nan")), ("error", 0.0), ("skipped", 1)]
)
def test_a_false_score_is_not_written(record: Make, status: str, score: float | None):
    with pytest.raises(ValueError, match="cannot have the score"):
        journal_row(record(score, status=status))


def test_equal_values_have_equal_texts():
    assert json_text({"b": 1, "a": "é"}) == json_text({"a": "é", "b": 1}) == '{"a":"é","b":1}'
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text(float("inf"))


@pytest.mark.parametrize("tail", [b'{"run_id": "r", "sc', b"{", b'{"reason": "caf' + b"\xc3", b"x" * 70_000])
def test_a_torn_last_line_is_left_out_and_counted(record: Make, tmp_path: Path, tail: bytes):
    path = write(tmp_path / "j", [record(case=0), record(case=1)], tail)
    journal = scan_journal(path, "r")
    assert journal.torn == 1
    assert torn_tail(path) == len(tail)
    assert journal.frame().collect()["index"].to_list() == [0, 1]
    assert journal.ordered(ORDER).collect()["index"].to_list() == [0, 1]


def test_empty_missing_and_wholly_torn_journals(tmp_path: Path):
    write(tmp_path / "empty", [])
    write(tmp_path / "torn", [], b'{"run')
    for name, torn in (("empty", 0), ("missing", 0), ("torn", 1)):
        journal = scan_journal(tmp_path / name, "r")
        assert journal.torn == torn
        assert journal.frame().collect().schema == journal_schema()
        assert journal.ordered(ORDER).collect().height == 0


def damaged(record: Make, **changes: object) -> bytes:
    return json_line({**journal_line(record(case=1, bill=PAID)), **changes}) + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        lambda _: b'{"run_id": \n',
        lambda _: b"[1]\n",
        lambda _: b"{}\n",
        lambda _: b"\0\0\0\0\n",
        lambda _: b"\n",
        lambda record: damaged(record).replace(b"scored", b"sc\xffred"),
        lambda record: damaged(record)[:-2] + b"\n",
        lambda record: damaged(record).rstrip(b"\n") * 2 + b"\n",
        lambda record: damaged(record, score=1.5),
        lambda record: damaged(record, score="0.5x"),
        lambda record: damaged(record, score=None),
        lambda record: damaged(record, status="error"),
        lambda record: damaged(record, status="fine"),
        lambda record: damaged(record, bill={"requests": 1}),
        lambda record: damaged(record, case_id=None),
    ],
)
def test_a_damaged_line_does_not_count_and_is_said(
    line: Callable[[Make], bytes], record: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = write(tmp_path / "j", [record(case=0)], line(record))
    with path.open("ab") as file:
        file.write(json_line(journal_line(record(case=2))) + b"\n")
    journal = scan_journal(path, "r", [record().metric])
    assert journal.frame().collect()["index"].to_list() == [0, 2]
    assert journal.ordered(ORDER).collect()["index"].to_list() == [0, 2]
    assert f"{path}: 1 damaged lines are ignored (2)" in caplog.text


def test_input_order_is_restored(record: Make, tmp_path: Path):
    cells = [
        record(case=case, dataset=dataset, metric=metric, judge=judge, target_repeat=again, repeat=repeat)
        for dataset in ("z", "a")
        for case in (0, 2, 10)
        for again in (0, 1)
        for metric in ("relevance", "faithfulness", "other")
        for judge in (None, "j")
        for repeat in (0, 1)
    ]
    shuffled = random.Random(1).sample(cells, len(cells))
    order = InputOrder(["z", "a"], ["relevance", "faithfulness"])
    found = scan_journal(write(tmp_path / "j", shuffled), "r").ordered(order).collect().to_dicts()
    assert [record_of(row) for row in found] == cells


def test_members_follow_their_panel(record: Make, tmp_path: Path):
    cells = [record(judge="z_panel"), record(judge="a", member_of="z_panel"), record(judge="b", member_of="z_panel")]
    found = scan_journal(write(tmp_path / "j", cells[::-1]), "r").ordered(ORDER).collect()
    assert found["judge"].to_list() == ["z_panel", "a", "b"]


def test_of_a_cell_that_was_asked_again_the_last_line_holds(record: Make, tmp_path: Path):
    lines = [record(None, 1, status="error"), record(0.25, 0), record(0.5, 1), record(0.75, 1, repeat=1)]
    found = scan_journal(write(tmp_path / "j", lines), "r").ordered(ORDER).collect()
    assert found["score"].to_list() == [0.25, 0.5, 0.75]


def test_lines_are_fetched_in_order_across_blocks(record: Make, tmp_path: Path):
    """Three blocks' worth of long lines, shuffled all over the file."""
    cells = [record(case=case, reason=f"{case} " + "x" * 60_000) for case in range(100)]
    shuffled = random.Random(2).sample(cells, len(cells))
    journal = scan_journal(write(tmp_path / "j", shuffled), "r")
    assert journal.ordered(ORDER).select("index").collect()["index"].to_list() == list(range(100))
    assert journal.frame().collect()["index"].to_list() == [r.index for r in shuffled]
    assert journal.ordered(ORDER).filter(pl.col("index") > 97).head(1).collect()["index"].to_list() == [98]
