"""Files of cases: what taking them would give, the good rows and those to be mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.addons.studio.work import cases, datasets, uploads
from evalflow.addons.studio.work.cases import Fields, cases_at
from evalflow.addons.studio.work.space import PACKED_FILES, Workspace
from evalflow.addons.studio.work.uploads import (
    CaseFile,
    columns_of,
    examine_upload,
    faulty_rows,
    sheets_of,
    upload_cases,
)
from evalflow.config.schema import FieldSource
from evalflow.errors import UserError
from tests.datasets import test_odd_values as odd
from tests.datasets.workbooks import workbook
from tests.postgres import ON_SQLITE

MIXED = {
    "csv": 'id,question,tags\na,One?,x\nb,Two?,x,more\n\nc,"Three\n?",{\na,Four?,\n',
    "jsonl": '{"id": "a", "question": "One?"}\n{"id": "b", "question": [2]}\n{"id": \n{"id": "c", "question": "3?"}\n',
    "json": '[{"id": "a", "question": "One?"}, {"id": "b", "question": [2]}, 3, {"id": "c", "question": "Three?"}]',
}


@ON_SQLITE
def test_only_so_many_workbooks_are_read_at_once(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LONGEST_WAIT_S", 0.01)
    workbook(tmp_path / "one.xlsx", {"Cases": [["question"], ["One?"]]})
    for _ in range(PACKED_FILES):
        assert space.packed.acquire(blocking=False)
    with pytest.raises(UserError, match="try again in a moment"):
        sheets_of(space, tmp_path / "one.xlsx")
    space.packed.release()
    for _ in range(PACKED_FILES + 1):  # the place is given back, also after an error
        assert sheets_of(space, tmp_path / "one.xlsx") == ["Cases"]
        with pytest.raises(UserError):
            sheets_of(space, tmp_path / "none.xlsx")


@pytest.fixture(autouse=True)
def _mine(space: Workspace) -> None:
    datasets.create_dataset(space, "mine")


@ON_SQLITE
@pytest.mark.parametrize(
    ("ending", "places", "left"),
    [
        ("csv", ["line 3", "line 7"], "id,question,tags\nb,Two?,x,more\na,Four?,\n"),
        ("jsonl", ["line 2", "line 3"], '{"id": "b", "question": [2]}\n{"id":\n'),
        ("json", ["record 1", "record 2"], '{"id": "b", "question": [2]}\n3\n'),
    ],
)
def test_good_rows_are_taken_and_the_others_given_back(
    space: Workspace, tmp_path: Path, ending: str, places: list[str], left: str
) -> None:
    path = tmp_path / f"mixed.{ending}"
    path.write_text(MIXED[ending], encoding="utf-8")
    found = examine_upload(space, "mine", CaseFile(path))
    assert (found.good, [problem.where for problem in found.problems]) == (2, places)
    assert "".join(faulty_rows(space, CaseFile(path), found.faulty)) == left
    with pytest.raises(UserError):
        upload_cases(space, "mine", CaseFile(path))
    assert upload_cases(space, "mine", CaseFile(path), skip_faulty=True) == 2
    assert [case.body["id"] for case in cases.list_cases(space, "mine").items] == ["a", "c"]
    again = examine_upload(space, "mine", CaseFile(path))
    assert again.good == 0
    assert "the id 'a' is in the dataset already" in [problem.what for problem in again.problems]
    with pytest.raises(UserError, match="no row of it can be taken"):
        upload_cases(space, "mine", CaseFile(path), skip_faulty=True)


@ON_SQLITE
def test_a_workbook_gives_its_bad_rows_back_as_csv(space: Workspace, tmp_path: Path) -> None:
    rows = [["id", "question"], ["a", "One?"], ["a", "Über?\nTwo?"], ["b", "Three?"]]
    workbook(tmp_path / "two.xlsx", {"Notes": [["note"], ["?"]], "Cases": rows})
    assert sheets_of(space, tmp_path / "two.xlsx") == ["Notes", "Cases"]
    source = CaseFile(tmp_path / "two.xlsx", "Cases")
    found = examine_upload(space, "mine", source)
    assert (found.good, [problem.where for problem in found.problems]) == (2, ["row 3"])
    assert "".join(faulty_rows(space, source, found.faulty)) == '\ufeffid,question\na,"Über?\nTwo?"\n'
    assert upload_cases(space, "mine", source, skip_faulty=True) == 2
    with pytest.raises(UserError, match="there is no column 'Frage'"):
        examine_upload(space, "mine", source, {"question": "Frage"})


@ON_SQLITE
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('question\nfine\n"not closed\nmore\n', r"mixed\.csv:3: broken CSV"),
        ("question,question\n", r"names 'question' more than once"),
        ("question\ncaf\xe9\n", r"mixed\.csv:2: the file is not UTF-8"),
    ],
)
def test_what_cannot_be_read_on_is_refused_with_its_line(
    space: Workspace, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "mixed.csv"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=message):
        examine_upload(space, "mine", CaseFile(path))


@ON_SQLITE
def test_many_cases_are_tagged_grouped_and_deleted(space: Workspace) -> None:
    cases.add_cases(space, "mine", ({"id": f"c{i}", "question": f"q {i}", "tags": ["A>B"]} for i in range(1200)))
    every = cases.case_ids(space, "mine")
    some = cases.case_ids(space, "mine", text="q 11")
    assert (len(every), len(some)) == (1200, 111)
    assert cases.tag_cases(space, "mine", every, add=["X > Y", " "]) == 1200
    assert cases.tag_cases(space, "mine", every, add=["X>Y"]) == 0
    assert cases.tag_cases(space, "mine", some, remove=["A"]) == 111
    assert cases.dataset_tags(space, "mine") == [("A", 1089), ("A > B", 1089), ("X", 1200), ("X > Y", 1200)]
    assert cases.group_cases(space, "mine", [*some, 10**6], "g") == 111
    assert cases.group_cases(space, "mine", every, None) == 111
    assert cases.get_case(space, "mine", some[0]).version == 5
    assert cases.delete_cases(space, "mine", some).count == 111
    assert cases_at(space, "mine", 0).total == 1089


@ON_SQLITE
def test_one_case_is_added_and_its_faults_stand_at_its_fields(space: Workspace) -> None:
    made = cases.add_case(space, "mine", {"question": "q", "tags": "a; b"})
    assert (made.body["tags"], made.version) == (["a", "b"], 1)
    with pytest.raises(UserError) as refused:
        cases.add_case(space, "mine", {"question": "q", "tags": 5, "contexts": 3})
    assert [problem.key for problem in refused.value.problems] == ["contexts", "tags"]
    with pytest.raises(UserError) as refused:
        cases.add_case(space, "mine", {"question": "q", "tags": "a; b"})
    assert [problem.key for problem in refused.value.problems] == ["id"]
    with pytest.raises(UserError, match="in it more than once: 'x'"):
        cases.add_cases(space, "mine", [{"id": "x", "question": "q"}, {"id": "x", "question": "r"}])


@pytest.mark.parametrize("write", [odd.as_csv, odd.xlsx, odd.jsonl, odd.json_list], ids=lambda one: one.__name__)
def test_texts_that_look_like_something_else_are_kept(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: odd.Write
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": one, "reference": one, "label": one, "note": one} for one in odd.TEXTS]
    source = CaseFile(write([{"question": None}, *rows]))
    fields: Fields = {"expected": "label"}
    examined = examine_upload(space, "mine", source, fields)
    assert (examined.good, examined.problems) == (len(rows), [])
    assert list(examined.notes) == ([] if write is odd.xlsx else ["1 empty row is left out"])
    assert upload_cases(space, "mine", source, fields) == len(rows)
    for case, one in zip(cases.list_cases(space, "mine").items, odd.TEXTS, strict=True):
        assert case.question == one
        assert (case.body["reference"], case.body["expected"], case.body["vars"]) == (one, one, {"note": one})


@ON_SQLITE
def test_columns_are_read_as_the_types_that_are_chosen(space: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "typed.csv"
    path.write_text("question,stars,ids\nq,4.50,a|b\nr,,\nq,4.50,a|b\ns,many,\n", encoding="utf-8")
    fields: Fields = {"score": FieldSource(column="stars", type="number"), "ids": FieldSource(type="list")}
    examined = examine_upload(space, "mine", CaseFile(path), fields)
    assert [row.get("vars") for row in examined.first] == [
        {"score": 4.5, "ids": ["a", "b"]},
        None,
        examined.first[0]["vars"],
    ]
    assert examined.notes[0].startswith("1 row without an id asks the same as an earlier one")
    (problem,) = examined.problems
    assert (problem.where, problem.what.split(";")[0]) == (
        "line 5",
        "column 'stars': expected a number, got the text 'many'",
    )
    with pytest.raises(UserError, match="there is no column 'star'"):
        examine_upload(space, "mine", CaseFile(path), {"score": FieldSource(column="star", type="number")})


@ON_SQLITE
def test_rows_of_a_chat_log_are_entered(space: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"inputs": {"question": "q"}, "outputs": {"answer": "a"}, "n": 1}\n', encoding="utf-8")
    columns = columns_of(space, CaseFile(path))
    assert [(column.name, column.field, column.example) for column in columns] == [
        ("$.inputs.question", "question", "q"),
        ("$.outputs.answer", "answer", "a"),
        ("n", None, "1"),
    ]
    fields = {column.field: column.name for column in columns if column.field}
    assert upload_cases(space, "mine", CaseFile(path), fields) == 1
    [kept] = cases.list_cases(space, "mine").items
    assert (kept.question, kept.body["answer"]) == ("q", "a")


@ON_SQLITE
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
@pytest.mark.parametrize("between", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_table_is_read_as_spreadsheets_write_it(
    space: Workspace, tmp_path: Path, mark: str, between: str, end: str
) -> None:
    path = tmp_path / "sheet.csv"
    rows = [["Question", "Expected answer"], ['"What is it; or, what else?"', "40 €"], ["Café?", "yes"]]
    path.write_text(mark + "".join(between.join(row) + end for row in rows), encoding="utf-8", newline="")
    fields = {column.field: column.name for column in columns_of(space, CaseFile(path)) if column.field}
    assert fields == {"question": "Question", "reference": "Expected answer"}
    assert upload_cases(space, "mine", CaseFile(path), fields) == 2
    kept = [case.body for case in cases.list_cases(space, "mine").items]
    assert [row["messages"][0]["content"] for row in kept] == ["What is it; or, what else?", "Café?"]
    assert [row["reference"] for row in kept] == ["40 €", "yes"]
