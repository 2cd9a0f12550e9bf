"""The kind `generated_questions`: what is written, what is compared, and the four states."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

ALIKE = [[1, 0], [3, 4], [1, 0]]
AGAINST = [[1, 0], [-1, 0], [-1, 0]]


def written(*noncommittal: bool) -> dict[str, Any]:
    """The judge's reply: a question for each flag."""
    return {
        "questions": [{"question": f"q{i}", "reason": "r", "noncommittal": no} for i, no in enumerate(noncommittal)]
    }


def scored(bench: Any, judge: Any, **changes: Any) -> Any:
    return bench.score(bench.shipped("answer_relevancy"), judge, **changes)


def test_the_questions_are_compared_with_the_one_that_was_asked(bench: Any) -> None:
    judge = bench.judge({"writing": written(False, True), "embed": ALIKE})
    outcome = scored(bench, judge)
    assert (outcome.status, outcome.score, outcome.value) == ("scored", pytest.approx(0.8), pytest.approx(0.8))
    assert outcome.reason == 'similarity 0.800 on average; least alike: "q0" (0.600)'
    asked, embedded = judge.asked
    assert embedded.items == ("Who wrote it, and when?", "q0", "q1")
    assert (asked.embeds, embedded.embeds) == (False, True)
    assert outcome.steps[1]["reply"] == [{"similarity": pytest.approx(0.6)}, {"similarity": pytest.approx(1.0)}]


def test_the_judge_does_not_see_the_question_and_is_told_how_many_to_write(bench: Any) -> None:
    metric = bench.shipped("answer_relevancy", questions=5)
    asked, embedded = metric.preview(bench.case(), bench.answer())
    prompt = asked.text
    assert "Anna, in 1998." in prompt
    assert "Who wrote it" not in prompt
    assert "Write 5 different questions" in prompt
    assert len(embedded.items) == 6


def test_an_answer_that_commits_itself_to_nothing_has_0_and_nothing_is_embedded(bench: Any) -> None:
    judge = bench.judge({"writing": written(True, True)})
    outcome = scored(bench, judge)
    assert (outcome.status, outcome.score, len(judge.asked)) == ("scored", 0.0, 1)
    assert outcome.reason.startswith("the answer is noncommittal: ")


def test_a_negative_mean_is_0_and_kept_in_the_value(bench: Any) -> None:
    outcome = scored(bench, bench.judge({"writing": written(False, False), "embed": AGAINST}))
    assert (outcome.score, outcome.value) == (0.0, -1.0)


def test_no_question_is_skipped_and_an_empty_answer_undefined(bench: Any) -> None:
    nobody = bench.judge({})
    assert scored(bench, nobody, case=bench.case(messages=())).status == "skipped"
    assert scored(bench, nobody, answer=bench.answer(answer="")).status == "undefined"
    assert nobody.asked == []


@pytest.mark.parametrize("step", ["writing", "embed"])
def test_who_fails_makes_it_an_error_that_keeps_what_was_said(bench: Any, step: str) -> None:
    script = {"writing": written(False), "embed": ALIKE[:2], step: bench.error("timeout", "too slow")}
    outcome = scored(bench, bench.judge(script))
    assert (outcome.status, outcome.score, outcome.error_type) == ("error", None, "timeout")
    assert outcome.steps[0]["id"] == "writing"


def test_a_blank_question_is_an_error_and_not_compared(bench: Any) -> None:
    blank = {"questions": [{"question": " ", "reason": "r", "noncommittal": False}]}
    outcome = scored(bench, bench.judge({"writing": blank}))
    assert (outcome.status, outcome.error) == ("error", "the judge wrote a blank question")


def test_it_is_about_question_and_answer_and_nothing_else(bench: Any) -> None:
    with pytest.raises(ValidationError, match="needs"):
        bench.shipped("answer_relevancy", needs=["answer", "reference"])
