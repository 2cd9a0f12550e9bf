"""`calibrate` of a sweep: which judge agrees with people, and what its mean comes to by other labels."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from evalflow.cli import run_command
from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

N = 80
RIGHT = {"good": 0.97, "fair": 0.95, "blind": 0.5}
METRIC = """\
# @package metric.polite
kind: rubric
description: Whether the answer is polite.
needs: [question, answer]
prompt: rubric/grade.jinja
scale: {type: boolean}
"""


def truth(number: int) -> bool:
    return random.Random(f"truth {number}").random() < 0.6


def judges(request: Request) -> Any:
    number = next(i for i in range(N) if f"Answer {i}." in request.text)
    right = random.Random(f"{request.model} {number}").random() < RIGHT[request.model]
    return {"reason": "so it seems", "score": truth(number) == right}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A sweep over three judges of answers that people labelled in part."""
    program = Program(tmp_path_factory.mktemp("swept"))
    (program.folder / "conf" / "metric").mkdir(parents=True)
    (program.folder / "conf" / "metric" / "polite.yaml").write_text(METRIC, encoding="utf-8")
    path = program.write("a.jsonl", *({"id": f"c{i}", "question": "Q?", "answer": f"Answer {i}."} for i in range(N)))
    program.write(
        "l.jsonl", *({"case_id": f"c{i}", "metric": "polite", "value": truth(i), "by": "ana"} for i in range(60))
    )
    with Endpoint(judges) as endpoint:
        words = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=null")
        judge = ("judge=vllm", f"judge.model={','.join(RIGHT)}", f"judge.base_url={endpoint.url}")
        price = ("judge.price={input_per_million: 1, output_per_million: 2}",)
        done = program("-m", *words, *judge, *price, "metric=polite")
    assert done.returncode == 0, done.stderr
    return program


