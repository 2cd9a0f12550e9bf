"""What `returns` may declare, and the reply models made of it."""

import pytest
from pydantic import TypeAdapter, ValidationError

from evalflow.metrics.returns import Returns, StepConfig, reply_model

DECLARED = TypeAdapter(Returns)


def model(returns, one_per=False):
    return reply_model("my_step", DECLARED.validate_python(returns), one_per)


def test_short_and_long_forms_are_the_same():
    assert DECLARED.validate_python({"a": "str"}) == DECLARED.validate_python({"a": {"type": "str"}})


def test_the_schema_keeps_order_bounds_and_labels_and_forbids_the_rest():
    schema = model(
        {
            "reason": "str",
            "grade": {"type": "int", "min": 1, "max": 5},
            "share": {"type": "float", "min": 0, "max": 1},
            "verdict": {"type": "label", "labels": ["a", "b"]},
            "flag": "bool",
        }
    ).model_json_schema()
    assert list(schema["properties"]) == ["reason", "grade", "share", "verdict", "flag"] == schema["required"]
    assert schema["title"] == "MyStep"
    assert schema["additionalProperties"] is False
    assert schema["properties"]["grade"].items() >= {"type": "integer", "minimum": 1, "maximum": 5}.items()
    assert schema["properties"]["share"].items() >= {"type": "number", "minimum": 0, "maximum": 1}.items()
    assert schema["properties"]["verdict"]["enum"] == ["a", "b"]


def test_one_per_is_one_list_of_results():
    made = model({"verdict": "bool"}, one_per=True)
    assert list(made.model_fields) == ["results"]
    assert list(made.model_json_schema()["$defs"]["MyStepItem"]["properties"]) == ["number", "verdict"]
    given = [{"number": 2, "verdict": True}, {"number": 1, "verdict": False}]
    assert made.model_validate({"results": given}).model_dump() == {"results": given[::-1]}


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([1], "no result for item 2, 3; give exactly one result for each of the numbers 1 to 3"),
        ([1, 2, 2], "no result for item 3; more than one result for item 2"),
        ([0, 1, 2], "no result for item 3; there is not an item 0"),
        ([1, 2, 3, 4], "there is not an item 4; give exactly one"),
    ],
)
def test_results_that_miss_or_repeat_an_item_are_refused(numbers, said):
    made = model({"verdict": "bool"}, one_per=True)
    given = {"results": [{"number": number, "verdict": True} for number in numbers]}
    with pytest.raises(ValidationError, match=said):
        made.model_validate(given, context={"items": 3})


def test_the_field_that_numbers_results_is_taken():
    declared = {"id": "s", "prompt": "p.jinja", "returns": {"number": "int"}}
    assert StepConfig.model_validate(declared).one_per is None
    with pytest.raises(ValidationError, match="'number' cannot be a field of a step with one_per"):
        StepConfig.model_validate({**declared, "one_per": "contexts"})


def test_lists_of_maps_nest():
    made = model({"facts": {"type": "list", "items": {"fact": "str", "sources": {"type": "list", "items": "int"}}}})
    reply = {"facts": [{"fact": "f", "sources": [1, 2]}]}
    assert made.model_validate(reply).model_dump() == reply
    with pytest.raises(ValidationError):
        made.model_validate({"facts": [{"fact": "f", "sources": [1], "more": 1}]})


@pytest.mark.parametrize(
    "reply",
    [
        {"grade": 3},
        {"reason": "r"},
        {"reason": "r", "grade": 6},
        {"reason": "r", "grade": 0},
        {"reason": "r", "grade": True},
        {"reason": "r", "grade": 3.5},
        {"reason": "r", "grade": float("nan")},
        {"reason": "r", "grade": 3, "pass": True},
        {"reason": None, "grade": 3},
    ],
)
def test_a_reply_that_says_less_more_or_else_is_refused(reply):
    made = model({"reason": "str", "grade": {"type": "int", "min": 1, "max": 5}})
    with pytest.raises(ValidationError):
        made.model_validate(reply)


@pytest.mark.parametrize("claims", [[""], ["", "", " "], ["a", "\t\n"]])
def test_a_blank_item_of_a_list_is_refused(claims):
    made = model({"claims": {"type": "list", "items": "str"}})
    with pytest.raises(ValidationError, match="an item must not be blank"):
        made.model_validate({"claims": claims})
    for fine in ([], ["a", " b "]):
        assert made.model_validate({"claims": fine}).model_dump() == {"claims": fine}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_a_float_is_a_finite_number(value):
    with pytest.raises(ValidationError):
        model({"share": "float"}).model_validate({"share": value})


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ({"a": "strr"}, "unknown type 'strr'; did you mean 'str'?"),
        ({"items": "str"}, "'items' cannot be a field name: it is a method"),
        ({"copy": "str"}, "'copy' cannot be a field name"),
        ({"model_dump": "str"}, "'model_dump' cannot be a field name"),
        ({"type": "str"}, "'type' cannot be a field name"),
        ({"Reason": "str"}, "must be lower-case letters"),
        ({True: "str"}, "put it in quotes"),
        ({"v": {"type": "label", "labels": [True, False]}}, "YAML reads an unquoted true/yes/on as a boolean"),
        ({"v": {"type": "label", "labels": ["a", "a"]}}, "must be distinct"),
        ({"v": {"type": "label", "labels": ["a"]}}, "at least 2"),
        ({"n": {"type": "int", "min": 5, "max": 5}}, "min must be below max, but min is 5 and max is 5"),
        ({"n": {"type": "float", "min": float("-inf"), "max": 1}}, "finite"),
        ({"s": {"type": "str", "min": 1}}, "not permitted"),
        ({"l": {"type": "list"}}, "required"),
        ({}, "at least 1"),
    ],
)
def test_what_cannot_be_declared(returns, message):
    with pytest.raises(ValidationError, match=message.replace("?", r"\?").replace("(", r"\(")):
        DECLARED.validate_python(returns)
