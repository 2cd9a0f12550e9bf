"""The kind `trajectory`: tool calls and lists of messages against expected ones, and limits."""

from __future__ import annotations

import json
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.errors import UserError
from evalflow.metrics.call_matching import ArgumentRule, fitting, matched, matched_in_order
from evalflow.records import ToolCall

MODES = ("strict", "unordered", "subset", "superset")
NAMES = st.lists(st.sampled_from("abc"), max_size=6)


def outcome(bench: Any, expected: Any, actual: Any, metric: str = "trajectory_match", **changes: Any) -> Any:
    built = bench.shipped(metric, **changes)
    return bench.score(built, case=bench.case(expected=expected), answer=bench.answer(actual=actual))


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def said(*calls: Any, words: str = "") -> dict[str, Any]:
    made = [
        {"id": f"{i}", "type": "function", "function": {**one, "arguments": json.dumps(one["arguments"])}}
        for i, one in enumerate(calls)
    ]
    return {"role": "assistant", "content": words, "tool_calls": made}


ASKED = {"role": "user", "content": "What is the weather?"}
PARIS, ROME = call("weather", city="Paris"), call("weather", city="Rome")
DONE = {"role": "assistant", "content": "Sunny."}
AT_NINE = {"start": 9, "end": 10}


@pytest.mark.parametrize(
    ("expected", "actual", "changes", "wanted"),
    [
        ([ASKED, said(PARIS), DONE], [ASKED, said(PARIS, words="One moment."), DONE], {}, "TTTT"),
        ([ASKED, said(PARIS, ROME), DONE], [ASKED, said(ROME, PARIS), DONE], {}, "TTTT"),
        ([ASKED, said(PARIS, ROME), DONE], [ASKED, said(PARIS), said(ROME), DONE], {}, "FTTT"),
        ([ASKED, said(PARIS, ROME), DONE], [ASKED, said(PARIS), DONE], {}, "FFTF"),
        ([ASKED, said(PARIS), DONE], [ASKED, said(call("time", city="Paris")), DONE], {}, "FFFF"),
        ([ASKED, said(PARIS), DONE], [ASKED, said(PARIS, ROME), DONE], {"arguments": "ignore"}, "FFFT"),
        (
            [ASKED, said(call("book", time=AT_NINE, room="A")), DONE],
            [ASKED, said(call("book", time={"start": 9, "end": 12}, room="B")), DONE],
            {"arguments": ["time.start"]},
            "TTTT",
        ),
    ],
    ids=["same call", "swapped", "split", "one missing", "another tool", "one extra", "one argument compared"],
)
def test_modes(bench: Any, expected: Any, actual: Any, changes: Any, wanted: str) -> None:
    scores = [outcome(bench, expected, actual, match=mode, **changes).score for mode in MODES]
    assert "".join("T" if score else "F" for score in scores) == wanted


@pytest.mark.parametrize(
    ("expected", "actual", "wanted"), [({"a": 1}, {"a": 1, "b": 2}, "FTFT"), ({"a": 1, "b": 2}, {"a": 1}, "FTTF")]
)
@pytest.mark.parametrize("mode", [*MODES, "in_order"])
def test_arguments_are_read_from_the_actual_call_in_every_mode(
    bench: Any, expected: Any, actual: Any, wanted: str, mode: str
) -> None:
    rules = ("exact", "ignore", "subset", "superset")
    found = [
        outcome(bench, [call("f", **expected)], [call("f", **actual)], match=mode, arguments=rule) for rule in rules
    ]
    assert "".join("T" if one.score else "F" for one in found) == wanted


def test_one_tool_can_have_a_rule_of_its_own(bench: Any) -> None:
    expected, actual = [call("search", q="a"), call("pay", sum=1)], [call("search", q="b"), call("pay", sum=1)]
    assert outcome(bench, expected, actual).score == 0
    assert outcome(bench, expected, actual, tools={"search": {"arguments": "ignore"}}).score == 1
    assert outcome(bench, expected, actual, arguments="ignore", tools={"search": {"arguments": "exact"}}).score == 0


@pytest.mark.parametrize(
    ("tolerance", "given", "score"),
    [
        (None, 10.5, 0),
        (0.5, 10.5, 1),
        (0.4, 10.5, 0),
        ({"relative": 0.05}, 10.5, 1),
        ({"relative": 0.04}, 10.5, 0),
        (1, "10", 0),
        (1, True, 0),
        (100, None, 0),
    ],
)
@pytest.mark.parametrize("rule", ["exact", "subset", "superset", ["sum"]])
def test_numbers_may_differ_by_a_tolerance(bench: Any, rule: Any, tolerance: Any, given: Any, score: int) -> None:
    actual = [call("pay", sum=given, to=[{"at": 3}])]
    expected = [call("pay", sum=10, to=[{"at": 3}])]
    assert outcome(bench, expected, actual, arguments=rule, tolerance=tolerance).score == score


