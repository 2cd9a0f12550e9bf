from __future__ import annotations

from ..conftest import Api
from .test_bots import define

TONE = {"kind": "g_eval", "needs": ["question", "answer"], "criteria": "The answer is polite.", "threshold": 0.5}


def test_a_configuration_is_saved_and_retrieved(api: Api) -> None:
    define(api, "judged")
    empty = api("GET", "/bots/judged/metrics")
    assert (empty.json["items"], empty.headers["ETag"]) == ([], '""')
    body = {"items": [{"name": "tone", "definition": TONE}]}
    saved = api("PUT", "/bots/judged/metrics", body, If_Match=empty.headers["ETag"])
    assert saved.status == 200, saved.body
    found = api("GET", "/bots/judged/metrics")
    assert [(one["name"], one["definition"]["criteria"]) for one in found.json["items"]] == [("tone", TONE["criteria"])]
    assert found.headers["ETag"] == '"tone:1"'


def test_a_configuration_that_was_changed_meanwhile_is_kept(api: Api) -> None:
    define(api, "contested")
    body = {"items": [{"name": "tone", "definition": TONE}]}
    assert api("PUT", "/bots/contested/metrics", body, If_Match='""').status == 200
    late = api("PUT", "/bots/contested/metrics", {"items": []}, If_Match='""')
    assert late.status == 412
    assert api("PUT", "/bots/contested/metrics", {"items": []}).status == 428
    assert api("PUT", "/bots/contested/metrics", {"items": []}, If_Match='"tone"').status == 400
    assert api("PUT", "/bots/contested/metrics", {"items": []}, If_Match='"tone:1"').status == 200


def test_all_or_none_is_saved(api: Api) -> None:
    define(api, "whole")
    wrong = {"name": "off", "definition": {**TONE, "threshhold": 1}}
    answer = api("PUT", "/bots/whole/metrics", {"items": [{"name": "tone", "definition": TONE}, wrong]}, If_Match='""')
    assert answer.status == 422
    assert answer.json["errors"][0]["pointer"] == "/metric/off/threshhold"
    assert api("GET", "/bots/whole/metrics").json["items"] == []


def test_the_library_is_read_and_copied(api: Api) -> None:
    define(api, "copies")
    assert "faithfulness" in [one["name"] for one in api("GET", "/metrics?limit=500").json["items"]]
    assert api("GET", "/metrics/faithfulness").json["prompts"]
    copy = api("POST", "/bots/copies/metrics", {"source": "coherence", "name": "mine"})
    assert copy.status == 201, copy.body
    assert api("GET", "/bots/copies/metrics").json["items"][0]["name"] == "mine"


def test_the_very_prompt_is_shown_before_anything_is_kept(api: Api) -> None:
    config = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "NOT_SET"}
    assert api("POST", "/bots", {"name": "previewed", "config": config}).status == 201
    scale = {"type": "likert", "min": 1, "max": 5}
    definition = {"kind": "rubric", "needs": ["question", "answer"], "description": "How polite.", "scale": scale}
    body = {"metric": {"name": "polite", "definition": definition}, "case": {"question": "Who?", "answer": "Me <b>"}}
    shown = api("POST", "/bots/previewed/metrics/preview", body)
    assert shown.status == 200, shown.body
    assert "Me <b>" in str(shown.json["prompts"][0]["messages"])
    assert shown.json["judge"] is not None
    assert api("GET", "/bots/previewed/metrics").json["items"] == []
    bomb = {**definition, "prompt": "polite/grade.jinja"}
    text = {"polite/grade.jinja": "{{ question }}{{ answer }}{{ 'a' * 10**10 }}"}
    refused = api(
        "POST",
        "/bots/previewed/metrics/preview",
        {**body, "metric": {"name": "polite", "definition": bomb, "prompts": text}},
    )
    assert refused.status == 422
    assert "32,000,000 characters" in refused.body.decode()
