"""A scripted judge's run against golden files: what people and programs read must not change by accident.

After a wanted change, write them anew with EVALFLOW_GOLDEN=write and look at the difference.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, malformed, numbered_results
from tests.cli.conftest import Program, judge_arguments

GOLDEN = Path(__file__).parents[1] / "golden"
WRITE = os.environ.get("EVALFLOW_GOLDEN") == "write"

CASES = (
    {
        "id": "all-good",
        "question": "When does the library open?",
        "answer": "It opens at nine. Entry is free.",
        "reference": "It opens at nine.",
        "contexts": ["Doors open at nine. Entry is free."],
        "group": "hours",
        "tags": ["Topic > Library"],
    },
    {
        "id": "half-good",
        "question": "When does the pool open?",
        "answer": "It opens at ten. It is heated.",
        "reference": "It opens at ten.",
        "contexts": ["The pool opens at ten."],
        "group": "hours",
        "tags": ["Topic > Pool"],
    },
    {
        "id": "no-context",
        "question": "What does a ticket cost?",
        "answer": "Two euros.",
        "reference": "Two euros.",
        "contexts": [],
        "tags": ["Topic > Pool"],
    },
    {
        "id": "no-claims",
        "question": "Thank you!",
        "answer": "You are welcome.",
        "reference": "You are welcome.",
        "contexts": ["Doors open at nine."],
    },
    {"id": "no-answer", "question": "And on Sundays?", "contexts": ["Closed on Sundays."], "reference": "Closed."},
    {
        "id": "unreadable",
        "question": "Is there a café?",
        "answer": "=1+1, there is.",
        "reference": "Yes.",
        "contexts": ["There is a café."],
    },
)
CLAIMS = {
    "It opens at nine.": [("It opens at nine.", "supported"), ("Entry is free.", "supported")],
    "It opens at ten.": [("It opens at ten.", "supported"), ("The pool is heated.", "not_in_context")],
    "Two euros.": [("A ticket costs two euros.", "not_in_context")],
    "You are welcome.": [],
}


def judge(request: Request) -> Any:
    """Claims and verdicts as above, grades by the length of the question; one answer it never gets right."""
    if "1+1" in request.text:
        return malformed()
    if request.schema_name == "Grade":
        return {"reason": "it reads well", "score": 5 if "library" in request.text else 3}
    if request.schema_name == "Claims":
        return {"claims": [claim for claim, _ in next(v for k, v in CLAIMS.items() if k in request.text)]}
    rows = next(rows for rows in CLAIMS.values() if rows and f"1. {rows[0][0]}" in request.text)
    return numbered_results({"reason": f"see: {claim}", "verdict": verdict} for claim, verdict in rows)


@pytest.fixture
def finished(program: Program) -> Path:
    path = program.write("mine.jsonl", *CASES)
    with Endpoint(judge) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=[faithfulness,coherence,exact_match]",
            *judge_arguments(endpoint.url),
            "max_error_rate=0.2",
            "gate={faithfulness: {mean: '>= 0.7', point: true}, exact_match: {pass_rate: '>= 0.9', point: true}}",
        )
    assert done.returncode == 1, done.stderr
    return program.latest


def compare(name: str, text: str) -> None:
    golden = GOLDEN / name
    if WRITE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), f"{name} differs from its golden file"


def without(text: str, columns: set[str]) -> str:
    """A CSV without the columns that time and place decide."""
    rows = list(csv.DictReader(io.StringIO(text)))
    out = io.StringIO()
    writer = csv.DictWriter(out, [c for c in rows[0] if c not in columns], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def test_the_files_of_a_run(finished: Path) -> None:
    read = {name: (finished / name).read_text(encoding="utf-8") for name in ("results.csv", "summary.csv", "junit.xml")}
    compare("results.csv", without(read["results.csv"], set()))
    times = {"latency_p50", "latency_p95"}
    compare("summary.csv", without(read["summary.csv"], times))
    run_id = json.loads((finished / "run.json").read_text(encoding="utf-8"))["run_id"]
    compare("junit.xml", re.sub(r'time="[\d.]+"', 'time="T"', read["junit.xml"].replace(run_id, "RUN")))
    compare("cases.jsonl", (finished / "cases.jsonl").read_text(encoding="utf-8"))


def test_the_scores_of_a_run(finished: Path) -> None:
    import polars as pl

    decided_elsewhere = ["run_id", "latency_s", "finished_at"]
    rows = pl.read_parquet(finished / "scores.parquet").drop(decided_elsewhere).to_dicts()
    compare("scores.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