@pytest.mark.parametrize(
    ("changes", "given", "score"),
    [
        ({}, "zürich HB", 0),
        ({"ignore_case": True}, "zürich hb", 1),
        ({"ignore_case": True}, "Zürich", 0),
        ({"contains": True}, "from Zürich HB, track 4", 1),
        ({"contains": True}, "from zürich hb, track 4", 0),
        ({"contains": True}, "Zürich", 0),
        ({"contains": True}, ["Zürich HB"], 0),
        ({"contains": True}, None, 0),
        ({"contains": True, "ignore_case": True}, "FROM ZÜRICH HB", 1),
        ({"contains": True, "tolerance": 1}, "to Zürich HB", 1),
    ],
)
@pytest.mark.parametrize("rule", ["exact", "subset", "superset", ["from.station"]])
def test_texts_may_differ_in_case_or_say_more(bench: Any, rule: Any, changes: Any, given: Any, score: int) -> None:
    expected = [call("ride", **{"from": {"station": "Zürich HB", "via": ["Olten"], "at": 9}})]
    actual = [call("ride", **{"from": {"station": given, "via": ["Olten"], "at": 9}})]
    assert outcome(bench, expected, actual, arguments=rule, **changes).score == score


def test_a_text_that_says_more_is_matched_with_the_one_that_needs_it(bench: Any) -> None:
    expected = [call("search", q="bike"), call("search", q="bike shop")]
    actual = [call("search", q="bike shop near me"), call("search", q="a bike")]
    for made in (actual, actual[::-1]):
        assert outcome(bench, expected, made, contains=True).score == 1
    assert (
        outcome(bench, [call("a", x="b"), call("a", y="b")], [call("a", y="bb")], contains=True).value["matched"] == 1
    )


def test_an_absent_argument_is_not_null_and_a_name_with_a_dot_is_a_name(bench: Any) -> None:
    for rule in ("exact", ["x"], "superset"):
        assert outcome(bench, [call("f", x=None)], [call("f")], arguments=rule).score == 0
    dotted = {"name": "f", "arguments": {"time.start": 1}}
    assert outcome(bench, [dotted], [dotted], arguments=["time.start"]).score == 1
    assert outcome(bench, [dotted], [call("f", time={"start": 2})], arguments=["time.start"]).score == 0


def test_the_order_of_calls_never_changes_what_is_matched(bench: Any) -> None:
    # A greedy match of {"a": 1} with the first call that has it leaves nothing for the other.
    expected = [call("f", a=1), call("f", a=1, b=2), {"name": "f"}]
    actual = [call("f", a=1, b=2), call("f", a=1, c=3), call("f", a=1)]
    for ours in permutations(expected):
        for theirs in permutations(actual):
            found = outcome(bench, list(ours), list(theirs), arguments="superset")
            assert (found.score, found.value["matched"]) == (1, 3)


def test_calls_in_order_with_others_between(bench: Any) -> None:
    assert outcome(bench, ["a", "b"], ["x", "a", "y", "b"], match="in_order").score == 1
    found = outcome(bench, ["a", "b"], ["b", "a"], match="in_order")
    assert found.score == 0
    assert found.reason == (
        "1 of 2 expected calls made in this order; met: a as call 2; missing: b (call 1 does not fit); "
        "not expected: b as call 1"
    )


def test_a_plain_list_is_strict_call_by_call(bench: Any) -> None:
    assert outcome(bench, ["a", "b"], ["a", "b"], match="strict").score == 1
    assert outcome(bench, ["a", "b"], ["b", "a"], match="strict").score == 0
    assert outcome(bench, [PARIS, ROME], [ASKED, said(PARIS, ROME)], match="strict").score == 1


def test_strict_wants_the_same_roles(bench: Any) -> None:
    found = outcome(bench, [ASKED, said(PARIS), DONE], [ASKED, said(PARIS)], match="strict")
    assert found.score == 0
    assert "the messages differ: expected user, assistant, assistant; got user, assistant" in found.reason


def test_the_reason_says_which_call_met_which(bench: Any) -> None:
    found = outcome(bench, [PARIS, "time", ROME], ["time", PARIS, call("weather", city="Oslo")])
    assert found.score == 0
    assert found.reason == (
        '2 of 3 expected calls made; met: weather as call 2, time as call 1; missing: weather({"city": "Rome"}) '
        '(call 3 does not fit); not expected: weather({"city": "Oslo"}) as call 3'
    )
    assert [(step["id"], step["passed"]) for step in found.steps] == [
        ("call", True),
        ("call", True),
        ("call", False),
        ("extra", False),
    ]
    many = outcome(bench, [], [f"tool_{i}" for i in range(300)])
    assert many.reason.endswith("tool_4 as call 5 and 295 more")


