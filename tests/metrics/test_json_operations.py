"""Checks of numbers and of JSON: comparison, JSONPath, JSON Schema."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalflow.limited import LimitExceeded
from evalflow.metrics import json_schema
from evalflow.metrics.rulebook import ComparisonOperation, JsonPathOperation, JsonSchemaOperation
from evalflow.values import jsonvalues
from evalflow.values.jsonvalues import Unusable

pytestmark = pytest.mark.slow

USER = {"user": {"name": "John Doe", "age": 41, "admin": True, "tags": ["a", "bc"], "note": None}}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


def found(operation, value, field="metadata"):
    return operation.apply(field, {field: value})


def path(where, **wanted):
    return JsonPathOperation(op="jsonpath", path=where, **wanted)


@pytest.mark.parametrize(
    ("op", "answer", "holds"),
    [
        ("less_than", "4.5", True),
        ("less_than", "5", False),
        ("less_than_equals", 5, True),
        ("greater_than", "6e0", True),
        ("greater_than_equals", " 5 ", True),
        ("greater_than_equals", 4.99, False),
    ],
)
def test_comparison(op, answer, holds):
    assert found(ComparisonOperation(op=op, value=5), answer, "answer").passed is holds


@pytest.mark.parametrize("answer", ["many", "", "nan", True, [5], None])
def test_what_is_no_number_does_not_pass_and_says_so(answer):
    for op in ("less_than", "greater_than_equals"):
        finding = found(ComparisonOperation(op=op, value=5), answer, "answer")
        assert not finding.passed
        assert finding.reason.startswith("the answer is not a number: ")


def test_comparison_with_another_field_names_both():
    operation = ComparisonOperation(op="less_than", against="expected")
    assert operation.apply("actual", {"actual": 3, "expected": "2"}).reason == (
        "the actual 3 is not less than the expected 2"
    )
    assert operation.apply("actual", {"actual": 3, "expected": {}}).reason == 'the expected is not a number: "{}"'


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_comparisons_agree_with_each_other(number, limit):
    ops = ("less_than", "less_than_equals", "greater_than", "greater_than_equals")
    less, at_most, greater, at_least = (found(ComparisonOperation(op=op, value=limit), number).passed for op in ops)
    assert (less, greater) == (not at_least, not at_most)
    assert at_most == (less or number == limit)


@pytest.mark.parametrize(
    ("operation", "holds"),
    [
        (path("$.user.name", contains="John"), True),
        (path("$.user.name", contains="john"), False),
        (path("$.user.name", equals="John"), False),
        (path("$.user.age", equals=41.0), True),
        (path("$.user.age", equals="41"), False),
        (path("$.user.age", contains="4"), False),
        (path("$.user.admin", equals=True), True),
        (path("$.user.admin", equals=1), False),
        (path("$.user.note", equals=None), True),
        (path("$.user.name", matches=r"^John\b"), True),
        (path("$.user.age", matches="4"), False),
        (path("$.user.tags[*]", contains="b"), True),
        (path("$.user.tags[*]", equals="b"), False),
        (path("$.user.email", missing=True), True),
        (path("$.user.name", missing=True), False),
        (path("$.user.note", missing=False), True),
        (path("$.user.email", missing=False), False),
        (path("$.user.email", contains=""), False),
    ],
)
def test_json_path(operation, holds):
    assert found(operation, USER).passed is holds


def test_a_text_is_read_as_json_first():
    operation = path("$.date", matches=r"^\d{4}$")
    assert found(operation, '{"date": "1999"}', "answer").passed
    assert found(operation, "In 1999.", "answer").reason.startswith("the answer is not JSON: ")
    assert not found(path("$.a", contains="b"), '"{"a": "b"}"', "answer").passed, "JSON in a JSON text"
    with pytest.raises(RecursionError):  # whether it is JSON, nobody knows: the score is an error
        found(path("$.a", missing=False), "[" * 100_000, "answer")
    with pytest.raises(Unusable, match="too large to compare"):
        found(path("$.a", missing=False), '{"a": 1e999}', "answer")
    assert found(path("$.a", missing=False), '{"a": NaN}', "answer").reason == "the answer is not JSON: it has no NaN"


def test_a_schema_that_is_nested_too_deeply_is_refused():
    schema = {}
    for _ in range(300):
        schema = {"not": schema}
    with pytest.raises(ValidationError, match="nested too deeply"):
        JsonSchemaOperation.model_validate({"op": "json_schema", "schema": schema})


def test_the_reason_says_what_was_wanted_and_what_was_found():
    assert found(path("$.user.name", equals="Jim"), USER).reason == "Expected Jim at $.user.name but got John Doe"
    assert found(path("$.user.age", equals="41"), USER).reason == "Expected 41 at $.user.age but got 41 (no text)"
    assert found(path("$.age", equals=41), {"age": "41"}).reason == "Expected 41 at $.age but got 41 (text)"
    assert found(path("$.x.y", equals=1), USER).reason == "JSON path $.x.y does not exist in metadata"
    assert found(path("$.user.age", equals=41), USER).reason == "Found 41 at $.user.age, as expected"


def test_json_schema():
    operation = JsonSchemaOperation(op="json_schema", schema=SCHEMA)
    assert found(operation, {"age": 3}).passed
    assert found(operation, '{"age": 3}', "answer").passed
    assert found(operation, '{"age": "3"}', "answer").reason == (
        "the answer is not valid by the JSON Schema: '3' is not of type 'integer' at $.age"
    )
    assert found(operation, "{", "answer").reason.startswith("the answer is not JSON: ")
    assert found(JsonSchemaOperation(op="json_schema", schema={}), "[1]", "answer").passed


def test_a_schema_may_refer_to_its_own_parts():
    parts = {"$ref": "#/$defs/age", "$defs": {"age": {"type": "integer"}}}
    assert found(JsonSchemaOperation(op="json_schema", schema=parts), "3", "answer").passed


@pytest.mark.parametrize(
    ("model", "values", "message"),
    [
        (JsonPathOperation, {"op": "jsonpath", "path": "$.[", "equals": 1}, "is not a JSONPath"),
        (JsonPathOperation, {"op": "jsonpath", "path": "$[?@.a =~ /(/]", "equals": 1}, "is not a JSONPath"),
        (JsonPathOperation, {"op": "jsonpath", "path": "$[?@.a==1e999]", "equals": 1}, "is not a JSONPath"),
        (JsonPathOperation, {"op": "jsonpath", "path": "$.a"}, "exactly one of contains, equals, matches, missing"),
        (JsonPathOperation, {"op": "jsonpath", "path": "$.a", "equals": 1, "contains": "1"}, "exactly one of"),
        (JsonPathOperation, {"op": "jsonpath", "path": "$.a", "matches": "(["}, "is not a regular expression"),
        (JsonSchemaOperation, {"op": "json_schema", "schema": {"type": "objekt"}}, "not a JSON Schema: 'objekt'"),
        (JsonSchemaOperation, {"op": "json_schema", "schema": {"$schema": 5}}, "not a JSON Schema: \\$schema"),
        (
            JsonSchemaOperation,
            {"op": "json_schema", "schema": {"$ref": "http://127.0.0.1:9/s.json"}},
            "refers to 'http://127.0.0.1:9/s.json', which is not a schema within it",
        ),
        (
            JsonSchemaOperation,
            {"op": "json_schema", "schema": {"$ref": "#/minLength", "minLength": 3}},
            "refers to '#/minLength', which is not a schema",
        ),
        (
            JsonSchemaOperation,
            {"op": "json_schema", "schema": {"$ref": "#/required/0", "required": ["a"]}},
            "refers to '#/required/0', which is not a schema",
        ),
    ],
)
def test_what_is_wrong_is_refused_before_any_data(model, values, message):
    with pytest.raises(ValidationError, match=message):
        model.model_validate(values)


BOMB, LONG = "^(a|aa)+$", "a" * 200 + "b"
LISTS = [[[[[[[[0] * 4] * 4] * 4] * 4] * 4] * 4] * 4] * 4


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (f"$[?search(@.x, '{BOMB}')]", [{"x": LONG}]),
        (f"$[?match(@.x, '{BOMB}')]", [{"x": LONG}]),
        (f"$[?@.x =~ /{BOMB}/]", [{"x": LONG}]),
        ("$[?search(@.x, @.p)]", [{"x": LONG, "p": BOMB}]),
        ("$[?search(@.x, '(?:(?:(?:a{99}){99}){99}){99}')]", [{"x": LONG}]),
        ("$..*..*..*..*..*..*", LISTS),
        ("$[?@..*..*..*..*..*..*]", LISTS),
        ("$[*,*,*,*][*,*,*,*][*,*,*,*][*,*,*,*][*,*,*,*][*,*,*,*]", LISTS),
    ],
)
def test_a_path_that_goes_on_without_end_is_given_up(where, value, monkeypatch):
    monkeypatch.setattr(jsonvalues, "PATIENCE_S", 0.5)
    with pytest.raises(LimitExceeded, match=r"^the JSONPath .* takes more than 0\.5 s$"):
        found(path(where, missing=False), value)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("$.user[?search(@, 'hn D')]", True),
        ("$.user[?match(@, 'hn D')]", False),
        ("$.user[?match(@, 'J[a-z]+ .oe')]", True),
        ("$.user[?@ =~ /JOHN DOE/i]", True),
        ("$.user[?@ =~ /john/i]", False),
        ("$.user[?search(@, '(')]", False),
        ("$.user.tags[*]", True),
        ("$..tags[?@ == 'bc'] | $.none", True),
    ],
)
def test_patterns_in_a_path_mean_what_they_mean_to_jsonpath(where, holds):
    assert found(path(where, missing=False), USER).passed is holds


def doubled(keyword):
    """A schema that looks at the same value 2 ** 60 times."""
    of = {f"a{i}": {keyword: [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)}
    return {"$defs": {**of, "a60": True}, "$ref": "#/$defs/a0"}


DIALECT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"pattern": BOMB}}, [LONG]),
        ({"patternProperties": {BOMB: {}}}, {LONG: 1}),
        ({"patternProperties": {BOMB: {}}, "additionalProperties": False}, {LONG: 1}),
        ({"allOf": [{"patternProperties": {BOMB: {}}}], "unevaluatedProperties": False}, {LONG: 1}),
        ({"propertyNames": {"pattern": BOMB}}, {LONG: 1}),
        ({"$schema": DIALECT, "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"pattern": BOMB}}}, [LONG]),
        ({"$schema": DIALECT, "items": {"$ref": "#"}, "pattern": BOMB}, [LONG]),
        ({"properties": {"x": {"$schema": DIALECT, "pattern": BOMB}}}, {"x": LONG}),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": {"pattern": BOMB}}, [LONG]),
        (
            {
                "$schema": "https://json-schema.org/draft/2019-09/schema",
                "allOf": [{"patternProperties": {BOMB: {}}}],
                "unevaluatedProperties": False,
            },
            {LONG: 1},
        ),
        (doubled("allOf"), 1),
        (doubled("oneOf"), 1),
        ({"uniqueItems": True}, [*range(30_000), "a", None]),
    ],
)
def test_a_schema_that_goes_on_without_end_is_given_up(schema, value, monkeypatch):
    operation = JsonSchemaOperation(op="json_schema", schema=schema)
    monkeypatch.setattr(json_schema, "PATIENCE_S", 0.5)
    with pytest.raises(LimitExceeded, match=r"^validating by the JSON Schema takes more than 0\.5 s$"):
        found(operation, value)


def test_a_format_is_an_annotation():
    schema = {"format": "regex", "properties": {"mail": {"format": "email"}}}
    assert found(JsonSchemaOperation(op="json_schema", schema=schema), {"mail": "("}).passed


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {"ab": 1}, "is valid"),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {"b": 1}, "'b' does not match any of"),
        ({"patternProperties": {"^a": {"type": "string"}}}, {"ab": 1}, "1 is not of type 'string' at $.ab"),
        ({"allOf": [{"patternProperties": {"^a": {}}}], "unevaluatedProperties": False}, {"ab": 1}, "is valid"),
        ({"allOf": [{"patternProperties": {"^a": {}}}], "unevaluatedProperties": False}, {"b": 1}, "Unevaluated"),
        ({"items": {"pattern": "^b"}}, ["b", "a"], "'a' does not match '^b' at $[1]"),
        ({"properties": {"x": {"$schema": DIALECT, "pattern": "^b"}}}, {"x": "a"}, "'a' does not match '^b' at $.x"),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string"}}}, ["a", 1], "1 is not of type 'string'"),
    ],
)
def test_patterns_in_a_schema_mean_what_they_mean_to_jsonschema(schema, value, reason):
    assert reason in found(JsonSchemaOperation(op="json_schema", schema=schema), value).reason


def test_a_check_of_a_case_that_goes_on_without_end_is_a_score_in_state_error(bench):
    check = {"op": "jsonpath", "path": f"$[?search(@.x, '{BOMB}')]", "missing": False}
    metric = bench.build("mine", {"kind": "check", "needs": ["metadata"], "field": "metadata", "checks": [check]})
    outcome = bench.score(metric, answer=bench.answer(metadata={"a": {"x": LONG}}))
    assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "timeout")
    assert BOMB in outcome.error


def test_true_is_not_1_inside_a_value_either():
    operation = JsonPathOperation(op="jsonpath", path="$.a", equals={"b": [1]})
    assert operation.apply("answer", {"answer": '{"a": {"b": [1.0]}}'}).passed
    assert not operation.apply("answer", {"answer": '{"a": {"b": [true]}}'}).passed
