"""Tool calls: what was expected against what was made."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.errors import UserError
from evalflow.metrics.kinds.tool_calls import ToolCall, made

NAMES = st.lists(st.sampled_from("abc"), max_size=6)


def outcome(bench: Any, expected: Any, actual: Any, **changes: Any) -> Any:
    metric = bench.shipped("tool_correctness", **changes)
    return bench.score(metric, case=bench.case(expected=expected), answer=bench.answer(actual=actual))


@pytest.mark.parametrize(("order", "score"), [(False, 0.75), (True, 0.5)])
def test_the_share_of_the_expected_calls(bench: Any, order: bool, score: float) -> None:
    found = outcome(bench, ["a", "b", "c", "b"], ["b", "a", "c", "d"], order=order)
    assert (found.status, found.score) == ("scored", score)
    assert found.value == {"expected": 4, "called": 4, "matched": round(score * 4)}


def test_the_reason_names_what_was_not_made(bench: Any) -> None:
    found = outcome(bench, ["search", "book"], ["search", "pay"])
    assert found.reason == "1 of 2 expected calls not made: book; made: search, pay"
    assert [step["passed"] for step in found.steps] == [True, False]
    assert outcome(bench, ["search"], []).reason == "1 of 1 expected calls not made: search; made: none"
    assert outcome(bench, ["search"], ["search"]).reason == "1 of 1 expected calls made"


def test_without_an_expected_call_there_is_nothing_to_divide_by(bench: Any) -> None:
    for actual in ([], ["a"]):
        found = outcome(bench, [], actual)
        assert (found.status, found.score) == ("undefined", None)
        assert found.reason == "nothing to divide by: no tool call is expected"
    assert outcome(bench, ["a"], []).score == 0.0
    assert outcome(bench, None, ["a"]).status == "skipped"


@pytest.mark.parametrize(
    ("arguments", "score"),
    [({"n": 1, "deep": [{"x": True}]}, 1.0), ({"n": 1.0, "deep": [{"x": True}]}, 1.0), ({"n": 1}, 0.0),
     ({"n": True, "deep": [{"x": True}]}, 0.0), ({"n": 1, "deep": [{"x": 1}]}, 0.0), (None, 0.0)],
)  # fmt: skip
def test_arguments_are_compared_as_json(bench: Any, arguments: Any, score: float) -> None:
    expected = [{"name": "f", "arguments": {"n": 1, "deep": [{"x": True}]}}]
    actual = [{"name": "f", "arguments": arguments}]
    assert outcome(bench, expected, actual, arguments=True).score == score
    assert outcome(bench, expected, actual).score == 1.0


def test_calls_as_endpoints_return_them_and_lists_as_text(bench: Any) -> None:
    given = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}}]
    for actual in (given, json.dumps(given)):
        assert outcome(bench, [{"name": "f", "arguments": {"n": 1}}], actual, arguments=True).score == 1.0


def test_a_call_that_takes_any_arguments_takes_none_away(bench: Any) -> None:
    expected = ["f", {"name": "f", "arguments": {"n": 1}}]
    actual = [{"name": "f", "arguments": {"n": 1}}, {"name": "f", "arguments": {"n": 2}}]
    assert outcome(bench, expected, actual, arguments=True).score == 1.0


@pytest.mark.parametrize(
    ("actual", "message"),
    [
        (True, "True is no list of tool calls"),
        ("search", "no JSON"),
        ({"name": "f"}, "is no list"),
        ([1], "1 is no tool call"),
        ([""], "'' is no tool call"),
        ([{"tool": "f"}], "a name is wanted, or {name, arguments}"),
        ([{"name": "f", "arguments": [1]}], "is no tool call"),
        ([{"name": "f", "arguments": "{"}], "the arguments of 'f' are no JSON"),
    ],
)
def test_what_is_no_list_of_calls_is_an_error_and_no_score(bench: Any, actual: Any, message: str) -> None:
    found = outcome(bench, ["f"], actual)
    assert (found.status, found.error_type, found.score) == ("error", "data", None)
    assert found.error.startswith("actual: ")
    assert message in found.error


def test_fields_must_be_declared(bench: Any) -> None:
    with pytest.raises(UserError, match=r"`called` is 'metadata\.tools', which `needs` does not declare"):
        bench.shipped("tool_correctness", called="metadata.tools")


@given(NAMES, NAMES)
def test_in_order_is_a_longest_common_subsequence(expected: list[str], called: list[str]) -> None:
    wanted, calls = [ToolCall(name) for name in expected], [ToolCall(name) for name in called]
    found = made(wanted, calls, order=True, arguments=False)
    kept = [name for name, was in zip(expected, found, strict=True) if was]
    common = {pick for size in range(len(called) + 1) for pick in combinations(called, size)}
    longest = max(
        len(pick) for size in range(len(expected) + 1) for pick in combinations(expected, size) if pick in common
    )
    assert tuple(kept) in common
    assert len(kept) == longest


@given(NAMES, NAMES)
def test_in_any_order_each_call_counts_once(expected: list[str], called: list[str]) -> None:
    found = made(
        [ToolCall(name) for name in expected], [ToolCall(name) for name in called], order=False, arguments=False
    )
    assert sum(found) == sum(min(expected.count(name), called.count(name)) for name in "abc")
