"""The cases of a run, gone over several times."""

from __future__ import annotations

import polars as pl
import pytest

from evalflow.app.core import cases as read_cases
from evalflow.errors import UserError

ROWS = [{"id": str(number), "question": "What?", "answer": "That."} for number in range(5)]


def ids(cases):
    return [case.id for case in cases]


@pytest.fixture
def changed(lab):
    """What is read again after the file has lost all but its first row."""

    def reread(**keys):
        data = {"d": lab.data(*ROWS)}
        cases = read_cases.RunCases(lab.parts(data, ["exact_match"], **keys).settings.run)
        first = ids(cases)
        lab.data(*ROWS[:1])
        return first, ids(cases)

    return reread


def test_small_data_are_read_once(changed):
    assert changed() == (["0", "1", "2", "3", "4"], ["0", "1", "2", "3", "4"])


@pytest.mark.parametrize("bound", ["KEPT_BYTES", "KEPT_CASES"])
def test_larger_data_are_read_each_time(changed, monkeypatch, bound):
    monkeypatch.setattr(read_cases, bound, 4)
    assert changed() == (["0", "1", "2", "3", "4"], ["0"])


def test_compressed_data_are_read_each_time(lab):
    path = lab.folder / "d.parquet"
    pl.DataFrame(ROWS).write_parquet(path)
    cases = read_cases.RunCases(lab.parts({"d": {"path": str(path)}}, ["exact_match"]).settings.run)
    assert len(ids(cases)) == 5
    pl.DataFrame(ROWS[:1]).write_parquet(path)
    assert len(ids(cases)) == 1


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
