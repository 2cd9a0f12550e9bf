"""One score of several: the rules, the states of the parts, and what cannot be declared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.metrics.kinds.composite import CompositeMetricConfig, Part, combine


def rule(**keys: Any) -> CompositeMetricConfig:
    return CompositeMetricConfig.model_validate({"kind": "composite", **keys})


def scored(score: float, **keys: Any) -> Part:
    return Part(status="scored", score=score, **keys)


AB = {"a": scored(0.8, reason="all of a"), "b": scored(0.5, reason="half of b")}


@pytest.mark.parametrize(
    ("op", "of", "score"),
    [
        ("mean", {"a": 2, "b": 1}, 0.7),
        ("mean", ["a", "b"], 0.65),
        ("min", ["a", "b"], 0.5),
        ("max", ["a", "b"], 0.8),
        ("product", {"a": 1, "b": 1}, 0.4),
    ],
)
def test_rules_over_scores(op: str, of: Any, score: float) -> None:
    outcome = combine(rule(of=of, op=op), AB)
    assert (outcome.status, outcome.value) == ("scored", {"a": 0.8, "b": 0.5})
    assert outcome.score == pytest.approx(score)


@pytest.mark.parametrize(("op", "score"), [("share_passed", 0.75), ("all", 0.0), ("any", 1.0)])
def test_rules_over_what_passes(op: str, score: float) -> None:
    of = {"a": 3, "b": 1} if op == "share_passed" else ["a", "b"]
    parts = {"a": scored(0.8, passed=True), "b": scored(0.5, passed=False)}
    outcome = combine(rule(of=of, op=op), parts)
    assert (outcome.score, outcome.value) == (score, {"a": True, "b": False})
    assert outcome.reason is not None
    assert outcome.reason.startswith("a passes with 0.800, b fails with 0.500")


def test_a_part_without_a_threshold_neither_passes_nor_fails() -> None:
    outcome = combine(rule(of=["a", "b"], op="all"), {"a": scored(1.0, passed=True), "b": scored(1.0)})
    assert (outcome.status, outcome.score) == ("undefined", None)
    assert outcome.reason == "b neither passes nor fails: it has no threshold"


def test_it_says_what_entered_and_why_the_lowest_is_low() -> None:
    outcome = combine(rule(of={"a": 2, "b": 1}), AB)
    assert outcome.reason == "a 0.800, b 0.500 (weights 2, 1); b: half of b"
    assert [(step["id"], step["reply"]) for step in outcome.steps] == [
        ("a", {"score": 0.8, "weight": 2.0}),
        ("b", {"score": 0.5, "weight": 1.0}),
    ]


def test_reasons_call_parts_by_their_titles() -> None:
    parts = {"a": scored(0.8, title="Köln?", passed=True), "b": scored(0.5, reason="half", title="To the point")}
    assert combine(rule(of=["a", "b"]), parts).reason == "Köln? 0.800, To the point 0.500; To the point: half"
    assert [(step["id"], step["title"]) for step in combine(rule(of=["a", "b"]), parts).steps] == [
        ("a", "Köln?"),
        ("b", "To the point"),
    ]
    undecided = combine(rule(of=["a", "b"], op="all"), parts)
    assert undecided.reason == "To the point neither passes nor fails: it has no threshold"
    lacking = parts | {"b": Part(status="undefined", reason="no claims", title="To the point")}
    assert combine(rule(of=["a", "b"]), lacking).reason == "To the point is undefined: no claims"
    others = combine(rule(of=["a", "b"], may_lack=["b"]), lacking)
    assert others.reason == "Köln? 0.800; without To the point, undefined: no claims"


def test_a_scale_that_ends_the_other_way_is_turned_round() -> None:
    outcome = combine(rule(of=["a", "bias"]), {"a": scored(0.8), "bias": scored(0.1, inverted=True)})
    assert outcome.score == pytest.approx(0.85)
    assert outcome.reason == "a 0.800, bias 0.100 taken as 0.900"


UNDEFINED = Part(status="undefined", reason="no claims")
SKIPPED = Part(status="skipped", reason="the case has no contexts")
ERROR = Part(status="error", error_type="schema", error="no JSON")


@pytest.mark.parametrize(
    ("parts", "status", "reason"),
    [
        ({"a": scored(1.0), "b": UNDEFINED}, "undefined", "b is undefined: no claims"),
        ({"a": SKIPPED, "b": UNDEFINED}, "skipped", "a is skipped: the case has no contexts"),
        ({"a": ERROR, "b": SKIPPED}, "skipped", "b is skipped: the case has no contexts"),
    ],
)
def test_a_part_without_a_score_leaves_none(parts: dict[str, Part], status: str, reason: str) -> None:
    outcome = combine(rule(of=["a", "b"]), parts)
    assert (outcome.status, outcome.score, outcome.reason) == (status, None, reason)


@pytest.mark.parametrize("other", [scored(1.0), UNDEFINED])
def test_an_error_is_an_error_with_its_cause_whatever_may_lack(other: Part) -> None:
    outcome = combine(rule(of=["a", "b"], may_lack=["a", "b"]), {"a": ERROR, "b": other})
    assert (outcome.status, outcome.score, outcome.error_type, outcome.error) == ("error", None, "schema", "a: no JSON")


def test_what_may_lack_is_left_out_with_its_weight() -> None:
    config = rule(of={"a": 1, "b": 3}, may_lack=["b"])
    outcome = combine(config, {"a": scored(0.4), "b": SKIPPED})
    assert (outcome.score, outcome.reason) == (0.4, "a 0.400; without b, skipped: the case has no contexts")
    assert combine(config, {"a": UNDEFINED, "b": scored(1.0)}).status == "undefined"


def test_where_every_part_lacks_there_is_no_score() -> None:
    config = rule(of=["a", "b"], may_lack=["a", "b"])
    assert combine(config, {"a": SKIPPED, "b": SKIPPED}).status == "skipped"
    both = combine(config, {"a": SKIPPED, "b": UNDEFINED})
    assert (both.status, both.reason) == (
        "undefined",
        "a is skipped: the case has no contexts; b is undefined: no claims",
    )


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 100)), min_size=1, max_size=5),
    st.floats(0.5, 2),
)
def test_a_weighted_mean_lies_between_its_parts_and_knows_no_unit_of_weight(
    rows: list[tuple[float, float]], factor: float
) -> None:
    parts = {f"m{i}": scored(score) for i, (score, _) in enumerate(rows)}
    found = [
        combine(rule(of={f"m{i}": weight * by for i, (_, weight) in enumerate(rows)}), parts).score
        for by in (1.0, factor)
    ]
    scores = [score for score, _ in rows]
    assert found[0] is not None
    assert min(scores) - 1e-9 <= found[0] <= max(scores) + 1e-9
    assert found[1] == pytest.approx(found[0])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"of": {}}, "at least 1 item"),
        ({"of": {"a": 0}}, "greater than 0"),
        ({"of": {"a": float("inf")}}, "finite"),
        ({"of": ["a", "a"]}, "'a' is listed twice"),
        ({"of": ["a"], "may_lack": ["b"]}, "may_lack names 'b', which is not a part"),
        ({"of": {"a": 1, "b": 2}, "op": "min"}, r"min does not use weights; name the parts in a list: \[a, b\]"),
        ({"of": ["a"], "needs": ["answer"]}, "set `needs` on its parts"),
        ({"of": ["a"], "judge": {"model": "m"}}, "set `judge` on its parts"),
    ],
)
def test_what_cannot_be_meant_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule(**keys)


def test_it_asks_nobody_and_binds_to_nothing(bench: Any) -> None:
    metric = bench.shipped("rag_quality")
    assert (metric.asks, metric.embeds, metric.bind(bench.case()), metric.preview(bench.case(), bench.answer())) == (
        False,
        False,
        (),
        (),
    )
    assert metric.parts == ("faithfulness", "relevance")
    with pytest.raises(ValueError, match="cannot score an answer alone"):
        asyncio.run(metric.score(bench.case(), bench.answer(), None, 0))
