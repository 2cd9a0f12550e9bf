"""The page on GOV.UK Chat Evaluation: its files and its commands."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.app.core.options import options
from evalflow.testing import Endpoint, Request
from evalflow.testing.replies import Answering
from tests.docs.test_readme import ROOT, blocks, run

ADDRESS = "http://127.0.0.1:8000/ask"
PAGE = (ROOT / "docs" / "govuk.md").read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Says(Answering):
    """The system of the page, which says what was recorded of it, in the columns of its task."""

    said: Mapping[str, Any]

    def body(self, request: Request) -> Mapping[str, Any]:
        return {column: value for column, value in self.said.items() if column != "id"}


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


RAKE = """#!{python}
import json, os, sys

task, question = sys.argv[3].partition("[")[0], os.environ["INPUT"]
chunk = {{"exact_path": "/a", "title": "A", "heading_hierarchy": ["H"], "description": "D", "html_content": "<p>C</p>"}}
print(json.dumps({{
    "evaluation:generate_jailbreak_guardrail_response": {{
        "jailbreak_guardrails_status": "fail" if "ignore" in question.lower() else "pass",
    }},
    "evaluation:generate_rag_structured_answer_response": {{"message": question, "sources": [{{"chunk": chunk}}]}},
}}[task]))
"""


def _write_bundle(folder: Path) -> None:
    """A `bundle exec rake TASK` that answers as GOV.UK Chat's tasks do."""
    program = folder / "bin" / "bundle"
    program.parent.mkdir()
    program.write_text(RAKE.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in re.findall(r"^`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = "".join(blocks("bash", PAGE)).splitlines()
    assert len(commands) == 18
    _write_bundle(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    rows = {row["id"]: row for file in (ROOT / "data").glob("*.jsonl") for row in _rows(file) if "id" in row}
    asked = 0
    with Endpoint(lambda request: Says(said=rows[request.body["id"]])) as system, Endpoint() as judge:
        at = f" judge.base_url={judge.url} judge.api_key_env=null"
        for command in commands:
            words = command.replace(ADDRESS, f"{system.url}/chat/completions")
            done = run(words + (at if "govuk_rag_answers" in command else ""), tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            if "generate=true" in command:
                answers = _rows(tmp_path / "outputs" / "latest" / "answers.jsonl")
                failed = [answer["case_id"] for answer in answers if answer["status"] != "answered"]
                assert failed == (["topic-21"] if "topic_tagger" in command else []), command
                asked += len(answers) if ADDRESS in command else 0
        assert system.count == asked > 150
        models = {request.body["model"] for request in judge.requests}
    assert models == {"gpt-4o", "gpt-4o-mini"}
    scores = pl.read_parquet(tmp_path / "outputs" / "latest" / "scores.parquet")
    assert sorted(zip(scores["metric"], scores["repeat"], strict=True)) == [
        (metric, repeat) for metric in ("coherence", "factual_precision", "faithfulness") for repeat in (0, 1)
    ]
    assert set(scores["threshold"]) == {0.8, 1.0}


def test_the_page_names_what_ships() -> None:
    names = {option.name for option in options(None, "metric")} | {option.name for option in options(None, "dataset")}
    rows = re.findall(r"^\| \w+ \| .*\|$", PAGE.partition("## With")[0], re.MULTILINE)
    said = {name for row in rows[1:] for name in re.findall(r"`(\w+)`", row)}
    assert len(said) > 15
    assert said <= names
