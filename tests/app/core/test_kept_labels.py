"""Labels stay with a run, and follow equal answers into the runs beside it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.app.core.kept_labels import LabelSources, RunLabels, read_kept
from evalflow.app.core.labels import labels_of_run, labels_to_compare
from evalflow.app.core.saved import SavedRun, open_run
from evalflow.cli import run_command
from evalflow.engine.folder import RunFolder

pytestmark = pytest.mark.slow

N = 60
METRIC = """\
# @package metric.likes
kind: recorded
field: likes
scale: boolean
threshold: 0.5
description: What a judge said.
"""
Change = Callable[[int, dict[str, Any]], dict[str, Any]]


def truth(i: int) -> bool:
    return random.Random(f"truth {i}").random() < 0.6


def case(i: int) -> dict[str, Any]:
    old, new = (truth(i) != (random.Random(f"{judge} {i}").random() < off) for judge, off in (("a", 0.3), ("b", 0.1)))
    return {"id": f"c{i}", "question": f"Q{i}?", "answer": f"A{i}", "likes": old, "other": new, "tags": ["t"]}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of which people labelled a random half, to be copied."""
    folder = tmp_path_factory.mktemp("labelled")
    with chdir(folder):
        add_metric()
        label(evaluate())
    return folder


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    add_metric()


@pytest.fixture
def first(labelled: Path, tmp_path: Path) -> SavedRun:
    """The labelled run, in a folder of the test."""
    shutil.copytree(labelled, tmp_path, symlinks=True, dirs_exist_ok=True)
    return latest()


def add_metric() -> None:
    folder = Path("conf/metric")
    folder.mkdir(parents=True)
    (folder / "likes.yaml").write_text(METRIC, encoding="utf-8")


def evaluate(*more: str, n: int = N, change: Change = lambda _, row: row) -> SavedRun:
    """A run of recorded answers and of a judge's recorded scores."""
    start(*more, n=n, change=change)
    return latest()


def start(*more: str, n: int = N, change: Change = lambda _, row: row) -> None:
    path = Path("answers.jsonl")
    path.write_text("".join(json.dumps(change(i, case(i))) + "\n" for i in range(n)), encoding="utf-8")
    data = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=null")
    assert run_command([*data, "metric=likes", *more]) == 0


def latest() -> SavedRun:
    return open_run(RunFolder(Path("outputs/latest").resolve()))


OTHER = "metric.likes.field=other"


