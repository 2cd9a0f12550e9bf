from __future__ import annotations

from typing import Any

import pytest

from tests.addons.studio.web.conftest import Api

MODEL = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "BOT_KEY"}


def define(api: Api, name: str, **more: Any) -> str:
    """Define a bot; gives its ETag."""
    made = api("POST", "/bots", {"name": name, "config": MODEL, **more})
    assert made.status == 201, made.body
    return made.headers["ETag"]


def test_a_bot_is_defined_read_changed_and_deleted(api: Api) -> None:
    made = api("POST", "/bots", {"name": "first", "description": "The first.", "config": MODEL})
    assert made.status == 201
    assert made.headers["Location"] == "/api/v1/bots/first"
    found = api("GET", "/bots/first")
    assert found.json["config"] == MODEL
    assert found.headers["ETag"] == made.headers["ETag"] == '"1"'
    changed = api("PATCH", "/bots/first", {"description": "Still."}, If_Match='"1"')
    assert (changed.json["description"], changed.json["config"], changed.headers["ETag"]) == ("Still.", MODEL, '"2"')
    assert api("DELETE", "/bots/first", If_Match='"2"').status == 204
    assert api("GET", "/bots/first").status == 404


def test_nobodys_change_is_lost(api: Api) -> None:
    seen = define(api, "shared")
    assert api("PATCH", "/bots/shared", {"description": "mine"}, If_Match=seen).status == 200
    late = api("PATCH", "/bots/shared", {"description": "yours"}, If_Match=seen)
    assert late.status == 412
    assert late.json["current"] == 2
    assert "description" in late.json["detail"]
    assert api("DELETE", "/bots/shared", If_Match=seen).status == 412
    assert api("PATCH", "/bots/shared", {"description": "blind"}).status == 428
    assert api("PATCH", "/bots/shared", {"description": "blind"}, If_Match="*").status == 400


def test_all_that_is_wrong_is_said_and_where(api: Api) -> None:
    config = {**MODEL, "timeout_s": -1, "colour": "blue"}
    answer = api("POST", "/bots", {"name": "wrong", "config": config})
    assert answer.status == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert {fault["pointer"] for fault in answer.json["errors"]} == {"/target/timeout_s", "/target/colour"}
    assert api("GET", "/bots/wrong").status == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"config": MODEL}, "/name"),
        ({"name": 3, "config": MODEL}, "/name"),
        ({"name": "a" * 201, "config": MODEL}, "/name"),
        ({"name": "x", "config": []}, "/config"),
        ({"name": "x", "config": MODEL, "more": 1}, "/more"),
        ({"name": "No name", "config": MODEL}, "/bot/name"),
        ({"name": "x", "config": {"kind": "command", "argv": ["rm"]}}, "/target/kind"),
        ({"name": "x", "config": {"kind": "python", "call": "os:system"}}, "/target/kind"),
    ],
)
def test_a_body_that_cannot_be(api: Api, body: Any, pointer: str) -> None:
    answer = api("POST", "/bots", body)
    assert answer.status == 422
    assert pointer in {fault["pointer"] for fault in answer.json["errors"]}


def test_a_key_is_named_and_never_written(api: Api) -> None:
    config = {"kind": "http", "url": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer abcdefgh"}}
    answer = api("POST", "/bots", {"name": "leak", "config": config})
    assert answer.status == 422
    assert b"abcdefgh" not in answer.body


def test_what_is_no_json_is_refused(api: Api) -> None:
    answer = api("POST", "/bots", b'{"name": ', Content_Type="application/json")
    assert answer.status == 422
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_name_is_taken_once(api: Api) -> None:
    define(api, "once")
    assert api("POST", "/bots", {"name": "once", "config": MODEL}).status == 409
    assert api("POST", "/bots", {"name": "openai", "config": MODEL}).status == 409  # conf/ has it


def test_bots_of_conf_are_read_and_copied(api: Api) -> None:
    found = api("GET", "/bots/openai").json
    assert (found["origin"], found["version"]) == ("conf", 0)
    assert api("PATCH", "/bots/openai", {"description": "x"}, If_Match='"0"').status == 409
    copy = api("POST", "/bots/openai/copies", {"name": "own", "changes": {"model": "other"}})
    assert copy.status == 201
    assert (copy.json["origin"], copy.json["config"]["model"]) == ("workspace", "other")


def test_a_list_is_paged(api: Api) -> None:
    whole = [bot["name"] for bot in api("GET", "/bots?limit=500").json["items"]]
    paged: list[str] = []
    cursor = ""
    while True:
        page = api("GET", f"/bots?limit=2{cursor}").json
        paged += [bot["name"] for bot in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert paged == whole
    for wrong in ("x", "W10", "bnVsbA", "WzFd", "é"):
        assert api("GET", f"/bots?cursor={wrong.encode().hex()}").status == 422


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "cursor=" + "x" * 2000])
def test_a_query_that_cannot_be(api: Api, query: str) -> None:
    answer = api("GET", f"/bots?{query}")
    assert answer.status == 422
    assert answer.json["errors"][0]["pointer"].startswith("?")


def test_what_is_not_there(api: Api) -> None:
    assert api("GET", "/bots/openia").json["errors"][0]["hint"] == "did you mean 'openai'?"
    for method, path in (("GET", "/nothing"), ("DELETE", "/bots/none"), ("PUT", "/bots")):
        answer = api(method, path, If_Match='"1"')
        assert answer.status in (404, 405)
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_everything_that_people_define_has_a_title_as_typed(api: Api) -> None:
    metric = {"kind": "check", "needs": ["answer"], "checks": [{"op": "contains", "value": "x"}]}
    bodies = {
        "bots": {"config": {"kind": "recorded"}},
        "datasets": {},
        "judges": {"config": {"kind": "embedded"}},
        "projects": {},
    }
    for kind, body in bodies.items():
        made = api("POST", f"/{kind}", {"name": "kaigi", "title": " 会議  – Köln? ", **body})
        assert (made.status, made.json["name"], made.json["title"]) == (201, "kaigi", "会議 – Köln?")
        same = api("POST", f"/{kind}", {"name": "other", "title": "会議 – KÖLN?", **body})
        assert (same.status, same.json["errors"][0]["pointer"][-6:]) == (409, "/title")
        assert "with the name kaigi" in same.json["detail"]
        assert api("POST", f"/{kind}", {"name": "plain", **body}).json["title"] == "plain"
        assert api("POST", f"/{kind}", {"name": "bad", "title": "a\u202eb", **body}).status == 422
        method = "PUT" if kind == "judges" else "PATCH"
        changed = api(method, f"/{kind}/plain", {"title": "Ganz anders", **body}, If_Match='"1"')
        assert (changed.status, changed.json["name"], changed.json["title"]) == (200, "plain", "Ganz anders")
    items = [{"name": "polite", "title": "Is it polite?", "definition": metric}]
    (put,) = api("PUT", "/bots/kaigi/metrics", {"items": items}, If_Match='""').json["items"]
    assert (put["name"], put["title"], "title" in put["definition"]) == ("polite", "Is it polite?", False)
    copied = api("POST", "/bots/kaigi/metrics", {"source": "polite", "of": "kaigi", "name": "two", "title": "Two?"})
    assert copied.json["title"] == "Two?"
    assert api("POST", "/bots/kaigi/copies", {"name": "copy", "title": "Copy!"}).json["title"] == "Copy!"
