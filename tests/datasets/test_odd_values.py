"""One table of odd values through every format, a frame, dictionaries and objects: the same cases come out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import make_dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.api.tables import case_rows
from evalflow.app.core.begin import keep_cases
from evalflow.config.schema import DatasetConfig
from evalflow.datasets import ReadingNotes, read
from evalflow.errors import UserError
from evalflow.records import Case, Context, Message
from tests.datasets.workbooks import workbook

Rows = Sequence[Mapping[str, Any]]
Write = Callable[[Rows], Path]

TEXTS = (
    "3.10",
    "250.1",
    "007",
    "1000000.00",
    "1e5",
    "+1",
    "0x10",
    "1_000",
    "½",
    "1,5",
    "TRUE",
    "false",
    "None",
    "null",
    "nan",
    "NaN",
    "N/A",
    "2026-01-02",
    " spaces ",
    "[1]",
    "['a', 'b']",
    '{"a": 1}',
    "a|b",
    "a; b",
    "=1+1",
    "'",
    '"',
    "#",
    "two\nlines",
    "{{ braces }}",
    "${env}",
    "日本",
    "[Document(page_content='a')]",
)
"""Cells that look like something else."""
FIELDS: dict[str, Any] = {"expected": {"label": "label", "other": "mark"}}
COLUMNS = ("question", "answer", "reference", "label", "mark", "actual", "group", "note")


def jsonl(rows: Rows) -> Path:
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Path("mine.jsonl")


def json_list(rows: Rows) -> Path:
    Path("mine.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return Path("mine.json")


def columns_of(rows: Rows) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def as_csv(rows: Rows, delimiter: str = ",") -> Path:
    with Path("mine.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns_of(rows))
        writer.writerows([cell(row.get(column)) for column in columns_of(rows)] for row in rows)
    return Path("mine.csv")


def xlsx(rows: Rows) -> Path:
    def draw(_: Any, sheet: Any) -> None:
        for place, column in enumerate(columns_of(rows)):
            for line, text in enumerate([column, *(cell(row.get(column)) for row in rows)]):
                sheet.write_string(line, place, text)

    return workbook(Path("mine.xlsx"), {"Cases": draw})


def parquet(rows: Rows) -> Path:
    pl.DataFrame(rows, infer_schema_length=None).write_parquet("mine.parquet")
    return Path("mine.parquet")


def dictionaries(rows: Rows) -> Path:
    return keep_cases(case_rows(rows))


def polars(rows: Rows) -> Path:
    return keep_cases(case_rows(pl.DataFrame(rows, infer_schema_length=None)))


def objects(rows: Rows) -> Path:
    kind = make_dataclass("Row", columns_of(rows))
    return keep_cases(case_rows([kind(*(row.get(column) for column in columns_of(rows))) for row in rows]))


def pandas(rows: Rows) -> Path:
    """As pandas has them: missing values are NaN, and lists read from Parquet are arrays."""

    def value(one: Any) -> Any:
        return float("nan") if one is None else np.array(one) if isinstance(one, list) else one

    records = [{column: value(row.get(column)) for column in columns_of(rows)} for row in rows]
    index = SimpleNamespace(names=[None])
    frame = SimpleNamespace(columns=columns_of(rows), index=index, to_dict=lambda _: records)
    return keep_cases(case_rows(frame))


FORMATS: Mapping[str, Write] = {
    one.__name__: one for one in (jsonl, json_list, as_csv, xlsx, parquet, dictionaries, polars, objects, pandas)
}
CELLS = (as_csv, xlsx)


def cases_of(file: Path, **config: Any) -> tuple[list[Case], list[str]]:
    notes = ReadingNotes()
    found = list(read("mine", DatasetConfig(path=str(file), **config), notes=notes))
    return found, list(notes.lines("mine"))


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_a_text_is_the_same_in_every_field_and_format(write: Write) -> None:
    rows = [{"id": f"c{number}", **dict.fromkeys(COLUMNS, one)} for number, one in enumerate(TEXTS)]
    cases, notes = cases_of(write(rows), fields=FIELDS)
    assert notes == []
    for case, one in zip(cases, TEXTS, strict=True):
        texts = (case.question, case.answer, case.reference, case.actual, case.group, case.vars["note"])
        assert texts == (one,) * 6
        assert case.expected == {"label": one, "other": one}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_values_that_a_field_needs_are_the_same_in_every_format(write: Write) -> None:
    rows = [
        {"id": "a", "question": "q", "contexts": ["one", "two"], "tags": ["x", "y"], "metadata": {"page": 3}, "n": 4.5},
        {"id": "b", "question": "q", "contexts": [], "tags": [], "metadata": {"page": None}, "n": None},
        {"id": "c", "question": "q", "contexts": None, "tags": None, "metadata": None, "n": 2.0},
    ]
    fields: dict[str, Any] = {
        "score": {"column": "n", "type": "number"},
        "labels": {"m": {"column": "n", "type": "number"}},
    }
    (first, second, third), _ = cases_of(write(rows), fields=fields)
    assert first.contexts == (Context("one"), Context("two"))
    assert (second.contexts, third.contexts) == ((), None)
    assert (first.tags, second.tags, third.tags) == (("x", "y"), (), ())
    assert (first.metadata, (second.metadata or {}).get("page")) == ({"page": 3}, None)
    assert [case.vars for case in (first, second, third)] == [{"score": 4.5}, {}, {"score": 2.0}]
    assert [case.labels for case in (first, second, third)] == [{"m": 4.5}, None, {"m": 2.0}]


LISTS = {
    "['a', 'b']": ("a", "b"),
    '["a", "b"]': ("a", "b"),
    "('a', 'b')": ("a", "b"),
    "[]": (),
    "a text": ("a text",),
    "[1] a text": ("[1] a text",),
    "[Document(page_content='a')]": ("a",),
    "['it\\'s', \"b\"]": ("it's", "b"),
    "a | b": ("a | b",),
    '{"text": "a"}': ("a",),
    "page_content='a' metadata={'source': 's'}": ("a",),
}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_a_text_of_a_list_is_a_list_where_the_field_is_one(write: Write) -> None:
    rows = [{"id": f"c{number}", "question": "q", "contexts": text} for number, text in enumerate(LISTS)]
    cases, _ = cases_of(write(rows))
    for case, wanted in zip(cases, LISTS.values(), strict=True):
        assert tuple(one.text for one in case.contexts or ()) == wanted


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("text", ["['a' 'b']", "['a', 'b", "[Document(object)]", "Document(page_content=<x>)", "[a b]"])
def test_a_text_that_is_a_broken_list_is_refused_with_its_row(write: Write, text: str) -> None:
    rows = [{"id": "a", "question": "q", "contexts": text}]
    with pytest.raises(UserError) as error:
        cases_of(write(rows))
    (problem,) = error.value.problems
    assert problem.what.startswith("contexts: ")
    assert "write it as JSON" in problem.what
    assert problem.where.endswith((":1", "[0]", ":2", "row 2"))


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_rows_without_a_value_are_left_out_and_counted(write: Write) -> None:
    filled = {"question": "q", "answer": "a"}
    rows = [dict.fromkeys(filled), filled, dict.fromkeys(filled), {"question": " ", "answer": ""}, filled]
    cases, notes = cases_of(write(rows))
    assert [case.index for case in cases] == [0, 1]
    assert cases[1].id == f"{cases[0].id}-2"
    # In a workbook, rows without anything are not there at all.
    left = ["1 empty row is left out"] if write is xlsx else ["3 empty rows are left out"]
    assert [note.removeprefix("mine: ").partition(";")[0] for note in notes] in (
        [*left, "1 row without an id asks the same as an earlier one"],
        ["1 row without an id asks the same as an earlier one"],
    )


@pytest.mark.parametrize("write", [one for one in FORMATS.values() if one is not objects])
def test_names_of_columns_are_trimmed(write: Write) -> None:
    (case,), _ = cases_of(
        write([{"\ufeffquestion ": "q", "\xa0ideal": "r", " note": "n"}]), fields={"reference": "ideal "}
    )
    assert (case.question, case.reference, case.vars) == ("q", "r", {"note": "n"})


@pytest.mark.parametrize("write", [jsonl, json_list, as_csv, dictionaries, objects, pandas])
def test_half_characters_are_mended_and_noted(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    open_file = Path.open
    lenient = lambda self, *given, **how: open_file(self, *given, **how, errors="surrogatepass")  # noqa: E731
    if write is as_csv:  # as a program writes it that does not look
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", lenient)
            file = write([{"question": "cut \ud83d", "answer": "\U0001f600 \\ud83d"}])
    elif write is json_list:
        Path("mine.json").write_text('[{"question": "cut \\ud83d", "answer": "\\ud83d\\ude00 \\\\ud83d"}]')
        file = Path("mine.json")
    else:
        file = write([{"question": "cut \ud83d", "answer": "\U0001f600 \\ud83d"}])
    (case,), notes = cases_of(file)
    assert (case.question, case.answer) == ("cut \ufffd", "\U0001f600 \\ud83d")
    assert notes == ["mine: 1 half character in texts that were cut became \ufffd"]


def test_numbers_for_texts_keep_the_digits_of_their_file() -> None:
    text = '{"question": 4, "reference": 4.50, "answer": true, "n": 4.50}'
    Path("a.jsonl").write_text(text)
    Path("b.json").write_text(f"[{text}]")
    row = {"question": 4, "reference": Decimal("4.50"), "answer": True, "n": Decimal("4.50")}
    for file in (Path("a.jsonl"), Path("b.json"), parquet([row]), dictionaries([row])):
        (case,), _ = cases_of(file)
        assert (case.question, case.reference, case.answer, case.vars) == ("4", "4.50", "true", {"n": 4.5})
        (case,), _ = cases_of(file, fields={"expected": {"column": "n", "type": "text"}})
        assert case.expected == "4.50"
    Path("data.json").write_text('{"data": [{"input": 4, "output": 4.50}]}')
    (case,), _ = cases_of(Path("data.json"))
    assert (case.question, case.reference) == ("4", "4.50")
    (case,), _ = cases_of(jsonl([{"question": "q", "reference": [4, 4.5, "four"]}]))
    assert case.reference == ("4", "4.5", "four")


def test_numbers_of_single_precision_have_the_digits_that_are_printed() -> None:
    frame = pl.DataFrame({"question": "q", "reference": pl.Series([3.1], dtype=pl.Float32)})
    frame.write_parquet("single.parquet")
    (case,), _ = cases_of(Path("single.parquet"))
    assert case.reference == "3.1"
    for rows in (frame, frame.to_struct(), [{"question": "q", "reference": np.float32(3.1)}]):
        assert case_rows(rows) == [{"question": "q", "reference": 3.1}]
    inner = [{"x": 0.1, "pair": [0.2, 0.7], "exact": 0.12345678901234}]
    kinds = {"x": pl.Float32, "pair": pl.Array(pl.Float32, 2), "exact": pl.Float64}
    frame = pl.DataFrame(
        {"question": ["q"], "expected": [inner]}, schema_overrides={"expected": pl.List(pl.Struct(kinds))}
    )
    frame.write_parquet("within.parquet")
    (case,), _ = cases_of(Path("within.parquet"))
    assert case.expected == inner
    assert case_rows(frame) == [{"question": "q", "expected": inner}]
    patterns = {"question": "q", "^q.*$": 0.1, "*": 0.2}
    assert case_rows(pl.DataFrame([patterns], schema_overrides=dict.fromkeys(("^q.*$", "*"), pl.Float32))) == [patterns]


printable = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


@given(st.lists(printable.filter(str.strip), min_size=1, max_size=4))
def test_a_cell_of_csv_is_its_text(texts: list[str]) -> None:
    file = as_csv([{"id": str(number), "question": text, "note": text} for number, text in enumerate(texts)])
    cases, _ = cases_of(file)
    assert [(case.question, case.vars["note"]) for case in cases] == [(text, text) for text in texts]


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_objects_with_different_fields_stay_different(write: Write) -> None:
    rows = [
        {"id": "a", "question": "q", "expected": {"rude": True}, "contexts": [{"text": "t", "title": "T"}]},
        {"id": "b", "question": "q", "expected": {"wrong": False}, "contexts": [{"text": "t"}]},
    ]
    if write is pandas:  # as it reads them from Parquet
        empty = {"rude": None, "wrong": None}
        rows = [{**row, "expected": {**empty, **cast("dict[str, Any]", row["expected"])}} for row in rows]
    cases, _ = cases_of(write(rows), fields={"expected": {"type": "json"}})
    assert [case.expected for case in cases] == [{"rude": True}, {"wrong": False}]
    assert [case.contexts for case in cases] == [(Context("t", "T"),), (Context("t"),)]


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_an_example_answer_is_a_text_or_the_text_of_a_message(write: Write) -> None:
    message = {"role": "assistant", "content": "yes", "metadata": {"page": 3}}
    texts = ["yes", '{"content": "yes"}', json.dumps(message), str(message)]
    rows = [{"id": f"c{number}", "question": "q", "demo_answer": text} for number, text in enumerate(texts)]
    cases, _ = cases_of(write(rows))
    plain, answer_in_json, *messages = [case.demo_answer for case in cases]
    assert plain == Message("assistant", "yes")
    assert answer_in_json == Message("assistant", '{"content": "yes"}')
    assert messages == [Message("assistant", "yes", {"page": 3})] * 2


def test_whole_numbers_beside_missing_ones_are_whole_as_pandas_does_not_leave_them() -> None:
    nan = float("nan")
    rows = [{"id": 1.0, "question": "q", "reference": 4.0, "half": 0.5}, {"id": nan, "question": "r", "reference": nan}]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet("pandas.parquet", metadata={"pandas": "{}"})
    for file in (dictionaries(rows), pandas(rows), Path("pandas.parquet")):
        (first, second), _ = cases_of(file)
        assert (first.id, first.reference, first.vars, second.reference) == ("1", "4", {"half": 0.5}, None)
