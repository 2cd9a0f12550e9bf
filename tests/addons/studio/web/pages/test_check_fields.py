from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from nicegui import Client, ui
from nicegui.page import page
from starlette.requests import Request

from evalflow.addons.studio.web.pages.check_cards import reason_in_words
from evalflow.addons.studio.web.pages.check_fields import ParamFields, about_kind, in_words
from evalflow.addons.studio.web.pages.rule_fields import OPERATIONS, PROGRAMS, rule_in_words
from evalflow.metrics.case_checks import PARAMS
from evalflow.metrics.json_schema import json_equal
from evalflow.metrics.rulebook import Operation


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        ("string_matching", {"keyword": "Hello"}, "The answer contains “Hello”."),
        (
            "string_matching",
            {"keyword": "Hello", "case_sensitive": False},
            "The answer contains “Hello”, in capital or small letters.",
        ),
        (
            "conformity",
            {"rules": ["Be kind.", "Be short.", "Be right.", "Be quick."]},
            "Be kind. Be short. Be right. And 1 more.",
        ),
        ("groundedness", {}, "All of the answer is in the earlier turns."),
        ("groundedness", {"context": " "}, "The answer states nothing, since nothing was retrieved."),
        ("equals", {"expected_value": 40}, "The answer equals “40”."),
        ("less_than", {"expected_value": 3, "field": "metadata.n"}, "metadata.n is a number below “3”."),
        ("rule", {"op": "not_contains", "value": "refund"}, "The answer does not contain “refund”."),
        ("rule", {"op": "one_of", "values": ["a", "b"], "field": "actual"}, "actual is one of “a”, “b”."),
        ("rule", {"op": "length", "max": 50, "unit": "words"}, "The answer has at most 50 words."),
        (
            "rule",
            {"op": "count", "pattern": "a+", "min": 1, "max": 2},
            "The answer has at least 1 and at most 2 matches of “a+”.",
        ),
        (
            "group",
            {"checks": [{"identifier": "greets"}, {"identifier": "rule"}]},
            "Several checks together: greets, rule.",
        ),
        (
            "metadata",
            {"json_path_rules": [{"json_path": "$.ok", "expected_value": True, "expected_value_type": "boolean"}]},
            "The answer's metadata: $.ok is true.",
        ),
    ],
)
def test_a_check_is_said_in_words(kind: str, params: dict[str, Any], words: str) -> None:
    assert in_words(kind, params) == words


def test_every_kind_has_a_name_and_a_sentence_also_with_wrong_parameters() -> None:
    for kind in PARAMS:
        title, about, icon = about_kind(kind)
        assert all((title, about.endswith("."), icon, in_words(kind, {}))), kind


@pytest.fixture(name="_page")
def _page_() -> Iterator[None]:
    client = Client(page("/"), request=Request({"type": "http", "path": "/", "root_path": "", "headers": []}))
    with client:
        yield
    client.delete()


ODD: list[dict[str, Any]] = [
    {"op": "contains", "against": "reference"},
    {"op": "contains", "value": " padded "},
    {"op": "contains_any", "values": ["two\nlines"]},
    {"op": "equals", "value": "x", "normalize": None, "case_sensitive": True},
    {"op": "length", "max": 5},
    {"op": "length", "max": 5, "unit": "words", "trim": True},
    {"op": "regex", "pattern": "b", "case_sensitive": False, "letter_case": "upper"},
    {"op": "jsonpath", "path": "$.a", "equals": None},
    {"op": "jsonpath", "path": "$.a", "equals": "1"},
    {"op": "jsonpath", "path": "$.a", "missing": False},
    {"op": "not", "rule": {"op": "all", "rules": [{"op": "unheard of"}, {"op": "xml", "elements": []}]}},
    {"op": "any", "rules": [{"op": "contains", "value": "a", "field": "actual"}, {"op": "regex", "pattern": "b"}]},
    {"op": 3},
]
KINDS = get_args(get_args(Operation)[0])
RULES = [params for one in KINDS for params in one.model_config["json_schema_extra"]["examples"]]


def test_every_operation_has_its_phrase() -> None:
    known = [op for one in KINDS for op in get_args(one.model_fields["op"].annotation)]
    assert sorted([*OPERATIONS, *PROGRAMS]) == sorted(known)


@pytest.mark.usefixtures("_page")
@pytest.mark.parametrize("params", [*RULES, *ODD], ids=json.dumps)
def test_every_rule_is_shown_without_a_loss(params: dict[str, Any]) -> None:
    assert json_equal(ParamFields("rule", params, lambda: None).read(), params)
    checks = [{"identifier": "rule", "params": params, "weight": 2}, {"identifier": "mine"}]
    group = {"checks": checks, "threshold": 0.5}
    fields = ParamFields("group", group, lambda: None)
    assert json_equal(fields.read(), group)
    assert "params" not in fields.fields  # what is YAML is one rule, not the group
    nested = {"checks": [{"identifier": "group", "name": "inner", "enabled": False, "params": group}]}
    assert json_equal(ParamFields("group", nested, lambda: None).read(), nested)


