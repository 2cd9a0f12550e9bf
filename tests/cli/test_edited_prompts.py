"""A prompt that was edited in place between two runs: both runs keep its text, so that its change is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.prompts import LONGEST_KEPT
from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments

METRIC = """# @package metric.fair
kind: rubric
description: How good the answer is
needs: [question, answer]
prompt: desk/fair.jinja
scale: {type: likert, min: 1, max: 5, anchors: {1: wrong, 5: right}}
threshold: 0.75
"""
MATERIAL = '{{ question | fenced("question") }}\n{{ answer | fenced("answer") }}\n'
STRICT = "{% include 'desk/rules.jinja' %}\nGrade the answer of a library's desk from 1 to 5.\n" + MATERIAL
RULES = "Be %s: whoever leaves out the fee loses a point."


def grades(request: Request) -> dict[str, Any]:
    return {"reason": "as asked", "score": 5 if "generous" in request.text else 2}


def write(program: Program, name: str, text: str) -> None:
    path = program.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(name="desk")
def _desk(program: Program) -> Program:
    write(program, "conf/metric/fair.yaml", METRIC)
    write(program, "conf/dataset/desk.yaml", "# @package dataset.desk\npath: cases.jsonl\n")
    write(program, "prompts/desk/fair.jinja", STRICT)
    cases = [{"id": f"c{i}", "question": f"Q{i}?", "answer": f"It is {i} days."} for i in range(12)]
    program.write("cases.jsonl", *cases)
    return program


def run(program: Program, rules: str, url: str) -> str:
    write(program, "prompts/desk/rules.jinja", rules)
    done = program("dataset=desk", "metric=fair", *judge_arguments(url), "judge.logprobs=false", "judge.strict=false")
    assert done.returncode == 0, done.stderr
    return str(program.latest)


def test_the_words_of_an_edited_prompt_are_shown(desk: Program) -> None:
    with Endpoint(grades) as endpoint:
        runs = [run(desk, RULES % word, endpoint.url) for word in ("strict", "generous")]
    write(desk, "prompts/desk/rules.jinja", "something else by now")
    kept = json.loads((Path(runs[0]) / "run.json").read_text(encoding="utf-8"))
    assert kept["prompts"] == {"desk/fair.jinja": STRICT, "desk/rules.jinja": RULES % "strict"}
    assert kept["metrics"]["fair"]["prompts"] == ["desk/fair.jinja", "desk/rules.jinja"]
    done = desk("compare", *runs)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert said.startswith("Same answers, another prompt of the judge: 100 points more answers pass fair than before")
    assert "changed: the prompts of metric fair differ: desk/rules.jinja strict → generous" in said
    [changed] = json.loads(desk("compare", *runs, "--json").stdout)["changed"]
    [part] = changed["parts"]
    assert part["values"] == [{"name": "desk/rules.jinja", "before": RULES % "strict", "after": RULES % "generous"}]
    page = (Path(runs[1]) / "compare.html").read_text(encoding="utf-8")
    assert "<del>strict</del>" in page
    assert "<ins>generous</ins>" in page


def test_no_run_keeps_megabytes_of_prompts(desk: Program) -> None:
    long = RULES % "strict" + " Mind this." * LONGEST_KEPT
    with Endpoint(grades) as endpoint:
        runs = [run(desk, text, endpoint.url) for text in (long, RULES % "generous")]
    kept = json.loads((Path(runs[0]) / "run.json").read_text(encoding="utf-8"))
    assert list(kept["prompts"]) == ["desk/fair.jinja"]
    done = desk("compare", *runs)
    assert "desk/rules.jinja (more than 100,000 characters, not kept) →" in " ".join(done.stdout.split())


@pytest.mark.parametrize("shown", [True, False])
def test_another_description_is_another_metric_where_the_prompt_shows_it(desk: Program, shown: bool) -> None:
    if shown:
        write(desk, "prompts/desk/fair.jinja", STRICT + "\n{{ description }}\n")
    with Endpoint(grades) as endpoint:
        first = run(desk, RULES % "strict", endpoint.url)
        write(desk, "conf/metric/fair.yaml", METRIC.replace("description: ", "description: Above all "))
        second = run(desk, RULES % "strict", endpoint.url)
    done = desk("compare", first, second)
    assert ("metric fair has other settings: description" in done.stdout + done.stderr) == shown
