"""Operations that combine others, and those on lists, lengths, tolerances, XML, and JSON within a text."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from evalflow.errors import UserError
from evalflow.limited import LimitExceeded
from evalflow.metrics import json_schema
from evalflow.metrics.rulebook import BaseOperation, Operation, Rulebook
from evalflow.values import patterns

ADAPTER: TypeAdapter[Any] = TypeAdapter(Operation)
LETTERS = st.text("ab", max_size=3)
LEAVES = st.one_of(
    st.builds(lambda value: {"op": "contains", "value": value}, LETTERS),
    st.builds(lambda value: {"op": "starts_with", "value": value}, LETTERS),
    st.builds(lambda pattern: {"op": "regex", "pattern": pattern}, st.sampled_from(["a+$", "^b", "ab|ba"])),
    st.builds(lambda most: {"op": "length", "max": most}, st.integers(0, 4)),
    st.builds(lambda values: {"op": "one_of", "values": values}, st.lists(LETTERS, min_size=1, max_size=3)),
)
RULES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda rule: {"op": "not", "rule": rule}, inner),
        st.builds(
            lambda op, rules: {"op": op, "rules": rules},
            st.sampled_from(["any", "all"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=6,
)


def operation(**keys: Any) -> BaseOperation:
    return ADAPTER.validate_python(keys)


def holds(rule: dict[str, Any], value: Any = None, **fields: Any) -> bool:
    return operation(**rule).apply("answer", {"answer": value, **fields}).passed


def negated(rule: dict[str, Any]) -> dict[str, Any]:
    return {"op": "not", "rule": rule}


def several(op: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"op": op, "rules": rules}


@given(RULES, LETTERS)
def test_not_turns_a_rule_around_and_twice_leaves_it(rule: dict[str, Any], text: str) -> None:
    assert holds(negated(rule), text) is not holds(rule, text)
    assert holds(negated(negated(rule)), text) is holds(rule, text)


@given(st.lists(RULES, min_size=1, max_size=4), LETTERS)
def test_any_and_all_are_those_of_their_rules(rules: list[dict[str, Any]], text: str) -> None:
    each = [holds(rule, text) for rule in rules]
    assert holds(several("any", rules), text) is any(each)
    assert holds(several("all", rules), text) is all(each)
    assert holds(negated(several("any", rules)), text) is holds(several("all", [*map(negated, rules)]), text)
    assert holds(several("all", rules[::-1]), text) is holds(several("all", rules), text)


@given(st.lists(LETTERS, min_size=1, max_size=4), LETTERS)
def test_lists_of_texts_are_combinations_of_single_ones(values: list[str], text: str) -> None:
    for op, single, combined in (("contains_any", "contains", "any"), ("contains_all", "contains", "all")):
        rules = [{"op": single, "value": value} for value in values]
        assert holds({"op": op, "values": values}, text) is holds(several(combined, rules), text)
    assert holds({"op": "one_of", "values": values}, text) is (text in values)


@given(RULES, LETTERS)
def test_a_reason_never_contradicts_the_finding(rule: dict[str, Any], text: str) -> None:
    said = [operation(**one).apply("answer", {"answer": text}).reason for one in (rule, negated(rule))]
    assert said[0]
    assert said[0] == said[1], "the same facts, whatever they are held to mean"


def test_rules_of_a_combination_may_be_about_other_fields() -> None:
    rule = several("all", [{"op": "less_than", "field": "latency_s", "value": 2}, {"op": "contains", "value": "a"}])
    assert holds(rule, "a", latency_s=1.5)
    assert not holds(rule, "a", latency_s=2.5)
    rulebook = Rulebook("answer", [ADAPTER.validate_python(rule)])
    assert rulebook.reads == ["latency_s", "answer"]
    assert Rulebook("answer", [ADAPTER.validate_python({**rule, "field": "actual"})]).reads == ["latency_s", "actual"]
    nested = several("any", [negated({"op": "equals", "against": "reference"}), {"op": "length", "max": 3}])
    assert list(operation(**nested).reads("answer")) == [
        ("", "answer"),
        ("rules[0].rule.against", "reference"),
        ("", "answer"),
    ]


def test_a_rule_that_cannot_be_tested_is_an_error_however_it_is_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "PATIENCE_S", 0.05)
    slow = {"op": "regex", "pattern": "(a|aa)+$"}
    sure = {"op": "contains", "value": "a"}
    for rule in (slow, negated(slow), several("any", [sure, slow]), several("all", [negated(sure), slow])):
        book = Rulebook("answer", [ADAPTER.validate_python(rule)])
        outcome = asyncio.run(book.score({"answer": "a" * 200 + "b"}))
        assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "timeout")


@given(st.decimals(-1000, 1000, places=2), st.decimals(-1000, 1000, places=2), st.decimals(0, 5, places=2))
def test_close_is_what_the_decimals_say(number: Decimal, other: Decimal, tolerance: Decimal) -> None:
    rule = {"op": "close_to", "value": float(other), "tolerance": float(tolerance)}
    assert holds(rule, str(number)) is (abs(number - other) <= tolerance)


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        ({"value": 1, "tolerance": 0.1}, "1.1", True),
        ({"value": 200, "relative": 0.05}, 210, True),
        ({"value": 200, "relative": 0.05}, 210.1, False),
        ({"value": -200, "relative": 0.05}, -190, True),
        ({"value": 20}, 20.0, True),
        ({"value": 20}, "20 cents", False),
        ({"value": 20}, True, False),
        ({"value": 20, "tolerance": 1e300, "relative": 1e308}, 1e308, True),
    ],
)
def test_close_to(keys: dict[str, Any], value: Any, expected: bool) -> None:
    assert holds({"op": "close_to", **keys}, value) is expected


@pytest.mark.parametrize(
    ("keys", "value", "expected"),
    [
        ({"min": 2}, "é", False),
        ({"max": 1}, "🙂", True),
        ({"unit": "words", "min": 3, "max": 3}, " one\ntwo  three ", True),
        ({"unit": "words", "max": 0}, " \n", True),
        ({"unit": "lines", "max": 2}, "a\nb\n", True),
        ({"unit": "items", "max": 1}, [{"name": "a"}, {"name": "b"}], False),
        ({"unit": "items", "min": 0}, "no list", False),
        ({"unit": "items", "min": 0}, 3, False),
    ],
)
def test_length(keys: dict[str, Any], value: Any, expected: bool) -> None:
    assert holds({"op": "length", **keys}, value) is expected


@pytest.mark.parametrize(
    ("rule", "answer", "expected"),
    [
        ({"op": "equals", "value": "straße", "letter_case": "lower"}, "STRASSE", False),
        ({"op": "equals", "value": "STRASSE", "letter_case": "upper"}, "Straße", True),
        ({"op": "contains", "value": "Ja", "letter_case": "lower"}, "Ja", False),  # what it is compared with stays
        ({"op": "contains_any", "values": ["ж", "ß"], "letter_case": "lower"}, "ЖУК", True),
        ({"op": "equals", "value": "ja", "trim": True}, "\ufeff ja\u3000", True),
        ({"op": "equals", "value": "ja", "trim": True}, "ja\x85", False),
        ({"op": "regex", "pattern": "^ja$", "trim": True}, " ja ", True),
        ({"op": "regex", "pattern": "^.$"}, "🙂", True),
        ({"op": "length", "max": 2, "trim": True}, "  ja  ", True),
        ({"op": "count", "pattern": "[a-z]+", "min": 2, "max": 2}, "one, two", True),
        ({"op": "count", "pattern": "one", "case_sensitive": False, "max": 1}, "One, ONE", False),
    ],
)
def test_a_text_is_changed_before_it_is_compared(rule: dict[str, Any], answer: str, expected: bool) -> None:
    assert holds(rule, answer) is expected


def test_the_reason_of_a_count_has_the_number_and_the_limits() -> None:
    said = operation(op="count", pattern="o", max=1).apply("answer", {"answer": "one, two"})
    assert said.reason == "the answer has 2 matches of o; allowed: at most 1"


def test_the_reason_of_a_length_counts() -> None:
    said = operation(op="length", unit="words", max=2).apply("answer", {"answer": "One two three."})
    assert said.reason == "the answer has 3 words; allowed: at most 2"
    said = operation(op="length", unit="items", min=1, max=1).apply("actual", {"actual": [1]})
    assert said.reason == "the actual has 1 item; allowed: exactly 1"


@pytest.mark.parametrize(
    ("rule", "answer", "reason"),
    [
        ({"op": "contains_all", "values": ["a", "b", "c"]}, "a", 'the answer does not contain "b", "c"'),
        ({"op": "contains_any", "values": ["x", "y"]}, "a", 'the answer contains none of "x", "y"'),
        (
            {"op": "one_of", "values": [str(n) for n in range(8)]},
            "a",
            'the answer equals none of "0", "1", "2", "3", "4" and 3 more',
        ),
        (
            {"op": "one_of", "values": ["JA", "NO"], "case_sensitive": False, "trim": True},
            " ja",
            'the answer equals "JA"',
        ),
    ],
)
def test_reasons_of_lists(rule: dict[str, Any], answer: str, reason: str) -> None:
    assert operation(**rule).apply("answer", {"answer": answer}).reason == reason


PRICE = {"op": "jsonpath", "path": "$.items[*].price", "rule": {"op": "less_than", "value": 10}}


@pytest.mark.parametrize(
    ("answer", "expected", "reason"),
    [
        ('{"items": [{"price": 12}, {"price": 9}]}', True, "the value at $.items[*].price 9 is less than 10"),
        ('{"items": [{"price": 12}]}', False, "the value at $.items[*].price 12 is not less than 10"),
        ('{"items": []}', False, "JSON path $.items[*].price does not exist in answer"),
        ("none", False, "the answer is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_any_operation_may_follow_a_json_path(answer: str, expected: bool, reason: str) -> None:
    finding = operation(**PRICE).apply("answer", {"answer": answer})
    assert (finding.passed, finding.reason) == (expected, reason)


SHAPE = {"type": "object", "required": ["days"]}


@pytest.mark.parametrize(
    ("schema", "answer", "expected"),
    [
        (SHAPE, 'It is {"days": 21}.', True),
        (SHAPE, 'See {note} and {"weeks": 3} or {"days": 21}', True),
        (SHAPE, 'Only {"loan": {"days": 21}}', False),
        (SHAPE, '[{"days": 21}]', True),
        ({}, "See [1] and {note}.", False),
        ({}, '{"a": NaN} {"b": 1}', True),
        ({}, "", False),
    ],
)
def test_json_within_a_text(schema: dict[str, Any], answer: str, expected: bool) -> None:
    assert holds({"op": "json_schema", "schema": schema, "anywhere": True}, answer) is expected


def test_text_that_takes_too_long_to_search_for_json_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "PATIENCE_S", 0.0)
    with pytest.raises(LimitExceeded, match="reading the JSON in the text takes more than"):
        json_schema.objects_in("{" * 10_000)


@pytest.mark.parametrize(
    ("answer", "elements", "expected"),
    [
        ("<a/>", [], True),
        ('\n<?xml version="1.0" encoding="UTF-16"?><a>é</a>\n', [], True),
        ("<a><b><c/></b></a>", ["a.b.c", "a.b"], True),
        ("<a><b/><c/></a>", ["a.b.c"], False),
        ("<a>", [], False),
        ("<a></b>", [], False),
        ("<a/><b/>", [], False),
        ("Here: <a/>", [], False),
        ("", [], False),
        ("<a>\ud800</a>", [], True),
    ],
)
def test_xml(answer: str, elements: list[str], expected: bool) -> None:
    assert holds({"op": "xml", "elements": elements}, answer) is expected


@pytest.mark.parametrize(
    ("answer", "elements", "fault"),
    [
        ("<p>See <b>here</b>.</p>\n<p>Or ask.", [], ""),
        ("<!doctype html><html><head><title>Fees</title></head><body><ul><li>a<li>b</ul></html>", ["UL"], ""),
        ("<table><tr><td>21<td>5 < 6</table><!-- end -->", ["td"], ""),
        ('<svg viewBox="0 0 1 1"><path d="M0 0"/></svg><my-tag></my-tag><br><br/>', ["svg"], ""),
        ("<p>21</p>", ["table"], "HTML without the element table"),
        ("<div><p>21</div><div>", [], "not HTML: <div> is not closed"),
        ("<b><i>21</b></i>", [], "not HTML: line 1, column 9: </b> closes no element"),
        ("<p>a\n</br></p>", [], "not HTML: line 2, column 1: </br> closes no element"),
        ("<div/>", [], "not HTML: line 1, column 1: <div/> does not close the element"),
        ("<answer>21</answer>", [], "not HTML: line 1, column 1: HTML has no element <answer>"),
        ("```html\n<p>21</p>\n```", [], "not HTML: line 1, column 1: text outside of all elements: ```html"),
        ('<p>21</p><div class="', [], "not HTML: its last tag is not closed"),
        ("<!-- 21 -->", [], "not HTML: there is no element"),
        ("", [], "not HTML: there is no element"),
    ],
)
def test_html(answer: str, elements: list[str], fault: str) -> None:
    finding = operation(op="html", elements=elements).apply("answer", {"answer": answer})
    named = " with its elements" if elements else ""
    assert (finding.passed, finding.reason) == (not fault, f"the answer is {fault or f'HTML{named}'}")


@pytest.mark.parametrize(
    ("answer", "keys", "reason"),
    [
        ("SELECT a FROM t WHERE b > 3 ORDER BY a;", {"reads_only": True}, ""),
        ("WITH x AS (SELECT 1 AS n) SELECT n FROM x UNION SELECT 2", {"reads_only": True}, ""),
        ("SELECT INTERVAL '1 day'", {"dialect": "postgres"}, ""),
        ("INSERT INTO t VALUES (1)", {}, ""),
        ("DROP TABLE t", {}, ""),
        ("INSERT INTO t VALUES (1)", {"reads_only": True}, "SQL that does more than read data"),
        ("SELECT a FROM WHERE", {}, "not SQL: "),
        ("Here it is: SELECT 1", {}, "not SQL: "),
        ("Gladly done", {}, "not SQL: it is not a statement"),
        (" ", {}, "not SQL: it is empty"),
        ("SELECT 'a", {}, "not SQL: "),
        ("SELECT 1; SELECT 2", {}, "2 SQL statements"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, {}, "nested too deeply"),
        ("SELECT " + "1, " * 20_000, {}, "too long for SQL"),
    ],
)
def test_sql(answer: str, keys: dict[str, Any], reason: str) -> None:
    finding = operation(op="sql", **keys).apply("answer", {"answer": answer})
    assert (finding.passed, finding.reason.startswith(f"the answer is {reason}")) == (not reason, True)


def test_sql_without_its_parser_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalflow.metrics.format_operations.find_spec", lambda _: None)
    with pytest.raises(ValidationError, match=r"needs the package sqlglot: .*pip install"):
        operation(op="sql")


def test_xml_with_entities_is_refused_before_it_grows() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
    assert operation(op="xml").apply("answer", {"answer": bomb}).reason == (
        "the answer is not XML: it declares entities, which are not allowed"
    )
    assert holds({"op": "xml"}, '<!DOCTYPE a SYSTEM "file:///no/such.dtd"><a/>'), "nothing is fetched"
    assert not holds({"op": "xml"}, "<a>" * 100_000)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"op": "not"}, "Field required"),
        ({"op": "not", "rule": {"op": "equals"}}, "exactly one of `value` and `against`"),
        ({"op": "any", "rules": []}, "at least 1 item"),
        ({"op": "contains_any", "values": []}, "at least 1 item"),
        ({"op": "contains_all", "values": [True]}, "put it in quotes"),
        ({"op": "length"}, "needs `min`, `max` or both"),
        ({"op": "count", "pattern": "a"}, "count needs `min`, `max` or both"),
        ({"op": "count", "pattern": "(", "min": 1}, "not a regular expression"),
        ({"op": "length", "min": 3, "max": 2}, "no length is at least 3 and at most 2"),
        ({"op": "length", "min": -1}, "greater than or equal to 0"),
        ({"op": "close_to", "value": float("nan")}, "finite number"),
        ({"op": "close_to", "value": 1, "tolerance": -1}, "greater than or equal to 0"),
        ({"op": "close_to", "value": 1, "relative": float("inf")}, "finite number"),
        ({"op": "jsonpath", "path": "$[", "equals": 1}, "is not a JSONPath"),
        ({"op": "jsonpath", "path": "$.a", "equals": 1, "rule": {"op": "length", "max": 1}}, "exactly one of"),
        ({"op": "jsonpath", "path": "$.a", "rule": {"op": "length", "max": 1, "field": "actual"}}, "leave out `field`"),
    ],
)
def test_what_is_no_operation(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ADAPTER.validate_python(rule)


def test_a_check_metric_declares_the_fields_of_all_its_rules(bench: Any) -> None:
    rules = [{"op": "length", "max": 5}, negated({"op": "equals", "field": "actual", "against": "expected"})]
    values = {"kind": "check", "checks": rules, "needs": ["answer", "latency_s"]}
    with pytest.raises(UserError, match="does not declare") as error:
        bench.build("mine", values)
    assert [problem.where for problem in error.value.problems] == [
        "metric.mine.checks[1].rule.field",
        "metric.mine.checks[1].rule.against",
    ]
    soon = {"kind": "check", "needs": ["latency_s"], "field": "latency_s", "checks": [{"op": "less_than", "value": 2}]}
    metric = bench.build("soon", soon)
    assert bench.score(metric, answer=bench.answer(latency_s=1.5)).score == 1.0
    missing = bench.score(metric)
    assert (missing.status, missing.score, missing.reason) == ("skipped", None, "the case has no latency_s")