@pytest.mark.usefixtures("_page")
def test_a_rule_within_a_rule_has_fields_of_its_own() -> None:
    rule = ParamFields("rule", RULES_WITHIN, lambda: None)
    inner = ["path", "wanted", "rule.value", "field"]
    own = ["value", "case_sensitive", "field"]
    assert {*rule.fields} == {"field", *(f"rules[0].{key}" for key in own), *(f"rules[1].{key}" for key in inner)}
    rule.fields["rules[0].value"].value = "please"
    rule.fields["rules[1].rule.value"].value = 9.0
    assert rule.read()["rules"] == [
        {"op": "contains", "value": "please"},
        {"op": "jsonpath", "path": "$.price", "rule": {"op": "less_than", "value": 9}},
    ]


@pytest.mark.usefixtures("_page")
def test_a_rule_compares_with_a_text_or_with_another_field() -> None:
    changes: list[dict[str, Any]] = []
    with ui.element() as place:
        rule = ParamFields("rule", {"op": "contains", "value": "refund", "trim": True}, lambda: changes.append({}))
    (choice,) = (one for one in place.descendants() if isinstance(one, ui.select) and one.value == "value")
    choice.value = "against"
    assert (rule.read(), len(changes)) == ({"op": "contains", "trim": True}, 1)
    rule.fields["against"].value = "reference"
    assert rule.read() == {"op": "contains", "trim": True, "against": "reference"}
    choice = next(one for one in place.descendants() if isinstance(one, ui.select) and one.value == "contains")
    choice.value = "greater_than"
    assert rule.read() == {"op": "greater_than", "trim": True, "against": "reference"}


@pytest.mark.usefixtures("_page")
@pytest.mark.parametrize("op", ["contains", "not_equals", "less_than", "close_to"])
def test_a_rule_against_a_field_is_shown_in_fields(op: str) -> None:
    params = {"op": op, "against": "metadata.limit"}
    fields = ParamFields("rule", params, lambda: None)
    assert ("against" in fields.fields, fields.read()) == (True, params)
    assert rule_in_words(params).endswith("the metadata.limit.")


RULES_WITHIN: dict[str, Any] = {
    "op": "any",
    "rules": [
        {"op": "contains", "value": "three"},
        {"op": "jsonpath", "path": "$.price", "rule": {"op": "less_than", "value": 10}},
    ],
}


@pytest.mark.usefixtures("_page")
def test_a_rule_takes_over_what_it_has_in_common_with_the_one_before() -> None:
    rule = ParamFields("rule", {"op": "contains", "value": "fee", "case_sensitive": False}, lambda: None)
    operation = next(one for one in ui.context.client.elements.values() if isinstance(one, ui.select))
    operation.value = "starts_with"
    assert rule.read() == {"op": "starts_with", "value": "fee", "case_sensitive": False}
    operation.value = ""
    assert rule.fields["op"].value == "op: starts_with\nvalue: fee\ncase_sensitive: false\n"
    rule.fields["op"].value = "op: contains\nagainst: reference"
    assert rule.read() == {"op": "contains", "against": "reference"}
    rule.fields["op"].value = "op: [broken"
    assert rule.read() == {"op": "op: [broken"}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"op": "not", "rule": {"op": "starts_with", "value": "No"}}, "Not: the answer starts with “No”."),
        (RULES_WITHIN, "The answer contains “three” or the answer at $.price: the value is a number below “10”."),
        ({"op": "jsonpath", "path": "$.a", "missing": True}, "The answer at $.a is not there."),
        ({"op": "jsonpath", "path": "$.a", "equals": True}, "The answer at $.a equals “true”."),
        ({"op": "all", "rules": [{}]}, ""),
        ({"op": "not"}, ""),
        ({"op": []}, ""),
    ],
)
def test_a_rule_of_rules_is_said_in_words(params: dict[str, Any], words: str) -> None:
    assert rule_in_words(params) == words


def test_a_missing_parameter_is_named_without_its_key_path() -> None:
    for reason, words in (
        ("string_matching: params.keyword is required", "Fill in: keyword."),
        ("conformity: params.rules: list should have at least 1 item after validation, not 0", "Fill in: rules."),
        ("semantic_similarity: params.threshold must be 1 or less", "Threshold must be 1 or less"),
        ("found 'Hello'", "Found 'Hello'"),
    ):
        assert reason_in_words(reason) == words
