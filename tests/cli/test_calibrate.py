"""`calibrate`: answers drawn to be labelled, labels read back, and the judge corrected by them."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from evalflow.app.core.calibration import calibration_of
from evalflow.app.core.labels import bound_labels
from evalflow.app.core.saved import open_scored
from evalflow.cli import run_command
from evalflow.config.schema import MetricConfig
from evalflow.engine.folder import RunFolder
from evalflow.labels.columns import LABEL_COLUMNS
from evalflow.report.cases import most_informative
from evalflow.report.console import worst_cases
from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments
from tests.datasets.workbooks import workbook

pytestmark = pytest.mark.slow

N = 160
METRIC = """\
# @package metric.{name}
kind: recorded
field: {name}
scale: {scale}
description: What a judge said.
"""


def truth(i: int) -> bool:
    return random.Random(f"truth {i}").random() < 0.6


def test_a_fixture_is_a_dataset_whose_undefined_labels_are_no_numbers(program: Program) -> None:
    fixture = Path(__file__).parents[2] / "data/fixtures/grounded.jsonl"
    assert program("new", "dataset", "grounded", "--path", str(fixture)).returncode == 0
    done = program("dataset=grounded", "metric=faithfulness")
    assert done.returncode == 0, done.stderr
    found = json.loads(program("calibrate", "--json").stdout)
    [row] = found["rows"]
    assert (row["n_labels"], row["undefined"]) == (11, {"answers": 13, "both": 1, "people_alone": 1, "judge_alone": 0})
    odd = [{"id": "c", "question": "Q?", "answer": "A.", "contexts": ["A."], "labels": {"faithfulness": "nothing"}}]
    refused = program(
        "dataset=grounded", "metric=faithfulness", f"dataset.grounded.path={program.write('odd.jsonl', *odd)}"
    )
    assert refused.returncode == 2
    assert "or undefined where there is nothing to score" in refused.stderr


def cases(**fields: Any) -> list[dict[str, Any]]:
    """Answers of which people like 60 %; the judge likes only two thirds of these, and few of the others."""
    made: list[dict[str, Any]] = []
    for i in range(N):
        likes = random.Random(f"judge {i}").random() < (0.65 if truth(i) else 0.05)
        grade = 3 + truth(i) - (not likes)
        row = {"id": f"c{i}", "question": f"Q{i}?", "answer": f"=A{i}", "tags": ["odd" if i % 2 else "even"]}
        made.append(row | {"likes": likes, "grade": grade, "same": 0.5, **fields})
    return made


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV, as JSON lines, with null for an empty cell, or as a workbook."""
    if path.suffix == ".jsonl":
        lines = ({key: None if cell == "" else cell for key, cell in row.items()} for row in rows)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    elif path.suffix == ".xlsx":
        workbook(path, {"labels": [list(rows[0]), *([cell or None for cell in row.values()] for row in rows)]})
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


@dataclass(frozen=True)
class Lab:
    """A folder with a run, in which `calibrate` is called without a process of its own for each time."""

    program: Program
    capture: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> CompletedProcess[str]:
        self.capture.readouterr()
        code = run_command(words)
        said = self.capture.readouterr()
        return CompletedProcess(words, code, said.out, said.err)

    @property
    def folder(self) -> Path:
        return self.program.folder

    @property
    def latest(self) -> Path:
        return self.program.latest

    def write(self, name: str, *rows: dict[str, Any]) -> str:
        return self.program.write(name, *rows)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with metrics, answers and a run."""
    program = Program(tmp_path_factory.mktemp("evaluated"))
    folder = program.folder / "conf" / "metric"
    folder.mkdir(parents=True)
    for name, scale in (("likes", "boolean"), ("grade", "{type: likert, min: 1, max: 5}"), ("same", "percentage")):
        (folder / f"{name}.yaml").write_text(METRIC.format(name=name, scale=scale), encoding="utf-8")
    evaluate(program, cases())
    return program.folder


@pytest.fixture
def lab(evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    folder = tmp_path / "lab"
    shutil.copytree(evaluated, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return Lab(Program(folder), capsys)


def evaluate(program: Program | Lab, rows: list[dict[str, Any]], *more: str) -> None:
    path = program.write("answers.jsonl", *rows)
    words = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=null")
    run = program.program if isinstance(program, Lab) else program
    done = run(*words, *(more or ("metric=likes",)))
    assert done.returncode == 0, done.stderr


def label(number: int, value: Any = None, **fields: Any) -> dict[str, Any]:
    said = ("yes" if truth(number) else "no") if value is None else value
    return {"case_id": f"c{number}", "metric": "likes", "value": said, "by": "ana", **fields}


def calibrated(lab: Lab, *labels: dict[str, Any]) -> dict[str, Any]:
    lab.write("l.jsonl", *labels)
    done = lab("calibrate", "--labels", "l.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(lab: Lab, *labels: dict[str, Any]) -> str:
    lab.write("l.jsonl", *labels)
    done = lab("calibrate", "--labels", "l.jsonl")
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def fill(path: Path, by: str = "ana") -> None:
    """Fill in a sheet, as a spreadsheet of a country with decimal commas would save it."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["value"], row["by"] = ("TRUE" if truth(int(row["case_id"][1:])) else "FALSE"), by
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)


