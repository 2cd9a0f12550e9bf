"""Thoughts, parts of answers and cut-off answers, from the data or the target to the files and the terminal."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program

THOUGHT = "Is it eight? The sign says nine."
ROWS: list[dict[str, Any]] = [
    {"id": "plain", "question": "Which?", "answer": "CHOICE: B", "reference": "B"},
    {"id": "late", "question": "Which?", "answer": f"<think>{THOUGHT}</think>A or B.\nCHOICE: B", "reference": "B"},
    {"id": "other", "question": "Which?", "answer": "Because of A.\nCHOICE: A", "reference": "B"},
    {"id": "none", "question": "Which?", "answer": "It is B.", "reference": "B", "finish_reason": "MAX_TOKENS"},
]
EXTRACT = r"target.extract={pattern: 'CHOICE: (\w)'}"


def lines(program: Program, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (program.latest / name).read_text().splitlines()]


def scores(program: Program) -> dict[str, Any]:
    return {row["case_id"]: row["score"] for row in lines(program, "scores.jsonl")}


def mine(program: Program, *rows: dict[str, Any]) -> str:
    conf = program.folder / "conf" / "dataset"
    conf.mkdir(parents=True, exist_ok=True)
    path = program.write("mine.jsonl", *rows)
    (conf / "mine.yaml").write_text(f"# @package dataset.mine\npath: {path}\n")
    return "dataset=mine"


def test_recorded_answers_are_read_as_the_target_declares(program: Program) -> None:
    done = program(mine(program, *ROWS), "metric=exact_match", EXTRACT)
    assert done.returncode == 0, done.stderr
    assert scores(program) == {"plain": 1, "late": 1, "other": 0, "none": 0}
    said = " ".join(done.stderr.split())
    assert "1 of 4 recorded answers of mine begin with thoughts" in said
    assert "target.extract finds nothing in 1 of 4 recorded answers of mine (none)" in said
    faults = program.manifest["answer_faults"]
    assert faults["not_extracted"] == {"n": 1, "of": 4, "cases": ["none"]}
    assert faults["cut_off"]["cases"] == ["none"]
    assert "target.extract.pattern found nothing: 1 of 4 answers (none)" in " ".join(done.stdout.split())


def test_cases_written_by_a_run_load_again_alike(program: Program) -> None:
    program(mine(program, *ROWS), "metric=exact_match", EXTRACT)
    written = lines(program, "cases.jsonl")
    late = next(row for row in written if row["id"] == "late")
    assert (late["answer"], late["full_answer"], late["thoughts"]) == ("B", "A or B.\nCHOICE: B", THOUGHT)
    mine(program, *written)
    for more in ([], [EXTRACT]):
        again = program("dataset=mine", "metric=exact_match", *more)
        assert scores(program)["late"] == 1
        assert "begin with thoughts" not in again.stderr
    assert [row["answer"] for row in lines(program, "cases.jsonl")] == [row["answer"] for row in written]


def test_cut_off_answers_are_counted_in_every_file_and_listed(program: Program) -> None:
    rows = [{"id": str(n), "question": f"When, {n}?", "reference": "At nine, or ten."} for n in range(3)]

    def bot(request: Request) -> object:
        return reply("At nine, or", finish_reason="length") if "1?" in request.text else reply("At nine, or ten.")

    with Endpoint(bot) as endpoint:
        target = ("generate=true", "target=vllm", "target.model=m", f"target.base_url={endpoint.url}")
        done = program(mine(program, *rows), "metric=exact_match", "cache.mode=off", *target, COLUMNS="200")
    assert "cut off at a limit of tokens: 1 of 3 answers (1); raise target.max_tokens" in done.stdout
    assert [row.get("finish_reason") for row in lines(program, "answers.jsonl")].count("length") == 1
    with (program.latest / "results.csv").open() as file:
        assert [row["finish_reason"] for row in csv.DictReader(file)] == ["stop", "length", "stop"]
    summary = json.loads((program.latest / "summary.json").read_text())["rows"]
    assert [row["n_cut_off"] for row in summary if row["tag"] is None] == [1]
    for name in ("report.html", "summary.md"):
        assert "cut off at a limit of tokens: 1 of 3 answers" in (program.latest / name).read_text()
    listed = json.loads(program("cases", "--cut-off", "--json").stdout)
    assert [(case["id"], case["finish_reason"]) for case in listed["cases"]] == [("1", "length")]
    assert "answer, cut off" in program("cases", "--cut-off").stdout


def test_a_gate_can_forbid_cut_off_answers(program: Program) -> None:
    gate = 'gate={exact_match: {n_cut_off: "<= 0"}}'
    done = program(mine(program, *ROWS), "metric=exact_match", EXTRACT, gate)
    assert done.returncode == 1, done.stderr


@pytest.mark.parametrize(
    ("extract", "told"),
    [
        ("{}", "exactly one of pattern, path, after, line"),
        ("{pattern: '(', line: last}", "not a regular expression"),
        ("{pattern: 'CHOICE: {{ reference }}'}", "a pattern is not a template"),
        ("{path: answer}", "begins with $"),
        ("{first: B}", "pattern"),
    ],
)
def test_a_wrong_part_is_refused_before_the_run(program: Program, extract: str, told: str) -> None:
    done = program("check", mine(program, *ROWS), "metric=exact_match", f"target.extract={extract}")
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (r"{op: regex, pattern: 'CHOICE: {{ reference }}'}", "a pattern is not a template"),
        (r"{op: jsonpath, path: '$.a', matches: '{{ expected }}'}", "a pattern is not a template"),
        (r"{op: equals, value: '{{ reference }}'}", "against: reference"),
    ],
)
def test_a_template_in_a_check_is_refused(program: Program, check: str, told: str) -> None:
    folder = program.folder / "conf" / "metric"
    folder.mkdir(parents=True)
    text = f"# @package metric.mcq\nkind: check\nneeds: [answer, reference]\nchecks: [{check}]\n"
    (folder / "mcq.yaml").write_text(text)
    done = program("check", mine(program, *ROWS), "metric=mcq")
    assert done.returncode == 2
    assert told in done.stderr
