"""The cases of a run, gone over several times."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import polars as pl
import pytest

from evalflow.app.core import cases as read_cases
from evalflow.errors import UserError

ROWS = [{"id": str(number), "question": "What?", "answer": "That."} for number in range(5)]


def ids(cases):
    return [case.id for case in cases]


@pytest.fixture
def twice(lab):
    """The cases of two readings, between which the file loses all but its first row."""

    def read(rows=ROWS):
        cases = read_cases.RunCases(lab.parts({"d": lab.data(*rows)}, ["exact_match"]).settings.run)
        first = list(cases)
        lab.data(*rows[:1])
        return first, list(cases)

    return read


@pytest.mark.parametrize(("bound", "kept"), [("KEPT_BYTES", 4), ("KEPT_CASES", 0), ("KEPT_CASES", 3)])
@pytest.mark.parametrize("together", [1, 2, 20])
def test_data_are_read_once(twice, monkeypatch, bound, kept, together):
    monkeypatch.setattr(read_cases, bound, kept)
    monkeypatch.setattr(read_cases, "_TOGETHER", together)
    first, second = twice()
    assert ids(first) == ["0", "1", "2", "3", "4"]
    assert second == first


def test_small_data_stay_in_memory(twice):
    first, second = twice()
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_two_readings_at_once_do_not_disturb_each_other(lab, monkeypatch):
    monkeypatch.setattr(read_cases, "KEPT_CASES", 0)
    monkeypatch.setattr(read_cases, "_TOGETHER", 1)
    cases = read_cases.RunCases(lab.parts({"d": lab.data(*ROWS)}, ["exact_match"]).settings.run)
    list(cases)
    assert [one.id + other.id for one, other in zip(cases, cases, strict=True)] == ["00", "11", "22", "33", "44"]


def test_a_full_disk_for_temporary_files_is_reported_before_anything_is_sent(twice, monkeypatch):
    monkeypatch.setattr(read_cases, "KEPT_CASES", 0)
    with Path("/dev/full").open("w+b") as full:  # buffered, as a temporary file is
        monkeypatch.setattr(read_cases, "TemporaryFile", lambda: full)
        with pytest.raises(UserError, match="cannot be kept in a temporary file: No space left on device"):
            twice([{**ROWS[0], "id": str(number)} for number in range(30)])


def test_a_temporary_file_is_made_only_if_needed_and_its_failure_is_reported(twice, monkeypatch):
    def refuse():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(read_cases, "TemporaryFile", refuse)
    first, second = twice()
    assert second == first
    monkeypatch.setattr(read_cases, "KEPT_CASES", 0)
    with pytest.raises(UserError, match="cannot be kept in a temporary file: No space left on device"):
        twice([{**ROWS[0], "id": str(number)} for number in range(30)])


def test_compressed_data_are_read_once(lab):
    path = lab.folder / "d.parquet"
    pl.DataFrame(ROWS).write_parquet(path)
    cases = read_cases.RunCases(lab.parts({"d": {"path": str(path)}}, ["exact_match"]).settings.run)
    assert len(ids(cases)) == 5
    pl.DataFrame(ROWS[:1]).write_parquet(path)
    assert len(ids(cases)) == 5


def test_a_reading_that_is_broken_off_is_begun_anew(lab):
    cases = read_cases.RunCases(lab.parts({"d": lab.data(*ROWS)}, ["exact_match"]).settings.run)
    next(iter(cases))
    assert ids(cases) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        ({"tags": ["A"]}, "012"),
        ({"tags": ["A", "B"]}, "0123"),
        ({"tags": ["A", "B"], "every_tag": True}, "2"),
        ({"tags": ["A>x", "B"], "every_tag": True}, "2"),
        ({"tags": ["A"], "ids": ["3", "1"]}, "1"),
        ({"tags": ["A > y", "B"], "every_tag": True}, "no case of d has every one of the tags A > y, B"),
        ({"tags": ["A"], "ids": ["3", "4"]}, "no case of d has one of the tags and one of the ids"),
        ({"tags": ["C", "B"], "ids": ["9"]}, "(?s)has the tag 'C'.*has the id '9'"),
    ],
)
def test_cases_have_one_of_the_tags_or_every_one(lab, keys, kept):
    tags = [["A"], ["A > y"], ["B", "A > x"], ["B"], []]
    data = lab.data(*({**row, "tags": own} for row, own in zip(ROWS, tags, strict=True)))
    config = lab.parts({"d": data}, ["exact_match"]).settings.run
    chosen = config.model_copy(update={"dataset": {"d": config.dataset["d"].model_copy(update=keys)}})
    if kept.isdecimal():
        assert "".join(ids(read_cases.offered(chosen))) == kept
    else:
        with pytest.raises(UserError, match=kept):
            ids(read_cases.offered(chosen))


def test_the_limit_counts_for_each_dataset(lab):
    data = {"a": lab.data(*ROWS, name="a.jsonl"), "b": lab.data(*ROWS, name="b.jsonl")}
    cases = read_cases.RunCases(lab.parts(data, ["exact_match"], limit=2).settings.run)
    assert (ids(cases), ids(cases)) == (["0", "1"] * 2, ["0", "1"] * 2)
