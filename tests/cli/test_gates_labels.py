"""Gates on means, pass rates and differences that people's labels correct."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.cli.test_calibrate import Lab, calibrated, cases, evaluated, lab, label

__all__ = ["evaluated", "lab"]
pytestmark = pytest.mark.slow

WORDS = ("dataset=rag", "dataset.rag.fields=null", "dataset.rag.group=null", "dataset.rag.labels_of=null")
GATE = "gate={likes: {mean: '>= 0.45'}}"


def exit_code(lab: Lab) -> int:
    return json.loads((lab.latest / "run.json").read_text(encoding="utf-8"))["exit_code"]


def report(lab: Lab, *overrides: str) -> str:
    done = lab("report", *overrides)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_labels_turn_the_verdict_of_a_strict_judge_and_a_key_turns_it_back(lab: Lab) -> None:
    """People like 60 %, the judge 41 %."""
    report(lab, GATE)
    assert exit_code(lab) == 3
    found = calibrated(lab, *map(label, range(100)))
    assert exit_code(lab) == 0
    [row] = found["rows"]
    corrected, rate = row["corrected"], row["pass_rate"]
    assert corrected["ci_low"] > 0.45
    assert rate is None or rate["estimate"] == corrected["estimate"]
    passes, code, back = found["gates"]
    assert passes.startswith("gate passes: likes mean >= 0.45: 0.")
    assert "corrected by labels of 100 answers; by the metric alone it is undecided: 0.4" in passes
    assert code == "exit code of the run: 3 → 0"
    text = (lab.latest / "summary.md").read_text(encoding="utf-8")
    assert "corrected by labels of 100 answers" in text
    assert "| metric | score | 95 % interval | pass | metric alone | labels | scored |" in text
    assert "corrected by labels of 100 answers" in (lab.latest / "report.html").read_text(encoding="utf-8")

    words = shlex.split(back.partition(": ")[2])
    assert words[:4] == ["python", "-m", "evalflow", "report"]
    assert "exit code: 0 → 3" in report(lab, *words[4:])
    assert "the metric alone decides, despite labels of 100 answers (judge\\_alone: true)" in (
        (lab.latest / "summary.md").read_text(encoding="utf-8")
    )
    assert "exit code: 3 → 0" in report(lab, GATE)


def test_a_gate_with_too_few_labels_is_the_judges_and_says_how_many_would_do(lab: Lab) -> None:
    report(lab, "gate={likes: {mean: '>= 0.3'}, likes@odd: {mean: '>= 0.1'}}")
    lab.write("l.jsonl", *map(label, range(0, 160, 15)))
    assert lab("calibrate", "--labels", "l.jsonl").returncode == 2
    text = (lab.latest / "summary.md").read_text(encoding="utf-8")
    assert "alone decides, despite labels of 11 answers; 15 would do to correct it" in text
    assert "alone decides, despite labels of 5 answers; 15 would do to correct it" in text
    assert exit_code(lab) == 0


def test_labels_in_the_data_decide_a_run_at_its_end_and_undecided_it_says_how_many_labels(lab: Lab) -> None:
    rows = cases()
    for i, row in enumerate(rows[:60]):
        row["labels"] = {"likes": label(i)["value"]}
    path = lab.write("labelled.jsonl", *rows)
    done = lab(*WORDS, f"dataset.rag.path={path}", "metric=likes", "gate={likes: {mean: '<= 0.58'}}")
    assert done.returncode == 3, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "gate undecided likes mean <= 0.58: 0.66" in said
    assert "corrected by labels of 60 answers; by the metric alone it passes: 0.4" in said
    assert "labels of these answers would decide if the result stays the same" in said


def test_labels_that_cannot_be_a_random_sample_correct_no_gate(lab: Lab) -> None:
    report(lab, GATE)
    rows = cases()
    likes = [i for i, row in enumerate(rows) if row["likes"]]
    calibrated(lab, *map(label, likes[:40]))
    text = (lab.latest / "summary.md").read_text(encoding="utf-8")
    assert "labels of 40 answers (the labelled answers are hardly a random sample)" in text
    assert exit_code(lab) == 3


def test_a_difference_from_the_baseline_is_people_s(lab: Lab) -> None:
    """The judge likes the later run's answers less, although people like them as much."""

    def labelled(*wrong: int) -> list[dict[str, Any]]:
        rows = cases()
        for i, row in enumerate(rows):
            row["likes"] &= i % 8 not in wrong
            if i < 120:
                row["labels"] = {"likes": label(i)["value"]}
        return rows

    before, after = lab.write("before.jsonl", *labelled()), lab.write("after.jsonl", *labelled(1, 2, 3, 4, 5))
    assert lab(*WORDS, f"dataset.rag.path={before}", "metric=likes").returncode == 0
    words = [*WORDS, f"dataset.rag.path={after}", "metric=likes", f"baseline={lab.latest.resolve()}"]
    done = lab(*words, "gate={likes: {mean: {not_worse_by: 0.1}}}")
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, said + done.stderr
    assert "labels of 120 cases in each run; by the metric alone it fails: -0.3" in said
    assert lab(*words, "gate={likes: {mean: {not_worse_by: 0.1}, judge_alone: true}}").returncode == 1


def test_a_setting_that_is_neither_true_nor_false_is_refused(lab: Lab) -> None:
    done = lab("report", "gate={likes: {mean: '>= 0.4', judge_alone: 1}}")
    assert done.returncode == 2
    assert "gate.likes.judge_alone: 1.0 is not true or false" in done.stderr
