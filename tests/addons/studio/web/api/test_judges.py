from __future__ import annotations

from tests.addons.studio.web.conftest import Api

CONFIG = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "NO_SUCH_KEY"}


def test_a_judge_is_defined_read_changed_and_deleted(api: Api) -> None:
    made = api("POST", "/judges", {"name": "strict", "config": CONFIG, "description": "Misses nothing."})
    assert made.status == 201
    assert made.headers["Location"] == "/api/v1/judges/strict"
    found = api("GET", "/judges/strict")
    assert (found.json["config"], found.json["missing_key"]) == (CONFIG, "NO_SUCH_KEY")
    assert found.headers["ETag"] == made.headers["ETag"] == '"1"'
    names = [one["name"] for one in api("GET", "/judges").json["items"]]
    assert names[0] == "strict"
    assert "openai" in names
    changed = {"config": {**CONFIG, "model": "n"}}
    assert api("PUT", "/judges/strict", changed).status == 428
    assert api("PUT", "/judges/strict", changed, If_Match='"1"').headers["ETag"] == '"2"'
    assert api("PUT", "/judges/strict", changed, If_Match='"1"').status == 412
    refused = api("PUT", "/judges/openai", changed, If_Match='"0"')
    assert (refused.status, "declared in conf/" in refused.json["errors"][0]["detail"]) == (409, True), refused.body
    assert api("DELETE", "/judges/strict", If_Match='"2"').status == 204
    assert api("GET", "/judges/strict").status == 404
