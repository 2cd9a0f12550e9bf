"""A small run to export: a right answer, a wrong one, one without a reference, and one that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.cli.conftest import Program

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ROWS: Sequence[dict[str, Any]] = (
    {
        "id": "right",
        "question": "Which-7Q?",
        "answer": "Paris-7Q",
        "reference": "Paris-7Q",
        "metadata": {"trace_id": TRACE, "span_id": SPAN, "response_id": "chatcmpl-1"},
    },
    {"id": "wrong", "question": "Which-7Q?", "answer": "Lyon-7Q", "reference": "Paris-7Q"},
    {"id": "lacking", "question": "Which-7Q?", "answer": "Paris-7Q"},
    {"id": "failed", "question": "Which-7Q?", "failure": "HTTP 500 of the bot-7Q", "reference": "Paris-7Q"},
)


def prepare(program: Program, rows: Sequence[dict[str, Any]] = ROWS) -> None:
    program.write("mine.jsonl", *rows)
    conf = program.folder / "conf" / "dataset" / "mine.yaml"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text("# @package dataset.mine\npath: mine.jsonl\n", encoding="utf-8")


@pytest.fixture
def ran(program: Program) -> Program:
    prepare(program)
    done = program("dataset=mine", "metric=exact_match", "max_error_rate=1")
    assert done.returncode == 0, done.stderr
    return program
