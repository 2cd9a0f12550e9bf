"""Labels in every comparison and ranking: what they correct, and why they may correct nothing."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Program

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


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a desk whose runs have no labels, to be copied."""
    made = Desk(Program(tmp_path_factory.mktemp("desk")))
    made.run("before")
    made.run("after")
    return made.program.folder


@pytest.fixture
def desk(two_runs: Path, program: Program) -> Desk:
    shutil.copytree(two_runs, program.folder, symlinks=True, dirs_exist_ok=True)
    return Desk(program)


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
        assert row["uncorrected"].startswith("the labelled answers are hardly a random sample in ")
    assert any("correct nothing: the labelled answers are hardly" in note for note in found["notes"])


@pytest.mark.parametrize("statistic", ["mean", "pass_rate"])
def test_a_gate_against_a_baseline_leaves_them_out_too(desk: Desk, statistic: str) -> None:
    done = desk.run("after", "baseline=before", f"gate={{grade: {{{statistic}: {{not_worse_by: 0.05}}}}}}")
    assert done.returncode == 2  # the folder has a run
    Path(desk.program.folder, "after").rename(desk.program.folder / "first")
    desk.run("after", "baseline=before", f"gate={{grade: {{{statistic}: {{not_worse_by: 0.05}}}}}}")
    desk.label(lowest(desk))
    text = (desk.program.folder / "after" / "summary.md").read_text(encoding="utf-8")
    assert "the metric alone decides, despite labels of 50 cases in each run" in text
    assert "are hardly a random sample" in text


def test_the_judge_alone_says_that_there_are_labels(desk: Desk) -> None:
    desk.label(RANDOM)
    said = "desk, grade: people labelled answers of before (60 cases), after (60 cases); by the judge alone, as asked"
    for words in ((), ("--unpaired",)):
        assert said in " ".join(desk.compared("--judge-alone", *words)["notes"])
    ranked = json.loads(desk.program("rank", "before", "after", "--judge-alone", "--json").stdout)
    assert [note for note in ranked["notes"] if note.startswith(said)]
    assert [row["rank_low"] for row in ranked["rankings"][0]["rows"]] == [1, 2]  # it favours one of the runs


def test_ranks_are_corrected_or_say_why_not(desk: Desk) -> None:
    desk.label(RANDOM)
    [mean, rate] = json.loads(desk.program("rank", "before", "after", "--json").stdout)["rankings"]
    differences = {row["statistic"]: row for row in desk.compared()["rows"]}
    for ranking in (mean, rate):
        values = {row["run"]: row for row in ranking["rows"]}
        compared = differences[ranking["by"]]
        assert (ranking["n_labels"], ranking["uncorrected"]) == (60, "")
        assert [values[run]["value"] for run in ("before", "after")] == pytest.approx(
            [compared["value_a"], compared["value_b"]]
        )
        assert values["after"]["raw_value"] == pytest.approx(compared["judged"]["value_b"])
        assert {(row["rank_low"], row["rank_high"]) for row in ranking["rows"]} == {(1, 2)}
    desk.label(lowest(desk))
    found = json.loads(desk.program("rank", "before", "after", "--json").stdout)
    for ranking in found["rankings"]:
        assert ranking["uncorrected"].startswith("the labelled answers are hardly a random sample in ")
        assert all(row["raw_value"] is None for row in ranking["rows"])


def test_a_sweep_is_corrected_as_its_pairs_are(desk: Desk) -> None:
    draw = random.Random(3)
    grades = {name: [round(min(1.0, one + shift), 3) for one in desk.true] for name, shift in (("x", 0), ("y", 0.15))}
    for name, own in grades.items():
        rows = [
            {
                "id": f"c{i}",
                "question": "?",
                "answer": f"{name} {i}",
                "grade": grade,
                "labels": {"grade": round(min(1.0, max(0.0, desk.true[i] + draw.gauss(0, 0.03))), 3)} if i % 2 else {},
            }
            for i, grade in enumerate(own)
        ]
        desk.program.write(f"{name}.jsonl", *rows)
    done = desk.program("-m", "dataset=desk", "++dataset.desk.path=x.jsonl,y.jsonl", "metric=grade")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "corrected by labels of 60 cases of each run" in text
    sweep = desk.program.latest
    boards = {one["statistic"]: one for one in json.loads((sweep / "summary.json").read_text())["details"]}
    runs = sorted(str(one) for one in sweep.iterdir() if one.is_dir())
    both = [json.loads(desk.program("compare", *words, "--json").stdout) for words in ((str(sweep),), runs)]
    assert both[0]["rows"] == both[1]["rows"]
    for row in both[0]["rows"]:
        board = {one["run"]: one for one in boards[row["statistic"]]["leaderboard"]}
        assert row["judged"] is not None
        assert [board[run]["value"] for run in (row["run_a"], row["run_b"])] == pytest.approx(
            [row["value_a"], row["value_b"]]
        )
        assert {one["p_adjusted"] for one in board.values()} == {None, row["p_adjusted"]}
