"""Every kind of wrong file or row is named with its place, and several of them at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow import datasets
from evalflow.config.schema import DatasetConfig
from evalflow.datasets import columns, digest, files, read, rows
from evalflow.datasets.parquet import MEMORY
from evalflow.datasets.sources import MAX_RECORD
from evalflow.errors import UserError
from evalflow.limited.parquet import lines


def test_a_missing_file_is_refused_at_once_with_the_nearest_name() -> None:
    Path("mine.jsonl").write_text("{}")
    for ask in (files, digest, columns, lambda config: read("mine", config)):
        with pytest.raises(UserError) as error:
            ask(DatasetConfig(path="mime.jsonl"))
        (problem,) = error.value.problems
        assert (problem.what, problem.where) == ("no such file", "mime.jsonl")
        assert problem.hint == "did you mean 'mine.jsonl'?"


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(UserError, match="the folder nowhere does not exist"):
        files(DatasetConfig(path="nowhere/mine.jsonl"))


def test_a_folder_is_no_file() -> None:
    Path("folder").mkdir()
    with pytest.raises(UserError, match=r"got a folder\n  hint: name files in it: folder/\*\.jsonl"):
        files(DatasetConfig(path="folder/"))


def test_a_glob_without_a_match() -> None:
    Path("mine.csv").write_text("question\na\n")
    with pytest.raises(UserError, match=r"\*\.jsonl: no file matches\n  hint: known: mine\.csv"):
        files(DatasetConfig(path="*.jsonl"))


@pytest.mark.parametrize("name", ["mine.txt", "mine"])
def test_an_unknown_format(name: str) -> None:
    Path(name).write_text('{"question": "a"}\n')
    with pytest.raises(UserError, match=rf"{name}: unknown format.*\n  hint: rename it, .* to one of: jsonl"):
        read("mine", DatasetConfig(path=name))
    (case,) = read("mine", DatasetConfig(path=name, format="jsonl"))
    assert case.question == "a"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.jsonl", ""),
        ("mine.jsonl", "\n\n \n"),
        ("mine.json", "[]"),
        ("mine.json", '{"data": []}'),
        ("mine.csv", ""),
        ("mine.csv", "question,answer\n"),
    ],
)
@pytest.mark.parametrize("conversation", [False, True])
def test_an_empty_dataset(refused: Any, name: str, content: str, conversation: bool) -> None:
    (problem,) = refused(content, name, conversation=conversation)
    assert problem.what == "the dataset is empty: no case in it"
    assert problem.where == name


@pytest.mark.parametrize(("name", "content"), [("mine.jsonl", "{}\n" * 7), ("mine.json", "[" + "{}," * 6 + "{}]")])
def test_a_file_of_countless_empty_rows_is_not_read_to_its_end(
    refused: Any, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    monkeypatch.setattr(rows, "MOST_EMPTY", 3)
    (problem,) = refused(content, name)
    place = f"{name}:4" if name.endswith("l") else f"{name}[3]"
    assert (problem.what, problem.where, problem.hint) == ("more than 3 rows are empty", place, "remove the empty rows")


def test_columns_are_looked_for_in_the_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "LOOKED_AT", 2)
    Path("mine.jsonl").write_text("{}\n" * 4 + '{"question": "q"}\n')
    assert columns(DatasetConfig(path="mine.jsonl"), rows=1) == []
    assert columns(DatasetConfig(path="mine.jsonl"), rows=5) == ["question"]


def test_an_empty_parquet_file() -> None:
    pl.DataFrame({"question": []}, schema={"question": pl.String}).write_parquet("mine.parquet")
    with pytest.raises(UserError, match=r"mine\.parquet: the dataset is empty"):
        list(read("mine", DatasetConfig(path="mine.parquet")))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"question": "b"', "broken JSON at line 3, column 16: EOF while parsing an object"),
        ('{"question" "b"}', "broken JSON at line 3, column 13: expected `:`"),
        ('{"question": "b"} {}', "broken JSON at line 3, column 19: trailing characters"),
        ("{", "broken JSON at line 3, column 1: EOF"),
        ("[" * 500, "broken JSON at line 3, column 202: recursion limit exceeded"),
    ],
)
def test_broken_json_names_line_and_column(refused: Any, line: str, what: str) -> None:
    (problem,) = refused(f'{{"question": "a"}}\n\n{line}\n{{"question": "c"}}\n')
    assert problem.where == "mine.jsonl:3"
    assert problem.what.startswith(what)


def test_a_fault_inside_an_object_that_is_spread_over_lines(refused: Any) -> None:
    (problem,) = refused('{"question": "a"}\n{\n  "question": "b",\n  "answer" 1\n}\n')
    assert problem.where == "mine.jsonl:4"


@pytest.mark.parametrize("number", ["Infinity", "-Infinity"])
def test_what_is_no_number_in_json(refused: Any, number: str) -> None:
    (problem,) = refused(f'{{"question": "a", "score": {number}}}')
    assert (problem.where, problem.hint.split(";")[0]) == ("mine.jsonl:1", "JSON has no NaN or Infinity")


@pytest.mark.parametrize("number", ["1e999", "-1E+400", "1" * 300 + "e99", "1" * 310 + ".5"])
def test_a_number_that_would_be_read_as_infinity(refused: Any, number: str) -> None:
    rows = f'{{"question": "a 1e999"}}\n{{"question": "b", "score": {number}}}'
    what = f"the number {number if len(number) < 24 else number[:24] + '…'} is too large; numbers end at about 1.8e308"
    assert [(p.where, p.what) for p in refused(rows)] == [("mine.jsonl:2", what)]
    assert [(p.where, p.what) for p in refused(f"[{rows}]".replace("}\n", "},\n"), "mine.json")] == [
        ("mine.json:2", what)
    ]
    for cell, kind in ((number, "number"), (f'"[{number}]"', "json")):
        (problem,) = refused(f"score\n1e99\n{cell}\n", "mine.csv", fields={"score": {"type": kind}})
        assert problem.where == "mine.csv:3"
        assert problem.what.startswith("column 'score': expected")


def test_nan_is_a_missing_value(load: Any) -> None:
    row = '{"question": "NaN", "score": NaN, "contexts": [], "more": {"a": NaN, "b": [NaN]}}'
    for text, name in ((row, "mine.jsonl"), (f"[{row}]", "mine.json")):
        (case,) = load(text, name)
        assert (case.question, case.vars) == ("NaN", {"more": {"a": None, "b": [None]}})


def test_a_whole_number_has_no_end_and_text_may_spell_any(load: Any) -> None:
    row = {"vars": {"count": 10**320, "text": "1e999", "small": 1e300}}
    assert load([row])[0].vars == load(json.dumps([row]), "mine.json")[0].vars == row["vars"]


def test_numbers_of_thousands_of_digits_are_refused_and_texts_of_digits_are_not(refused: Any, load: Any) -> None:
    digits = "3" * 5000
    for text in (
        f'[{{"question": "a"}},\n{{"score": {digits}}}]',
        f'{{"config": {{}},\n"data": [{{"score": {digits}}}]}}',
    ):
        (problem,) = refused(text, "mine.json")
        assert (problem.where, "number out of range" in problem.what) == ("mine.json:2", True)
    assert load(f'[{{"question": "{digits}"}}]', "mine.json")[0].question == digits
    assert load(f"question,note\na,{digits}\n", "mine.csv")[0].vars == {"note": digits}


@pytest.mark.parametrize("depth", [250, 900, 20_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"b":', "}")])
def test_what_is_nested_too_deep(refused: Any, depth: int, opening: str, closing: str) -> None:
    value = opening * depth + "1" + closing * depth
    for name, text in (
        ("mine.json", '[{"question": "a"},\n{"vars": {"x": VALUE}}]'),
        ("mine.jsonl", '\n{"vars": VALUE}'),
    ):
        (problem,) = refused(text.replace("VALUE", value), name)
        assert (problem.where, "recursion limit exceeded" in problem.what) == (f"{name}:2", True)


def test_bytes_that_are_not_utf8(refused: Any) -> None:
    (problem,) = refused('{"question": "café"}'.encode("latin-1"))
    assert problem.where == "mine.jsonl:1"
    (problem,) = refused("question\ncafé\n".encode("latin-1"), "mine.csv")
    assert (problem.where, problem.hint) == ("mine.csv:2", "save it as UTF-8; in Excel, as “CSV UTF-8”")
    (problem,) = refused("question\na\n".encode("utf-16"), "mine.csv")
    assert (problem.where, problem.hint) == ("mine.csv:1", "the file is UTF-16; save it as UTF-8")
    assert refused('{"question": "a"}'.encode("utf-16"))[0].hint == "the file is UTF-16; save it as UTF-8"


@pytest.mark.parametrize(("row", "kind"), [("3", "a number (3)"), ('"a"', "text"), ("null", "null"), ("[1]", "a list")])
def test_a_row_that_is_no_object(refused: Any, row: str, kind: str) -> None:
    (problem,) = refused(f'{{"question": "a"}}\n{row}\n')
    assert problem.where == "mine.jsonl:2"
    assert problem.what == f"expected an object with one column per key, got {kind}"
    (problem,) = refused(f'[{{"question": "a"}}, {row}]', "mine.json")
    assert problem.where == "mine.json[1]"


def test_a_list_in_a_jsonl_file_gets_a_hint(refused: Any) -> None:
    for text in ('[{"question": "a"}]', '[\n{"question": "a"}\n]\n'):
        assert "`format: json`" in refused(text)[0].hint


def test_json_lines_in_a_json_file_get_a_hint(refused: Any) -> None:
    text = '{"question": "a"}\n{"question": "b"}\n'
    assert "`format: jsonl`" in refused(text, "mine.json")[0].hint


@pytest.mark.parametrize("text", ['{"data": {"input": "a"}}', '{"name": "a", "config": {"example_outputs": true}}'])
def test_another_top_level_object_is_refused(refused: Any, text: str) -> None:
    (problem,) = refused(text, "mine.json")
    assert problem.what == "expected a list of objects, or an object with its rows in a list under `data`"
    (problem,) = refused("3", "mine.json")
    assert problem.what == "expected a list of objects, got a number (3)"


def test_broken_json_in_a_json_file_names_the_line(refused: Any) -> None:
    (problem,) = refused('[{"question": "a"},\n {"question" 2}]', "mine.json")
    assert problem.where == "mine.json:2"
    assert problem.what.startswith("broken JSON at line 2, column 14")
    assert refused('[{"question": "a"}', "mine.json")[0].what.startswith("broken JSON at line 1")
    assert refused("", "other.json")[0].what.startswith("broken JSON")
    assert refused('[{"question": "a", "score": Infinity}]', "nan.json")[0].hint.startswith(
        "JSON has no NaN or Infinity"
    )


def test_outputs_that_were_promised_are_missing(refused: Any) -> None:
    data = '[{"input": "a", "output": "b"}, {"input": "c"}, {"input": "d", "output": null}, {"output": "e"}]'
    problems = refused(f'{{"config": {{"example_outputs": true}}, "data": {data}}}', "mine.json")
    assert [problem.where for problem in problems] == ["mine.json[1]", "mine.json[2]", "mine.json[3]"]
    assert problems[0].what == "the row has no output, but config.example_outputs is true"
    assert problems[2].what == "the row has no input"
    (problem,) = refused('{"config": {"example_outputs": "yes"}, "data": []}', "mine.json")
    assert problem.what == "config.example_outputs: expected true or false, got text"


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("id", 1.5, "id: expected text or a whole number, got a number (1.5)"),
        ("id", True, "id: expected text or a whole number, got a boolean (true)"),
        ("id", "", "id: expected text or a whole number, got empty text"),
        ("question", [3], "question: expected text, got a list"),
        ("answer", {"a": 1}, "answer: expected text, got an object"),
        ("reference", {"a": "b"}, "reference: expected text, got an object"),
        ("reference", ["a", None], "reference: in the list: expected text, got null"),
        ("reference", [["a"]], "reference: in the list: expected text, got a list"),
        ("messages", "hi", "messages: expected a list of {role, content}, got text"),
        ("messages", ["hi"], "messages: item 0: expected {role, content}, got text"),
        ("messages", [{"role": "user"}], "messages: item 0: content: expected text, got nothing"),
        ("messages", [{"role": "user", "content": None}], "messages: item 0: content: expected text, got null"),
        ("messages", [{"content": "a"}], "messages: item 0: role: expected text, got nothing"),
        (
            "messages",
            [{"role": "user", "content": "a", "metadata": 1}],
            "messages: item 0: metadata: expected an object, got a number (1)",
        ),
        ("contexts", 3, "contexts: expected a list of contexts, got a number (3)"),
        (
            "contexts",
            "['a' 'b']",
            "contexts: \"['a' 'b']\" looks like a list and cannot be read as one: there is no comma before \"'b'\", "
            'as in a NumPy array that was printed; write it as JSON: ["…", "…"]',
        ),
        ("contexts", ["a", None], "contexts: item 1: expected text or an object, got null"),
        ("contexts", [{"text": 1}], "contexts: item 0.text: expected text, got a number (1)"),
        ("contexts", [{"text": "a", "title": [1]}], "contexts: item 0.title: expected text, got a list"),
        ("contexts", [{"html_content": {}}], "contexts: item 0.html_content: expected text, got an object"),
        (
            "contexts",
            [{"title": "a", "heading_hierarchy": [1]}],
            "contexts: item 0.heading_hierarchy: expected a list of texts, got a number (1) in it",
        ),
        ("metadata", [], "metadata: expected an object, got a list"),
        ("demo_answer", 1, "demo_answer: expected {role, content}, got a number (1)"),
        ("demo_answer", {"role": "assistant"}, "demo_answer: content: expected text, got nothing"),
        ("checks", {"identifier": "a"}, "checks: expected a list of {identifier, enabled, params}, got an object"),
        ("checks", ["a"], "checks: item 0: expected {identifier, enabled, params}, got text"),
        (
            "checks",
            [{"enabled": True}],
            'checks: item 0: the check has no identifier (such as "identifier": "string_matching")',
        ),
        (
            "checks",
            [{"identifier": "a", "enabled": "yes"}],
            "checks: item 0.enabled: expected true or false, got text",
        ),
        ("checks", [{"identifier": "a", "params": [1]}], "checks: item 0.params: expected an object, got a list"),
        ("tags", 3, "tags: expected a list of texts, got a number (3)"),
        ("tags", ["a", 3], "tags: expected a list of texts, got a number (3) in it"),
        ("group", ["a"], "group: expected text, got a list"),
        ("labels", "good", "labels: expected an object, got the text 'good'"),
        ("vars", 1, "vars: expected an object, got a number (1)"),
    ],
)
def test_a_wrong_type(refused: Any, field: str, value: Any, what: str) -> None:
    (problem,) = refused([{"note": "n", field: value}])
    assert (problem.what.partition("; known forms:")[0], problem.where) == (what, "mine.jsonl:1")


def test_a_context_in_an_unknown_form_names_the_known_ones(refused: Any) -> None:
    (problem,) = refused([{"contexts": [{"body": "a"}]}])
    assert (
        "item 0: expected text, {text, title, path}, {page_content, metadata}, {content} or {exact_path, title"
        in problem.what
    )
    assert problem.what.endswith("got the keys body")


def test_a_wrong_type_names_the_column_it_came_from(refused: Any) -> None:
    (problem,) = refused([{"said": [1]}], fields={"answer": "said"})
    assert problem.what == "answer (column 'said'): expected text, got a list"
    (problem,) = refused([{"said": {"text": {}}}], fields={"answer": "$.said.text"})
    assert problem.what == "answer (at $.said.text): expected text, got an object"


def test_all_problems_come_together_and_end_at_twenty(refused: Any) -> None:
    text = '{"answer": [1], "tags": 2}\n{"question": "fine"}\n{"answer": \n{"answer": [3]}\n'
    assert [problem.where.split(":")[1] for problem in refused(text)] == ["1", "1", "3", "4"]
    many = refused([{"answer": [i]} for i in range(50)])
    assert len(many) == 21
    assert many[19].where == "mine.jsonl:20"
    assert many[20].what == "stopped after 20 problems; there may be more"


def test_problems_of_several_files_come_together(refused: Any) -> None:
    Path("a.jsonl").write_text('{"answer": []}\n')
    Path("b.json").write_text("[{")
    assert [problem.where for problem in refused("{}\n[]\n", "c.jsonl", path="[abc].json*")] == [
        "a.jsonl:1",
        "b.json:1",
        "c.jsonl:2",
    ]


def test_cases_before_the_first_wrong_row_are_given_and_none_after() -> None:
    Path("mine.jsonl").write_text('{"question": "a"}\n{"question": []}\n{"question": "c"}\n')
    cases = read("mine", DatasetConfig(path="mine.jsonl"))
    assert next(cases).question == "a"
    with pytest.raises(UserError, match=r"mine\.jsonl:2: question: expected text"):
        next(cases)


def test_question_and_messages_that_disagree(refused: Any, load: Any) -> None:
    row = {"question": "b", "messages": [{"role": "user", "content": "a"}]}
    (problem,) = refused([row])
    assert problem.what == "question is not the last user message of messages"
    (case,) = load([row], fields={"messages": "messages"})
    assert (case.question, case.vars) == ("a", {"question": "b"})
    (case,) = load([row], fields={"question": "question"})
    assert (case.question, case.vars) == ("b", {"messages": row["messages"]})
    (case,) = load([{**row, "question": "a"}])
    assert len(case.messages) == 1


def test_a_record_with_more_cells_than_the_header(refused: Any) -> None:
    (problem,) = refused("question,answer\na,b\na,b,c\n", "mine.csv")
    assert problem.where == "mine.csv:3"
    assert problem.what == "the record has 3 cells, more than the header's 2"


def test_a_quote_that_never_ends(refused: Any) -> None:
    (problem,) = refused('question,answer\na,b\n"a,b\nc,d\n', "mine.csv")
    assert (problem.where, problem.what) == ("mine.csv:3", "broken CSV: unexpected end of data")


@pytest.mark.parametrize(
    ("name", "head", "place"),
    [("a.csv", "question\n", "a.csv:2"), ("a.csv", 'question\na\n"', "a.csv:3"), ("a.jsonl", "{}\n", "a.jsonl:2")],
)
@pytest.mark.slow
def test_a_record_without_end_is_refused_and_not_read(refused: Any, name: str, head: str, place: str) -> None:
    lines = name == "a.csv" and head.endswith('"')
    line = "x" * 1023 + "\n"
    *_, problem = refused(head + (line * (MAX_RECORD // len(line)) if lines else "x" * MAX_RECORD) + "x", name)
    assert (problem.where, problem.what) == (place, "the record is longer than 33,554,432 characters")


def test_texts_of_parquet_that_unpack_to_too_much_are_refused() -> None:
    half = "x" * (MAX_RECORD // 2)
    for long in ({"question": "q", "contexts": [half, half]}, {"question": "q", "vars": {"a": half, "b": [half]}}):
        rows = [dict.fromkeys(long), long]
        pl.DataFrame(rows, infer_schema_length=None).write_parquet("mine.parquet")
        assert Path("mine.parquet").stat().st_size < 1_000_000
        with pytest.raises(UserError, match=r"mine\.parquet\[1\]: the record is longer than 33,554,432 characters"):
            list(read("mine", DatasetConfig(path="mine.parquet")))


@pytest.mark.parametrize("nested", [pl.col, pl.concat_list, pl.struct])
@pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["x" * (MAX_RECORD + 1)])])
def test_a_category_of_parquet_counts_as_its_text(kind: pl.DataType, nested: Callable[[str], pl.Expr]) -> None:
    texts = pl.Series([None, "x" * (MAX_RECORD + 1)], dtype=kind)
    frame = pl.DataFrame({"question": ["q", "q"], "kind": texts})
    frame.with_columns(nested("kind").alias("kind")).write_parquet("mine.parquet")
    with pytest.raises(UserError, match=r"mine\.parquet\[1\]: the record is longer than 33,554,432 characters"):
        list(read("mine", DatasetConfig(path="mine.parquet")))


def test_a_parquet_file_may_be_larger_than_the_memory_that_its_rows_may_take() -> None:
    file = Path("mine.parquet")
    pl.DataFrame({"question": ["a", "b"]}).write_parquet(file)
    whole = file.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    with file.open("r+b") as larger:  # a hole between the rows and the footer
        larger.seek(MEMORY)
        larger.write(whole[footer:])
    assert [case.question for case in read("mine", DatasetConfig(path=str(file)))] == ["a", "b"]


def test_a_parquet_file_that_gets_no_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **_more: object) -> None:
        raise OSError("Cannot allocate memory (os error 12)")

    monkeypatch.setattr(pl, "scan_parquet", refuse)
    with pytest.raises(MemoryError):
        list(lines("mine.parquet", MAX_RECORD, MAX_RECORD))


def test_a_parquet_file_that_cannot_be_read_names_the_reason() -> None:
    (line,) = lines("mine.parquet", MAX_RECORD, MAX_RECORD)
    assert line["ends"]
    assert "No such file" in line["what"]


def test_numbers_of_parquet_that_unpack_to_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"question": ["q"], "x": pl.Series([pl.zeros(MAX_RECORD // 8, eager=True)])}).write_parquet(
        "a.parquet"
    )
    assert Path("a.parquet").stat().st_size < 100_000
    with pytest.raises(UserError, match=r"a\.parquet: the record is longer than 33,554,432 characters"):
        list(read("mine", DatasetConfig(path="a.parquet")))
    monkeypatch.setattr("evalflow.datasets.parquet.UNPACKED", 2**20)
    pl.DataFrame({"question": ["q" * 2**17] * 9}).write_parquet("b.parquet")
    with pytest.raises(UserError, match=r"b\.parquet\[7\]: the file unpacks to more than 1 MB"):
        list(read("mine", DatasetConfig(path="b.parquet")))


def test_a_header_with_a_name_twice(refused: Any) -> None:
    (problem,) = refused("question,question\na,b\n", "mine.csv")
    assert (problem.where, problem.what) == ("mine.csv:1", "the header names 'question' more than once")


def test_broken_parquet(refused: Any) -> None:
    (problem,) = refused("no parquet at all", "mine.parquet")
    assert problem.what.startswith("broken Parquet: ")
    pl.DataFrame({"question": ["a", "b"], "score": [1.0, float("inf")]}).write_parquet("mine.parquet")
    with pytest.raises(UserError, match=r"mine\.parquet\[1\]: inf is not a JSON number"):
        list(read("mine", DatasetConfig(path="mine.parquet")))


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.json", "mine.csv", "mine.parquet"])
def test_a_file_that_vanishes_before_it_is_read(name: str) -> None:
    Path(name).write_text("[]")
    cases = read("mine", DatasetConfig(path=name))
    Path(name).unlink()
    with pytest.raises(UserError, match=rf"{name}: the file cannot be read: No such file"):
        next(cases)