def calibrated(swept: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.chdir(swept.folder)
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command(["calibrate", "--labels", "l.jsonl", *words]) == 0
    return capsys.readouterr().out


def test_labels_that_choose_a_judge_do_not_correct_it(
    swept: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(calibrated(swept, monkeypatch, capsys, "--json"))
    [board] = document["choice"]
    assert (document["split"], board["measure"]) == (True, "kappa")
    assert [row["judge"].partition(":")[2] for row in board["ranking"]][2] == "blind"
    assert [row["verdict"] for row in board["ranking"]] == ["best", "cannot_tell", "worse"]
    assert all(row["cost_usd"] > 0 for row in board["ranking"])
    others = {row["corrected"]["n_labels"] for row in board["ranking"]}
    assert others == {60 - board["n"]}
    assert 20 <= board["n"] <= 40
    assert {row["rests_on"] for row in document["rows"]} == {"the half of the labels that did not choose the judge"}
    everyone = sum(map(truth, range(N))) / N
    assert all(row["corrected"]["ci_low"] < everyone < row["corrected"]["ci_high"] for row in board["ranking"])
    page = (swept.latest / "report.html").read_text(encoding="utf-8")
    assert "Agreement with labels" in page
    assert "Cost against agreement: polite" in page
    kept = swept.latest / "calibration.json"
    before = kept.read_bytes()
    (swept.folder / "l.jsonl").rename(swept.folder / "gone.jsonl")
    kept.write_text(json.dumps(json.loads(before) | {"choice": []}), encoding="utf-8")
    assert run_command(["report"]) == 0
    (swept.folder / "gone.jsonl").rename(swept.folder / "l.jsonl")
    assert "Agreement with labels" in (swept.latest / "report.html").read_text(encoding="utf-8")
    assert json.loads(kept.read_bytes()) == json.loads(before)
    job = next(path for path in sorted(Path(swept.latest).iterdir()) if path.is_dir())
    assert f"by {60 - board['n']} of 80 answers" in (job / "summary.md").read_text(encoding="utf-8")


def test_all_labels_may_do_both_and_that_is_said(
    swept: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = " ".join(calibrated(swept, monkeypatch, capsys, "--no-split").split())
    assert "Cohen's kappa on 60 labelled answers" in said
    assert "by 60 labels" in said
    assert "which flatters the judge that won" in said
    assert said.count("calibrated for polite: kappa") + said.count("no agreement shown") == 3


METRICS = ("polite", "kind")


@pytest.fixture(scope="module")
def metrics_swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over two metrics, each of which a judge's recorded verdicts answer, of two data sets in turn."""
    program = Program(tmp_path_factory.mktemp("metrics"))
    (program.folder / "conf" / "metric").mkdir(parents=True)
    for name in METRICS:
        text = f"# @package metric.{name}\nkind: recorded\ndescription: D.\nfield: {name}\nscale: {{type: boolean}}\n"
        (program.folder / "conf" / "metric" / f"{name}.yaml").write_text(text, encoding="utf-8")
    rows = [
        {
            "id": f"c{i}",
            "question": "Q?",
            "answer": f"Answer {i}.",
            "polite": truth(i) == (i % 7 > 0),
            "kind": i % 2 == 0,
        }
        for i in range(N)
    ]
    path = program.write("a.jsonl", *rows)
    words = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=null")
    done = program("-m", *words, f"metric={','.join(METRICS)}")
    assert done.returncode == 0, done.stderr
    return program.folder


def of(number: int, metric: str) -> dict[str, Any]:
    return {"case_id": f"c{number}", "metric": metric, "value": truth(number), "by": "ana"}


def test_one_labels_file_fits_every_run_of_a_sweep_over_metrics(
    metrics_swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    swept = Program(metrics_swept)
    # Known to the runs alone, so that no file tells that the other metric exists.
    for name in METRICS:
        (metrics_swept / "conf" / "metric" / f"{name}.yaml").rename(metrics_swept / f"{name}.yaml")
    try:
        swept.write("l.jsonl", *(of(i, metric) for i in range(30) for metric in METRICS))
        said = calibrated(swept, monkeypatch, capsys)
        assert "note: 30 labels are of kind, which this run did not score" in said
        assert "note: 30 labels are of polite, which this run did not score" in said
        assert said.count("going by 30 of 80 answers") == 2
        assert "there is no judge to choose" in said
        job = str(swept.latest.resolve() / "0_metric=polite")
        assert run_command(["calibrate", job, "--labels", "l.jsonl"]) == 0
        assert "note: 30 labels are of kind" in capsys.readouterr().out
        swept.write("wrong.jsonl", *(of(i, "plite") for i in range(3)))
        assert run_command(["calibrate", "--labels", "wrong.jsonl"]) == 2
        assert "the run has no metric 'plite'" in capsys.readouterr().err
        swept.write("some.jsonl", *(of(i, "polite") for i in range(30)))
        assert run_command(["calibrate", "--labels", "some.jsonl"]) == 0
        assert "note: no label is of an answer that run 1_metric=kind scored" in capsys.readouterr().out
    finally:
        for name in METRICS:
            (metrics_swept / f"{name}.yaml").rename(metrics_swept / "conf" / "metric" / f"{name}.yaml")


def test_judges_with_few_labels_in_common_are_not_ranked(
    swept: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(swept.folder)
    swept.write("few.jsonl", *(of(i, "polite") for i in range(20)))
    assert run_command(["calibrate", "--labels", "few.jsonl", "--json"]) in (0, 2)
    document = json.loads(capsys.readouterr().out)
    assert document["choice"] == []
    assert "labelled answers of the half of the labels that chooses were scored by all" in document["notes"][-1]


def test_a_sweep_that_was_killed_is_calibrated_as_far_as_it_came(
    swept: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "killed"
    shutil.copytree(swept.latest.resolve(), folder)
    manifest = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps(manifest | {"jobs": [], "status": "running"}), encoding="utf-8")
    last = sorted(path.parent.name for path in folder.glob("*/run.json"))[-1]
    (folder / last / "scores.parquet").unlink()
    monkeypatch.chdir(swept.folder)
    assert run_command(["calibrate", str(folder), "--labels", "l.jsonl", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert f"run {last} has no scores yet, and is left out" in document["notes"]
    assert len(document["choice"][0]["ranking"]) == 2
    for path in folder.glob("*/scores.parquet"):
        path.unlink()
    assert run_command(["calibrate", str(folder), "--labels", "l.jsonl"]) == 2
    assert "no run of this sweep has scores yet" in capsys.readouterr().err
