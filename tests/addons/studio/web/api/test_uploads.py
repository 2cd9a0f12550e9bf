"""Cases of a file that is sent as it stands."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.addons.studio.web.conftest import Answer, Api
from tests.datasets.workbooks import workbook

CSV = b"id,Frage,reference\na,What is it?,A thing\nb,Where?,Here\n"
FIELDS = quote(json.dumps({"question": "Frage"}))


def upload(api: Api, dataset: str, body: bytes, query: str) -> Answer:
    return api("POST", f"/datasets/{dataset}/cases/upload?{query}", body, Content_Type="text/csv")


@pytest.fixture(name="dataset")
def _dataset(api: Api, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname
    assert api("POST", "/datasets", {"name": name}).status == 201
    return name


def count(api: Api, dataset: str) -> int:
    return len(api("GET", f"/datasets/{dataset}/cases").json["items"])


def test_a_file_is_previewed_and_then_taken_in(api: Api, dataset: str) -> None:
    dry = upload(api, dataset, CSV, f"format=csv&dry_run=true&fields={FIELDS}")
    assert dry.status == 201, dry.body
    assert (dry.json["count"], dry.json["good"], count(api, dataset)) == (0, 2, 0)
    assert dry.json["first"][0]["messages"][0]["content"] == "What is it?"
    assert upload(api, dataset, CSV, f"format=csv&fields={FIELDS}").json["count"] == 2
    assert count(api, dataset) == 2


def test_what_is_wrong_with_a_row_is_said_and_others_can_be_taken(api: Api, dataset: str) -> None:
    lines = b'{"id": "a", "question": "?"}\n{"id": "a", "question": "!"}\n{"question": [3]}\n'
    refused = upload(api, dataset, lines, "format=jsonl")
    assert refused.status == 422
    said = [fault["detail"] for fault in refused.json["errors"]]
    assert [text.partition(":")[0] for text in said] == ["line 2", "line 3"]
    assert count(api, dataset) == 0
    taken = upload(api, dataset, lines, "format=jsonl&skip_faulty=true").json
    assert (taken["count"], taken["faulty"], len(taken["errors"])) == (1, 2, 2)


def test_columns_have_types_and_what_was_left_out_is_noted(api: Api, dataset: str) -> None:
    fields = quote(json.dumps({"score": {"column": "stars", "type": "number"}}))
    body = b"question,stars\nq,4.50\n,\nq,4.50\n"
    taken = upload(api, dataset, body, f"format=csv&fields={fields}").json
    assert (taken["count"], [row["vars"] for row in taken["first"]]) == (2, [{"score": 4.5}] * 2)
    assert [note.partition(";")[0] for note in taken["notes"]] == [
        "1 empty row is left out",
        "1 row without an id asks the same as an earlier one",
    ]
    refused = upload(
        api, dataset, body, "format=csv&fields=" + quote('{"score": {"column": "stars", "type": "nummer"}}')
    )
    assert "unknown type 'nummer'; known: text, number, boolean, list, json" in refused.body.decode()


@pytest.mark.parametrize(
    ("body", "query"),
    [
        (b"", "format=csv"),
        (b"\xff\xfe\x00", "format=csv"),
        (b'question\n"never closed', "format=csv"),
        (b"PAR1", "format=parquet"),
        (CSV, "format=xlsx"),
        (b"{", "format=json"),
        (b"[" * 100_000, "format=json"),
        (b"[" * 100_000 + b"\n", "format=jsonl"),
        (CSV, "format=csv&fields=nothing"),
        (CSV, "format=csv&fields=" + quote('{"question": "No such column"}')),
        (CSV, "format=exe"),
        (CSV, "format=csv/../../x"),
        (CSV, ""),
    ],
)
def test_what_cannot_be_read_is_refused_without_a_word_of_where_it_lay(
    api: Api, tmp_path: Path, body: bytes, query: str
) -> None:
    api("POST", "/datasets", {"name": "unfit"})
    answer = upload(api, "unfit", body, query)
    assert answer.status == 422, answer.body
    assert "/tmp" not in answer.body.decode().replace(str(tmp_path), "/tmp")
    assert count(api, "unfit") == 0


def test_a_sheet_of_a_workbook(api: Api, dataset: str, tmp_path: Path) -> None:
    book = workbook(tmp_path / "two.xlsx", {"A": [["question"], ["One?"]], "B": [["question"], ["Two?"], ["Three?"]]})
    refused = upload(api, dataset, book.read_bytes(), "format=xlsx")
    assert (refused.status, "2 sheets: A, B" in refused.body.decode()) == (422, True)
    assert upload(api, dataset, book.read_bytes(), "format=xlsx&sheet=B").json["count"] == 2
    assert "only an Excel workbook" in upload(api, dataset, CSV, "format=csv&sheet=B").body.decode()


def test_a_file_for_no_dataset(api: Api) -> None:
    assert upload(api, "nowhere", CSV, "format=csv").status == 404
    assert upload(api, "nowhere", b" " * (33 * 1024**2), "format=csv").status == 413
