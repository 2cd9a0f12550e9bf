"""Several criteria in one call, and guidelines that each case brings along."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from evalflow.errors import UserError
from evalflow.metrics.scale import label_scale, scale_text
from evalflow.records import Message

BASE = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "prompt": "rubric/criteria.jinja",
    "criteria": {"correct": {"description": "It is right.", "weight": 3}, "kind": "It is friendly."},
    "scale": {"type": "likert", "min": 1, "max": 5},
}
GRADES = {"correct_reason": "One year is wrong.", "correct": 3, "kind_reason": "It greets.", "kind": 5}


def test_each_criterion_has_its_score_and_the_metric_their_weighted_mean(bench: Any) -> None:
    judge = bench.judge({"grade": GRADES})
    outcome = bench.score(bench.build("reply", BASE), judge)
    assert outcome.score == pytest.approx((3 * 0.5 + 1) / 4)
    assert outcome.value == {"correct": 0.5, "kind": 1.0}
    assert outcome.reason == "correct 0.50: One year is wrong.; kind 1.00: It greets."
    (ask,) = judge.asked
    assert "- correct: It is right.\n- kind: It is friendly.\n" in ask.text
    assert list(ask.reply_model.model_fields) == ["correct_reason", "correct", "kind_reason", "kind"]


@pytest.mark.parametrize(("combine", "score"), [("min", 0.5), ("max", 1.0)])
def test_the_lowest_or_the_highest_can_count(bench: Any, combine: str, score: float) -> None:
    criteria = {"correct": "It is right.", "kind": "It is friendly."}
    values = {**BASE, "criteria": criteria, "combine": combine, "direction": "lower_is_better"}
    outcome = bench.score(bench.build("reply", values), bench.judge({"grade": GRADES}))
    assert outcome.score == score
    assert outcome.reason.startswith("kind 1.00: ")  # the worst comes first


def test_probabilities_count_where_the_metric_says_so(bench: Any) -> None:
    chances = {"grade": [{"correct": {3: 0.5, 5: 0.5}, "kind": {1: 1.0}}]}
    judge = bench.judge({"grade": GRADES}, chances=chances, weighted=True)
    outcome = bench.score(bench.build("reply", {**BASE, "weighting": "probability"}), judge)
    assert (outcome.value, outcome.path) == ({"correct": 0.75, "kind": 0.0}, "weighted")


def test_a_reply_without_one_of_the_criteria_is_refused(bench: Any) -> None:
    with pytest.raises(ValidationError, match="kind"):
        bench.score(bench.build("reply", BASE), bench.judge({"grade": {"correct_reason": "It is.", "correct": 3}}))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"criteria": {"correct": "It is right."}}, "at least 2"),
        ({"criteria": {"correct": "a", "correct_reason": "b"}}, "the name of another one's reason"),
        ({"criteria": {"Correct": "a", "kind": "b"}}, "must be lower-case letters"),
        ({"criteria": {"correct": "", "kind": "b"}}, "at least 1 character"),
        ({"criteria": {"correct": {"description": "a", "weight": 0}, "kind": "b"}}, "greater than 0"),
        ({"combine": "min"}, "combine: min does not use weights"),
        ({"criteria": None, "combine": "min", "prompt": "rubric/grade.jinja"}, "`combine` needs several criteria"),
    ],
)
def test_criteria_that_cannot_be_graded_are_refused(bench: Any, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        bench.build("reply", {**BASE, **changes})


def test_a_prompt_that_does_not_show_the_criteria_is_refused(bench: Any) -> None:
    with pytest.raises(UserError, match=r"rubric/grade\.jinja does not show the judge the criteria"):
        bench.build("reply", {**BASE, "prompt": "rubric/grade.jinja"})


def test_people_label_the_one_score_of_several_criteria(bench: Any) -> None:
    assert scale_text(label_scale(bench.build("reply", BASE).config, bounded=True)).startswith("0 to 1")


@pytest.mark.parametrize("guidelines", [["Be brief.", " ", "Say when."], "Be brief.\n\n Say when.\n"])
def test_each_guideline_of_the_case_is_judged(bench: Any, guidelines: object) -> None:
    judge = bench.judge({"verdicts": bench.verdicts(["met", "not_met"])})
    case = bench.case(vars={"guidelines": guidelines})
    outcome = bench.score(bench.shipped("case_guidelines"), judge, case=case)
    assert judge.asked[0].items == ("Be brief.", "Say when.")
    assert (outcome.score, outcome.reason) == (0.5, '1 of 2 guidelines not met: "Say when." (because 2)')


def test_guidelines_that_are_no_list_are_the_fault_of_the_data(bench: Any) -> None:
    outcome = bench.score(bench.shipped("case_guidelines"), bench.judge({}), case=bench.case(vars={"guidelines": {}}))
    assert (outcome.status, outcome.error_type) == ("error", "data")
    assert outcome.error == "vars.guidelines: an object is not a list of texts"
    assert bench.score(bench.shipped("case_guidelines"), bench.judge({})).status == "skipped"


def test_a_list_in_the_data_must_be_declared(bench: Any) -> None:
    with pytest.raises(UserError, match=r"`one_per` is 'vars\.guidelines', which `needs` does not declare"):
        bench.shipped("case_guidelines", needs=["messages", "answer"])


@pytest.mark.parametrize(("combine", "said"), [("refused", 1.0), ("partly_refused", 0.5), ("answered", 0.0)])
def test_a_refusal_in_several_turns_is_that_of_the_last_request(bench: Any, combine: str, said: float) -> None:
    messages = (Message("system", "You help."), Message("user", "A joke?"), Message("assistant", "No."))
    case = bench.case(messages=(*messages, Message("user", "And a poem?")))
    judge = bench.judge({"handling": {"request": "A poem.", "reason": "It says no.", "verdict": combine}})
    assert bench.score(bench.shipped("refusal"), judge, case=case).score == said
    assert "And a poem?" in judge.asked[0].text
