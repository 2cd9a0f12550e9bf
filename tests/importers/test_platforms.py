"""Exports of Langfuse, LangSmith, Braintrust and Phoenix as these tools write them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.importers.exports import read_export
from evalflow.importers.files import ImportedConfig, ImportSource
from evalflow.importers.platforms import PLATFORMS

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "When?"}]
LIST = {"question": "When?", "lang": "en"}


def read(folder: Path, tool: str, rows: Any, form: str = "json") -> ImportedConfig:
    path = folder / f"export.{form}"
    if form == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            columns = list(dict.fromkeys(column for row in rows for column in row))
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            for row in rows:
                cells = {name: json.dumps(one) if isinstance(one, dict | list) else one for name, one in row.items()}
                writer.writerow(cells)
    else:
        lines = rows if form == "jsonl" else [rows]
        path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    found = read_export(PLATFORMS[tool], ImportSource(path, "old", Path(mkdtemp(dir=folder))))
    found.ledger.expect_balanced()
    return found


def cases(found: ImportedConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_langfuse_traces_have_scores_as_columns(tmp_path: Path, form: str) -> None:
    trace = {"id": "t1", "name": "bot", "sessionId": "s", "tags": ["a"], "input": {"messages": CHAT, "lang": "en"},
             "output": {"role": "assistant", "content": "At 9."}, "metadata": {"v": 2, "api_key": "sk-secret-value"},
             "latency": 1.5, "totalCost": 0.01, "comments": [], "helpful": [0.5], "tone": ["warm"],
             "many": [1, 0]}  # fmt: skip
    found = read(tmp_path, "langfuse", [trace], form)
    assert cases(found) == [{
        "id": "1", "messages": CHAT, "vars": {"lang": "en"}, "answer": "At 9.", "group": "s", "tags": ["a"],
        "metadata": {"v": 2, "api_key": "***", "langfuse_id": "t1"}, "latency_s": 1.5, "cost_usd": 0.01,
        "langfuse": {"helpful": 0.5},
    }]  # fmt: skip
    assert found.ledger.counts() == {"cases": (1, 1, 0), "scores": (3, 1, 2), "secrets": (1, 0, 1)}
    assert found.metrics["old_helpful"]["field"] == "langfuse.helpful"
    assert found.experiments["old"]["generate"] is False
    assert any("name" in note for note in found.notes)


def test_langfuse_items_and_single_traces(tmp_path: Path) -> None:
    items = [
        {"id": "i", "input": '{"question": "When?", "lang": "en"}', "expectedOutput": '"At 9."', "status": "ACTIVE"},
        {"id": "j", "input": "Old?", "expectedOutput": "x", "status": "ARCHIVED"},
    ]
    found = read(tmp_path, "langfuse", {"data": items, "meta": {"page": 1}})
    [case] = cases(found)
    assert (case["question"], case["vars"], case["reference"]) == ("When?", LIST, "At 9.")
    assert (found.experiments["old"]["generate"], found.ledger.counts()["cases"]) == (True, (2, 1, 1))
    scores = [{"name": "ok", "value": 1, "dataType": "BOOLEAN"},
              {"name": "kind", "value": 0, "stringValue": "good", "dataType": "CATEGORICAL"}]  # fmt: skip
    found = read(tmp_path, "langfuse", {"id": "t", "input": "Q", "output": "A", "scores": scores, "observations": []})
    assert cases(found)[0]["langfuse"] == {"ok": 1.0}
    assert found.ledger.counts()["scores"] == (2, 1, 1)


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_langsmith_examples_have_references(tmp_path: Path, form: str) -> None:
    rows = [{"id": "e", "inputs": LIST, "outputs": {"answer": "At 9."}, "metadata": {"split": "test"}}]
    found = read(tmp_path, "langsmith", rows, form)
    assert cases(found) == [{
        "id": "1", "question": "When?", "vars": LIST, "reference": "At 9.",
        "metadata": {"split": "test", "langsmith_id": "e"},
    }]  # fmt: skip
    assert found.experiments["old"]["generate"] is True


def test_langsmith_runs_have_answers_and_feedback(tmp_path: Path) -> None:
    messages = [[{"lc": 1, "kwargs": {"type": "human", "content": "When?"}}]]
    root = {"id": "r", "run_type": "chain", "inputs": {"messages": messages}, "reference_example_id": "e",
            "outputs": {"messages": [{"type": "human", "content": "When?"}, {"type": "ai", "content": "At 9."}]},
            "start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:02",
            "feedback_stats": {"right": {"n": 1, "avg": 1.0}, "note": {"n": 1, "avg": None}}}  # fmt: skip
    failed = {"run_type": "chain", "inputs": {"q": "Who?"}, "outputs": None, "error": "no key", "trace_id": "t"}
    found = read(tmp_path, "langsmith", [root, failed, {**root, "parent_run_id": "r"}], "jsonl")
    first, second = cases(found)
    assert (first["messages"], first["answer"]) == ([{"role": "user", "content": "When?"}], "At 9.")
    assert (first["group"], first["latency_s"], first["langsmith"]) == ("e", 2.0, {"right": 1.0})
    assert (second["question"], second["failure"]) == ("Who?", "no key")
    assert found.ledger.counts() == {"cases": (3, 2, 1), "scores": (4, 1, 3)}
    row = {"inputs.question": "Q", "outputs.answer": "A", "reference.answer": "R", "feedback.right": 0.5}
    found = read(tmp_path, "langsmith", [row, {**row, "feedback.right": ""}], "csv")
    assert cases(found)[0] | {"id": ""} == {
        "id": "", "question": "Q", "vars": {"question": "Q"}, "answer": "A", "reference": "R",
        "langsmith": {"right": 0.5},
    }  # fmt: skip
    assert found.ledger.counts()["scores"] == (1, 1, 0)


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_braintrust_experiments_are_root_spans(tmp_path: Path, form: str) -> None:
    root = {"id": "a", "span_id": "s", "root_span_id": "s", "input": "When?", "output": "At nine.",
            "expected": "At 9.", "scores": {"Factuality": 0.6, "Skipped": None}, "metadata": {"model": "m"},
            "metrics": {"start": 10.0, "end": 12.5}, "tags": ["x"]}  # fmt: skip
    found = read(tmp_path, "braintrust", [root, {**root, "span_id": "t", "scores": {}}], form)
    assert cases(found) == [{
        "id": "1", "question": "When?", "answer": "At nine.", "reference": "At 9.", "latency_s": 2.5, "tags": ["x"],
        "metadata": {"model": "m", "braintrust_id": "a"}, "braintrust": {"factuality": 0.6},
    }]  # fmt: skip
    assert found.ledger.counts() == {"cases": (2, 1, 1), "scores": (2, 1, 1)}
    found = read(tmp_path, "braintrust", {"events": [{"input": "Q", "expected": {"a": 1, "b": 2}}], "cursor": None})
    assert cases(found)[0]["reference"] == '{"a":1,"b":2}'


def test_phoenix_examples_and_experiments(tmp_path: Path) -> None:
    example = {"id": "x", "input": {"question": "Q"}, "output": {"answer": "R"}, "metadata": {}}
    found = read(tmp_path, "phoenix", {"data": {"dataset_id": "d", "examples": [example]}})
    assert (cases(found)[0]["reference"], found.experiments["old"]["generate"]) == ("R", True)
    found = read(tmp_path, "phoenix", [{"example_id": "x", "input_question": "Q", "output_answer": "R"}], "csv")
    assert (cases(found)[0]["question"], cases(found)[0]["reference"]) == ("Q", "R")
    run = {"example_id": "x", "repetition_number": 1, "input": {"question": "Q"}, "reference_output": {"answer": "R"},
           "output": "A", "error": None, "latency_ms": 250}  # fmt: skip
    noted = [{"name": "exact", "score": 0.0, "label": "no"}, {"name": "kind", "score": None, "label": "odd"}]
    columns = {"annotation_exact_score": 0.0, "annotation_exact_label": "no", "annotation_kind_label": "odd",
               "annotation_kind_score": None}  # fmt: skip
    for rows, form in ([{**run, "annotations": noted}], "json"), ([{**run, **columns}], "csv"):
        found = read(tmp_path, "phoenix", rows, form)
        [case] = cases(found)
        assert (case["answer"], case["reference"], case["latency_s"], case["group"]) == ("A", "R", 0.25, "x")
        assert case["phoenix"] == {"exact": 0.0}
        assert found.ledger.counts() == {"cases": (1, 1, 0), "scores": (2, 1, 1)}
