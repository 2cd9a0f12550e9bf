"""Answers in which target.extract found nothing: wrong where they are compared, whole for judges."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.values.jsonvalues import as_map
from tests.metrics.conftest import Bench, ScriptedJudge

MISSED: dict[str, Any] = {"answer": "I believe it is noon, as she said.", "extracted": False}
NEEDS = ["answer", "reference"]


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "check", "checks": [{"op": "contains", "against": "reference"}]},
        {"kind": "check", "checks": [{"op": "not_contains", "value": "midnight"}]},
        {"kind": "check", "checks": [{"op": "close_to", "against": "reference", "tolerance": 1}]},
        {"kind": "lexical", "measure": "token_f1"},
        {"kind": "lexical", "measure": "levenshtein"},
        {"kind": "classification", "truth": "reference", "prediction": "answer"},
        {"kind": "set_match", "truth": ["reference"], "prediction": ["answer"], "match": "any"},
    ],
)
def test_it_is_wrong_where_it_is_compared(bench: Bench, values: dict[str, Any]) -> None:
    metric = bench.build("m", {"needs": NEEDS, **values})
    outcome = bench.score(metric, case=bench.case(reference="noon"), answer=bench.answer(**MISSED))
    assert (outcome.status, outcome.score) == ("scored", 0.0)
    assert "target.extract finds nothing in the answer" in str(outcome.reason)


def test_it_is_the_worst_score_where_less_is_better(bench: Bench) -> None:
    values = {"kind": "check", "needs": NEEDS, "checks": [{"op": "contains", "against": "reference"}]}
    metric = bench.build("m", {**values, "direction": "lower_is_better"})
    outcome = bench.score(metric, case=bench.case(reference="midnight"), answer=bench.answer(**MISSED))
    assert outcome.score == 1.0


def test_a_wrong_label_stays_a_row_of_the_confusion_matrix(bench: Bench) -> None:
    values = {"kind": "classification", "needs": NEEDS, "truth": "reference", "prediction": "answer"}
    outcome = bench.score(bench.build("m", values), case=bench.case(reference="B"), answer=bench.answer(**MISSED))
    assert as_map(outcome.value)["truth"] == "B"


def test_embeddings_are_not_asked_for(bench: Bench) -> None:
    metric = bench.shipped("semantic_similarity")
    case, answer, judge = bench.case(), bench.answer(**MISSED), ScriptedJudge({})
    assert metric.preview(case, answer) == ()
    assert bench.score(metric, judge, case=case, answer=answer).score == 0.0
    assert judge.asked == []


def test_without_a_reference_it_is_skipped_as_any_other(bench: Bench) -> None:
    metric = bench.build("m", {"kind": "lexical", "measure": "token_f1", "needs": NEEDS})
    outcome = bench.score(metric, case=bench.case(reference=None), answer=bench.answer(**MISSED))
    assert outcome.status == "skipped"


def test_what_does_not_read_the_answer_is_not_concerned(bench: Bench) -> None:
    values = {"kind": "check", "needs": ["metadata"], "field": "metadata"}
    metric = bench.build("m", {**values, "checks": [{"op": "jsonpath", "path": "$.tool", "equals": "a"}]})
    assert bench.score(metric, answer=bench.answer(**MISSED, metadata={"tool": "a"})).score == 1.0


def test_a_number_of_the_answer_is_that_of_the_whole(bench: Bench) -> None:
    metric = bench.build("m", {"kind": "number", "field": "answer", "unit": "words", "needs": ["answer"]})
    assert bench.score(metric, answer=bench.answer(**MISSED)).score == 8


def test_a_judge_reads_the_whole_answer(bench: Bench) -> None:
    judge = ScriptedJudge({"grade": {"reason": "r", "score": 3}})
    bench.score(bench.shipped("coherence"), judge, answer=bench.answer(**MISSED))
    assert MISSED["answer"] in judge.asked[0].text


@pytest.mark.parametrize(
    ("field", "value", "holds"),
    [("finish_reason", "length", 0.0), ("finish_reason", "stop", 1.0), ("thoughts", "", 0.0)],
)
def test_rules_read_what_is_known_of_an_answer(bench: Bench, field: str, value: str, holds: float) -> None:
    values = {"kind": "check", "needs": [field], "field": field, "checks": [{"op": "equals", "value": "stop"}]}
    assert bench.score(bench.build("m", values), answer=bench.answer(**{field: value})).score == holds


def test_a_prompt_may_name_the_whole_answer(bench: Bench) -> None:
    values = {"kind": "check", "needs": ["full_answer"], "field": "full_answer"}
    metric = bench.build("m", {**values, "checks": [{"op": "contains", "value": "because"}]})
    assert bench.score(metric, answer=bench.answer(answer="B", full_answer="B, because so.", extracted=True)).score == 1
    assert bench.score(metric, answer=bench.answer(answer="B, because so.")).score == 1