def test_from_a_sheet_to_a_corrected_number(lab: Lab) -> None:
    done = lab("calibrate", "--sample", "60")
    assert done.returncode == 0, done.stderr
    assert "60 of 160 answers" in done.stdout
    assert "Write yes or no" in done.stdout
    sheet = lab.folder / "labels.csv"
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["case_id"] for row in rows}) == 60
    assert all(row["answer"].startswith("'=A") for row in rows)
    assert not any("likes" in column or "score" in column for column in rows[0])
    fill(sheet)
    done = lab("calibrate", "--labels", "labels.csv")
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if not line.startswith("page"))
    assert "corrected by labels" in done.stdout
    assert "warning" not in done.stdout
    [row] = json.loads(lab("calibrate", "--labels", "labels.csv", "--json").stdout)["rows"]
    assert (row["n_labels"], row["n_unlabelled"], row["n_people"], row["judge"]) == (60, 100, 1, None)
    corrected, everyone = row["corrected"], sum(map(truth, range(N))) / N
    assert corrected["ci_low"] < everyone < corrected["ci_high"]
    assert row["judge_ci_high"] < everyone
    assert row["bias"] < 0
    assert corrected["method"] == "ppi_crossfit_t"
    assert 0 < corrected["lambda"] <= 1
    assert isinstance(row["labels_saved"], int)
    assert row["at_random"] is True
    assert row["agreement"]["sensitivity"]["value"] < row["agreement"]["specificity"]["value"]
    assert set(row["agreement"]["kappa"]) == {"value", "ci_low", "ci_high", "method"}
    assert [one["tag"] for one in row["tags"]] == ["even", "odd"]
    page = (lab.latest / "calibration.html").read_text(encoding="utf-8")
    assert "Largest differences of metric and labels" in page
    said = re.sub("<[^>]*>", "", page.partition("<body>")[2])
    assert "judge" not in said.replace("judge: none (no metric needs one)", "")
    assert "recorded as False" in page