@pytest.mark.parametrize(("score", "wanted"), [("precision", 0.5), ("recall", 1 / 3), ("f1", 0.4), ("match", 0.0)])
def test_precision_recall_and_f1(bench: Any, score: str, wanted: float) -> None:
    found = outcome(bench, ["a", "b", "c"], ["a", "x"], score=score)
    assert found.score == pytest.approx(wanted)
    assert found.value == {
        "expected": 3,
        "called": 2,
        "matched": 1,
        "match": False,
        "precision": 0.5,
        "recall": 1 / 3,
        "f1": 0.4,
    }


@pytest.mark.parametrize("mode", [*MODES, "in_order"])
def test_an_empty_list_means_that_no_tool_may_be_called(bench: Any, mode: str) -> None:
    assert outcome(bench, [], [], match=mode).score == 1
    assert outcome(bench, [], ["a"], match=mode).score == 0
    assert outcome(bench, None, ["a"], match=mode).status == "skipped"
    assert outcome(bench, ["a"], None, match=mode).status == "skipped"


@pytest.mark.parametrize("score", ["precision", "recall", "f1"])
def test_where_no_call_is_expected_none_is_right_and_any_is_wrong(bench: Any, score: str) -> None:
    none, one = outcome(bench, [], [], score=score), outcome(bench, [], ["a"], score=score)
    assert (none.score, none.reason) == (1.0, "no call is expected, and none was made")
    assert (one.score, one.reason) == (0.0, "no call is expected; not expected: a as call 1")
    assert [step["passed"] for step in one.steps] == [False]


def test_the_precision_of_no_call_has_no_score(bench: Any) -> None:
    found = outcome(bench, ["a"], [], score="precision")
    assert (found.status, found.score, found.reason) == (
        "undefined",
        None,
        "no tool was called, so there is nothing to divide by",
    )
    assert [outcome(bench, ["a"], [], score=score).score for score in ("recall", "f1")] == [0, 0]


def test_a_difference_in_length_is_not_zero(bench: Any) -> None:
    assert outcome(bench, ["a", "b"], ["a"], "tool_f1").score == pytest.approx(2 / 3)
    assert outcome(bench, [], ["a"], "tool_f1").score == 0


@pytest.mark.parametrize(
    ("limits", "actual", "reason"),
    [
        ({"most": 1}, ["a", "b"], "2 calls were made, and at most 1 are allowed"),
        ({"least": 2}, ["a"], "1 calls were made, and at least 2 are wanted"),
        ({"forbidden": ["pay"]}, ["a", "pay"], "forbidden tools were called: pay as call 2"),
        (
            {"repeats": 2},
            [PARIS, ROME] * 3,
            'the same call more than 2 times: weather({"city": "Paris"}) 3 times, weather({"city": "Rome"}) 3 times',
        ),
    ],
)
def test_limits(bench: Any, limits: Any, actual: Any, reason: str) -> None:
    values = {"most": None, "repeats": None, **limits}
    found = outcome(bench, None, actual, "tool_limits", **values)
    assert (found.score, found.reason) == (0, reason)
    alongside = outcome(bench, actual, actual, **limits)
    assert alongside.score == 0
    assert alongside.reason.startswith(reason)
    assert alongside.value["match"]
    assert outcome(bench, None, ["a", "b"], "tool_limits", most=2).score == 1


def test_an_endless_loop_of_calls_breaks_a_limit_or_is_refused(bench: Any) -> None:
    found = outcome(bench, None, ["again"] * 50_000, "tool_limits")
    assert (found.score, found.value["called"]) == (0, 50_000)
    refused = outcome(bench, ["a"], ["again"] * 50_000)
    assert (refused.status, refused.error_type) == ("error", "data")
    assert refused.error == "actual: 50000 calls are too many to match; the maximum is 1000"


@pytest.mark.parametrize("arguments", ["{", '["Paris"]', "not JSON", ["Paris"], '{"city": ' * 100])
def test_bad_arguments_of_the_agent_fit_nothing(bench: Any, arguments: Any) -> None:
    actual = [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]
    found = outcome(bench, [PARIS], actual)
    assert found.score == 0
    assert "(call 1 does not fit: its arguments are not a JSON object)" in found.reason
    assert outcome(bench, [PARIS], actual, arguments="ignore").score == 1
    wrong = outcome(bench, actual, [PARIS])
    assert wrong.error is not None
    assert "expected: the arguments of weather(" in wrong.error


def test_no_arguments_are_an_empty_text_or_nothing(bench: Any) -> None:
    for arguments in ("", "{}", "null", None, {}):
        assert outcome(bench, [call("now")], [{"name": "now", "arguments": arguments}]).score == 1
    assert outcome(bench, ["now"], [call("now", zone="UTC")]).score == 1


