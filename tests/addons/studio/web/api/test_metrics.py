from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.api.test_bots import define
from tests.addons.studio.web.conftest import Api

pytestmark = pytest.mark.slow

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
    assert "more memory than is available" in refused.body.decode()


def test_the_judge_writes_steps_and_scores_one_case(api: Api) -> None:
    def judge(request: Request) -> dict[str, object]:
        if "write down the steps" in request.text:
            return {"steps": ["Look for courtesy.", "Grade by it."]}
        return {"reason": "It thanks.", "score": 10}

    with Endpoint(judge) as endpoint:
        config = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        assert api("POST", "/bots", {"name": "tried", "config": config}).status == 201
        metric = {"name": "tone", "definition": TONE}
        written = api("POST", "/bots/tried/metrics/steps", metric)
        assert (written.status, written.json["steps"]) == (200, ["Look for courtesy.", "Grade by it."]), written.body
        metric["definition"] = {**TONE, "steps": written.json["steps"], "samples": 1}
        tried = api("POST", "/bots/tried/metrics/try", {"metric": metric, "case": {"question": "?", "answer": "Ta."}})
        assert (tried.status, tried.json["answer"]) == (200, "Ta."), tried.body
        assert [(one["status"], one["score"]) for one in tried.json["scores"]] == [("scored", 1.0)]
        assert tried.json["scores"][0]["steps"]
        assert endpoint.count == 2
    assert api("GET", "/bots/tried/metrics").json["items"] == []


def test_what_cannot_be_tried_says_why(api: Api) -> None:
    config = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "attempts": 1}
    assert api("POST", "/bots", {"name": "untried", "config": {**config, "api_key_env": "NOT_SET"}}).status == 201
    body = {"metric": {"name": "tone", "definition": TONE}, "case": {"question": "?", "answer": "Ta."}}
    answer = api("POST", "/bots/untried/metrics/try", body)
    assert answer.status == 422
    assert "NOT_SET is not set" in answer.json["errors"][0]["detail"]
    assert api("POST", "/bots/untried/metrics/steps", {"name": "tone", "definition": {"kind": "rubric"}}).status == 422
    assert api("POST", "/bots/untried/metrics/try", {**body, "case": {"colour": 1, "question": 3}}).status == 422
    assert api("POST", "/bots/nobody/metrics/steps", body["metric"]).status == 404
    assert api("POST", "/bots", {"name": "away", "config": {**config, "api_key_env": None}}).status == 201
    assert api("POST", "/bots/away/metrics/try", body).status == 503


def test_a_metric_that_goes_on_without_end_is_an_error_and_holds_up_nobody(api: Api) -> None:
    doubled = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)}
    schema = {"$defs": {**doubled, "a60": True}, "$ref": "#/$defs/a0"}
    definition = {"kind": "check", "needs": ["answer"], "checks": [{"op": "json_schema", "schema": schema}]}
    body = {"metric": {"name": "bomb", "definition": definition}, "case": {"question": "Who?", "answer": "1"}}
    with ThreadPoolExecutor(1) as pool:
        tried = pool.submit(api, "POST", "/bots/recorded/metrics/try", body)
        answers = 0
        while not tried.done():
            assert api("GET", "/bots").status == 200
            answers += 1
    assert answers > 1  # while the metric was tried
    assert tried.result().status == 200, tried.result().body
    (score,) = tried.result().json["scores"]
    assert (score["status"], score["score"]) == ("error", None)
    assert "takes more than" in score["error"]
