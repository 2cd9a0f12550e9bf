"""Rows of files that are no datasets."""

import pytest

from evalflow.datasets import plain_rows
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_as_spreadsheets_write_it(tmp_path, delimiter):
    file = tmp_path / "a.csv"
    file.write_text("\ufeff" + delimiter.join(["x", "y"]) + "\r\n" + delimiter.join(["1", '"a\nb"']) + "\r\n")
    [row] = plain_rows(file)
    assert isinstance(row, SourceRow)
    assert (row.data, row.where.rpartition(":")[2]) == ({"x": "1", "y": "a\nb"}, "2")


def test_json_lines_with_a_broken_one(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"x": 1}\n{"x": \n')
    first, second = plain_rows(file)
    assert isinstance(first, SourceRow)
    assert first.data == {"x": 1}
    assert isinstance(second, Problem)


@pytest.mark.parametrize(
    ("name", "message"), [("a.csv", "no such file"), ("a.xls", "expected a .csv, .jsonl or .xlsx")]
)
def test_what_cannot_be_read(tmp_path, name, message):
    if name.endswith("xls"):
        (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(UserError, match=message):
        list(plain_rows(tmp_path / name))