def test_a_sheet_is_topped_up(lab: Lab) -> None:
    lab("calibrate", "--sample", "20", "--out", "a.csv")
    fill(lab.folder / "a.csv")
    done = lab("calibrate", "--sample", "30", "--out", "a.csv", "--seed", "5")
    assert done.returncode == 0, done.stderr
    with (lab.folder / "a.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["value"]) for row in rows] == [True] * 20 + [False] * 10
    done = lab("calibrate", "--labels", "a.csv")
    assert "10 rows have no value: 10 labels are missing" in done.stdout
    done = lab("calibrate", "--sample", "30", "--stratify", "score", "--out", "a.csv")
    assert done.returncode == 2
    assert "its answers were drawn one by one" in done.stderr


def test_strata_come_with_weights_that_lead_back_to_all_answers(lab: Lab) -> None:
    done = lab("calibrate", "--sample", "60", "--stratify", "score", "--out", "s.csv")
    assert done.returncode == 0, done.stderr
    assert "score 0: 30 of" in done.stdout
    fill(lab.folder / "s.csv")
    document = json.loads(lab("calibrate", "--labels", "s.csv", "--json").stdout)
    [row] = document["rows"]
    assert (row["weighted"], row["at_random"], row["n_labels"]) == (True, None, 60)
    assert row["corrected"]["ci_low"] < sum(map(truth, range(N))) / N < row["corrected"]["ci_high"]
    assert any("weights" in note for note in document["notes"])
    right = sum(one["likes"] == truth(i) for i, one in enumerate(cases())) / N
    same = row["agreement"]["accuracy"]
    assert same["ci_low"] < right < same["ci_high"]
    assert row["agreement"]["krippendorff_alpha"] == {
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "method": "none: labels carry weights",
    }


def test_answers_that_the_judge_failed_at_are_drawn_and_others_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 40 answers it scores 24 and fails at 12; 3 are skipped, and of one the target gave none."""

    def judge(request: Request) -> Any:
        number = next(i for i in range(40) if f"Answer {i}." in request.text)
        return "no grade" if number < 12 else {"reason": "so it seems", "score": 1 + number % 5}

    monkeypatch.chdir(tmp_path)
    lab = Lab(Program(tmp_path), capsys)
    rows: list[dict[str, Any]] = [{"id": f"c{i}", "question": f"Q{i}?", "answer": f"Answer {i}."} for i in range(36)]
    rows += [{"id": f"c{i}", "question": "Q?", "answer": None} for i in range(36, 39)]
    rows.append({"id": "c39", "question": "Q?", "answer": None, "failure": {"status": "error", "message": "gone"}})
    path = lab.write("a.jsonl", *rows)
    with Endpoint(judge) as endpoint:
        words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=null"]
        words += ["metric=coherence", "judge=vllm", "judge.model=m", f"judge.base_url={endpoint.url}"]
        assert lab(*words, "max_error_rate=1").returncode == 0
    said = lab("calibrate", "--sample", "100").stdout
    assert "all 36 answers that can be labelled, drawn at random with seed 0; 36 rows added" in said
    assert "12 of these 36 have no score by the judge, and are drawn like the others" in said
    assert "4 of 40 answers are left out: skipped, undefined, or the target gave none" in said
    values = {f"c{i}": 1 if i < 12 else 5 for i in range(36)}
    lab.write("l.jsonl", *({"case_id": c, "metric": "coherence", "value": v, "by": "a"} for c, v in values.items()))
    [row] = json.loads(lab("calibrate", "--labels", "l.jsonl", "--json").stdout)["rows"]
    assert (row["n_labels"], row["n_unlabelled"], row["n_failed"], row["n_failed_labelled"]) == (36, 0, 12, 12)
    assert row["human_mean"] == pytest.approx(24 / 36)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "xlsx"])
def test_rows_left_blank_are_missing_labels(lab: Lab, kind: str) -> None:
    """People skip what is hard for them: every third row; and of the last 12 rows nobody has read one."""
    said = lab("calibrate", "--sample", "60", "--metric", "likes", "--out", "l.csv").stdout
    assert "Other rows without a value count as missing labels." in " ".join(said.split())
    with (lab.folder / "l.csv").open(newline="", encoding="utf-8-sig") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for place, row in enumerate(rows):
        is_read = place < 48 and place % 3
        row |= {"value": ("yes" if truth(int(row["case_id"][1:])) else "no") if is_read else "", "by": "ana"}
    rows[0]["by"] = ""
    rows.append({**rows[1], "by": "ben", "value": ""})  # somebody else labelled the answer
    write_table(lab.folder / f"sheet.{kind}", [*rows[:50], rows[-1], *rows[50:-1]])
    found = json.loads(lab("calibrate", "--labels", f"sheet.{kind}", "--json").stdout)
    [row] = found["rows"]
    assert (row["n_labels"], row["missing"]["n"], row["missing"]["share"]) == (32, 28, pytest.approx(28 / 60))
    assert row["missing"]["worst"]["estimate"] < row["corrected"]["estimate"] < row["missing"]["best"]["estimate"]
    assert (found["left_out"]["blank"], found["left_out"]["missing"]) == (29, 0)
    assert "29 rows have no value: 29 labels are missing" in found["notes"]
    assert any(note.startswith("the last 13 rows are empty: if nobody has read") for note in found["notes"])
    said = " ".join(lab("calibrate", "--labels", f"sheet.{kind}").stdout.split())
    told = (
        "47 % of the answers that people were asked about have no label (28 of 60). If all of these were as bad as can"
    )
    assert told in said
    for name in ("calibration.html", "report.html", "summary.md"):
        assert told in (lab.latest / name).read_text(encoding="utf-8"), name
    assert "corrected by 32 labels (28 more missing)" in (lab.latest / "summary.md").read_text(encoding="utf-8")
    assert "<small>28 missing</small>" in (lab.latest / "report.html").read_text(encoding="utf-8")
    summary = json.loads((lab.latest / "summary.json").read_text(encoding="utf-8"))
    rows = summary if isinstance(summary, list) else summary["rows"]
    assert next(one for one in rows if one["metric"] == "likes" and one["tag"] is None)["n_missing_labels"] == 28


def test_a_metric_that_nobody_labelled_has_no_missing_labels(lab: Lab) -> None:
    rows = [label(i) for i in range(30)] + [label(i, "", metric="same") for i in range(30)]
    found = calibrated(lab, *rows)
    assert [(row["metric"], row["missing"]) for row in found["rows"]] == [("likes", None)]
    assert "same: none of 30 rows has a value, so people were not asked about it" in found["notes"]
    lab.write("l.jsonl", *(label(i, "") for i in range(30)))
    done = lab("calibrate", "--labels", "l.jsonl")
    assert (done.returncode, "nobody has filled in a value yet, in 30 rows" in done.stderr) == (2, True)


def test_whole_groups_may_be_drawn(lab: Lab) -> None:
    done = lab("calibrate", "--sample", "20", "--by-group")
    assert (done.returncode, "every answer is a group of its own" in done.stderr) == (2, True)
    path = lab.write("grouped.jsonl", *(row | {"document": f"d{i // 4}"} for i, row in enumerate(cases())))
    words = (f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=document", "metric=likes")
    assert lab.program("dataset=rag", *words).returncode == 0
    done = lab("calibrate", "--sample", "80", "--by-group")
    said = " ".join(done.stdout.split())
    assert "80 of 160 answers: 20 of 40 groups, whole, drawn at random with seed 0; 80 rows added" in said
    assert "at the end of a group" in said
    said = " ".join(lab("calibrate", "--sample", "80", "--out", "alone.csv").stdout.split())
    assert "80 of 160 answers, drawn one by one at random with seed 0, from " in said
    fill(lab.folder / "labels.csv")
    [row] = json.loads(lab("calibrate", "--labels", "labels.csv", "--json").stdout)["rows"]
    assert (row["n_labels"], row["at_random"], row["weighted"]) == (80, True, False)
    assert row["corrected"]["method"].startswith("ppi_cr1_t")
    assert not row["warnings"]
    [row] = calibrated(lab, *map(label, range(20)))["rows"]
    assert row["at_random"] is None
    assert "the labelled answers are of 5 groups: too few to show" in row["warnings"][0]
    done = lab("calibrate", "--sample", "100")
    assert "its answers were drawn by group" in done.stderr
    assert "say --by-group" in done.stderr
    done = lab("calibrate", "--sample", "20", "--by-group", "--stratify", "score", "--out", "n.csv")
    assert "two ways to draw" in done.stderr


def test_a_sheet_of_another_run_is_not_written_over(lab: Lab) -> None:
    lab("calibrate", "--sample", "20")
    before = (lab.folder / "labels.csv").read_bytes()
    evaluate(lab, [row | {"answer": "B"} for row in cases()])
    done = lab("calibrate", "--sample", "20")
    assert done.returncode == 2
    assert "is another than this run's" in done.stderr
    assert (lab.folder / "labels.csv").read_bytes() == before
    (lab.folder / "mine.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert "not a row of a sheet" in lab("calibrate", "--sample", "20", "--out", "mine.csv").stderr


def test_all_that_is_wrong_with_a_sample_is_told(lab: Lab) -> None:
    done = lab("calibrate", "--sample", "0", "--out", "no/labels.txt")
    assert done.returncode == 2
    for words in ("--sample is 0", "neither .csv nor .jsonl", "there is no folder no"):
        assert words in done.stderr
    assert "no metric 'like'" in lab("calibrate", "--sample", "5", "--metric", "like").stderr
    assert "2 answers cannot be drawn from" not in lab("calibrate", "--sample", "2", "--stratify", "tag").stderr
    assert "1 answers cannot be drawn from 2" in lab("calibrate", "--sample", "1", "--stratify", "tag").stderr


def test_every_wrong_label_has_its_line(lab: Lab) -> None:
    said = refused(
        lab,
        label(1),
        label(1),
        label(500),
        label(2, "maybe"),
        {**label(3), "metric": "like"},
        {**label(4), "weight": -1},
        {**label(5), "metric": None},
    )
    for words in (
        "l.jsonl:2: two labels by ana for one answer to case 'c1' on likes",
        "l.jsonl:3: the run has no case 'c500'",
        "l.jsonl:4: the value of likes: 'maybe' is not true or false",
        "l.jsonl:5: the run has no metric 'like'",
        "did you mean 'likes'?",
        "l.jsonl:6: weight: -1 is not a number above 0",
        "l.jsonl:7: no metric",
    ):
        assert words in said
    assert "no such file" in lab("calibrate", "--labels", "none.csv").stderr
    assert "no human labels" in lab("calibrate").stderr
    assert "--sample 50" in lab("calibrate").stderr


@pytest.mark.parametrize(
    ("asked", "answers", "size"),
    [(20, {"answered": 60}, 50), (5, {"answered": 15, "error": 5}, 15), (12, {}, 12), (0, {}, 50)],
)
def test_as_many_labels_are_advised_as_there_are_answers_not_cases(
    lab: Lab, asked: int, answers: dict[str, int], size: int
) -> None:
    path = lab.latest / "run.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    counts = {"asked": {"rag": asked} if asked else {}, "answers": answers}
    path.write_text(json.dumps(manifest | counts), encoding="utf-8")
    assert re.search(rf"--sample {size}$", lab("calibrate").stderr, re.MULTILINE)


def test_labels_of_other_answers_are_counted_and_left_out(lab: Lab) -> None:
    lab("calibrate", "--sample", "40", "--out", "a.csv")
    fill(lab.folder / "a.csv")
    evaluate(lab, [row | ({"answer": "B"} if i < 80 else {}) for i, row in enumerate(cases())])
    done = lab("calibrate", "--labels", "a.csv", "--json")
    document = json.loads(done.stdout)
    [row] = document["rows"]
    assert document["left_out"]["stale"] == 40 - row["n_labels"] > 5
    assert "other answers than the ones scored here" in document["notes"][0]
    evaluate(lab, [row | {"answer": "C"} for row in cases()])
    done = lab("calibrate", "--labels", "a.csv")
    assert done.returncode == 2
    assert "none of 40 labels is of an answer of this run" in done.stderr


def test_what_the_run_did_not_score_is_left_out(lab: Lab) -> None:
    evaluate(lab, cases(), "metric=likes", "limit=40")
    document = calibrated(lab, *map(label, range(60)), {**label(1), "metric": "grade", "value": 3})
    assert (document["left_out"]["not_in_run"], document["left_out"]["other_metrics"]) == (20, 1)
    assert document["rows"][0]["corrected"]["method"].endswith("labels alone, every answer has one")


def test_too_few_labels_give_no_estimate_and_exit_2(lab: Lab) -> None:
    lab.write("l.jsonl", *map(label, range(12)))
    done = lab("calibrate", "--labels", "l.jsonl")
    assert done.returncode == 2
    said = " ".join(done.stdout.split())
    assert "12 labelled answers: too few" in said
    assert said.count("fewer than 15") == 1  # in the table
    assert "no corrected estimate" not in said
    [row] = json.loads(lab("calibrate", "--labels", "l.jsonl", "--json").stdout)["rows"]
    assert row["corrected"]["estimate"] is None
    assert row["agreement"]["accuracy"]["value"] is not None


def test_labels_that_all_say_the_same_are_warned_of(lab: Lab) -> None:
    [row] = calibrated(lab, *(label(i, True) for i in range(30)))["rows"]
    assert any("all 30 labels are the same (1.000)" in warning for warning in row["warnings"])


def test_a_judge_that_never_varies_is_warned_of(lab: Lab) -> None:
    evaluate(lab, cases(), "metric=same")
    [row] = calibrated(lab, *({**label(i), "metric": "same", "value": 40 + i} for i in range(30)))["rows"]
    assert any("gives every answer the score" in warning for warning in row["warnings"])
    assert row["corrected"]["lambda"] == 0
    assert row["corrected"]["estimate"] == pytest.approx(row["human_mean"])


def test_labels_chosen_because_the_judge_failed_are_warned_of(lab: Lab) -> None:
    failed = [i for i, row in enumerate(cases()) if not row["likes"]]
    chosen = [*failed[:36], *(i for i in range(N) if i not in failed[:36])][:40]
    lab.write("l.jsonl", *map(label, chosen))
    said = " ".join(lab("calibrate", "--labels", "l.jsonl").stdout.split())
    assert "There is no corrected estimate: the labelled answers are hardly a random sample." in said
    assert "only labels of a random sample correct a mean" in said
    assert "Rogan-Gladen" in said
    [row] = calibrated(lab, *map(label, chosen))["rows"]
    assert row["at_random"] is False
    assert row["corrected"]["estimate"] is None
    assert row["corrected"]["method"] == f"none: {row['uncorrected']}"
    assert row["uncorrected"] == "the labelled answers are hardly a random sample"
    assert row["rogan_gladen"]["estimate"] is not None


def test_labels_drawn_by_class_have_rogan_and_gladen_s_estimate(lab: Lab) -> None:
    # 300 answers of which the judge passes 0.82; people failed 20, of which it fails 0.8, and passed 60, of which 0.95.
    judged = [True] * 246 + [False] * 54 + [False] * 16 + [True] * 4 + [True] * 57 + [False] * 3
    evaluate(
        lab, [{"id": f"c{i}", "question": "Q?", "answer": f"A{i}", "likes": said} for i, said in enumerate(judged)]
    )
    [row] = calibrated(lab, *(label(i, "no" if i < 320 else "yes") for i in range(300, 380)))["rows"]
    found = row["rogan_gladen"]
    assert found["estimate"] == pytest.approx(0.826667, abs=1e-6)
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((0.723753, 0.930425), abs=1e-6)


def test_labels_of_one_tag_alone_are_warned_of(lab: Lab) -> None:
    [row] = calibrated(lab, *map(label, range(0, 60, 2)))["rows"]
    [warning] = [text for text in row["warnings"] if "tagged" in text and "even" in text]
    assert "38 % of the answers tagged even are labelled and 0 % of the others" in warning


def test_several_people_count_as_their_mean_and_show_the_ceiling(lab: Lab) -> None:
    others = [label(i, truth(i) != (i % 5 == 0), by="ben") for i in range(30)]
    document = calibrated(lab, *map(label, range(30)), *others)
    [row] = document["rows"]
    assert (row["n_labels"], row["n_people"]) == (30, 2)
    people = row["people_agreement"]
    assert 0 < people["krippendorff_alpha"]["value"] < people["reliability"]["value"] < people["ceiling"]["value"] < 1
    assert people["ceiling"]["ci_low"] < people["ceiling"]["value"] < people["ceiling"]["ci_high"]
    assert people["alt_test"]["method"] == "none: fewer than 3 people"
    assert row["human_mean"] == pytest.approx((sum(map(truth, range(30))) + sum(o["value"] for o in others)) / 60)
    assert any("several labels: their mean counts" in note for note in document["notes"])


def test_grades_are_classes_and_weigh_by_distance(lab: Lab) -> None:
    evaluate(lab, cases(), "metric=grade")
    labels = [{**label(i), "metric": "grade", "value": 2 + 2 * truth(i)} for i in range(40)]
    [row] = calibrated(lab, *labels)["rows"]
    agreement = row["agreement"]
    assert agreement["kappa"]["value"] < agreement["kappa_weighted"]["value"]
    assert agreement["sensitivity"]["value"] is None
    page = (lab.latest / "calibration.html").read_text(encoding="utf-8")
    assert "Who says what" in page


def test_the_data_may_bring_the_labels_along(program: Program) -> None:
    done = program("dataset=rag", "metric=faithfulness")
    assert done.returncode == 0, done.stderr
    done = program("calibrate")
    assert done.returncode == 0, done.stderr
    assert "labels: the data's own labels" in done.stdout
    assert "What a score is worth" in (program.latest / "calibration.html").read_text(encoding="utf-8")


def test_generated_answers_need_the_hash(lab: Lab) -> None:
    (lab.folder / "bot.py").write_text('import sys; sys.stdin.read(); print(\'{"answer": "B"}\')', encoding="utf-8")
    words = ("metric=exact_match", "generate=true", "target=command", f"target.argv=[{sys.executable},bot.py]")
    evaluate(lab, [row | {"reference": "B"} for row in cases()[:20]], *words)
    lab.write("l.jsonl", *({**label(i), "metric": "exact_match"} for i in range(20)))
    done = lab("calibrate", "--labels", "l.jsonl")
    assert done.returncode == 2
    assert "20 labels are without answer_hash" in " ".join(done.stderr.split())


def test_a_labelled_run_tells_how_many_labels_a_width_needs(lab: Lab) -> None:
    path = lab.write("l.jsonl", *(label(i) for i in range(60)))
    done = lab("plan", "--width", "0.2", "--labels", path, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["answers"] for row in document["labels"]] == [N, 10 * N, None]
    needed = [row["labels"] for row in document["labels"]]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] < document["labels"][0]["labels_alone"]
    [said] = [line for line in document["assumptions"]["likes"] if "people's labels" in line]
    assert "on 60 labelled answers of" in said
    assert "labels tell of a run" in lab("plan", "--width", "0.2", "--rate", "0.5", "--labels", path).stderr


def test_labels_of_two_runs_tell_how_many_a_difference_needs(lab: Lab) -> None:
    first = str(lab.latest.resolve())
    evaluate(lab, [{**row, "answer": f"B{i}", "likes": truth(i) and i % 9 > 0} for i, row in enumerate(cases())])
    second = str(lab.latest.resolve())
    hashes = {name: [hashlib.sha256(f"{name}{i}".encode()).hexdigest()[:16] for i in range(N)] for name in ("=A", "B")}
    rows = [label(i, answer_hash=own[i]) for own in hashes.values() for i in range(60)]
    better = [i for i in range(60) if not truth(i)][:10]
    rows += [label(i, True, answer_hash=hashes["B"][i], by="bo") for i in better]
    path = lab.write("l.jsonl", *rows)
    words = ("plan", "--detect", "0.1", "--from", first, second, "--labels", path)
    done = lab(*words, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["answers"] for row in document["labels"]] == [N, 10 * N, None]
    assert all(row["goal"] == "detect" for row in document["labels"])
    [said] = [line for line in document["assumptions"]["likes"] if "people's differences" in line]
    assert "on 60 cases labelled in both" in said
    alone = lab("plan", "--detect", "0.1", "--from", first, "--labels", path)
    assert (alone.returncode, "--from RUN_A RUN_B" in alone.stderr) == (2, True)
    one = lab.write("one.jsonl", *rows[:60])
    done = lab(*words[:-1], one)
    assert done.returncode == 2
    assert "there are fewer than two cases labelled in both" in done.stderr


CERTIFICATES = ".evalflow/certificates"
JUDGED = ("dataset=rag", "metric=faithfulness")


def test_a_certificate_is_issued_and_shown_by_this_run_and_by_later_ones(program: Program) -> None:
    labels = Path(__file__).parents[2] / "data" / "rag_labels.jsonl"
    assert program(*JUDGED, "limit=10", "repeats.judge=2").returncode == 0
    assert ", uncalibrated" in (program.latest / "report.html").read_text(encoding="utf-8")
    done = program(*JUDGED, "repeats.judge=2")
    said = " ".join(program("calibrate", "--labels", str(labels)).stdout.split())
    assert "embedded: faithfulness checked against 40 labels: no agreement shown, Spearman" in said
    [certificate] = json.loads(program("list", "certificates", "--json").stdout)
    assert (certificate["n_labels"], certificate["n_people"], certificate["dataset"]) == (40, 2, "rag")
    assert certificate["consistency"] == {"answers": 60, "repeats": 2.0, "same": 1.0, "sd": 0.0}
    assert certificate["replies"] == {"judged": 120, "unparsable": 0.0, "reasked": 0.0}
    assert certificate["alt_test"] is None
    document = json.loads((program.latest / "calibration.json").read_text(encoding="utf-8"))
    [row] = document["rows"]
    assert certificate["bias"]["value"] == row["bias"]
    assert certificate["human_mean"] == row["human_mean"]
    corrected = f"{row['corrected']['estimate']:.3f}"
    for name in ("report.html", "summary.md"):
        page = (program.latest / name).read_text(encoding="utf-8")
        assert f"would say about {corrected}" in page
        assert "checked against 40 labels" in page
    assert "checked against 40 labels" in program(*JUDGED, "limit=4").stdout
    assert "checked against 40 labels" not in done.stdout


def test_a_run_whose_data_bring_labels_is_calibrated_by_itself(program: Program) -> None:
    done = program(*JUDGED)
    said = " ".join(done.stdout.split())
    assert "corrected by 60 labels; the judge alone 0.385" in said
    assert said.count("0.385") == 1
    [judge] = program.manifest["judges"].values()
    assert f"embedded ({judge['nature']}), faithfulness checked against 60 labels: no agreement shown, Spearman" in said
    assert not (program.latest / "calibration.html").exists()
    before = (program.latest / "calibration.json").read_bytes()
    (program.latest / "calibration.json").unlink()
    assert program("report").returncode == 0
    assert (program.latest / "calibration.json").read_bytes() == before
    [path] = (program.folder / CERTIFICATES).iterdir()
    assert path.name.startswith("faithfulness_embedded_")


def test_a_report_written_again_keeps_to_the_labels_of_the_calibration(lab: Lab) -> None:
    calibrated(lab, *map(label, range(60)))
    before = (lab.latest / "calibration.json").read_bytes()
    (lab.folder / "l.jsonl").unlink()
    assert lab("report").returncode == 0
    assert (lab.latest / "calibration.json").read_bytes() == before
    assert "60 of 160 answers that are labelled" in (lab.latest / "summary.md").read_text(encoding="utf-8")
    (lab.latest / "labels.jsonl").write_text("{}", encoding="utf-8")
    done = lab("report")
    assert (done.returncode, "these are not labels of a run" in done.stderr) == (2, True)
    (lab.latest / "labels.jsonl").unlink()
    done = lab("report")
    assert (done.returncode, "the labels of this calibration are gone" in done.stderr) == (2, True)


def test_one_run_has_no_labels_to_split(lab: Lab) -> None:
    evaluate(lab, cases())
    done = lab("calibrate", "--no-split")
    assert (done.returncode, "--no-split is for a sweep over judges" in done.stderr) == (2, True)


def test_labels_that_say_too_little_give_no_certificate(program: Program) -> None:
    path = Path(__file__).parents[2] / "data" / "rag_labels.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    program(*JUDGED)
    shutil.rmtree(program.folder / CERTIFICATES)
    program.write("few.jsonl", *rows[:28])
    said = " ".join(program("calibrate", "--labels", "few.jsonl").stdout.split())
    assert "no certificate of embedded for faithfulness: 14 labelled answers, and it takes 15" in said
    program.write("alike.jsonl", *(row | {"value": True} for row in rows))
    said = " ".join(program("calibrate", "--labels", "alike.jsonl").stdout.split())
    assert "no certificate of embedded for faithfulness: all labels are the same" in said
    program.write("weights.jsonl", *(row | {"weight": 1 + i // 2 % 2} for i, row in enumerate(rows)))
    said = " ".join(program("calibrate", "--labels", "weights.jsonl").stdout.split())
    assert "no certificate of embedded for faithfulness: the labels have weights" in said
    assert not (program.folder / CERTIFICATES).exists()
    assert ", uncalibrated" in program(*JUDGED, "limit=5").stdout


def test_labels_of_the_data_may_stand_anywhere_in_a_row(lab: Lab) -> None:
    rows = [row | {"review": {"people": [{"likes": truth(i)}]}} for i, row in enumerate(cases())]
    path = lab.write("reviewed.jsonl", *rows)
    words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.group=null", "dataset.rag.labels_of=answer"]
    fields = "dataset.rag.fields={labels: {likes: '$.review.people[*].likes'}, answer: answer}"
    assert lab(*words, "~dataset.rag.fields", "+" + fields, "metric=likes").returncode == 0
    [row] = json.loads(lab("calibrate", "--json").stdout)["rows"]
    assert (row["n_labels"], row["human_mean"]) == (N, pytest.approx(sum(map(truth, range(N))) / N))


def test_labels_of_the_data_that_are_wrong_are_told_before_anything_is_scored(lab: Lab) -> None:
    rows = cases()
    rows[3]["labels"] = {"likes": "maybe", "other": 1}
    rows[4]["labels"] = {"likes": [{"value": "yes", "by": "ana"}, {"value": "no", "by": "ana"}, {"value": "no"}]}
    rows[5]["labels"] = {"likes": {"value": "yes", "weight": 0}}
    path = lab.write("wrong.jsonl", *rows)
    words = (
        "dataset=rag",
        f"dataset.rag.path={path}",
        "dataset.rag.fields=null",
        "metric=likes",
        "dataset.rag.group=null",
        "dataset.rag.labels_of=null",
    )
    before = lab.latest.resolve()
    for verb in ("check", "run"):
        done = lab(verb, *words)
        assert done.returncode == 2, done.stderr
        said = " ".join(done.stderr.split())
        assert "wrong.jsonl:4: dataset rag, case c3, labels.likes" in said
        assert "the label of likes: 'maybe' is not true or false" in said
        assert "two labels by ana for one answer on likes" in said
        assert "weight: 0 is not a number above 0" in said
    assert lab.latest.resolve() == before


def test_labels_of_the_data_for_what_is_no_metric_are_a_slip_of_the_pen(lab: Lab) -> None:
    path = lab.write("slip.jsonl", *(row | {"labels": {"like": "yes", "grade": 3}} for row in cases()))
    answers = ("dataset.rag.fields=null", "dataset.rag.group=null", "dataset.rag.labels_of=null")
    words = (f"dataset.rag.path={path}", "metric=likes", *answers)
    said = " ".join(lab("check", "dataset=rag", *words).stdout.split())
    assert (
        "160 labels in the data are of 'like', which is not a metric, and do not count; did you mean 'likes'?" in said
    )
    assert "of 'grade'" not in said


def test_three_people_show_whether_the_judge_may_take_the_place_of_one(lab: Lab) -> None:
    def people(number: int) -> list[dict[str, Any]]:
        return [
            label(number, truth(number) != (random.Random(f"{by} {number}").random() < 0.1), by=by)
            for by in ("ana", "ben", "cleo")
        ]

    [row] = calibrated(lab, *(one for number in range(80) for one in people(number)))["rows"]
    test = row["people_agreement"]["alt_test"]
    assert test["passes"] is False
    assert 0 < test["advantage"] < 1
    said = " ".join(lab("calibrate", "--labels", "l.jsonl").stdout.split())
    assert (
        "the metric is shown to be less than 20 points behind 0 of 3 raters; 20 points are the test's allowance" in said
    )
    assert "so this does not show that the metric can replace a rater." in said
    assert row["people_agreement"]["n_answers"] == 80
    assert row["people_agreement"]["difference"]["ci_high"] < 0
    assert "agrees with raters less than they do with each other (difference -0." in said


def test_rows_of_a_review_count_like_their_export(lab: Lab) -> None:
    """Three people, two of whom differ; some cannot tell, some saw the judge's score, the guidelines were revised."""
    review: dict[str, Any] = {"review": "june", "rubric": 2, "draw": "random", "seed": 7, "population": N, "pi": 0.375}
    rows = [label(i, **review) for i in range(60)]
    rows += [label(i, "yes", **review | {"by": "ben"}) for i in range(30)]
    rows += [label(i, "no", **review | {"by": "eva", "kind": "resolution"}) for i in range(3)]
    rows += [label(i, "", **review | {"missing": "cannot_tell"}) for i in range(60, 68)]
    rows += [label(i, "yes", **review | {"rubric": 1, "by": "cem"}) for i in range(5)]
    rows += [label(i, "yes", by="zoe", blind=False) for i in range(100, 120)]
    rows += [label(130, "no", by="zoe", draw="hand"), label(1, **review | {"by": "dan", "seen_before": True})]
    found = calibrated(lab, *rows)
    left = {"older_rubric": 5, "unblinded": 20, "by_hand": 1, "missing": 8, "blank": 0, "stale": 0}
    assert {name: found["left_out"][name] for name in left} == left
    [row] = found["rows"]
    assert (row["n_labels"], row["weighted"], row["n_resolved"], row["missing"]["n"]) == (60, False, 3, 8)
    assert row["missing"]["worst"]["estimate"] < row["corrected"]["estimate"] < row["missing"]["best"]["estimate"]
    assert (row["apart"]["by"], row["apart"]["n_answers"]) == ({"zoe": 21}, 21)
    notes = " ".join(found["notes"])
    for part in ("5 labels are by guidelines", "20 labels are by people who saw", "8 could not tell", "opened the run"):
        assert part in notes
    with (lab.folder / "l.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, LABEL_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    lab("calibrate", "--labels", "l.csv")
    saved = json.loads((lab.latest / "calibration.json").read_text(encoding="utf-8"))
    run = open_scored(RunFolder(lab.latest))
    direct = calibration_of(run, bound_labels(run, rows))
    assert direct is not None
    assert json.loads(json.dumps(direct.document()["rows"])) == saved["rows"] == found["rows"]
    page = (lab.latest / "calibration.html").read_text(encoding="utf-8")
    assert "12 % of the answers that people were asked about have no label (8 of 68)" in page
    assert "21 labels (zoe 21) of 21 answers were given" in page
    again = lab("report")
    assert again.returncode == 0, again.stderr
    assert json.loads((lab.latest / "calibration.json").read_text(encoding="utf-8")) == saved


def test_labels_with_the_score_in_view_say_nothing_of_agreement(lab: Lab) -> None:
    lab.write("l.jsonl", *(label(i, "yes", blind=False) for i in range(20)))
    said = lab("calibrate", "--labels", "l.jsonl").stdout
    assert "labels alone, on 0 answers" in said
    assert "agree on every answer" not in said


def test_a_run_whose_labelled_answers_have_no_score_ends_and_says_so(program: Program) -> None:
    with Endpoint(lambda _: {"nothing": "asked for"}) as endpoint:
        done = program("dataset=rag", "metric=faithfulness", "limit=3", *judge_arguments(endpoint.url))
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert program.manifest["scores"]["error"] == 3


def test_the_worst_cases_of_a_report_go_by_labels_under_a_title_too(program: Program) -> None:
    for title in ((), ("+metric.faithfulness.title=Says only what its sources say",)):
        done = program(*JUDGED, *title)
        assert done.returncode == 0, done.stderr
        assert "by labels (judge" in done.stdout
        page = (program.latest / "report.html").read_text(encoding="utf-8")
        assert "0.00 by labels (judge" in page


def test_cases_that_failed_are_those_that_people_failed_where_they_labelled(program: Program) -> None:
    said = {"a": "A", "b": "B", "c": "B"}
    rows = [{"id": key, "question": "Q?", "answer": answer, "reference": "A"} for key, answer in said.items()]
    data = program.write("mine.jsonl", *rows)
    words = ("dataset=rag", f"dataset.rag.path={data}", "dataset.rag.fields=null", "metric=exact_match")
    assert program(*words).returncode == 0
    assert [case["id"] for case in json.loads(program("cases", "--failed", "--json").stdout)["cases"]] == ["b", "c"]
    given = ({"case_id": key, "metric": "exact_match", "value": value} for key, value in (("a", False), ("b", True)))
    program("calibrate", "--labels", program.write("labels.jsonl", *given))
    found = json.loads(program("cases", "--failed", "--json").stdout)["cases"]
    assert [case["id"] for case in found] == ["a", "c"]
    (score,) = found[0]["scores"]
    assert (score["score"], score["passed"], score["human"], score["human_passed"]) == (1.0, True, 0.0, False)
    assert "label: 0.000 fails, which counts instead" in program("cases", "--failed").stdout


@pytest.mark.parametrize("damage", ["not labels", None])
def test_damaged_labels_are_noted_and_cases_are_shown_by_their_scores(program: Program, damage: str | None) -> None:
    rows = [{"id": key, "question": "Q?", "answer": key, "reference": "a"} for key in "ab"]
    data = program.write("mine.jsonl", *rows)
    assert program("dataset=rag", f"dataset.rag.path={data}", "dataset.rag.fields=null", "metric=exact_match").stdout
    program("calibrate", "--labels", program.write("l.jsonl", {"case_id": "b", "metric": "exact_match", "value": True}))
    kept = RunFolder(program.latest).labels
    if damage is None:
        kept.unlink()
    else:
        kept.write_text(damage, encoding="utf-8")
    done = program("cases", "--failed", "--json")
    assert done.returncode == 0
    assert [(case["id"], case["scores"][0]["human"]) for case in json.loads(done.stdout)["cases"]] == [("b", None)]
    note, hint = done.stderr.splitlines()
    assert note.startswith("note: labels cannot be read, so the scores count as the run made them: ")
    assert note.endswith("these are not labels of a run" if damage else "the labels of this calibration are gone")
    assert hint == "  hint: remove it, and calibrate again"


def test_no_score_counts_of_an_answer_in_which_people_found_nothing_to_score(program: Program) -> None:
    rows = [{"id": f"c{n}", "question": "Q?", "answer": "B" if n < 4 else "A", "reference": "A"} for n in range(6)]
    data = program.write("mine.jsonl", *rows)
    words = ("dataset=rag", f"dataset.rag.path={data}", "dataset.rag.fields=null", "metric=exact_match")
    assert program(*words).returncode == 0

    def failed() -> list[str]:
        return [case["id"] for case in json.loads(program("cases", "--failed", "--json").stdout)["cases"]]

    assert failed() == ["c0", "c1", "c2", "c3"]
    said = {"c0": "undefined", "c2": "undefined", "c4": True}
    given = ({"case_id": key, "metric": "exact_match", "value": value} for key, value in said.items())
    program("calibrate", "--labels", program.write("labels.jsonl", *given))
    assert failed() == ["c1", "c3"]
    (case,) = json.loads(program("cases", "--id", "c0", "--json").stdout)["cases"]
    (score,) = case["scores"]
    assert (score["score"], score["human"], score["human_undefined"]) == (0.0, None, True)
    assert "label: nothing to score, so no score counts" in program("cases", "--id", "c0").stdout
    run = open_scored(RunFolder(program.latest))
    found = calibration_of(run, bound_labels(run, None))
    assert found is not None
    assert {one.case_id for one in worst_cases(run.scores(), {}, found.people)} == {"c1", "c3"}
    config = MetricConfig(kind="check", description="d")
    first = most_informative(run.scores(), {"exact_match": config}, most=2, people=found.people)
    assert first == {("rag", "c1"), ("rag", "c3")}


def test_no_more_answers_are_advised_than_the_run_has(lab: Lab) -> None:
    evaluate(lab, cases()[:12])
    refused_without = lab("calibrate").stderr
    assert "--sample 12" in refused_without
    lab("calibrate", "--sample", "12")
    fill(lab.folder / "labels.csv")
    said = " ".join(lab("calibrate", "--labels", "labels.csv").stdout.split())
    assert "needs 15, and the run has 12 answers: evaluate more cases" in said
