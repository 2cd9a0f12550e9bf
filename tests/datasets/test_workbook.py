"""Excel workbooks are read as the tables that people see in them."""

from __future__ import annotations

import datetime as dt
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import examples, plain_rows, read, read_rows, sheets, text_bytes, workbook
from evalflow.errors import Problem, UserError
from evalflow.records import Case
from tests.datasets import workbooks as written

pytestmark = pytest.mark.slow

FILE = Path("mine.xlsx")


def cases(**config: Any) -> list[Case]:
    return list(read("mine", DatasetConfig(path=str(FILE), **config)))


def refused(**config: Any) -> Sequence[Problem]:
    with pytest.raises(UserError) as error:
        cases(**config)
    return error.value.problems


def sheet(*rows: Sequence[Any]) -> None:
    written.workbook(FILE, {"Cases": rows})


def test_a_sheet_is_a_dataset() -> None:
    sheet(["id", "question ", "Ideal", "tags"], [7, "What is it?", "A thing", "A>B; C"], ["b", "Wo?\nHier", None, None])
    first, second = cases(fields={"reference": "Ideal"})
    assert (first.id, first.question, first.reference, first.tags) == ("7", "What is it?", "A thing", ("A > B", "C"))
    assert (second.id, second.question, second.reference) == ("b", "Wo?\nHier", None)


def test_values_are_those_of_the_csv_that_excel_saves() -> None:
    def draw(book: Any, one: Any) -> None:
        row = {"question": 42, "expected": True, "price": 0.1 + 0.2, "whole": 1e15, "text": "007", "number": "12"}
        day, at = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4)  # noqa: DTZ001 - Excel knows no zones
        for column, (name, value) in enumerate(row.items()):
            one.write(0, column, name)
            one.write(1, column, value)
        one.write_row(0, 6, ["day", "at", "clock", "took", "sum", "said", "rule", "list"])
        one.write_datetime(1, 6, day)
        one.write_datetime(1, 7, at, book.add_format({"num_format": "yyyy-mm-dd hh:mm"}))
        one.write_datetime(1, 8, dt.time(3, 4), book.add_format({"num_format": "hh:mm"}))
        one.write_number(1, 9, 1.5, book.add_format({"num_format": "[h]:mm:ss"}))
        one.write_formula(1, 10, "=1+1", None, 2)
        one.write_formula(1, 11, '="a"&"b"', None, "ab")
        one.write_formula(1, 12, '=IF(TRUE,"","x")', None, "none")
        one.write_string(1, 13, '["a", 1]')

    written.workbook(FILE, {"Cases": draw})
    # A formula may give an empty text, which is marked as text.
    written.replace_part(FILE, written.FIRST_SHEET, _part(written.FIRST_SHEET).replace(b"<v>none</v>", b"<v></v>"))
    (case,) = cases()
    assert (case.question, case.expected) == ("42", "TRUE")
    assert case.vars == {
        "price": "0.3",
        "whole": "1000000000000000",
        "text": "007",
        "number": "12",
        "day": "2026-01-02",
        "at": "2026-01-02T03:04:00",
        "clock": "03:04:00",
        "took": "129600",
        "sum": "2",
        "said": "ab",
        "list": '["a", 1]',
    }


def _part(name: str) -> bytes:
    with zipfile.ZipFile(FILE) as archive:
        return archive.read(name)


def test_cells_merged_over_rows_are_in_each_and_empty_rows_are_none() -> None:
    def draw(book: Any, one: Any) -> None:
        one.write_row(2, 1, ["tags", "question"])
        one.merge_range(4, 1, 6, 1, "Fees")
        one.write(4, 2, "One?")
        one.write(6, 2, "Three?")
        one.write(8, 2, "Four?")

    written.workbook(FILE, {"Cases": draw})
    assert [(case.question, case.tags) for case in cases()] == [
        ("One?", ("Fees",)),
        ("Three?", ("Fees",)),
        ("Four?", ()),
    ]
    where = [row.where for row in read_rows("mine", DatasetConfig(path=str(FILE)))]
    assert where == ["mine.xlsx, row 5", "mine.xlsx, row 7", "mine.xlsx, row 9"]


