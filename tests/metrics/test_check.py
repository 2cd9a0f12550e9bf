"""Checks: rules over text that need no model."""

import re
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalflow.errors import UserError
from evalflow.metrics.operations import PatternOperation
from evalflow.values import patterns


def metric(bench, *checks, **more):
    needs = more.pop("needs", ["answer"])
    return bench.build("mine", {"kind": "check", "needs": needs, "checks": list(checks), **more})


def passes(bench, check, text, **more):
    return bench.score(metric(bench, check, **more), answer=bench.answer(answer=text)).score == 1.0


@pytest.mark.parametrize(
    ("check", "text", "expected"),
    [
        ({"op": "equals", "value": "Ja"}, "Ja", True),
        ({"op": "equals", "value": "Ja"}, "ja", False),
        ({"op": "equals", "value": "Ja", "case_sensitive": False}, "JA", True),
        ({"op": "equals", "value": "Ja"}, " Ja", False),
        ({"op": "equals", "value": "Ja", "trim": True}, " Ja\n", True),
        ({"op": "not_equals", "value": "Ja"}, "Nein", True),
        ({"op": "not_equals", "value": "Ja"}, "Ja", False),
        ({"op": "contains", "value": "b"}, "abc", True),
        ({"op": "contains", "value": "B"}, "abc", False),
        ({"op": "contains", "value": "STRASSE", "case_sensitive": False}, "Hauptstraße 1", True),
        ({"op": "not_contains", "value": "b"}, "abc", False),
        ({"op": "not_contains", "value": "x"}, "", True),
        ({"op": "starts_with", "value": "a"}, "abc", True),
        ({"op": "ends_with", "value": "a"}, "abc", False),
        ({"op": "equals", "value": "ﬁ", "normalize": "NFKC"}, "fi", True),
        ({"op": "equals", "value": "ﬁ"}, "fi", False),
        ({"op": "equals", "value": "e\u0301", "normalize": None}, "é", False),
        ({"op": "regex", "pattern": r"^\d{4}$"}, "1999", True),
        ({"op": "regex", "pattern": r"\bcat\b"}, "a cat.", True),
        ({"op": "regex", "pattern": "CAT"}, "a cat", False),
        ({"op": "regex", "pattern": "CAT", "case_sensitive": False}, "a cat", True),
        ({"op": "not_regex", "pattern": "(?i)as an ai"}, "As an AI, I", False),
        ({"op": "not_regex", "pattern": "(?i)as an ai"}, "", True),
    ],
)
def test_operations(bench, check, text, expected):
    assert passes(bench, check, text) is expected


@pytest.mark.parametrize(
    ("combine", "expected", "value"), [("all", 0.0, False), ("any", 1.0, True), ("mean", 2 / 3, 2 / 3)]
)
def test_combine(bench, combine, expected, value):
    checks = [{"op": "contains", "value": letter} for letter in "abx"]
    outcome = bench.score(metric(bench, *checks, combine=combine), answer=bench.answer(answer="abc"))
    assert (outcome.score, outcome.value) == (expected, value)
    assert [step["passed"] for step in outcome.steps] == [True, True, False]


def test_the_reason_names_what_failed_or_what_held(bench):
    checks = [{"op": "contains", "value": "a"}, {"op": "regex", "pattern": r"\d"}]
    both = metric(bench, *checks)
    assert bench.score(both, answer=bench.answer(answer="abc")).reason == r"the answer does not match: \d"
    found = bench.score(both, answer=bench.answer(answer="a1")).reason
    assert found == r'the answer contains "a"; the answer matches at "1": \d'


def test_against_another_field_and_inside_metadata(bench):
    check = {"op": "equals", "against": "expected"}
    one = metric(bench, check, field="metadata.category", needs=["metadata.category", "expected"])
    case = bench.case(expected="law")
    assert bench.score(one, case=case, answer=bench.answer(metadata={"category": "law"})).score == 1.0
    outcome = bench.score(one, case=case, answer=bench.answer(metadata={"category": "tax"}))
    assert outcome.reason == 'the metadata.category does not equal the expected "law"'
    absent = bench.score(one, case=case, answer=bench.answer(metadata={}))
    assert (absent.status, absent.reason) == ("skipped", "the case has no metadata.category")


