"""`calibrate` of a sweep: which judge agrees with people, and what its mean comes to by other labels."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from evalflow.cli import run_command
from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program

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
    assert "Who agrees with people" in page
    assert "Cost against agreement: polite" in page
    before = (swept.latest / "calibration.json").read_bytes()
    assert run_command(["report"]) == 0
    assert "Who agrees with people" in (swept.latest / "report.html").read_text(encoding="utf-8")
    assert (swept.latest / "calibration.json").read_bytes() == before
    job = next(path for path in sorted(Path(swept.latest).iterdir()) if path.is_dir())
    assert f"by {60 - board['n']} of 80 answers" in (job / "summary.md").read_text(encoding="utf-8")


def test_all_labels_may_do_both_and_that_is_said(
    swept: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = " ".join(calibrated(swept, monkeypatch, capsys, "--no-split").split())
    assert "Cohen's kappa on 60 labelled answers" in said
    assert "by 60 labels" in said
    assert "which flatters the judge that won" in said
    assert said.count("is now calibrated for polite") == 3
