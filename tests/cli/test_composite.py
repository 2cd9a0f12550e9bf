"""A rule over other metrics' scores, from the command line to the gate, and again with other weights for free."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program, judge_arguments

QUALITY = """\
# @package metric.quality
kind: composite
description: Grade and match in one number.
of: {coherence: 1, exact_match: 3}
threshold: 0.5
"""


def prepared(program: Program, url: str, yaml: str = QUALITY) -> tuple[str, ...]:
    """Four cases of grades 1, 3, 5 and 5; the answers of the first two match the reference."""
    conf = program.folder / "conf" / "metric"
    conf.mkdir(parents=True)
    (conf / "quality.yaml").write_text(yaml, encoding="utf-8")
    rows = [
        {"id": f"c{i}", "question": f"Q{i}?", "answer": f"grade {grade}", "reference": f"grade {grade if i < 2 else 0}"}
        for i, grade in enumerate((1, 3, 5, 5))
    ]
    path = program.write("mine.jsonl", *rows)
    data = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null")
    return (*data, *judge_arguments(url), "metric=[coherence,exact_match,quality]")


def grading(request: Request) -> dict[str, Any]:
    return {"reason": "so it seems", "score": next(n for n in (1, 3, 5) if f"grade {n}" in request.text)}


def scores(program: Program) -> dict[str, float | None]:
    table = pl.read_parquet(program.latest / "scores.parquet").filter(pl.col("metric") == "quality")
    return dict(table.select("case_id", "score").iter_rows())


def row(program: Program) -> dict[str, Any]:
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    return next(one for one in summary["rows"] if one["metric"] == "quality")


def test_a_composite_is_a_metric_like_any_other_and_other_weights_are_free(program: Program) -> None:
    with Endpoint(grading) as endpoint:
        command = prepared(program, endpoint.url)
        checked = json.loads(program("check", *command, "--json").stdout)
        assert (checked["estimate"]["requests"], checked["metrics"]["quality"]) == (4, {"judge": "openai:scripted"})
        done = program(*command, "gate={quality: {mean: '>= 0.9', point: true}}", "+metric.coherence.title=Reads well")
        assert len(endpoint.requests) == 4
        assert done.returncode == 1, done.stderr
        assert scores(program) == {"c0": 0.75, "c1": 0.875, "c2": 0.25, "c3": 0.25}
        assert (row(program)["n_scored"], row(program)["pass_rate"], row(program)["cost_usd"]) == (4, 0.5, 0.0)
        assert "gate FAILED" in done.stdout
        for name in ("report.html", "results.csv", "junit.xml"):
            assert "quality" in (program.latest / name).read_text(encoding="utf-8"), name
        shown = program("cases", "--metric", "quality", "--id", "c2")
        assert "Reads well 1.000, exact match 0.000 (weights 1, 3)" in " ".join(shown.stdout.split())

        again = program("report", "metric.quality.of.exact_match=1")
        assert again.returncode == 0, again.stderr
        assert scores(program) == {"c0": 0.5, "c1": 0.75, "c2": 0.5, "c3": 0.5}
        passing = program("report", "metric.quality.op=all", "metric.exact_match.threshold=1")
        assert passing.returncode == 0, passing.stderr
        assert scores(program) == {"c0": 0.0, "c1": 0.0, "c2": 0.0, "c3": 0.0}
        assert len(endpoint.requests) == 4


def test_a_rule_that_cannot_be_is_refused_after_the_run_too_and_changes_nothing(program: Program) -> None:
    with Endpoint(grading) as endpoint:
        program(*prepared(program, endpoint.url))
    before = (program.latest / "run.json").read_text(encoding="utf-8")
    for change, message in (
        ("metric.quality.of={coherence: 1, faithfulness: 1}", "made of faithfulness, which this run does not score"),
        ("metric.quality.op=median", "op"),
        ("metric.coherence.of=[exact_match]", "of"),
    ):
        done = program("report", change)
        assert done.returncode == 2, change
        assert message in " ".join(done.stderr.split())
        assert (program.latest / "run.json").read_text(encoding="utf-8") == before


def test_an_unreadable_reply_makes_an_error_of_both_and_resume_mends_both(program: Program) -> None:
    broken = True

    def script(request: Request) -> Any:
        return reply("I like it.") if broken and "grade 3" in request.text else grading(request)

    with Endpoint(script) as endpoint:
        done = program(*prepared(program, endpoint.url), "judge.reasks=0")
        assert done.returncode == 3, done.stderr
        assert scores(program)["c1"] is None
        assert (row(program)["n_scored"], row(program)["n_error"]) == (3, 1)
        broken = False
        again = program("resume", "--retry-errors")
        assert again.returncode == 0, again.stderr
        assert len(endpoint.requests) == 5
    assert scores(program) == {"c0": 0.75, "c1": 0.875, "c2": 0.25, "c3": 0.25}


@pytest.mark.parametrize(
    ("rule", "changes", "messages"),
    [
        (
            "of: {coherence: 1, exact_match: 3}",
            ("metric=[exact_match,quality]",),
            ["it is made of coherence, which this run does not score", "'metric=[coherence,exact_match,quality]'"],
        ),
        ("of: {coherense: 1}", (), ["made of coherense", "did you mean 'coherence'?"]),
        ("of: [quality]", (), ["quality is a composite itself"]),
        (
            "of: [coherence, exact_match]\nop: all",
            ("metric.coherence.threshold=null",),
            ["coherence has no threshold, and all is about what passes"],
        ),
        (
            "of: [coherence, exact_match]",
            ("dataset=[rag,retrieval]", "+metric.coherence.datasets=[rag]"),
            ["coherence does not score the dataset retrieval"],
        ),
    ],
)
def test_what_cannot_be_put_together_is_told_before_anything_is_sent(
    program: Program, rule: str, changes: tuple[str, ...], messages: list[str]
) -> None:
    yaml = f"# @package metric.quality\nkind: composite\n{rule}\n"
    with Endpoint(grading) as endpoint:
        done = program(*prepared(program, endpoint.url, yaml), *changes)
        assert done.returncode == 2
        assert not endpoint.requests
    for message in messages:
        assert message in " ".join(done.stderr.split())


def test_parts_of_a_judge_that_is_not_calibrated_give_a_composite_that_neither_passes_nor_fails(
    program: Program,
) -> None:
    done = program("dataset=rag", "metric=[faithfulness,relevance,rag_quality]", "judge=embedded", "limit=3")
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(program.latest / "scores.parquet").filter(pl.col("metric") == "rag_quality")
    assert table["passed"].to_list() == [None] * 3
    assert table["judge"].unique().to_list() == ["embedded"]
