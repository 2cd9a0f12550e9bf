"""The same cases out of every format, and only as much of a file as is asked for."""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import json
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import columns, digest, files, read
from evalflow.errors import UserError
from evalflow.records import Context, Message

ROWS: list[dict[str, Any]] = [
    {
        "id": "one",
        "messages": [{"role": "user", "content": "What is 2 + 2?"}],
        "answer": '{"sum": 4}',
        "reference": "007",
        "contexts": [{"text": 'Two and two, make "four".\nYes.', "title": "Sums"}, {"text": "b", "title": None}],
        "expected": True,
        "actual": False,
        "metadata": {"tool": "calculator", "cost": 0.25},
        "demo_answer": "four",
        "checks": [{"identifier": "string_matching", "enabled": True, "params": {"keyword": "4"}}],
        "tags": ["Sums > Small", "b"],
        "labels": {"faithfulness": True},
        "group": "12",
        "stars": 4,
        "note": 'a; b, "c"',
        "extra": {"deep": [1, 2]},
    },
    {"id": "two", "question": "Ça va, 世界?", "expected": False, "stars": 3},
]


def write(rows: list[dict[str, Any]]) -> list[str]:
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    Path("mine.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    names = list(dict.fromkeys(column for row in rows for column in row))
    with Path("mine.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({key: cell if isinstance(cell, str) else json.dumps(cell) for key, cell in row.items()})
    pl.DataFrame(rows, infer_schema_length=None).write_parquet("mine.parquet")
    return ["mine.jsonl", "mine.json", "mine.csv", "mine.parquet"]


TYPES: dict[str, Any] = {
    "expected": {"type": "boolean"},
    "actual": {"type": "boolean"},
    "stars": {"type": "number"},
    "extra": {"type": "json"},
}


def test_a_tilde_of_nobody_s_home_is_part_of_the_name(load: Any) -> None:
    assert len(load([{"question": "a?"}], "~cases.jsonl")) == 1


def test_all_formats_give_equal_cases() -> None:
    wanted = None
    for name in write(ROWS):
        cases = list(read("mine", DatasetConfig(path=name, fields=TYPES)))
        wanted = wanted or cases
        assert cases == wanted, name
    assert wanted
    first, second = wanted
    assert first.answer == '{"sum": 4}'
    assert (first.reference, first.group, first.expected, first.actual) == ("007", "12", True, False)
    assert first.contexts == (Context('Two and two, make "four".\nYes.', "Sums"), Context("b"))
    assert first.vars == {"stars": 4, "note": 'a; b, "c"', "extra": {"deep": [1, 2]}}
    assert (second.messages, second.contexts) == ((Message("user", "Ça va, 世界?"),), None)


def test_ids_made_from_the_content_agree_over_formats() -> None:
    ids = {tuple(case.id for case in read("mine", DatasetConfig(path=name))) for name in write([{"question": "a"}])}
    assert len(ids) == 1
    names = write([{"question": "a", "stars": 4, "half": 0.5, "yes": True}, {"question": "b"}])
    typed = {tuple(case.id for case in read("mine", DatasetConfig(path=name))) for name in names if "csv" not in name}
    assert len(typed) == 1


def test_cells_are_text_unless_their_field_is_a_list_or_an_object(load: Any) -> None:
    text = (
        "id,question,answer,contexts,tags,expected,actual,metadata,score,code,flag,labels\n"
        '01,12,true,plain text,a; b > c,TRUE,-1.5e3,"{""a"": 1}",4,007,False,\n'
        "02,[1],{broken,[citation needed] text,[1] x,maybe,[1],,,,,\n"
    )
    first, second = load("\ufeff" + text, "mine.csv")
    assert (first.id, first.question, first.answer) == ("01", "12", "true")
    assert (first.contexts, first.tags) == ((Context("plain text"),), ("a", "b > c"))
    assert (first.expected, first.actual, first.metadata) == ("TRUE", "-1.5e3", {"a": 1})
    assert first.vars == {"score": "4", "code": "007", "flag": "False"}
    assert first.labels is None
    assert (second.question, second.answer) == ("[1]", "{broken")
    assert (second.contexts, second.tags) == ((Context("[citation needed] text"),), ("[1] x",))
    assert (second.expected, second.actual, second.vars) == ("maybe", "[1]", {})


def test_a_path_goes_into_a_cell(load: Any) -> None:
    (case,) = load(
        'q,meta\nhi,"{""user"": {""name"": ""Jo""}}"\n', "mine.csv", fields={"reference": "$.meta.user.name"}
    )
    assert case.reference == "Jo"


def test_a_cell_may_be_longer_than_the_csv_module_allows_by_default(load: Any) -> None:
    (case,) = load(f"question,contexts\nq,{'long ' * 40_000}\n", "mine.csv")
    assert len(case.contexts[0].text) == 200_000


def test_blank_lines_byte_order_marks_and_line_ends(load: Any) -> None:
    text = (
        '\ufeff\n{"question": "a\u2028b"}\r\n\r\n  {"question": "c"}\n{\r\n "question": "d"\r\n}\r\n{"question": "e"}'
    )
    assert [case.question for case in load(text)] == ["a\u2028b", "c", "d", "e"]
    assert load('\ufeff[{"question": "a"}]', "mine.json")[0].question == "a"


def test_numbers_are_kept_exactly(load: Any) -> None:
    text = '{"big": 123456789012345678901234567890, "f": 0.1, "z": -0.0, "e": 1e3}'
    for content, name in ((text, "mine.jsonl"), (f"[{text}]", "mine.json")):
        values = load(content, name)[0].vars
        assert values == {"big": 123456789012345678901234567890, "f": 0.1, "z": 0.0, "e": 1000.0}
        assert [type(value) for value in values.values()] == [int, float, float, float]


def test_parquet_values_that_json_has_no_type_for() -> None:
    frame = pl.DataFrame(
        {
            "day": [dt.date(2026, 11, 21)],
            "at": [dt.datetime(2026, 11, 21, 14, 3)],  # noqa: DTZ001 - files hold such
            "took": [dt.timedelta(seconds=1.5)],
            "price": [Decimal("1.25")],
            "blob": [b"ab"],
            "kind": pl.Series(["x"], dtype=pl.Categorical),
        }
    )
    frame.write_parquet("mine.parquet")
    (case,) = read("mine", DatasetConfig(path="mine.parquet"))
    assert case.vars == {
        "day": "2026-11-21",
        "at": "2026-11-21T14:03:00",
        "took": 1.5,
        "price": 1.25,
        "blob": "YWI=",
        "kind": "x",
    }


def test_parquet_in_several_batches() -> None:
    pl.DataFrame({"id": range(10_000)}).write_parquet("mine.parquet")
    assert [case.id for case in read("mine", DatasetConfig(path="mine.parquet"))] == [str(i) for i in range(10_000)]


def test_a_glob_reads_its_files_in_order() -> None:
    Path("deep").mkdir()
    Path("deep/b.csv").write_text("question\nb\nc\n")
    Path("a.jsonl").write_text('{"question": "a"}\n')
    config = DatasetConfig(path="**/*.*")
    assert files(config) == [Path.cwd() / "a.jsonl", Path.cwd() / "deep/b.csv"]
    cases = list(read("mine", config))
    assert [(case.index, case.question) for case in cases] == [(0, "a"), (1, "b"), (2, "c")]
    assert columns(config) == ["question"]


def test_a_name_with_brackets_is_a_file_before_it_is_a_glob() -> None:
    Path("a[1].jsonl").write_text('{"question": "a"}\n')
    assert files(DatasetConfig(path="a[1].jsonl")) == [Path.cwd() / "a[1].jsonl"]


def test_the_packaged_data_is_found_from_anywhere() -> None:
    (path,) = files(DatasetConfig(path="data/rag.jsonl"))
    assert path.is_absolute()
    assert path.is_file()


def test_the_digest_is_the_files_own_and_changes_with_any_of_them() -> None:
    Path("a.jsonl").write_text("{}")
    assert digest(DatasetConfig(path="a.jsonl")) == hashlib.sha256(b"{}").hexdigest()
    Path("b.jsonl").write_text("{}")
    both = digest(DatasetConfig(path="*.jsonl"))
    Path("b.jsonl").write_text("{} ")
    assert len({both, digest(DatasetConfig(path="a.jsonl")), digest(DatasetConfig(path="*.jsonl"))}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mine.jsonl", "mine.json", "mine.csv", "mine.parquet"])
@pytest.mark.parametrize("how_many", [3, 12_000])
def test_a_file_is_never_wholly_in_memory(name: str, how_many: int) -> None:
    rows = 12_000
    ids = [f"{i:06} {'padding ' * 50}" for i in range(rows)]
    match name.split(".")[1]:
        case "jsonl":
            Path(name).write_text("".join(f'{{"id": "{i}"}}\n' for i in ids))
        case "json":
            Path(name).write_text(json.dumps([{"id": i} for i in ids]))
        case "csv":
            Path(name).write_text("id\n" + "\n".join(ids))
        case _:
            pl.DataFrame({"id": ids}).write_parquet(name, row_group_size=1000)
    size = len(ids) * len(ids[0])
    del ids
    next(read("mine", DatasetConfig(path=name)))  # imports are not what is measured
    tracemalloc.start()
    cases = read("mine", DatasetConfig(path=name))
    for _ in range(how_many):
        assert next(cases).id
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 3


def test_rows_behind_those_that_are_asked_for_are_not_read() -> None:
    rows = "".join(f'{{"id": {i}}}\n' for i in range(200_000))
    Path("mine.jsonl").write_text(rows + "broken")
    Path("mine.json").write_text("[" + ",".join(rows.splitlines()) + ", broken")
    Path("mine.csv").write_text("id\n" + "1\n" * 200_000 + "1,2\n")
    for name in ("mine.jsonl", "mine.json", "mine.csv"):
        cases = read("mine", DatasetConfig(path=name))
        assert [next(cases).index for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_with_other_delimiters(tmp_path, delimiter):
    path = tmp_path / "mine.csv"
    path.write_text(f'question{delimiter}answer\nOne, two?{delimiter}"3{delimiter}4"\n', encoding="utf-8")
    [case] = read("mine", DatasetConfig(path=str(path)))
    assert (case.question, case.answer) == ("One, two?", f"3{delimiter}4")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_commonest_mark_outside_of_quotes(load: Any, delimiter: str) -> None:
    header = delimiter.join(['"question, as asked, or; not|so\t"', "answer"])
    (case,) = load(f"{header}\nCan I park?{delimiter}Yes\n", "mine.csv")
    assert (case.answer, case.vars) == ("Yes", {"question, as asked, or; not|so": "Can I park?"})


@pytest.mark.parametrize(("declared", "delimiter"), [("sep=;\r\n", ";"), ('"sep=^"\n', "^"), ("\ufeffsep=\t\n", "\t")])
def test_a_first_line_for_excel_declares_the_delimiter(load: Any, refused: Any, declared: str, delimiter: str) -> None:
    row = f'Can I park?{delimiter}"Yes{delimiter} there"\n'
    (case,) = load(f"{declared}question{delimiter}answer\n{row}", "mine.csv")
    assert (case.question, case.answer) == ("Can I park?", f"Yes{delimiter} there")
    (problem,) = refused(f"{declared}question{delimiter}answer\n{row}a{delimiter}b{delimiter}c\n", "mine.csv")
    assert problem.where == "mine.csv:4"


REPEATED = ('"answer": "Yes", "answer": "No"', '"answer": "Yes", "vars": {"a": [{"answer": 1, "answer": null}]}')


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize(
    ("name", "rows", "where"),
    [
        ("mine.jsonl", '{{"question": "Where?"}}\n{{"question": "Can I park?", {0}}}\n', "mine.jsonl:2"),
        ("mine.jsonl", '{{\n"question": "Can I park?", {0}\n}}\n', "mine.jsonl"),
        ("mine.json", '[{{"question": "Where?"}}, {{"question": "Can I park?", {0}}}]', "mine.json[1]"),
        ("mine.json", '{{"question": "Can I park?", {0}}}', "mine.json"),
    ],
)
def test_a_key_with_two_values_is_refused(refused: Any, name: str, rows: str, where: str, repeated: str) -> None:
    (problem,) = refused(rows.format(repeated), name)
    assert (problem.where, problem.what) == (
        where,
        "answer is there more than once, with different values; give it once",
    )


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.json"])
def test_a_key_that_is_repeated_with_one_value_is_harmless(load: Any, refused: Any, name: str) -> None:
    row = (
        '{"question": "Can I park?", "answer": "Yes", "answer": "Yes", "metadata": {"x": [1]}, "metadata": {"x": [1]}}'
    )
    assert [case.answer for case in load(row, name)] == ["Yes"]
    (problem,) = refused('{"question": "Can I park?", "contexts": [], "contexts": ["c"]}', name)
    assert problem.what.startswith("contexts is there more than once")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('{"question": "Can I park?"},\n', "remove the comma at the end of the line"),
        ("{'question': 'Can I park?'}\n", "these are dictionaries as Python prints them; write them with json.dumps"),
        ("[{'question': 'Can I park?'}]\n", "these are dictionaries as Python prints them; write them with json.dumps"),
        ('{"question": "NaN", "answer": }\n', ""),
        ('{"question": "Can I pa', "it ends too early; was the file copied or written whole?"),
    ],
)
def test_broken_lines_are_explained(refused: Any, line: str, hint: str) -> None:
    (problem,) = refused(line)
    assert problem.hint == hint


@pytest.mark.parametrize("key", ["cases", "rows", "testCases"])
def test_rows_in_a_list_under_a_usual_name(load: Any, key: str) -> None:
    rows = [{"question": "Can I park?", "answer": "Yes"}, {"question": "Where?", "answer": "Behind the house"}]
    cases = load(json.dumps({"version": 2, key: rows, "authors": ["Ann"]}), "mine.json")
    assert [case.answer for case in cases] == ["Yes", "Behind the house"]


def test_a_case_with_such_a_list_is_still_a_case(load: Any) -> None:
    (case,) = load(json.dumps({"question": "What did I buy?", "items": [{"name": "tea"}]}), "mine.json")
    assert case.vars == {"items": [{"name": "tea"}]}


@pytest.mark.parametrize(
    "rows",
    [
        {"question": {"0": "Can I park?", "1": "Where?"}, "answer": {"0": "Yes", "1": "Behind the house"}},
        {"0": {"question": "Can I park?"}, "1": {"question": "Where?"}},
        {"first": {"question": "Can I park?"}, "second": {"question": "Where?", "answer": "Behind the house"}},
        {"train": [{"question": "Can I park?"}], "test": [{"question": "Where?", "answer": "Behind the house"}]},
    ],
)
def test_rows_by_columns_or_names_are_never_one_case(refused: Any, rows: Any) -> None:
    (problem,) = refused(json.dumps(rows), "mine.json")
    assert problem.what == "the file is one object of several rows or columns"
    assert problem.hint.startswith("put the rows in a list: [{...}, {...}]")


def test_a_packed_file_is_to_be_unpacked() -> None:
    Path("mine.csv.gz").write_bytes(b"")
    with pytest.raises(UserError) as caught:
        read("mine", DatasetConfig(path="mine.csv.gz"))
    assert caught.value.problems[0].hint == "unpack it first"
