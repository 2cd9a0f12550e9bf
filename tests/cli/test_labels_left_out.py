"""Labels that may correct nothing, and those that nothing uses: every output says so."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from .conftest import Program

pytestmark = pytest.mark.slow

CASES = 120
GRADE = "# @package metric.grade\nkind: recorded\nfield: vars.grade\nscale: {type: fraction}\nthreshold: 0.5\n"
RANDOM = range(0, CASES, 2)


class Desk:
    """Two runs whose judge favours the second, and people who do not."""

    def __init__(self, program: Program) -> None:
        self.program = program
        draw = random.Random(5)
        self.true = [round(draw.betavariate(5, 2), 3) for _ in range(CASES)]
        for folder, name, text in (("metric", "grade", GRADE), ("dataset", "desk", "# @package dataset.desk\n")):
            (program.folder / "conf" / folder).mkdir(parents=True, exist_ok=True)
            (program.folder / "conf" / folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        self.grades = {
            "before": [round(min(1.0, max(0.0, one + draw.gauss(0, 0.05))), 3) for one in self.true],
            "after": [round(min(1.0, max(0.0, one + 0.1 + draw.gauss(0, 0.05))), 3) for one in self.true],
        }

    def run(self, name: str, *words: str) -> Any:
        rows = [
            {"id": f"c{i}", "question": "?", "answer": f"{name} {i}", "grade": grade}
            for i, grade in enumerate(self.grades[name])
        ]
        path = self.program.write(f"{name}.jsonl", *rows)
        run = ("dataset=desk", f"++dataset.desk.path={path}", "metric=grade", f"hydra.run.dir={name}")
        return self.program(*run, *words)

    def label(self, which: Sequence[int]) -> None:
        rows = [{"case_id": f"c{i}", "metric": "grade", "value": self.true[i], "by": "ann"} for i in which]
        self.program.write("labels.jsonl", *rows)
        for run in ("before", "after"):
            done = self.program("calibrate", run, "--labels", "labels.jsonl")
            assert done.returncode in (0, 1, 3), done.stderr

    def compared(self, *words: str) -> dict[str, Any]:
        done = self.program("compare", "before", "after", "--json", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def desk(program: Program) -> Desk:
    made = Desk(program)
    made.run("before")
    made.run("after")
    return made


def lowest(desk: Desk) -> list[int]:
    """The cases that the judge gives the lowest grades: no random sample."""
    return sorted(range(CASES), key=lambda i: desk.grades["after"][i])[:50]


def test_labels_drawn_at_random_correct_mean_and_pass_rate(desk: Desk) -> None:
    desk.label(RANDOM)
    passed = {name: sum(one >= 0.5 for one in grades) / CASES for name, grades in desk.grades.items()}
    for words in ((), ("--unpaired",)):
        mean, rate = desk.compared(*words)["rows"]
        for row in (mean, rate):
            assert (row["n_labels"], row["uncorrected"], row["verdict"]) == (60, "", "cannot_tell")
            assert abs(row["difference"]) < 0.05 < row["judged"]["difference"]
        assert rate["judged"]["difference"] == pytest.approx(passed["after"] - passed["before"])


@pytest.mark.parametrize("words", [(), ("--labels", "labels.jsonl")])
def test_labels_of_no_random_sample_correct_no_difference(desk: Desk, words: tuple[str, ...]) -> None:
    desk.label(lowest(desk))
    found = desk.compared(*words)
    for row in found["rows"]:
        assert (row["n_labels"], row["judged"]) == (50, None)
        assert row["uncorrected"].startswith("the labelled answers can hardly have been drawn at random in ")
    assert any("correct nothing: the labelled answers can hardly" in note for note in found["notes"])


@pytest.mark.parametrize("statistic", ["mean", "pass_rate"])
def test_a_gate_against_a_baseline_leaves_them_out_too(desk: Desk, statistic: str) -> None:
    done = desk.run("after", "baseline=before", f"gate={{grade: {{{statistic}: {{not_worse_by: 0.05}}}}}}")
    assert done.returncode == 2  # the folder has a run
    Path(desk.program.folder, "after").rename(desk.program.folder / "first")
    desk.run("after", "baseline=before", f"gate={{grade: {{{statistic}: {{not_worse_by: 0.05}}}}}}")
    desk.label(lowest(desk))
    text = (desk.program.folder / "after" / "summary.md").read_text(encoding="utf-8")
    assert "the metric alone decides, in spite of people's labels of 50 cases in both runs" in text
    assert "can hardly have been drawn at random" in text


def test_what_uses_no_labels_says_that_there_are_some(desk: Desk) -> None:
    desk.label(RANDOM)
    said = "desk, grade: people labelled answers of before (60 cases), after (60 cases); "
    for words in ((), ("--unpaired",)):
        assert f"{said}by the judge alone, as asked" in " ".join(desk.compared("--judge-alone", *words)["notes"])
    ranked = json.loads(desk.program("rank", "before", "after", "--json").stdout)
    assert [note for note in ranked["notes"] if note.startswith(said)]


def test_a_sweep_says_that_its_leaderboard_and_comparison_use_none(desk: Desk) -> None:
    rows = [
        {"id": f"c{i}", "question": "?", "answer": "x", "grade": grade, "labels": {"grade": true} if i % 2 else {}}
        for i, (grade, true) in enumerate(zip(desk.grades["after"], desk.true, strict=True))
    ]
    path = desk.program.write("both.jsonl", *rows)
    done = desk.program("-m", "dataset=desk", f"++dataset.desk.path={path}", "metric=grade", "seed=1,2,3")
    assert done.returncode == 0, done.stderr
    assert "by the metric alone: people's labels of 60 cases not used" in " ".join(done.stdout.split())
    compared = desk.program("compare", str(desk.program.latest))
    assert compared.returncode == 0, compared.stderr
    assert "the judge alone" not in " ".join(compared.stdout.split())  # the runs differ in nothing
