"""Every metric that asks a judge by prompts: scripted verdicts in, golden score out, and its undefined case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import UserError
from evalflow.metrics.registry import calls_of
from evalflow.records import Context, Message

ROOT = Path(__file__).parents[2]
FILES = {file.stem: safe_yaml(file.read_text()) for file in (ROOT / "conf" / "metric").glob("*.yaml")}
GOLDEN: dict[str, Any] = safe_yaml((Path(__file__).parent / "golden.yaml").read_text(encoding="utf-8"))
CHAINS = ("judge", "rubric", "generated_questions", "pairwise", "graph")


def played(bench: Any, name: str, entry: dict[str, Any]) -> Any:
    """The outcome for what the entry says of case, answer and replies."""
    known = dict(entry.get("case", {}))
    if "question" in known:
        known["messages"] = (Message("user", known.pop("question")),)
    if "contexts" in known:
        known["contexts"] = tuple(Context(text) for text in known["contexts"])
    script = {
        step: bench.verdicts(said) if isinstance(said, list) and isinstance(said[0], str) else said
        for step, said in entry.get("replies", {}).items()
    }
    case, answer = bench.case(**known), bench.answer(**entry.get("answer", {}))
    return bench.score(bench.shipped(name), bench.judge(script), case=case, answer=answer)


def test_no_chain_ships_without_a_golden_score() -> None:
    chains = {name for name, values in FILES.items() if values["kind"] in CHAINS}
    assert chains == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_score_of_these_verdicts(bench: Any, name: str) -> None:
    outcome = played(bench, name, GOLDEN[name])
    assert outcome.status == "scored"
    assert outcome.score == pytest.approx(GOLDEN[name]["score"], abs=1e-12)
    assert outcome.reason
    calls = calls_of(FILES[name])
    assert calls is not None
    assert len(outcome.steps) == calls.high


@pytest.mark.parametrize("name", GOLDEN)
def test_what_cannot_be_judged_is_undefined_and_neither_0_nor_1(bench: Any, name: str) -> None:
    entry = GOLDEN[name]["undefined"]
    outcome = played(bench, name, entry)
    assert (outcome.status, outcome.score, outcome.value) == ("undefined", None, None)
    assert entry["reason"] in outcome.reason


@pytest.mark.parametrize("name", [name for name, entry in GOLDEN.items() if "empty" in entry])
def test_nothing_found_or_retrieved_has_a_score(bench: Any, name: str) -> None:
    entry = GOLDEN[name]["empty"]
    outcome = played(bench, name, entry)
    assert (outcome.status, outcome.score) == ("scored", entry["score"])
    assert entry["reason"] in outcome.reason


def test_a_metric_that_must_not_leave_out_an_item_refuses_too_few_verdicts(bench: Any) -> None:
    case = bench.case(contexts=(Context("a"), Context("b")))
    judge = bench.judge({"verdicts": bench.verdicts(["useful"])})
    outcome = bench.score(bench.shipped("context_precision"), judge, case=case)
    assert (outcome.status, outcome.error) == ("error", "the judge returned 1 results for 2 items")


def test_the_two_faithfulness_metrics_ask_the_same_so_that_a_run_of_both_pays_once(bench: Any) -> None:
    judge = bench.judge({"claims": {"claims": ["a"]}, "verdicts": bench.verdicts(["not_in_context"])})
    scores = [bench.score(bench.shipped(name), judge).score for name in ("faithfulness", "faithfulness_lenient")]
    assert scores == [0.0, 1.0]
    asked = [(ask.messages, str(ask.reply_model.model_json_schema())) for ask in judge.asked]
    assert asked[:2] == asked[2:]


def test_contexts_are_numbered_outside_of_their_delimiters(bench: Any) -> None:
    case = bench.case(contexts=(Context("one"), Context("two", title="T")))
    (ask,) = bench.shipped("contradiction").preview(case, bench.answer())
    prompt = ask.text
    assert ask.items == ("one", "two")
    assert "Context 1:\n<context id=" in prompt
    assert "Context 2:\n<context id=" in prompt
    assert "Give exactly 2 results" in prompt


def test_contexts_must_be_declared_to_be_gone_through(bench: Any) -> None:
    with pytest.raises(UserError, match="`one_per: contexts` reads 'contexts', which `needs` does not declare"):
        bench.shipped("context_precision", needs=["question", "reference"])


def test_a_precision_says_at_which_ranks(bench: Any) -> None:
    case = bench.case(contexts=(Context("a"), Context("b"), Context("c")))
    judge = bench.judge({"verdicts": bench.verdicts(["useless", "useful", "useful"])})
    outcome = bench.score(bench.shipped("context_precision"), judge, case=case)
    assert outcome.reason == 'useful at ranks 2, 3 of 3; 1 of 3 contexts useless: "a" (because 1)'
    judge = bench.judge({"verdicts": bench.verdicts(["useless"] * 3)})
    outcome = bench.score(bench.shipped("context_precision"), judge, case=case)
    assert (outcome.status, outcome.score) == ("scored", 0.0)
    assert outcome.reason.startswith("useful at no rank of 3; 3 of 3 contexts useless: ")


def test_a_summary_keeps_both_its_parts(bench: Any) -> None:
    outcome = played(bench, "summarisation", GOLDEN["summarisation"])
    assert outcome.value == {"alignment": 0.75, "coverage": 0.4}
    assert outcome.reason.startswith("alignment 0.75: 1 of 4 claims not in text: ")
    assert "; coverage 0.40: 3 of 5 questions not confirmed (2 left out, 1 denied): " in outcome.reason


@pytest.mark.parametrize(
    ("answer", "score"), [('{"a": 1}', 1.0), ("[]", 1.0), ("null", 1.0), ("{a: 1}", 0.0), ("", 0.0), ("Sure! {}", 0.0)]
)
def test_json_correctness(bench: Any, answer: str, score: float) -> None:
    outcome = bench.score(bench.shipped("json_correctness"), answer=bench.answer(answer=answer))
    assert (outcome.status, outcome.score) == ("scored", score)


def test_json_correctness_by_a_schema_of_ones_own_and_without_an_answer(bench: Any) -> None:
    schema = {"type": "object", "required": ["date"]}
    metric = bench.shipped("json_correctness", checks=[{"op": "json_schema", "schema": schema}])
    assert bench.score(metric, answer=bench.answer(answer='{"date": 1}')).score == 1.0
    assert bench.score(metric, answer=bench.answer(answer="{}")).reason.endswith("'date' is a required property at $")
    assert bench.score(metric, answer=bench.answer(answer=None)).status == "skipped"
