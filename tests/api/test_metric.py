# ruff: noqa: ARG005, E731 - a callable takes case and answer, whatever it reads
"""Metrics that are Python callables."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalflow
from evalflow import Answer, Case, CaseRow, Outcome

CASES: list[CaseRow] = [
    {"id": "a", "question": "one?", "answer": "1", "reference": "1"},
    {"id": "b", "question": "two?", "answer": "three", "reference": "2"},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@evalflow.metric(threshold=0.5, needs=["answer", "reference"])
def near(case: Case, answer: Answer) -> float:
    """How near the answer is."""
    return 1.0 if answer.answer == case.reference else 0.25


def short(case: Case, answer: Answer) -> bool:
    return len(answer.answer or "") < 3


@evalflow.metric(name="tone", values={"kind": 1, "not kind (rude)": 0})
async def tone_of(case: Case, answer: Answer) -> str:
    return "kind" if answer.answer == "1" else "loud"


class Shop:
    """Has an opinion."""

    def __call__(self, case: Case, answer: Answer) -> Outcome:
        return Outcome(status="scored", score=0.5, reason="so so")

    def silent(self, case: Case, answer: Answer) -> None:
        return None


def words(case: Case, answer: Answer) -> int:
    return 40


def by_case(run: evalflow.RunResult, metric: str, column: str) -> list[Any]:
    return run.scores.filter(pl.col("metric") == metric).sort("case_id")[column].to_list()


def test_any_callable_is_a_metric() -> None:
    shop = Shop()
    broken = lambda case, answer: 1 / 0
    given = {
        **{"near": near, "short": short, "tone": tone_of, "shop": shop, "silent": shop.silent, "broken": broken},
        "fixed": functools.partial(lambda score, case, answer: score, 0.75),
        "words": words,
    }
    run = evalflow.run(metrics=given, cases=CASES)
    assert by_case(run, "near", "score") == [1.0, 0.25]
    assert by_case(run, "near", "passed") == [True, False]
    assert by_case(run, "short", "passed") == [True, False], "1 is the threshold of what returns a bool"
    assert by_case(run, "tone", "status") == ["scored", "error"]
    assert 'the label "loud", which `values` does not have' in by_case(run, "tone", "error")[1]
    assert by_case(run, "shop", "reason") == ["so so"] * 2
    assert by_case(run, "silent", "status") == ["undefined"] * 2
    assert ": ZeroDivisionError: division by zero" in by_case(run, "broken", "error")[0]
    assert by_case(run, "fixed", "score") == [0.75] * 2
    assert "returned 40; expected a number from 0 to 1" in by_case(run, "words", "error")[0]
    config = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["config"]["metric"]
    assert config["near"]["description"] == "How near the answer is."
    assert run.passed is None
    assert run.sentence.startswith("inconclusive: 5 of 16 scores could not be made")
    assert ", such as: " in run.sentence
    assert "| near | 0.625 |" in run._repr_markdown_()
    manifest = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    (run.folder / "run.json").write_text(json.dumps(manifest | {"exit_code": 4}), encoding="utf-8")
    assert "inconclusive" not in run.sentence, "the budget ended it, not its errors"


def test_a_metric_in_python_has_gates_and_comparisons_like_others() -> None:
    gate = 'gate={exact_match: {mean: ">= 0.5"}, near: {mean: ">= 0.9", point: true}}'
    first = evalflow.run("metric=exact_match", gate, metrics=[near], cases=CASES)
    assert first.passed is False
    failed, undecided = first.sentence.splitlines()
    assert failed.startswith("gate fails: near mean >= 0.9: 0.625")
    assert undecided.startswith("gate is undecided: exact_match mean >= 0.5")
    second = evalflow.run("metric=exact_match", metrics=[near], cases=CASES, target=lambda case: "2")
    found = evalflow.compare(first, second)
    assert {row["metric"] for row in found.rows.iter_rows(named=True)} >= {"near", "exact_match"}
    again = evalflow.run("metric=exact_match", metrics={"near": lambda case, answer: 1.0}, cases=CASES)
    assert "the files or the code of metric near differ" in evalflow.compare(first, again).changed


@pytest.mark.parametrize(
    ("metrics", "what"),
    [
        ([3], "expected a callable, got int"),
        (near, "a list of callables, or a dictionary by name"),
        ([lambda case, answer: 1], "a metric cannot be called '<lambda>'"),
        ({"Near It": near}, "a metric cannot be called 'Near It'"),
        ([short, evalflow.metric(name="short")(lambda case, answer: 1)], "two metrics are called short"),
        ({"x": evalflow.metric(needs=["anwser"])(lambda case, answer: 1)}, "unknown case field 'anwser'"),
    ],
)
def test_what_is_no_metric_is_refused(metrics: Any, what: str, folder: Path) -> None:
    with pytest.raises(evalflow.UserError) as error:
        evalflow.run(metrics=metrics, cases=CASES)
    assert what in str(error.value)
    assert not (folder / "outputs").exists()


def test_a_lambda_and_a_bound_method_are_targets() -> None:
    class Bot:
        def answer(self, case: dict[str, Any]) -> str:
            return "2"

    bot = Bot()
    for target in (lambda case: "2", bot.answer, functools.partial(lambda said, case: said, "2")):
        run = evalflow.run("metric=exact_match", cases=CASES, target=target)
        assert run.cases["answer"].to_list() == ["2", "2"]
    with pytest.raises(evalflow.UserError, match="a target is a callable that takes a case, and this is a str"):
        evalflow.run("metric=exact_match", cases=CASES, target="bot")  # pyright: ignore[reportArgumentType]


def test_a_callable_without_a_name_is_known_to_its_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run = evalflow.run("metric=exact_match", cases=CASES, target=lambda case: "2")
    call = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["config"]["target"]["call"]
    monkeypatch.setattr("evalflow.calls.given._KEPT", {})
    with pytest.raises(evalflow.UserError, match=r"was given to evalflow.run\(\) in another process"):
        evalflow.run("metric=exact_match", "target=python", f"target.call={call}", "generate=true", cases=CASES)


def test_yaml_may_hold_all_but_the_callable(folder: Path) -> None:
    (folder / "house_scores.py").write_text("def few(case, answer):\n    return len(answer.answer) < 3\n")
    file = folder / "conf/metric/few.yaml"
    file.parent.mkdir(parents=True)
    text = "# @package metric.few\nkind: python\ndescription: Few letters.\nthreshold: 1\n"
    file.write_text(f"{text}call: house_scores:few\n")
    sys.path.insert(0, str(folder))
    try:
        with pytest.raises(evalflow.UserError, match="a callable is named on the command line only"):
            evalflow.run("metric=few", cases=CASES)
        run = evalflow.run("metric=few", "metric.few.call=house_scores:few", cases=CASES)
        assert by_case(run, "few", "passed") == [True, False]
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("house_scores", None)


def test_every_error_is_one_of_evalflow(folder: Path) -> None:
    with pytest.raises(evalflow.UserError, match="an override is text, such as 'dataset=rag', and this is a list"):
        evalflow.run(["dataset=rag", "metric=exact_match"], cases=CASES)  # pyright: ignore[reportArgumentType]
    (folder / ".evalflow").write_text("a file where a folder is expected")
    with pytest.raises(evalflow.EvalflowError, match="expected"):
        evalflow.run("metric=exact_match", cases=CASES)
