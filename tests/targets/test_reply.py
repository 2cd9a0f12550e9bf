"""From a program's JSON reply to the parts of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from evalflow.config.schema import DatasetConfig
from evalflow.config.targets import ReplyConfig
from evalflow.errors import TargetError
from evalflow.records import Context, Usage
from evalflow.targets.reply import Form, ParsedReply, ReplyReader
from evalflow.values import patterns

CHUNK = {
    "exact_path": "/a#b",
    "title": "Title",
    "heading_hierarchy": ["One", "Two"],
    "description": "About.",
    "html_content": "<p>Text</p>",
}


def read(reply: Any, generates: Any = "answer", form: Form | None = None, **mapping: Any) -> ParsedReply:
    body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return ReplyReader(ReplyConfig.model_validate({"kind": "x", **mapping})).read(body, form or Form(generates))


def test_fields_of_their_own_names_map_themselves() -> None:
    said = read({"answer": "A", "actual": [1], "contexts": ["c"], "metadata": {"m": 1}, "other": 0})
    assert said == ParsedReply("A", [1], (Context("c"),), {"m": 1})
    assert read({"answer": "A", "contexts": None}) == ParsedReply("A")


def test_contexts_in_the_form_of_rag_answers_map_themselves() -> None:
    said = read({"answer": "A", "structured_contexts": [CHUNK, {**CHUNK, "heading_hierarchy": None}]})
    assert said.contexts
    first, second = said.contexts
    assert first == Context("One > Two\nAbout.\n\nText", "Title", "/a#b")
    assert second.text == "About.\n\nText"
    assert read({"answer": "A", "docs": [CHUNK]}, contexts="$.docs").contexts == (first,)


def test_other_contexts_are_mapped() -> None:
    documents = [{"body": "B", "meta": {"name": "N"}}]
    fields = {"text": "body", "title": "$.meta.name", "path": "url"}
    said = read({"answer": "A", "docs": documents}, contexts={"path": "$.docs", "fields": fields})
    assert said.contexts == (Context("B", "N"),)
    assert read({"answer": "A", "docs": documents}, contexts="$.docs[*].body").contexts == (Context("B"),)
    assert read({"answer": "A", "docs": []}, contexts="$.docs[*].body").contexts == ()


def test_what_is_no_object_is_the_field_that_is_generated() -> None:
    assert read("A") == ParsedReply("A")
    assert read(7) == ParsedReply("7")
    assert read(b"250.10") == read(b'{"answer": 250.10}') == ParsedReply("250.10")
    assert read(b'{"sum": [1.0, 1e3]}', answer="$.sum[1]") == ParsedReply("1e3")
    assert read(True, "actual") == ParsedReply(actual=True)
    assert read(["a", "b"], "actual") == ParsedReply(actual=["a", "b"])


def test_null_is_a_prediction_where_one_is_wanted_and_no_answer() -> None:
    routes = Form("actual", {"actual": "route"})
    parts = Form("actual", {"actual": {"route": "$.top.route", "sure": "sure"}})
    assert read({"route": None}, form=routes) == read({"actual": None}, "actual") == ParsedReply()
    assert read({"top": None}, "actual", actual="$.top") == ParsedReply()
    assert read({"top": {"route": None}, "sure": 0.5}, form=parts).actual == {"route": None, "sure": 0.5}
    assert read({"top": {}, "sure": 0.5}, form=parts).actual == {"sure": 0.5}
    typed = Form.of(DatasetConfig(path="d", generates="actual", fields={"actual": {"column": "route", "type": "list"}}))
    assert read({"route": ["a"]}, form=typed).actual == ["a"]
    for reply, form in (({"other": 1}, routes), (None, routes), ({"top": {}}, parts)):
        with pytest.raises(TargetError):
            read(reply, form=form)


@pytest.mark.parametrize(("status", "outcome"), [("pass", False), ("fail", True)])
def test_values_may_mean_something_else(status: str, outcome: bool) -> None:
    actual = {"path": "$.status", "values": {"pass": False, "fail": True}}
    assert read({"status": status}, "actual", actual=actual).actual is outcome


def test_values_are_named_as_json_spells_them() -> None:
    actual = {"path": "$.ok", "values": {True: "yes", False: "no", 3: "three", None: "none"}}
    found = [read({"ok": ok}, "actual", actual=actual).actual for ok in (True, False, 3, None)]
    assert found == ["yes", "no", "three", "none"]


def test_a_path_that_can_match_often_gives_all_it_finds() -> None:
    ids = {"hits": [{"id": "a"}, {"id": "b"}]}
    assert read(ids, "actual", actual="$.hits[*].id").actual == ["a", "b"]
    assert read({"hits": []}, "actual", actual="$.hits[*].id").actual == []


@pytest.mark.parametrize(
    ("reply", "mapping", "what"),
    [
        (b"<html>Sign in</html>", {}, "the reply is not JSON (a web page?): <html>Sign in</html>"),
        (b"", {}, "the reply is empty"),
        (b'{"answer": NaN}', {}, "the reply is not JSON"),
        ({"answer": None}, {}, "the field answer of the reply is null"),
        ({"text": "A"}, {}, "the reply has no answer; it has text; set where it is: 'target.answer=$.text'"),
        ({"n": 1}, {}, "the reply has no answer; it has n; set its path: target.answer=$.PATH"),
        ({"error": {"message": "no such model"}}, {}, "the reply is an error in place of an answer"),
        ({"answer": None, "detail": "busy", "said": "A"}, {}, "is null; set where it is: 'target.answer=$.said'"),
        (
            {"status": "ok", "choices": [{"message": {"content": "It is."}}], "ids": ["long enough"]},
            {},
            "set where it is: 'target.answer=$.choices[0].message.content' (or $.status)",
        ),
        (
            {"text": "A"},
            {"answer": "$.txt"},
            "nothing is at $.txt in the reply; set where it is: 'target.answer=$.text'",
        ),
        ({"answer": {"text": "A"}}, {}, "expected text, got an object; set where it is: 'target.answer=$.answer.text'"),
        (
            {"answer": "A", "found": {"docs": ["B"]}},
            {"contexts": "$.docs"},
            "set where it is: 'target.contexts=$.found.docs'",
        ),
        (
            {"id": "x" * 40, "model": "a-model-with-a-long-name", "run_id": "y" * 40, "output": [{"text": "It is."}]},
            {},
            "set where it is: 'target.answer=$.output[0].text'",
        ),
        (
            {"note": "A long note beside the answer.", "text": "A"},
            {},
            "set where it is: 'target.answer=$.text' (or $.note)",
        ),
        ("A text.", {"answer": "$.text"}, "nothing is at $.text in the reply; set where it is: 'target.answer=$'"),
        ({"id": "abc"}, {}, "the reply has no answer; it has id; set its path: target.answer=$.PATH"),
        (
            {"answer": "A", "warnings": [], "docs": ["B"]},
            {"contexts": "$.found"},
            "nothing is at $.found in the reply; set where it is: 'target.contexts=$.docs'",
        ),
        ({}, {}, "it has no field at all"),
        (None, {}, "the reply is null, and has no answer"),
        ({"text": "A"}, {"answer": "$.output.text"}, "answer: nothing is at $.output.text in the reply"),
        ({"text": None}, {"answer": "$.text"}, "answer: null is at $.text in the reply"),
        ({"answer": ["A"]}, {}, "answer: expected text, got a list"),
        ({"answer": "A", "metadata": 1}, {}, "metadata: expected an object, got a number (1)"),
        ({"answer": "A"}, {"contexts": "$.docs"}, "contexts: nothing is at $.docs in the reply"),
        ({"answer": "A", "contexts": [1]}, {}, "contexts: item 0: expected text or an object, got a number (1)"),
        (
            {"answer": "A", "docs": [{"b": 1}]},
            {"contexts": {"path": "$.docs", "fields": {"text": "body"}}},
            "contexts: item 0: nothing is at body",
        ),
        (
            {"answer": "maybe"},
            {"answer": {"path": "$.answer", "values": {"pass": "p", "fail": "f"}}},
            "answer: got 'maybe', and target.answer.values knows pass, fail only",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_what_came(reply: Any, mapping: Any, what: str) -> None:
    with pytest.raises(TargetError) as failed:
        read(reply, **mapping)
    assert what in str(failed.value)
    assert failed.value.error_type == "malformed"


@pytest.mark.parametrize(
    ("mapping", "what"),
    [
        ({"answer": "text"}, "'text' is not a JSONPath: it begins with $"),
        ({"answer": "$.a["}, "'$.a[' is not a JSONPath: "),
        ({"actual": {"path": "$..[", "values": {"a": 1}}}, "is not a JSONPath"),
        ({"contexts": {"path": "$.a", "fields": {"body": "b"}}}, "a context has no 'body'"),
        ({"contexts": {"path": "$.a", "fields": {"title": "b"}}}, "name the key of a context's text"),
        ({"contexts": {"path": "$.a", "fields": {"text": "$.["}}}, "is not a JSONPath"),
    ],
)
def test_a_mapping_that_cannot_work_is_refused(mapping: Any, what: str) -> None:
    with pytest.raises(ValidationError) as failed:
        read({}, **mapping)
    assert what in str(failed.value)


ROUTER = Form("actual", {"actual": {"outcome": "actual_outcome", "confidence": "$.scores.confidence"}})
TAGGER = Form(
    "actual",
    {
        "actual": {"primary": "actual_primary_topic", "secondary": "actual_secondary_topic"},
        "failure": {"status": "status", "message": "error_message"},
    },
)


def test_a_reply_may_have_the_form_of_the_dataset() -> None:
    rag = Form("answer", {"answer": "llm_answer", "contexts": "$.found.chunks"})
    assert read({"llm_answer": "A", "found": {"chunks": [CHUNK]}}, form=rag).contexts
    assert read({"llm_answer": "A", "answer": "B"}, form=rag) == ParsedReply("B")
    search = Form("actual", {"actual": "actual_search_results"})
    assert read({"actual_search_results": []}, form=search) == ParsedReply(actual=[])
    reply = {"actual_outcome": "greetings", "scores": {"confidence": 0.5}, "answer": "Hello."}
    assert read(reply, form=ROUTER) == ParsedReply("Hello.", {"outcome": "greetings", "confidence": 0.5})
    assert read({"actual_outcome": "greetings"}, form=ROUTER) == ParsedReply(actual={"outcome": "greetings"})


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        ("greetings", "actual: expected an object with outcome, confidence, got text"),
        ({"actual": "greetings"}, "actual: expected an object with outcome, confidence, got text"),
        ({"actual": {"route": "greetings"}}, "actual: expected outcome, confidence, got route"),
        ({"actual": {}}, "actual: expected outcome, confidence, got no field"),
        ({"outcome": "greetings"}, "the reply has no actual; it has outcome"),
    ],
)
def test_a_prediction_in_which_metrics_would_find_nothing_is_an_error(reply: Any, what: str) -> None:
    with pytest.raises(TargetError, match=what):
        read(reply, form=ROUTER)


def test_a_reply_may_say_that_the_target_failed() -> None:
    failed = {"status": "error", "error_message": "no topic fits", "actual_primary_topic": "tax"}
    with pytest.raises(TargetError, match="the target reports an error: no topic fits") as error:
        read(failed, form=TAGGER)
    assert error.value.error_type == "reported"
    with pytest.raises(TargetError, match="it says no more than status: error"):
        read({"status": "error"}, form=TAGGER)
    for status in ({"status": "success"}, {"status": 200}, {}):
        assert read({**status, "actual_primary_topic": "tax"}, form=TAGGER).actual == {"primary": "tax"}
    assert read({"status": "error", "answer": "A"}).answer == "A"
    with pytest.raises(TargetError, match="no reviewer"):
        read({"why_not": "no reviewer"}, form=Form("answer", {"failure": "why_not"}))


def test_a_path_that_goes_on_without_end_is_an_error_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "PATIENCE_S", 0.05)
    path = "$.said[?match(@, '(a|aa)+')]"
    with pytest.raises(TargetError, match="reading the reply: the ") as caught:
        read({"said": ["a" * 200 + "b"]}, answer=path)
    assert caught.value.error_type == "timeout"
    quick = [ReplyReader(ReplyConfig.model_validate({"kind": "x", "answer": one})).quick for one in ("$.a[*].b", path)]
    assert quick == [True, False]


@pytest.mark.parametrize(
    ("reply", "usage", "cost_usd"),
    [
        ({"usage": {"input_tokens": 10, "output_tokens": 2}, "cost_usd": 0.5}, Usage(10, 2), 0.5),
        ({"usage": {"prompt_tokens": 10, "completion_tokens": 2}, "cost_usd": 0}, Usage(10, 2), 0.0),
        ({"usage": {"input_tokens": -1, "output_tokens": 2}, "cost_usd": True}, None, None),
        ({"usage": {"input_tokens": 10**30, "output_tokens": 2}, "cost_usd": "0.5"}, None, None),
        ({}, None, None),
        (
            {
                "actual": [
                    {"role": "assistant", "usage": {"input_tokens": 1, "output_tokens": 2}, "cost_usd": 0.1},
                    {"role": "tool", "content": "x"},
                    {"role": "assistant", "usage": {"input_tokens": 3, "output_tokens": 4}},
                ]
            },
            Usage(4, 6),
            None,
        ),
    ],
)
def test_a_reply_may_report_what_it_took(reply: Any, usage: Usage | None, cost_usd: float | None) -> None:
    found = read({"answer": "A", **reply})
    assert (found.usage, found.cost_usd) == (usage, cost_usd)
