"""Score rules as pure functions of replies."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from evalflow.metrics.list_rules import average_precision
from evalflow.metrics.returns import Observed, Returns, StepConfig
from evalflow.metrics.rules import Rule, f_beta

LABELS = ["good", "bad", "unsure"]
FIELDS = TypeAdapter(Returns).validate_python(
    {
        "reason": "str",
        "verdict": {"type": "label", "labels": LABELS},
        "grade": {"type": "int", "min": 1, "max": 5},
        "flag": "bool",
        "free": "float",
        "tags": {"type": "list", "items": {"type": "label", "labels": ["x", "y"]}},
        "parts": {"type": "list", "items": {"ok": "bool"}},
    }
)
SINGLE = StepConfig(id="one", prompt="p.jinja", returns=FIELDS)
MANY = StepConfig(id="many", prompt="p.jinja", returns=FIELDS, one_per="claims.claims")
RULES = TypeAdapter(Rule)
SHARE = {"op": "share", "of": "many", "field": "verdict", "equals": "good"}

verdicts = st.lists(st.sampled_from(LABELS), min_size=1, max_size=30)
chances = st.dictionaries(st.sampled_from(LABELS), st.floats(0.01, 1), min_size=1)


def rule(**values):
    return RULES.validate_python(values)


def many(rows, probabilities=None):
    return {"many": Observed(MANY, rows, probabilities, [f"c{i}" for i in range(len(rows))])}


def one(reply, probabilities=None):
    return {"one": Observed(SINGLE, reply, probabilities)}


def score(values, seen, weighted=False):
    return rule(**values).evaluate(seen, weighted)


@given(verdicts, st.randoms())
def test_a_share_is_a_count_over_a_count_whatever_the_order(labels, random):
    rows = [{"verdict": label} for label in labels]
    first = score(SHARE, many(rows)).score
    random.shuffle(rows)
    assert score(SHARE, many(rows)).score == first == labels.count("good") / len(labels)


@given(verdicts)
def test_certainty_gives_what_was_replied(labels):
    rows = [{"verdict": label} for label in labels]
    certain = [{"verdict": {label: 1.0}} for label in labels]
    direct, weighted = score(SHARE, many(rows)), score(SHARE, many(rows, certain), weighted=True)
    assert (weighted.score, weighted.weighted, direct.weighted) == (direct.score, True, False)


@given(st.lists(chances, min_size=1, max_size=20))
def test_an_expected_share_is_the_mean_probability_and_in_0_1(distributions):
    rows = [{"verdict": "bad"}] * len(distributions)
    result = score(SHARE, many(rows, [{"verdict": d} for d in distributions]), weighted=True)
    expected = sum(d.get("good", 0) / sum(d.values()) for d in distributions) / len(distributions)
    assert result.score == pytest.approx(expected)
    assert result.score is not None
    assert 0 <= result.score <= 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20))
def test_a_mean_is_taken_to_0_1_and_keeps_its_own_scale(grades):
    result = score({"op": "mean", "of": "many", "field": "grade"}, many([{"grade": g} for g in grades]))
    assert result.value == pytest.approx(sum(grades) / len(grades))
    assert result.score == pytest.approx((sum(grades) / len(grades) - 1) / 4)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 10))
@example(5e-324, 0.0, 0.5)
def test_f_beta_lies_between_precision_and_recall(precision, recall, beta):
    f = f_beta(precision, recall, beta)
    assert min(precision, recall) - 1e-9 <= f <= max(precision, recall) + 1e-9


def test_f_beta_facts():
    assert f_beta(0.8, 4 / 6) == pytest.approx(0.727273, abs=5e-7)
    assert f_beta(0.0, 0.0) == 0.0
    assert f_beta(0.5, 1.0, beta=2) == pytest.approx(2.5 / 3)


def test_among_divides_by_those_only():
    rows = [{"verdict": label} for label in ("good", "bad", "unsure", "unsure")]
    assert score({**SHARE, "among": ["good", "bad"]}, many(rows)).score == 0.5
    unsure = many([{"verdict": "unsure"}])
    result = score({**SHARE, "among": ["good", "bad"]}, unsure)
    assert (result.score, result.undefined) == (None, "nothing to divide by: none of the 1 claims is good, bad")


def test_expected_share_among_is_a_ratio_of_expectations():
    seen = many([{"verdict": "unsure"}] * 2, [{"verdict": {"good": 0.2, "unsure": 0.8}}, {"verdict": {"bad": 1.0}}])
    assert score({**SHARE, "among": ["good", "bad"]}, seen, weighted=True).score == pytest.approx(0.2 / 1.2)


def test_in_counts_each_of_several():
    rows = [{"verdict": label} for label in LABELS]
    assert score({"op": "share", "of": "many", "field": "verdict", "in": ["good", "unsure"]}, many(rows)).score == 2 / 3


@pytest.mark.parametrize("values", [SHARE, {"op": "mean", "of": "many", "field": "flag"}])
def test_no_items_is_undefined(values):
    result = score(values, many([]))
    assert (result.score, result.undefined) == (None, "nothing to divide by: there are no claims")


def test_lists_inside_a_reply():
    reply = one({"tags": ["x", "y", "x"], "parts": [{"ok": True}, {"ok": False}]})
    assert score({"op": "share", "of": "one.tags", "equals": "x"}, reply).score == 2 / 3
    assert score({"op": "mean", "of": "one.parts", "field": "ok"}, reply).score == 0.5


@pytest.mark.parametrize(("field", "said", "expected"), [("grade", 4, 0.75), ("flag", True, 1.0), ("flag", False, 0.0)])
def test_value(field, said, expected):
    result = score({"op": "value", "of": "one", "field": field}, one({field: said}))
    assert (result.score, result.value) == (expected, said)


def test_an_expected_grade_is_a_number_between_grades():
    seen = one({"grade": 4}, [{"grade": {4: 0.5, 5: 0.5}}])
    result = score({"op": "value", "of": "one", "field": "grade"}, seen, weighted=True)
    assert (result.value, result.score, result.weighted) == (4.5, 0.875, True)


def test_map_and_its_expectation():
    values = {"op": "map", "of": "one", "field": "verdict", "values": {"good": 1, "unsure": 0.5, "bad": 0}}
    seen = one({"verdict": "good"}, [{"verdict": {"good": 0.6, "unsure": 0.2, "bad": 0.2}}])
    assert (score(values, seen).score, score(values, seen).value) == (1.0, "good")
    assert score(values, seen, weighted=True).score == pytest.approx(0.7)


@pytest.mark.parametrize(
    "lacking", [None, [{"verdict": {"good": 1.0}}, {}], [{"verdict": {}}, {"verdict": {"bad": 1}}]]
)
def test_without_a_distribution_for_every_row_the_replies_count(lacking):
    rows = [{"verdict": "good"}, {"verdict": "bad"}]
    result = score(SHARE, many(rows, lacking), weighted=True)
    assert (result.score, result.weighted) == (0.5, False)


@pytest.mark.parametrize(
    ("rows", "tags", "when_empty", "expected"),
    [
        ([{"verdict": "good"}], [], "undefined", 0.0),
        ([], ["x"], 1, 0.0),
        ([], [], 1, 1.0),
        ([], [], "undefined", None),
    ],
)
def test_an_f_score_of_one_empty_list_is_0_and_of_two_what_the_rule_says(rows, tags, when_empty, expected):
    recall = {"op": "share", "of": "one.tags", "equals": "x"}
    seen = {**many(rows), **one({"tags": tags})}
    values = {"op": "f_score", "precision": SHARE, "recall": recall, "when_empty": when_empty}
    assert score(values, seen).score == expected
    reason = rule(**values).reason(seen, "higher_is_better", False)
    assert ("precision undefined: there are no claims" in reason) == (not rows)


def test_what_is_missed_counts_as_an_item_that_is_no_hit():
    values = {**SHARE, "missed": "one.tags"}
    seen = {**many([{"verdict": "good"}, {"verdict": "good"}]), **one({"tags": ["x", "y"]})}
    assert score(values, seen).score == 0.5
    assert rule(**values).reason(seen, "higher_is_better", False) == '2 tags: "x"; "y"; 2 of 2 claims good'
    assert score(values, {**many([]), **one({"tags": ["x"]})}).score == 0
    assert score(values, {**many([]), **one({"tags": []})}).score is None
    assert score({**values, "when_empty": 1}, {**many([]), **one({"tags": []})}).score == 1


SHAPES = {"one": SINGLE, "many": MANY}


@pytest.mark.parametrize(
    ("values", "where", "what", "hint"),
    [
        ({**SHARE, "of": "mny"}, "score", "'mny' does not name an earlier step", ""),
        ({**SHARE, "of": "one"}, "score", "replies once and is not a list", ""),
        ({**SHARE, "of": "many.tags"}, "score", "have no fields; leave `field` out", ""),
        ({**SHARE, "of": "many.verdict"}, "score", "a label, not a list; write 'many'", ""),
        ({**SHARE, "of": "many.tags.more"}, "score", "the list 'tags' has items without fields", ""),
        ({**SHARE, "of": "one.parts.okay"}, "score", "did you mean 'ok'?", ""),
        ({**SHARE, "of": "one.grade"}, "score", "is a int, not a list", ""),
        ({**SHARE, "field": "verdct"}, "score", "did you mean 'verdict'?", ""),
        ({**SHARE, "equals": "goood"}, "score.equals", "unknown label 'goood'", "did you mean 'good'?"),
        ({**SHARE, "equals": True}, "score.equals", "True is not a label", "quotes"),
        ({**SHARE, "field": "flag", "equals": "good"}, "score.equals", "'good' is not true or false", ""),
        ({**SHARE, "field": "grade", "equals": True}, "score.equals", "is not a number", ""),
        ({**SHARE, "among": ["bad"]}, "score.among", "always be 0", ""),
        ({"op": "mean", "of": "many", "field": "free"}, "score.field", "no bounds", "`min` and `max`"),
        (
            {"op": "mean", "of": "many", "field": "verdict"},
            "score.field",
            "expected a number or bool",
            "values: {good: ...",
        ),
        ({"op": "lowest", "of": "one.tags", "values": {"x": 1}}, "score.values", "no number for y", "every label"),
        (
            {"op": "penalties", "of": "one.tags", "values": {"x": 1, "y": 0, "z": 0}},
            "score.values",
            "unknown label",
            "",
        ),
        (
            {"op": "penalties", "of": "one.parts", "field": "ok", "values": {"x": 1}},
            "score.field",
            "expected a label",
            "",
        ),
        ({"op": "value", "of": "many", "field": "grade"}, "score.op", "replies once per item", "share or mean"),
        ({"op": "value", "of": "one", "field": "grad"}, "score.field", "no field 'grad'", "did you mean 'grade'?"),
        ({"op": "value", "of": "two", "field": "grade"}, "score.of", "no step 'two'", ""),
        (
            {"op": "map", "of": "one", "field": "verdict", "values": {"good": 1}},
            "score.values",
            "no number for bad",
            "",
        ),
        ({"op": "map", "of": "one", "field": "grade", "values": {"good": 1}}, "score.field", "expected a label", ""),
    ],
)
def test_what_does_not_fit_is_named(values, where, what, hint):
    problems = list(rule(**values).problems(SHAPES, "score"))
    assert len(problems) == 1
    assert problems[0].where == where
    assert what in problems[0].what
    assert hint in problems[0].hint


def test_both_parts_of_an_f_score_are_looked_at():
    f = rule(op="f_score", precision={**SHARE, "of": "a"}, recall={**SHARE, "of": "b"})
    assert [p.where for p in f.problems(SHAPES, "score")] == ["score.precision", "score.recall"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"op": "share", "of": "many"}, "exactly one of `equals` and `in`"),
        ({**SHARE, "in": ["good"]}, "exactly one of `equals` and `in`"),
        ({"op": "map", "of": "one", "field": "v", "values": {"good": 2}}, "must lie in 0..1, not good: 2"),
        ({"op": "map", "of": "one", "field": "v", "values": {True: 1}}, "put it in quotes"),
        ({**SHARE, "when_empty": 2}, "must be a number from 0 to 1, or undefined, not 2"),
        ({**SHARE, "when_empty": True}, "must be a number from 0 to 1, or undefined, not True"),
        ({**SHARE, "when_empty": float("nan")}, "must be a number from 0 to 1, or undefined, not nan"),
        ({"op": "penalties", "of": "one.tags", "values": {"x": -1, "y": 0}}, "must lie in 0..1, not x: -1"),
        ({"op": "lowest", "of": "one.tags", "values": {"x": float("nan"), "y": 0}}, "must lie in 0..1, not x: nan"),
        ({"op": "middle", "of": "one"}, "middle"),
    ],
)
def test_what_is_no_rule(values, message):
    with pytest.raises(ValidationError, match=message):
        rule(**values)


AVERAGE = {"op": "average_precision", "of": "many", "field": "verdict", "equals": "good"}


def ranked(hits):
    return many([{"verdict": "good" if hit else "bad"} for hit in hits])


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ([1, 0, 1, 1, 0], 29 / 36),
        ([1, 1, 1], 1.0),
        ([1, 1, 0, 0], 1.0),
        ([0, 1], 0.5),
        ([0, 0, 0, 1], 0.25),
        ([0, 0], 0.0),
    ],
)
def test_average_precision_facts(hits, expected):
    assert score(AVERAGE, ranked(hits)).score == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_average_precision_is_best_for_what_counts_first_and_worst_for_it_last(hits):
    best, worst = sorted(hits, reverse=True), sorted(hits)
    assert 0 <= average_precision(worst) <= average_precision(hits) <= average_precision(best)
    assert average_precision(best) == float(any(hits))


def test_average_precision_takes_the_verdicts_as_replied_and_says_so():
    seen = many([{"verdict": "bad"}, {"verdict": "good"}], [{"verdict": {"good": 0.4, "bad": 0.6}}] * 2)
    result = score(AVERAGE, seen, weighted=True)
    assert (result.score, result.weighted) == (0.5, False)


def test_the_lowest_part_is_the_score_and_undefined_where_one_is():
    values = {"op": "min", "parts": {"a": SHARE, "b": {**SHARE, "equals": "bad"}}}
    result = score(values, ranked([1, 1, 1, 0]))
    assert (result.score, result.value) == (0.25, {"a": 0.75, "b": 0.25})
    nothing = {**SHARE, "of": "one.parts", "field": "ok", "equals": True}
    empty = score({"op": "min", "parts": {"a": SHARE, "b": nothing}}, {**ranked([1]), **one({"parts": []})})
    assert (empty.score, empty.undefined) == (None, "b is undefined: nothing to divide by: there are no parts")


def test_rules_over_rankings_and_parts_are_checked_like_shares():
    shapes = {"many": MANY}
    faults = [*rule(**{**AVERAGE, "equals": "god"}).problems(shapes, "score")]
    assert [(fault.where, fault.what) for fault in faults] == [("score.equals", "unknown label 'god'")]
    nested = rule(op="min", parts={"a": SHARE, "b": {**SHARE, "field": "verdit"}})
    assert [fault.where for fault in nested.problems(shapes, "score")] == ["score.parts.b"]
    with pytest.raises(ValidationError, match="average_precision needs exactly one of `equals` and `in`"):
        rule(op="average_precision", of="many", field="verdict")
    with pytest.raises(ValidationError, match="at least 2 items"):
        rule(op="min", parts={"a": SHARE})


WEIGHTS = {"good": 1, "unsure": 0.4, "bad": 0.1}
OF_LISTS = {
    "share": SHARE,
    "average_precision": AVERAGE,
    "mean": {"op": "mean", "of": "many", "field": "verdict", "values": WEIGHTS},
    "lowest": {"op": "lowest", "of": "many", "field": "verdict", "values": WEIGHTS},
    "penalties": {"op": "penalties", "of": "many", "field": "verdict", "values": WEIGHTS},
}
as_rows = verdicts.map(lambda labels: [{"reason": f"it is {label}", "verdict": label} for label in labels])


@given(as_rows, st.randoms())
def test_labels_that_weigh_give_a_score_in_0_1_whatever_the_order(rows, random):
    shuffled = random.sample(rows, len(rows))
    weights = [WEIGHTS[row["verdict"]] for row in rows]
    expected = {"mean": sum(weights) / len(weights), "lowest": min(weights), "penalties": max(0, 1 - sum(weights))}
    for op, number in expected.items():
        first = score(OF_LISTS[op], many(rows)).score
        assert first == pytest.approx(number, abs=1e-12)
        assert first == pytest.approx(score(OF_LISTS[op], many(shuffled)).score, abs=1e-12)
        assert first is not None
        assert 0 <= first <= 1


@given(as_rows, st.sampled_from(["bad", "unsure", "good"]))
def test_one_more_finding_never_raises_what_penalties_and_the_lowest_give(rows, label):
    for op in ("penalties", "lowest"):
        before = score(OF_LISTS[op], many(rows)).score
        after = score(OF_LISTS[op], many([*rows, {"reason": "", "verdict": label}])).score
        assert before is not None
        assert after is not None
        assert after <= before + 1e-12


def test_a_mean_of_labels_takes_expectations_and_the_lowest_does_not():
    rows = [{"verdict": "good"}, {"verdict": "bad"}]
    chances = [{"verdict": {"good": 0.5, "bad": 0.5}}, {"verdict": {"bad": 1.0}}]
    mean = score(OF_LISTS["mean"], many(rows, chances), weighted=True)
    assert (mean.score, mean.value, mean.weighted) == (pytest.approx((0.55 + 0.1) / 2), mean.score, True)
    for op in ("lowest", "penalties"):
        assert not score(OF_LISTS[op], many(rows, chances), weighted=True).weighted


@pytest.mark.parametrize("op", OF_LISTS)
@pytest.mark.parametrize("given", [0, 0.5, 1, "undefined"])
def test_an_empty_list_scores_what_the_rule_says_and_nothing_by_itself(op, given):
    values = {**OF_LISTS[op], "when_empty": given}
    result = score(values, many([]))
    if given == "undefined":
        assert result == score(OF_LISTS[op], many([]))
        assert (result.score, result.undefined) == (None, "nothing to divide by: there are no claims")
    else:
        assert (result.score, result.value, result.undefined) == (given, given, None)
        assert rule(**values).reason(many([]), "higher_is_better", weighted=False) == "there are no claims"


@given(as_rows, st.sampled_from([0, 1]))
def test_what_an_empty_list_scores_leaves_other_lists_alone(rows, given):
    for values in OF_LISTS.values():
        assert score({**values, "when_empty": given}, many(rows)) == score(values, many(rows))


def test_nothing_among_what_counts_is_empty_too():
    values = {**SHARE, "among": ["good", "bad"], "when_empty": 1}
    seen = many([{"verdict": "unsure"}] * 3)
    assert score(values, seen).score == 1
    told = rule(**values).reason(seen, "higher_is_better", weighted=False)
    assert told == "none of the 3 claims is good, bad"


def test_a_list_in_each_of_several_items_is_one_list():
    tags = {"op": "share", "of": "many.tags", "equals": "x"}
    rows = [{"tags": ["x", "y"]}, {"tags": []}, {"tags": ["x"]}]
    assert [*rule(**tags).problems(SHAPES, "score")] == []
    assert score(tags, many(rows)).score == pytest.approx(2 / 3)
    nested = TypeAdapter(Returns).validate_python(
        {"pages": {"type": "list", "items": {"title": "str", "faults": {"type": "list", "items": {"grave": "bool"}}}}}
    )
    step = StepConfig(id="audit", prompt="p.jinja", returns=nested)
    values = {"op": "share", "of": "audit.pages.faults", "field": "grave", "equals": True, "when_empty": 0}
    assert [*rule(**values).problems({"audit": step}, "score")] == []
    for faults, share in (([[True], [False, False]], 1 / 3), ([[], []], 0)):
        pages = [{"title": "t", "faults": [{"grave": one} for one in page]} for page in faults]
        assert score(values, {"audit": Observed(step, {"pages": pages})}).score == pytest.approx(share)


def test_reasons_name_the_dearest_first():
    labels = ["bad", "good", "unsure", "bad"]
    seen = many([{"reason": f"because {i}", "verdict": label} for i, label in enumerate(labels)])
    told = {op: rule(**values).reason(seen, "higher_is_better", weighted=False) for op, values in OF_LISTS.items()}
    assert told["penalties"].startswith('1 good, 1 unsure, 2 bad: "c1" (because 1); "c2" (because 2); "c0"')
    assert told["lowest"] == 'lowest of 4 claims: "c0" (because 0) bad'
    assert told["mean"] == 'mean over 4 claims; lowest: "c0" (because 0) bad'