def write_labels(numbers: range | list[int], by: str = "ana", **fields: Any) -> str:
    rows = [
        {"case_id": f"c{i}", "metric": "likes", "value": "yes" if truth(i) else "no", "by": by, **fields}
        for i in numbers
    ]
    Path("l.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return "l.jsonl"


def label(run: SavedRun, numbers: range | list[int] | None = None, **fields: Any) -> None:
    drawn = sorted(random.Random(1).sample(range(N), 30)) if numbers is None else numbers
    assert run_command(["calibrate", str(run.folder.path), "--labels", write_labels(drawn, **fields)]) == 0


def calibration(run: SavedRun) -> dict[str, Any]:
    return json.loads(run.folder.calibration.read_text(encoding="utf-8"))


def people(labels: RunLabels | None) -> set[str]:
    return set() if labels is None else set(labels.frame["by"])


def summary(run: SavedRun) -> dict[str, Any]:
    frame = pl.read_parquet(run.folder.path / "summary.parquet").filter(metric="likes", statistic="mean")
    return frame.filter(pl.col("tag").is_null()).row(0, named=True)


def test_another_judge_of_the_same_answers_is_measured_with_the_labels_that_exist(
    first: SavedRun, capsys: pytest.CaptureFixture[str]
):
    capsys.readouterr()
    second = evaluate(OTHER)
    told = f"30 labels of run {first.manifest.run_id}, of equal answers"
    assert calibration(second)["labels"] == told
    said = " ".join(capsys.readouterr().out.split())
    assert f"30 of 60 answers that are labelled in run {first.manifest.run_id}, of equal answers." in said
    [row], [old] = calibration(second)["rows"], calibration(first)["rows"]
    assert (row["n_labels"], row["uncorrected"]) == (30, "")
    assert row["human_mean"] == old["human_mean"]
    assert row["agreement"]["kappa"]["value"] > old["agreement"]["kappa"]["value"]
    found = summary(second)
    assert (found["n_labels"], found["uncorrected"]) == (30, None)
    assert found["raw_value"] is not None


def test_they_come_from_a_run_that_was_labelled_later_and_stay_when_it_is_deleted():
    first, second = evaluate(), evaluate(OTHER)
    assert labels_of_run(second) is None
    label(first)
    found = labels_of_run(second)
    assert found is not None
    assert found.frame["human"].count() == 30
    assert not second.folder.labels.exists()
    assert run_command(["calibrate", str(second.folder.path)]) == 0  # without naming labels
    shutil.rmtree(first.folder.path)
    assert run_command(["calibrate", str(second.folder.path)]) == 0
    kept = labels_of_run(second)
    assert kept is not None
    assert kept.source == found.source
    third = evaluate(OTHER)
    assert labels_of_run(third) is None  # labels follow from the run that people labelled, and not from hand to hand


def test_labels_of_own_answers_come_before_those_that_follow(first: SavedRun):
    second = evaluate(OTHER)
    label(second, range(0, N, 3), by="ben")
    assert calibration(second)["labels"] == "l.jsonl"
    assert people(read_kept(second.folder)) == {"ben"}
    assert run_command(["calibrate", str(second.folder.path)]) == 0
    assert people(read_kept(second.folder)) == {"ben"}


def test_few_changed_answers_are_left_out_and_the_others_correct(first: SavedRun):
    drawn = sorted(random.Random(1).sample(range(N), 30))
    second = evaluate(OTHER, change=lambda i, row: {**row, "answer": "new"} if i == drawn[0] else row)
    [row] = calibration(second)["rows"]
    assert (row["n_labels"], row["uncorrected"]) == (29, "")
    assert any("1 labelled answer changed" in note for note in calibration(second)["notes"])


def test_labels_of_the_answers_that_did_not_change_serve_agreement_only(first: SavedRun):
    second = evaluate(OTHER, change=lambda i, row: row | ({"answer": "x"} if i % 3 else {}))
    document = calibration(second)
    [row] = document["rows"]
    assert 0 < row["n_labels"] < 15
    assert row["uncorrected"].endswith("are the same here")
    assert row["corrected"]["estimate"] is None
    assert row["agreement"]["accuracy"]["value"] is not None
    assert summary(second)["uncorrected"] == row["uncorrected"]
    assert summary(second)["raw_value"] is None
    labels = labels_to_compare([first, second], None)
    assert "are the same here" in labels.unusable_in(first, second)["rag", "likes"]


def test_labels_of_a_part_of_the_cases_are_no_sample_of_all():
    first = evaluate(n=40)
    label(first, range(0, 40, 2))
    second = evaluate(OTHER)
    [row] = calibration(second)["rows"]
    assert row["uncorrected"].endswith("lacks 20 of the 60 cases here")


@pytest.mark.parametrize("field", ["question", "reference"])
def test_an_equal_answer_to_another_case_has_no_labels(first: SavedRun, field: str):
    second = evaluate(OTHER, change=lambda _, row: {**row, field: "Another?"})
    assert labels_of_run(second) is None


def test_labels_that_two_runs_were_given_count_together(first: SavedRun):
    second = evaluate()
    drawn = sorted(random.Random(2).sample(range(N), 30))
    label(second, drawn, by="ben")
    third = evaluate(OTHER)
    assert people(read_kept(third.folder)) == {"ana", "ben"}
    [row] = calibration(third)["rows"]
    assert row["n_labels"] == len({*drawn, *random.Random(1).sample(range(N), 30)})
    assert [one["run"] for one in calibration(third)["followed"]] == [second.manifest.run_id, first.manifest.run_id]
    label(second, drawn, by="ana")  # a person's newest label of an answer
    assert run_command(["calibrate", str(third.folder.path)]) == 0
    found = read_kept(third.folder)
    assert found is not None
    assert found.frame.select("case_id", "by").is_unique().all()


def test_equal_answers_have_one_truth_in_a_comparison():
    first = evaluate()
    label(first, range(0, N, 2))
    second = evaluate()
    label(second, range(0, N, 2), by="ben")
    labels = labels_to_compare([first, second], None)
    one, other = (labels.of(run) for run in (first, second))
    assert one is not None
    assert other is not None
    assert one.sort("case_id", "by").equals(other.sort("case_id", "by"))
    assert one["case_id"].n_unique() == N / 2
    assert set(one["by"]) == {"ana", "ben"}


@pytest.mark.usefixtures("first")
def test_calibrating_again_repeats_no_note():
    second = evaluate(OTHER)
    notes = calibration(second)["notes"]
    assert run_command(["calibrate", str(second.folder.path)]) == 0
    assert calibration(second)["notes"] == notes


def test_labels_that_were_not_drawn_at_random_correct_nothing_where_they_follow():
    first = evaluate()
    disliked = [i for i in range(N) if not case(i)["likes"]]
    label(first, disliked[:20])
    assert calibration(first)["rows"][0]["uncorrected"]
    second = evaluate("metric.likes.field=third", change=lambda i, row: {**row, "third": bool(i % 2)})
    [row] = calibration(second)["rows"]
    assert row["uncorrected"].startswith(f"in run {first.manifest.run_id}, ")


def test_labels_of_more_cases_are_a_sample_of_fewer(first: SavedRun):
    second = evaluate(OTHER, n=40)
    [row] = calibration(second)["rows"]
    assert row["n_labels"] == sum(i < 40 for i in random.Random(1).sample(range(N), 30))
    assert row["uncorrected"] == ""


@pytest.mark.parametrize(
    "question",
    [
        "metric.likes.scale=percentage",
        "+metric.likes.direction=lower_is_better",
        "+dataset.rag.name=elsewhere",
    ],
)
def test_another_question_has_no_labels(first: SavedRun, question: str):
    change = (lambda _, row: {**row, "likes": 50 * row["likes"]}) if "scale" in question else (lambda _, row: row)
    second = evaluate(question, change=change)
    assert not second.folder.calibration.exists()
    assert labels_of_run(second) is None


def test_runs_of_another_folder_have_none_unless_they_are_compared(first: SavedRun):
    second = evaluate(OTHER)
    elsewhere = Path("elsewhere/runs")
    elsewhere.mkdir(parents=True)
    shutil.move(second.folder.path, elsewhere)
    moved = open_run(RunFolder((elsewhere / second.folder.path.name).resolve()))
    for name in ("labels.jsonl", "calibration.json"):
        (moved.folder.path / name).unlink()
    assert labels_of_run(moved) is None
    found = labels_to_compare([first, moved], None)
    labels = found.of(moved)
    assert labels is not None
    assert labels["human"].count() == 30
    assert not found.unusable_in(moved)


def test_labels_follow_from_and_into_the_runs_of_a_sweep():
    start("metric.likes.threshold=0.5,0.6", "-m")
    jobs = sorted(path.parent for path in Path("outputs/latest").resolve().glob("*/run.json"))
    first = open_run(RunFolder(jobs[0]))
    label(first)
    second = evaluate(OTHER)
    assert calibration(second)["rows"][0]["n_labels"] == 30
    found = labels_of_run(open_run(RunFolder(jobs[1])))
    assert found is not None
    assert found.frame["human"].count() == 30


def test_links_and_damaged_files_are_no_sources(first: SavedRun, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path, text = first.folder.labels, first.folder.labels.read_text(encoding="utf-8")
    second = evaluate(OTHER)
    second.folder.labels.unlink()
    second.folder.calibration.unlink()
    for damaged in ("{", text[: len(text) // 2]):
        path.write_text(damaged, encoding="utf-8")
        assert labels_of_run(second) is None
        assert str(path) in caplog.text
        caplog.clear()
    path.unlink()
    (tmp_path / "outside.jsonl").write_text(text, encoding="utf-8")
    path.symlink_to(tmp_path / "outside.jsonl")
    assert LabelSources().of(second.folder.path) == []