def test_values_that_are_no_text_are_compared_as_json(bench):
    one = metric(bench, {"op": "equals", "against": "expected"}, field="actual", needs=["actual", "expected"])
    for expected, actual, score in (("3", 3, 1.0), (True, True, 1.0), ([1, 2], [2, 1], 0.0), ({"a": 1}, {"a": 1}, 1.0)):
        outcome = bench.score(one, case=bench.case(expected=expected), answer=bench.answer(actual=actual))
        assert outcome.score == score


def test_fields_must_be_declared(bench):
    with pytest.raises(UserError) as error:
        metric(bench, {"op": "equals", "against": "reference"}, field="actual")
    assert [(p.where, p.hint) for p in error.value.problems] == [
        ("metric.mine.field", "needs: [answer, actual, reference]"),
        ("metric.mine.checks[0].against", "needs: [answer, actual, reference]"),
    ]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"op": "less_than", "value": "many"}, "valid number"),
        ({"op": "less_than"}, "exactly one of `value` and `against`"),
        ({"op": "regex", "pattern": "(["}, "is not a regular expression: unterminated character set"),
        ({"op": "equals"}, "exactly one of `value` and `against`"),
        ({"op": "equals", "value": "a", "against": "reference"}, "exactly one of `value` and `against`"),
        ({"op": "equals", "value": True}, "put it in quotes"),
        ({"op": "equals", "value": "a", "pattern": "b"}, "not permitted"),
        ({"op": "equal", "value": "a"}, "'equals'"),
    ],
)
def test_what_is_no_check(bench, check, message):
    with pytest.raises(ValidationError, match=message):
        metric(bench, check)


def test_a_pattern_that_backtracks_without_end_costs_one_score(bench, monkeypatch):
    monkeypatch.setattr(patterns, "PATIENCE_S", 0.05)
    pattern = {"op": "regex", "pattern": "(a|aa)+$"}
    outcome = bench.score(metric(bench, pattern), answer=bench.answer(answer="a" * 200 + "b"))
    assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "timeout")
    assert outcome.error == "the pattern takes too long on this text: (a|aa)+$"


@pytest.mark.parametrize(
    "pattern", ["(?:(?:(?:a{99}){99}){99}){99}", "(?:[)(]{999}x){999}", "(?:(?:a{999}){999}){0}", "a" * 100_001]
)
def test_a_pattern_that_is_too_large_is_refused(bench, pattern):
    with pytest.raises(ValidationError, match="the pattern is too large with its repetitions written out: "):
        metric(bench, {"op": "regex", "pattern": pattern})


def test_nested_quantifiers_end(bench):
    assert not passes(bench, {"op": "regex", "pattern": "(x+x+)+y"}, "x" * 34)


def test_a_large_set_and_many_repetitions_are_no_large_pattern(bench):
    pattern = (
        "^(?:[0-9a-f]{8}-){3}" + "x{0,60000}" * 9 + "[" + "".join(map(chr, range(0x100, 0x5000))) + r"]{2}\)\{9{4}$"
    )
    assert passes(bench, {"op": "regex", "pattern": pattern}, "0123abcd-" * 3 + "xx\u0123\u0124){9999")


PARTS = [
    "a",
    "b",
    "1",
    "[",
    "]",
    "^",
    "-",
    ":",
    "{",
    "}",
    ",",
    "e",
    "\\",
    ".",
    "*",
    "(",
    ")",
    "|",
    "[:alpha:]",
    "{1,2}",
]


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join))
@example("[[:alpha:]]")
@example("a{e}")
@example("[[]")
@example(r"\\{e}[]{e}\[[]")
def test_patterns_mean_what_they_mean_to_python(pattern):
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        try:
            python = re.compile(pattern)
        except re.error:
            return
        operation = PatternOperation(op="regex", pattern=pattern)
    for text in ("ab[:e{e}1", r"a-b^b{1,2}\[alpha:]", "1aab e1,"):
        found = python.search(text)
        finding = operation.apply("answer", {"answer": text})
        assert finding.passed is (found is not None)
        if found:
            assert f'"{" ".join(found.group().split())}"' in finding.reason
