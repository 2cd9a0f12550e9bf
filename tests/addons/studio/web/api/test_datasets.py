from __future__ import annotations

import json
from typing import Any

from evalflow.addons.studio.web.api.deps import attached
from tests.addons.studio.web.conftest import Api


def fill(api: Api, name: str, items: list[dict[str, Any]]) -> None:
    assert api("POST", "/datasets", {"name": name}).status == 201
    added = api("POST", f"/datasets/{name}/cases", {"items": items})
    assert (added.status, added.json) == (201, {"count": len(items)})


def test_cases_are_added_paged_and_filtered(api: Api) -> None:
    fill(
        api, "many", [{"id": f"c{i}", "question": f"What of {i}?", "tags": ["odd"] if i % 2 else []} for i in range(7)]
    )
    first = api("GET", "/datasets/many/cases?limit=5").json
    rest = api("GET", f"/datasets/many/cases?limit=5&cursor={first['next']}").json
    assert [case["body"]["id"] for case in first["items"] + rest["items"]] == [f"c{i}" for i in range(7)]
    assert rest["next"] is None
    assert len(api("GET", "/datasets/many/cases?tag=odd").json["items"]) == 3
    assert len(api("GET", "/datasets/many/cases?text=of%206").json["items"]) == 1
    assert api("GET", "/tags?dataset=many").json["items"] == [{"tag": "odd", "count": 3}]
    assert {"tag": "odd", "count": 3} in api("GET", "/tags").json["items"]
    assert api("GET", "/tags?dataset=many&run=none").status == 422


def test_a_case_is_changed_by_who_has_seen_it(api: Api) -> None:
    fill(api, "one", [{"id": "a", "question": "Old?"}])
    (case,) = api("GET", "/datasets/one/cases").json["items"]
    path = f"/datasets/one/cases/{case['id']}"
    seen = api("GET", path).headers["ETag"]
    changed = api("PUT", path, {"question": "New?"}, If_Match=seen)
    assert changed.json["question"] == "New?"
    assert api("PUT", path, {"question": "Late?"}, If_Match=seen).status == 412


def test_many_cases_are_tagged_and_deleted(api: Api) -> None:
    fill(api, "bulk", [{"id": f"{i}", "question": "?"} for i in range(3)])
    ids = [case["id"] for case in api("GET", "/datasets/bulk/cases").json["items"]]
    assert api("POST", "/datasets/bulk/cases/tag", {"cases": ids[:2], "add": ["seen"]}).json == {"count": 2}
    assert api("POST", "/datasets/bulk/cases/delete", {"cases": ids[1:]}).json == {"count": 2}
    (left,) = api("GET", "/datasets/bulk/cases").json["items"]
    assert left["body"]["tags"] == ["seen"]


def test_all_cases_or_none_are_added(api: Api) -> None:
    assert api("POST", "/datasets", {"name": "none"}).status == 201
    rows = [{"question": "Fine?"}, {"question": [3], "contexts": "x"}]
    answer = api("POST", "/datasets/none/cases", {"items": rows})
    assert answer.status == 422
    assert api("GET", "/datasets/none/cases").json["items"] == []


def test_what_conf_declares_is_copied(api: Api) -> None:
    assert api("PATCH", "/datasets/rag", {"description": "x"}, If_Match='"0"').status in (404, 409)
    copy = api("POST", "/datasets/rag/copies", {"name": "mine"})
    assert copy.status == 201, copy.body
    assert copy.json["cases"] > 0


def test_a_downloaded_file_has_a_safe_name_whatever_a_run_is_called() -> None:
    assert attached('a"b\r\n/ü.zip') == {"Content-Disposition": 'attachment; filename="a_b____.zip"'}


def test_a_dataset_is_exported_and_loads_again(api: Api) -> None:
    assert api("POST", "/datasets/rag/copies", {"name": "exported"}).status == 201
    answer = api("GET", "/datasets/exported/export")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="exported.jsonl"'
    assert answer.headers["Content-Type"] == "application/jsonl"
    rows = [json.loads(line) for line in answer.body.splitlines()]
    assert len(rows) == 60
    assert answer.body == api("GET", "/datasets/rag/export").body
    assert api("POST", "/datasets", {"name": "again"}).status == 201
    assert api("POST", "/datasets/again/cases", {"items": rows}).json == {"count": 60}
    assert api("GET", "/datasets/again/export").body == answer.body
    assert api("GET", "/datasets/nowhere/export").status == 404
