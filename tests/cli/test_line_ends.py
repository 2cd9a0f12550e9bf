"""Files whose lines end as on Windows mean the same: the judge gets the same requests, and the scores are the same."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments

METRIC = """# @package metric.fair
kind: rubric
description: |
  How good the answer is.
  In two lines.
needs: [question, answer]
prompt: desk/fair.jinja
scale: {type: likert, min: 1, max: 5, anchors: {1: wrong, 5: right}}
"""
PROMPT = """{% include 'desk/rules.jinja' %}
Grade the answer from 1 to 5.

{{ question | fenced("question") }}
{{ answer | fenced("answer") }}
"""
DATA = {
    "csv": "id,question,answer\na,How long?,28 days.\nb,How much?,Nothing.\n",
    "tsv": "id\tquestion\tanswer\na\tHow long?\t28 days.\nb\tHow much?\tNothing.\n",
    "jsonl": '{"id": "a", "question": "How long?", "answer": "28 days."}\n'
    '{"id": "b", "question": "How much?", "answer": "Nothing."}\n',
    "json": '[\n{"id": "a", "question": "How long?", "answer": "28 days."},\n'
    '{"id": "b", "question": "How much?", "answer": "Nothing."}\n]\n',
}


def grades(request: Request) -> dict[str, Any]:
    return {"reason": "as asked", "score": 5 if "28 days" in request.text else 2}


@pytest.mark.parametrize("kind", DATA)
def test_line_ends_change_nothing(kind: str, program: Program) -> None:
    files = {
        "conf/metric/fair.yaml": METRIC,
        "conf/dataset/desk.yaml": f"# @package dataset.desk\npath: cases.{kind}\n",
        "prompts/desk/fair.jinja": PROMPT,
        "prompts/desk/rules.jinja": "Be strict.\nBe fair.\n",
        f"cases.{kind}": DATA[kind],
    }
    found = []
    with Endpoint(grades) as endpoint:
        for end in (b"\n", b"\r\n"):
            for name, text in files.items():
                path = program.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode().replace(b"\n", end))
            before = len(endpoint.requests)
            done = program("dataset=desk", "metric=fair", "cache.mode=off", *judge_arguments(endpoint.url))
            assert done.returncode == 0, done.stderr
            scores = pl.read_parquet(program.latest / "scores.parquet").sort("case_id")
            found.append((sorted(one.text for one in endpoint.requests[before:]), scores["score"].to_list()))
    assert found[0] == found[1]
    assert found[0][1] == [1.0, 0.25]
    done = program("compare", *(str(path) for path in sorted((program.folder / "outputs" / "runs").iterdir())))
    assert [line for line in done.stdout.splitlines() if "not the same" in line or "has another" in line] == [
        "changed: the files of desk are not the same"
    ]