def test_a_sheet_is_chosen_where_there_are_several() -> None:
    rows = {
        "Cases": [["question"], ["One?"]],
        "Notes": [["question"], ["Two?"]],
        "Empty": [],
        "Old": [["question"], ["Three?"]],
    }
    written.workbook(FILE, rows, hidden=["Old"])
    assert sheets(FILE) == ["Cases", "Notes"]
    (problem,) = refused()
    assert "2 sheets: Cases, Notes" in problem.what
    assert "`sheet`" in problem.hint
    for name, question in (("Notes", "Two?"), ("Old", "Three?")):
        assert [case.question for case in cases(sheet=name)] == [question]
    (problem,) = refused(sheet="Kases")
    assert "Cases, Notes, Empty, Old" in problem.hint
    written.workbook(FILE, {name: rows[name] for name in ("Empty", "Old", "Cases")}, hidden=["Old"])
    assert [case.question for case in cases()] == ["One?"]
    with pytest.raises(UserError, match="only an Excel workbook has sheets"):
        next(read("mine", DatasetConfig(path="mine.xlsx", format="csv", sheet="Cases")))


def test_what_excel_could_not_calculate_is_no_empty_cell() -> None:
    def draw(book: Any, one: Any) -> None:
        one.write_row(0, 0, ["question", "reference"])
        one.write_row(1, 0, ["One?", "1"])
        one.write(2, 0, "Two?")
        one.write_formula(2, 1, "=1/0", None, "#DIV/0!")
        one.write(3, 0, "Three?")
        one.write_formula(3, 1, "=1+1", None, 987654)

    written.workbook(FILE, {"Cases": draw})
    written.replace_part(FILE, written.FIRST_SHEET, _part(written.FIRST_SHEET).replace(b"<v>987654</v>", b"<v></v>"))
    first, second = refused()
    assert (first.where, first.what) == ("mine.xlsx, row 3", "B3 is an error in Excel, such as #N/A")
    assert (second.where, second.what) == ("mine.xlsx, row 4", "B4 is a formula without a saved result")


def test_a_value_beside_the_table_and_columns_of_one_name_are_told() -> None:
    sheet(["question", None, "reference"], ["One?", "a note", "1"])
    assert [(one.where, one.what) for one in refused()] == [
        ("mine.xlsx, row 2", "B2 has a value, but its column has no name")
    ]
    sheet(["question", "question"], ["One?", "Two?"])
    assert "'question' more than once" in refused()[0].what
    sheet()
    assert "no sheet of the workbook has a row" in refused()[0].what


def test_labels_may_stand_in_a_workbook() -> None:
    sheet(["case_id", "metric", "value"], ["a", "kind", 1])
    (row,) = plain_rows(FILE)
    assert not isinstance(row, Problem)
    assert row.data == {"case_id": "a", "metric": "kind", "value": "1"}


def _cut(path: Path) -> None:
    sheet(["question"], ["?"])
    path.write_bytes(path.read_bytes()[:-400])


def _without_sheet(path: Path) -> None:
    sheet(["question"], ["?"])
    written.replace_part(path, written.FIRST_SHEET, _part(written.FIRST_SHEET)[:-50])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda path: path.write_bytes(written.compound("EncryptionInfo", "EncryptedPackage")),
            "protected by a password",
        ),
        (lambda path: path.write_bytes(written.compound("Workbook")), "an old Excel file"),
        (lambda path: path.write_bytes(b""), "not an Excel workbook"),
        (lambda path: path.write_text("question\n?\n"), "not an Excel workbook"),
        (_cut, "not an Excel workbook"),
        (_without_sheet, "damaged"),
        (written.far_cells, "needs more than 2,048 MB of memory"),
        (lambda path: written.bomb(path, 100 << 20), "100 MB unpacked; at most 64 MB"),
        (lambda path: written.bomb(path, 100 << 20, claims=5000), "damaged|memory"),
    ],
)
def test_what_is_no_workbook_or_a_bomb_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], message: str
) -> None:
    monkeypatch.setattr(workbook, "UNPACKED", 64 << 20)
    make(FILE)
    for problem in [*refused(), *_problems_of(lambda: sheets(FILE))]:
        assert re.search(message, problem.what), problem
        assert problem.where == "mine.xlsx"


def _problems_of(work: Callable[[], object]) -> Sequence[Problem]:
    with pytest.raises(UserError) as error:
        work()
    return error.value.problems


def test_a_row_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet(["question"], ["?" * 30_000])
    monkeypatch.setattr(workbook, "MAX_RECORD", 20_000)
    assert "row 2 is longer than 20,000 characters" in refused()[0].what


def test_who_stops_reading_leaves_no_process() -> None:
    sheet(["question"], *([f"{i}?"] for i in range(20_000)))
    assert list(examples(DatasetConfig(path=str(FILE)), 3)) == ["question"]
    assert text_bytes(DatasetConfig(path=str(FILE))) == float("inf")
