from __future__ import annotations

import json

from tests.addons.studio.web.conftest import Api


def test_changes_are_listed_filtered_and_exported(api: Api) -> None:
    for name in ("one", "two", "three"):
        assert api("POST", "/datasets", {"name": name}).status == 201
    assert api("DELETE", "/datasets/two", If_Match='"1"').status == 204
    first = api("GET", "/audit?kind=dataset&limit=3").json
    rest = api("GET", f"/audit?kind=dataset&limit=3&cursor={first['next']}").json
    found = first["items"] + rest["items"]
    assert [(one["action"], one["name"]) for one in found] == [
        ("delete", "two"),
        ("create", "three"),
        ("create", "two"),
        ("create", "one"),
    ]
    assert rest["next"] is None
    exported = api("GET", "/audit/export?kind=dataset")
    assert exported.headers["Content-Type"] == "application/jsonl"
    assert [json.loads(line) for line in exported.body.splitlines()] == found
    assert api("GET", f"/audit?since={found[0]['at'].replace('+', '%2B')}").json["items"][0] == found[0]
    assert api("GET", "/audit?until=2020-01-01T00:00:00").json["items"] == []
    assert api("GET", "/audit?since=yesterday").status == 422
    assert api("GET", "/audit?since=0001-01-01T00:00:00%2B14:00").status == 422
    assert api("GET", "/audit?cursor=x").json["errors"][0]["pointer"] == "?cursor"
