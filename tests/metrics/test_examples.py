"""Few-shot examples of a step: checked, shown to the judge, and part of the prompt's identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from evalflow.errors import UserError
from evalflow.prompts import Prompts
from tests.metrics.conftest import ROOT, shipped_values

EXAMPLE = {
    "question": "When does it open?",
    "items": ["It opens at 9."],
    "reply": [{"reason": "It says so.", "verdict": "relevant"}],
}


def values(examples: object) -> dict[str, Any]:
    shipped = shipped_values("relevance")
    first, second = shipped["steps"]
    return {**shipped, "steps": [first, {**second, "examples": examples}]}


def asked(bench: Any, examples: object, prompts: Prompts) -> tuple[Any, str]:
    metric = bench.build("relevance", values(examples), prompts)
    return metric, metric.preview(bench.case(), bench.answer())[1].messages[0].content


def fresh(*folders: Path) -> Prompts:
    return Prompts([*folders, ROOT / "prompts"])


def test_examples_follow_the_rules_and_count_into_the_digest(bench: Any) -> None:
    prompts = fresh()
    metric, system = asked(bench, [EXAMPLE], prompts)
    assert system.endswith('Reply: {"results": [{"number": 1, "reason": "It says so.", "verdict": "relevant"}]}')
    assert "Example 1:\n<question id=" in system
    plain = bench.build("relevance", shipped_values("relevance"), prompts)
    other, _ = asked(bench, [{**EXAMPLE, "question": "When?"}], prompts)
    assert len({prompts.digest(one.prompts) for one in (metric, plain, other)}) == 3
    (name,) = set(metric.prompts) - set(plain.prompts)
    assert yaml.safe_load(prompts.texts([name])[name]) == [EXAMPLE]


def test_examples_may_be_a_file(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump([EXAMPLE]))
    prompts = fresh(tmp_path)
    metric, system = asked(bench, "mine.yaml", prompts)
    assert "Example 1:\n<items id=" in system
    assert "mine.yaml" in metric.prompts
    before = prompts.digest(metric.prompts)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump([EXAMPLE, EXAMPLE]))
    assert fresh(tmp_path).digest(metric.prompts) != before


@pytest.mark.parametrize(
    ("examples", "told"),
    [
        ([{"question": "q"}], r"examples\[0\]: an example has fields of a case and the `reply`"),
        ([{**EXAMPLE, "qestion": "q"}], r"examples\[0\]: the prompt is not given 'qestion'"),
        ([{**EXAMPLE, "reply": [{"reason": "r", "verdict": "right"}]}], r"examples\[0\]\.reply: the reply is not what"),
        ([{**EXAMPLE, "reply": {"reason": "r", "verdict": "relevant"}}], "a list of replies, one for each item"),
        ("none.yaml", r"the file 'none\.yaml' is in none of"),
    ],
)
def test_what_is_wrong_with_examples_is_said_before_the_run(bench: Any, examples: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        bench.build("relevance", values(examples), fresh())


RUBRIC = {"kind": "rubric", "needs": ["question", "answer"], "description": "How polite."}
LIKERT = {"scale": {"type": "likert", "min": 1, "max": 5}}
NAMED = {"prompt": "rubric/criteria.jinja", "criteria": {"right": "It is right.", "kind": "It is friendly."}}
GRADES = {"right_reason": "It is.", "right": 5, "kind_reason": "It greets.", "kind": 4}
PAIR = {"kind": "pairwise", "needs": ["question", "answer", "reference"], "criteria": "More polite."}
WRITTEN = {"questions": [{"question": "When?", "reason": "It says when.", "noncommittal": False}]}


@pytest.mark.parametrize(
    ("values", "example"),
    [
        (RUBRIC | LIKERT, {"answer": "Hello.", "reply": {"reason": "It greets.", "score": 5}}),
        (RUBRIC | LIKERT | NAMED, {"answer": "Hello.", "reply": GRADES}),
        (
            {"kind": "g_eval", "needs": ["answer"], "criteria": "Polite.", "steps": ["Read."]},
            {"answer": "Hello.", "reply": {"reason": "It greets.", "score": 10}},
        ),
        (PAIR, {"first": "Hello.", "second": "What?", "reply": {"reason": "It greets.", "better": "first"}}),
        (
            {"kind": "generated_questions", "needs": ["question", "answer"], "questions": 1},
            {"answer": "At 9.", "reply": WRITTEN},
        ),
    ],
)
def test_every_kind_with_one_question_takes_examples(bench: Any, values: Any, example: dict[str, Any]) -> None:
    prompts = fresh()
    metric = bench.build("m", {**values, "examples": [example]}, prompts)
    asks = metric.preview(bench.case(reference="Good day."), bench.answer())
    shown = [ask for ask in asks if not ask.embeds]
    assert shown
    for ask in shown:
        (field, *_) = example
        assert f"Example 1:\n<{field} id=" in ask.messages[0].content
    plain = bench.build("m", values, prompts)
    assert prompts.digest(metric.prompts) != prompts.digest(plain.prompts)
    wrong = {**example, "reply": {"verdict": 1}}
    with pytest.raises(UserError, match=r"metric\.m\.examples\[0\]\.reply: the reply is not what") as refused:
        bench.build("m", {**values, "examples": [wrong]}, fresh())
    assert len(refused.value.problems) == 1


FAILS = {"rules": ["Name no price."], "answer": "It costs 5.", "reply": {"reason": "It names 5.", "passed": False}}


def test_examples_of_a_check_are_shown_to_its_judge_only(bench: Any) -> None:
    metric = bench.build("checks", {**shipped_values("checks"), "examples": {"conformity": [FAILS]}}, fresh())
    kinds = {"conformity": {"rules": ["Be brief."]}, "correctness": {"reference": "At 9."}}
    case = bench.case(checks=[{"identifier": name, "params": params} for name, params in kinds.items()])
    conformity, correctness = [one.preview(case, bench.answer())[0].text for one in metric.bind(case)]
    assert 'Reply: {"reason": "It names 5.", "passed": false}' in conformity
    assert "Example 1:" not in correctness
    plain = bench.build("checks", shipped_values("checks"), fresh())
    assert set(metric.prompts) > set(plain.prompts)


def test_what_is_wrong_with_an_example_of_a_check_is_named_by_its_key(bench: Any) -> None:
    wrong = {**FAILS, "reply": {"passed": "maybe"}}
    with pytest.raises(UserError) as caught:
        bench.build("checks", {**shipped_values("checks"), "examples": {"conformity": [wrong]}}, fresh())
    assert caught.value.problems[0].where.startswith("metric.checks.examples.conformity[0]")
