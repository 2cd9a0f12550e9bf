"""Two answers in both orders: what wins, what the order decides, and what is never a win."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from evalflow.errors import UserError
from evalflow.records import Message
from evalflow.summary.figures import compute, decode_values
from evalflow.summary.journal import json_text


def said(first: str, second: str) -> dict[str, Any]:
    """The judge's words for a place: with the answer to be read first, and with it second."""
    words = {"answer_first": first, "answer_second": second}
    return {step: {"reason": f"because of {word}", "better": word} for step, word in words.items()}


@pytest.mark.parametrize(
    ("first", "second", "score", "verdict", "lean"),
    [
        ("first", "second", 1.0, "win", 0),
        ("second", "first", 0.0, "loss", 0),
        ("tie", "tie", 0.5, "tie", 0),
        ("first", "first", 0.5, "tie", 1),
        ("second", "second", 0.5, "tie", -1),
        ("first", "tie", 0.5, "tie", 1),
        ("tie", "first", 0.5, "tie", 1),
        ("second", "tie", 0.5, "tie", -1),
        ("tie", "second", 0.5, "tie", -1),
    ],
)
def test_an_answer_wins_or_loses_where_both_orders_say_so(
    bench: Any, first: str, second: str, score: float, verdict: str, lean: int
) -> None:
    outcome = bench.score(bench.shipped("preference"), bench.judge(said(first, second)))
    assert (outcome.status, outcome.score) == ("scored", score)
    assert (outcome.value["verdict"], outcome.value["lean"]) == (verdict, lean)
    assert [step["reply"]["better"] for step in outcome.steps] == [first, second]


def test_a_pair_that_the_order_decides_says_what_each_order_gave(bench: Any) -> None:
    outcome = bench.score(bench.shipped("preference"), bench.judge(said("first", "first")))
    assert outcome.reason == ("the order decides: win with the answer first, loss with it second; counted as a tie")


def test_it_may_be_undefined_instead_and_still_tells_of_the_judge(bench: Any) -> None:
    metric = bench.shipped("preference", inconsistent="undefined")
    outcome = bench.score(metric, bench.judge(said("second", "second")))
    assert (outcome.status, outcome.score, outcome.path) == ("undefined", None, None)
    assert outcome.value == {"verdict": None, "lean": -1, "longer": None}
    assert outcome.reason.startswith("the order decides: loss with the answer first, win with it second")


def test_the_two_asks_differ_in_nothing_but_the_order(bench: Any) -> None:
    judge = bench.judge(said("first", "second"))
    bench.score(bench.shipped("preference"), judge)
    one, other = (ask.text for ask in judge.asked)
    assert one.index("Anna, in 1998.") < one.index("Anna wrote it in 1999.")
    assert other.index("Anna wrote it in 1999.") < other.index("Anna, in 1998.")
    assert one.partition("<first id=")[0] == other.partition("<first id=")[0]
    assert "Who wrote it, and when?" in one
    assert "reference" not in one
    assert judge.asked[0].reply_model is judge.asked[1].reply_model
    assert judge.asked[0].reply_model.__name__ == "Preference"


@pytest.mark.parametrize("broken", ["answer_first", "answer_second"])
def test_with_one_order_unanswered_there_is_no_verdict(bench: Any, broken: str) -> None:
    script = {**said("first", "second"), broken: bench.error("schema", "no JSON", "first!")}
    outcome = bench.score(bench.shipped("preference"), bench.judge(script))
    assert (outcome.status, outcome.score, outcome.value, outcome.error_type) == ("error", None, None, "schema")
    assert outcome.steps[-1]["raw"] == "first!"


def test_equal_texts_are_a_tie_and_ask_nobody(bench: Any) -> None:
    metric, judge = bench.shipped("preference"), bench.judge({})
    answer = bench.answer(answer="Anna wrote it in 1999.")
    outcome = bench.score(metric, judge, answer=answer)
    assert (outcome.score, outcome.value, judge.asked) == (0.5, {"verdict": "tie", "lean": None, "longer": None}, [])
    assert outcome.reason == "the answer and the reference are the same text"
    assert metric.preview(bench.case(), answer) == ()
    assert len(metric.preview(bench.case(), bench.answer())) == 2


@pytest.mark.parametrize(
    ("answer", "reference", "longer"), [("long", "x", True), ("x", "long", False), ("ab", "cd", None)]
)
def test_it_is_kept_whether_the_longer_one_wins(bench: Any, answer: str, reference: str, longer: bool | None) -> None:
    judge = bench.judge(said("first", "second"))
    case, answered = bench.case(reference=reference), bench.answer(answer=answer)
    outcome = bench.score(bench.shipped("preference"), judge, case=case, answer=answered)
    assert outcome.value["longer"] is longer


@pytest.mark.parametrize(
    ("against", "fields"),
    [("demo_answer", {"demo_answer": Message("assistant", "By Ben.")}), ("vars.old", {"vars": {"old": "By Ben."}})],
)
def test_the_other_answer_may_stand_elsewhere(bench: Any, against: str, fields: dict[str, Any]) -> None:
    metric = bench.shipped("preference", against=against, needs=["question", "answer", against])
    judge = bench.judge(said("second", "first"))
    assert bench.score(metric, judge, case=bench.case(**fields)).score == 0.0
    assert all("By Ben." in ask.text for ask in judge.asked)
    lacking = bench.score(metric, judge, case=bench.case())
    assert (lacking.status, lacking.reason) == ("skipped", f"the case has no {against}")


def test_both_answers_must_be_declared(bench: Any) -> None:
    with pytest.raises(UserError, match=r"`against` is 'reference', which `needs` does not declare"):
        bench.shipped("preference", needs=["question", "answer"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"against": "answer"}, "cannot be compared with itself"),
        ({"criteria": " "}, "the criteria are blank"),
        ({"weighting": "probability"}, "weighting"),
    ],
)
def test_what_cannot_be_meant_is_refused(bench: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bench.shipped("preference", **change)


def test_its_figures_are_read_from_its_values(bench: Any) -> None:
    metric = bench.shipped("preference")
    pairs = [("first", "second")] * 3 + [("second", "first")] + [("first", "first")]
    outcomes = [bench.score(metric, bench.judge(said(*pair))) for pair in pairs]
    values, scores = [one.value for one in outcomes], [one.score for one in outcomes]
    counted = pl.DataFrame(
        {
            "part": 0,
            "cluster": range(5),
            "value": [json_text(value) for value in values],
            "score": scores,
            "n": 1,
            "clusters": 1,
        }
    )
    found = {figure.statistic: figure for figure in compute(metric.figures, decode_values(metric.figures, counted))}
    assert {name: figure.value for name, figure in found.items()} == {
        "win_rate": pytest.approx(0.7),
        "consistency": pytest.approx(0.8),
        "first_preferred": 1.0,
        "longer_preferred": pytest.approx(0.25),
    }
