"""Certificates: found by runs that they hold for, stale for others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.certificates import Certificate, key_of, save_certificate
from evalflow.engine.folder import RunFolder
from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program

RUN = ("dataset=rag", "metric=faithfulness", "limit=3")
CERTIFICATES = ".evalflow/certificates"


@pytest.fixture
def certificate(program: Program) -> Certificate:
    """Of the embedded judge on faithfulness, after a run of it."""
    assert program(*RUN).returncode == 0
    folder = RunFolder(program.latest)
    manifest = folder.read_manifest()
    return Certificate(
        judge=manifest.metrics["faithfulness"].judge or "",
        metric="faithfulness",
        dataset="rag",
        target="recorded",
        key=key_of(manifest, "faithfulness", folder),
        run_id=manifest.run_id,
        issued_at="2026-11-20T10:00:00+00:00",
        n_labels=60,
        n_people=2,
        judge_mean=0.7,
        human_mean=0.6,
        bias={"value": 0.1, "ci_low": 0.02, "ci_high": 0.18},
        agreement={"kappa": {"value": 0.61, "ci_low": 0.4, "ci_high": 0.8}},
        alt_test=None,
        consistency={"repeats": 3, "same": 0.95, "sd": 0.01},
        replies={"judged": 60, "unparsable": 0.05, "reasked": 0.1},
    )


def test_a_run_that_matches_shows_it(program: Program, certificate: Certificate) -> None:
    folder = save_certificate(certificate, program.folder / CERTIFICATES).parent
    assert len(list(folder.iterdir())) == 1
    save_certificate(replace(certificate, n_labels=61, issued_at="2026-11-21T10:00:00+00:00"), folder)
    done = program(*RUN, "metric.faithfulness.threshold=0.5")
    assert "calibrated for faithfulness: kappa 0.61 (0.40 to 0.80), bias +0.100, 61 labels on rag" in done.stdout
    assert program.manifest["metrics"]["faithfulness"]["certificate"]["stale"] == []


def test_it_is_stale_once_the_metric_means_something_else(program: Program, certificate: Certificate) -> None:
    save_certificate(certificate, program.folder / CERTIFICATES)
    done = program(*RUN, "metric.faithfulness.version=9")
    assert "uncalibrated for faithfulness (changed since it was labelled: the metric)" in done.stdout
    (program.folder / "prompts" / "faithfulness").mkdir(parents=True)
    packaged = Path(__file__).parents[2] / "prompts" / "faithfulness" / "claims.jinja"
    own = program.folder / "prompts" / "faithfulness" / "claims.jinja"
    own.write_text(packaged.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    assert "was labelled: its prompts)" in program(*RUN).stdout


def test_a_report_written_again_finds_it(program: Program, certificate: Certificate) -> None:
    assert ", uncalibrated" in (program.latest / "summary.md").read_text(encoding="utf-8")
    save_certificate(certificate, program.folder / CERTIFICATES)
    assert program("report").returncode == 0
    assert "calibrated for faithfulness" in (program.latest / "report.html").read_text(encoding="utf-8")


def test_they_are_listed(program: Program, certificate: Certificate) -> None:
    assert "evalflow calibrate" in program("list", "certificates").stdout
    save_certificate(certificate, program.folder / CERTIFICATES)
    words = " ".join(program("list", "certificates").stdout.split())
    assert "faithfulness" in words
    assert "kappa 0.61" in words
    assert f"labels of recorded in run {certificate.run_id}" in words
    [told] = json.loads(program("list", "certificates", "--json").stdout)
    assert Certificate(**told) == certificate


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 9}', '{"schema": 1, "judge": "a"}'])
def test_what_is_none_is_named_and_left_out(program: Program, certificate: Certificate, text: str) -> None:
    path = save_certificate(certificate, program.folder / CERTIFICATES)
    path.write_text(text, encoding="utf-8")
    done = program(*RUN)
    assert done.returncode == 0
    assert ", uncalibrated" in done.stdout
    assert path.name in done.stderr + (program.latest / "evalflow.log").read_text(encoding="utf-8")


def test_each_calibrated_run_has_its_own(program: Program) -> None:
    cases = ({"id": f"c{i}", "answer": f"It is {i % 7}.", "contexts": [f"We say: it is {i % 5}."]} for i in range(24))
    path = program.write("a.jsonl", *({"question": "Q?", **case} for case in cases))
    words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=null"]
    words += ["metric=faithfulness"]
    issued: dict[str, str] = {}
    for n in (16, 20):
        assert program(*words).returncode == 0
        values = (
            {"case_id": f"c{i}", "metric": "faithfulness", "value": (i % 7 == i % 5) / 1, "by": f"p{n}"}
            for i in range(n)
        )
        program.write("l.jsonl", *values)
        done = program("calibrate", "--labels", "l.jsonl", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        [issued[document["run_id"]]] = document["certificates"]
    assert len(set(issued.values())) == 2
    for run, path in issued.items():
        assert json.loads((program.folder / path).read_text(encoding="utf-8"))["run_id"] == run
        own = RunFolder(program.folder / "outputs/runs" / run).read_manifest().metrics["faithfulness"].certificate
        assert own is not None
        assert own["run_id"] == run
    said = " ".join(program(*words).stdout.split())
    assert f"on rag, of run {list(issued)[1]}" in said
    assert len(list((program.folder / CERTIFICATES).glob("*.json"))) == 2  # labels followed, and say nothing new


def test_it_is_stale_once_the_judge_is_asked_otherwise(program: Program) -> None:
    def verdict(request: Request) -> dict[str, Any]:
        return {"reason": "so it seems", "score": int("Answer 1" in request.text)}

    folder = program.folder / "conf" / "metric"
    folder.mkdir(parents=True)
    (folder / "polite.yaml").write_text(
        "# @package metric.polite\nkind: rubric\ndescription: Whether the answer is polite.\n"
        "needs: [question, answer]\nprompt: rubric/grade.jinja\nscale: {type: boolean}\n",
        encoding="utf-8",
    )
    path = program.write("a.jsonl", *({"id": f"c{i}", "question": "Q?", "answer": f"Answer {i}."} for i in range(24)))
    program.write(
        "l.jsonl",
        *({"case_id": f"c{i}", "metric": "polite", "value": str(i).startswith("1"), "by": "a"} for i in range(20)),
    )
    with Endpoint(verdict) as endpoint:
        words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.group=null"]
        words += ["metric=polite", "judge=vllm", "judge.model=m", f"judge.base_url={endpoint.url}"]
        assert ", uncalibrated" in program(*words).stdout
        assert "calibrated for polite: kappa" in " ".join(program("calibrate", "--labels", "l.jsonl").stdout.split())
        assert "calibrated for polite: kappa" in " ".join(program(*words).stdout.split())
        for change in ("judge.temperature=0.7", "judge.model=other"):  # equal answers, so the labels follow
            assert "calibrated for polite: kappa" in " ".join(program(*words, change).stdout.split())
        program.write("a.jsonl", *({"id": f"c{i}", "question": "Q?", "answer": f"Other {i}."} for i in range(24)))
        said = " ".join(program(*words, "judge.temperature=0.9").stdout.split())
        assert "uncalibrated for polite (changed since it was labelled: the judge's settings)" in said
        said = program(*words, "judge.model=third").stdout
        assert ", uncalibrated" in said
        assert "changed since it was labelled" not in said