def test_ids_that_are_wrong_are_named(bench: Any) -> None:
    lost = {"role": "tool", "tool_call_id": "9", "content": "x" * 1000}
    twice = [said(PARIS), said(ROME), lost]
    found = outcome(bench, [PARIS, ROME], twice)
    assert found.score == 1
    assert found.reason.endswith("1 ids of calls are used more than once (0); 1 results belong to no call (9)")


def test_results_of_ten_megabytes_are_not_in_the_record(bench: Any) -> None:
    result = {"role": "tool", "tool_call_id": "0", "content": "x" * 10_000_000}
    found = outcome(bench, [PARIS], [ASKED, said(PARIS), result, said(call("keep", text="y" * 10_000_000)), DONE])
    assert found.score == 0
    assert len(found.reason) < 1000
    assert len(json.dumps(found.steps)) < 1000


@pytest.mark.parametrize(
    "form",
    [
        {"name": "weather", "args": {"city": "Paris"}, "id": "1", "type": "tool_call"},
        {"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Paris"}},
        {"id": "1", "function": "weather", "arguments": {"city": "Paris"}},
        {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
    ],
)
def test_forms_of_calls(bench: Any, form: Any) -> None:
    content = {"role": "assistant", "content": [{"type": "text", "text": "So."}, form]}
    listed: list[Any] = [[form], json.dumps([form]), [{"role": "assistant", "tool_calls": [form]}]]
    for actual in [*listed, [content]] if form.get("type", "").startswith("tool") else listed:
        assert outcome(bench, [PARIS], actual).score == 1


@pytest.mark.parametrize(
    ("actual", "message"),
    [
        (True, "true is not a list of tool calls"),
        ("search", "not JSON"),
        ({"name": "f"}, "is not a list"),
        ([1], "1 is not a tool call"),
        ([""], " is not a tool call"),
        ([{"tool": "f"}], "a name is wanted, or {name, arguments}"),
        ([{"role": "user"}, "f"], "message 1 has no role: f"),
        (
            [{"role": "assistant", "tool_calls": {"name": "f"}}],
            "message 0: tool_calls is an object, and a list is wanted",
        ),
    ],
)
def test_what_is_no_list_of_calls_is_an_error_and_no_score(bench: Any, actual: Any, message: str) -> None:
    found = outcome(bench, ["f"], actual)
    assert (found.status, found.error_type, found.score) == ("error", "data", None)
    assert found.error.startswith("actual: ")
    assert message in found.error


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actual": "metadata.tools"}, r"`actual` is 'metadata\.tools', which `needs` does not declare"),
        ({"score": "limits", "expected": None}, "needs a limit: least, most, forbidden or repeats"),
        ({"score": "f1", "most": 2}, "score: f1 does not use limits"),
        ({"expected": None}, "score: limits needs expected: null"),
        ({"least": 3, "most": 2}, "no number of calls satisfies both"),
        ({"arguments": []}, "at least 1 item"),
        ({"tolerance": -1}, "greater than or equal to 0"),
    ],
)
def test_keys_that_do_not_go_together(bench: Any, changes: Any, message: str) -> None:
    with pytest.raises((UserError, ValueError), match=message):
        bench.shipped("trajectory_match", **changes)


def test_the_share_of_the_expected_calls(bench: Any) -> None:
    actual = [call("f", n=2), call("f", n=1), "g"]
    found = outcome(bench, ["f", call("f", n=1)], actual, "tool_correctness", arguments="exact")
    assert found.score == 1
    assert outcome(bench, ["f", "h"], actual, "tool_correctness").score == 0.5
    assert [step["id"] for step in found.steps] == ["call", "call"]


@given(NAMES, NAMES)
def test_in_order_is_a_longest_common_subsequence(expected: list[str], called: list[str]) -> None:
    pairs = matched_in_order(_fits(expected, called))
    kept = [expected[i] for i, _ in pairs]
    common = {pick for size in range(len(called) + 1) for pick in combinations(called, size)}
    longest = max(
        len(pick) for size in range(len(expected) + 1) for pick in combinations(expected, size) if pick in common
    )
    assert tuple(kept) in common
    assert len(kept) == longest


@given(NAMES, NAMES)
def test_in_any_order_each_call_counts_once(expected: list[str], called: list[str]) -> None:
    pairs = matched(_fits(expected, called))
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert len(pairs) == sum(min(expected.count(name), called.count(name)) for name in "abc")


def _fits(expected: list[str], called: list[str]) -> Any:
    rule = ArgumentRule()
    return fitting([ToolCall(name) for name in expected], [ToolCall(name) for name in called], lambda _: rule)
