"""Exports of Langfuse, LangSmith, Braintrust and Phoenix as these tools write them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop.importers.exports import read_export
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.platforms import PLATFORMS
from evalflow.errors import UserError
from tests.addons.interop.importers.conftest import counts

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


def cases(found: ImportedConfig, file: str = "old.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data[file].read_text(encoding="utf-8").splitlines()]


def labels(found: ImportedConfig) -> list[dict[str, Any]]:
    return cases(found, "old_labels.jsonl")


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_langfuse_traces_have_scores_as_columns(tmp_path: Path, form: str) -> None:
    trace = {
        "id": "t1",
        "name": "bot",
        "sessionId": "s",
        "tags": ["a"],
        "input": {"messages": CHAT, "lang": "en"},
        "output": {"role": "assistant", "content": "At 9."},
        "metadata": {"v": 2, "api_key": "sk-secret-value"},
        "latency": 1.5,
        "totalCost": 0.01,
        "comments": [],
        "helpful": [0.5],
        "tone": ["warm"],
        "many": [1, 0],
    }
    found = read(tmp_path, "langfuse", [trace], form)
    assert cases(found) == [
        {
            "id": "t1",
            "messages": CHAT,
            "answer": "At 9.",
            "group": "s",
            "tags": ["a"],
            "vars": {"lang": "en", "name": "bot", "comments": [], "tone": ["warm"], "many": [1, 0]},
            "metadata": {"v": 2, "api_key": "***"},
            "latency_s": 1.5,
            "cost_usd": 0.01,
            "langfuse": {"helpful": 0.5},
        }
    ]
    assert counts(found) == {"cases": (1, 1, 0), "scores": (3, 1, 2), "secrets": (1, 0, 1)}
    assert found.metrics["old_helpful"]["field"] == "langfuse.helpful"
    assert found.experiments["old"].generate is False
    assert {one.what for one in found.ledger.left_out} == {"the value of api_key", "score tone", "score many"}


def test_langfuse_items_and_single_traces(tmp_path: Path) -> None:
    items = [
        {"id": "i", "input": '{"question": "When?", "lang": "en"}', "expectedOutput": '"At 9."', "status": "ACTIVE"},
        {"id": "j", "input": "Old?", "expectedOutput": "x", "status": "ARCHIVED"},
    ]
    found = read(tmp_path, "langfuse", {"data": items, "meta": {"page": 1}})
    [case] = cases(found)
    assert (case["question"], case["vars"], case["reference"]) == ("When?", {**LIST, "status": "ACTIVE"}, "At 9.")
    assert (found.experiments["old"].generate, counts(found)["cases"]) == (True, (2, 1, 1))
    scores = [
        {"name": "ok", "value": 1, "dataType": "BOOLEAN"},
        {"name": "kind", "value": 0, "stringValue": "good", "dataType": "CATEGORICAL"},
    ]
    found = read(tmp_path, "langfuse", {"id": "t", "input": "Q", "output": "A", "scores": scores, "observations": []})
    assert cases(found)[0]["langfuse"] == {"ok": 1.0}
    assert counts(found)["scores"] == (2, 1, 1)


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_langsmith_examples_have_references(tmp_path: Path, form: str) -> None:
    rows = [{"id": "e", "inputs": LIST, "outputs": {"answer": "At 9."}, "metadata": {"split": "test"}}]
    found = read(tmp_path, "langsmith", rows, form)
    assert cases(found) == [
        {
            "id": "e",
            "question": "When?",
            "vars": LIST,
            "reference": "At 9.",
            "metadata": {"split": "test"},
        }
    ]
    assert found.experiments["old"].generate is True


def test_langsmith_runs_have_answers_and_feedback(tmp_path: Path) -> None:
    messages = [[{"lc": 1, "kwargs": {"type": "human", "content": "When?"}}]]
    root = {
        "id": "r",
        "run_type": "chain",
        "inputs": {"messages": messages},
        "reference_example_id": "e",
        "outputs": {"messages": [{"type": "human", "content": "When?"}, {"type": "ai", "content": "At 9."}]},
        "start_time": "2026-01-01T00:00:00",
        "end_time": "2026-01-01T00:00:02",
        "feedback_stats": {"right": {"n": 1, "avg": 1.0}, "note": {"n": 1, "avg": None}},
    }
    failed = {"run_type": "chain", "inputs": {"q": "Who?"}, "outputs": None, "error": "no key", "trace_id": "t"}
    found = read(tmp_path, "langsmith", [root, failed, {**root, "parent_run_id": "r"}], "jsonl")
    first, second = cases(found)
    assert (first["messages"], first["answer"]) == ([{"role": "user", "content": "When?"}], "At 9.")
    assert (first["group"], first["latency_s"], first["langsmith"]) == ("e", 2.0, {"right": 1.0})
    assert (second["question"], second["failure"]) == ("Who?", "no key")
    assert counts(found) == {"cases": (3, 2, 1), "scores": (4, 1, 3)}
    row = {"inputs.question": "Q", "outputs.answer": "A", "reference.answer": "R", "feedback.right": 0.5}
    found = read(tmp_path, "langsmith", [row, {**row, "feedback.right": ""}], "csv")
    assert cases(found)[0] | {"id": ""} == {
        "id": "",
        "question": "Q",
        "vars": {"question": "Q"},
        "answer": "A",
        "reference": "R",
        "langsmith": {"right": 0.5},
    }
    assert counts(found)["scores"] == (1, 1, 0)


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_braintrust_experiments_are_root_spans(tmp_path: Path, form: str) -> None:
    root = {
        "id": "a",
        "span_id": "s",
        "root_span_id": "s",
        "input": "When?",
        "output": "At nine.",
        "expected": "At 9.",
        "scores": {"Factuality": 0.6, "Skipped": None},
        "metadata": {"model": "m"},
        "metrics": {"start": 10.0, "end": 12.5},
        "tags": ["x"],
    }
    found = read(tmp_path, "braintrust", [root, {**root, "span_id": "t", "scores": {}}], form)
    assert cases(found) == [
        {
            "id": "a",
            "question": "When?",
            "answer": "At nine.",
            "reference": "At 9.",
            "latency_s": 2.5,
            "tags": ["x"],
            "metadata": {"model": "m"},
            "braintrust": {"factuality": 0.6},
            "vars": {name: root[name] for name in ("span_id", "root_span_id", "scores", "metrics")},
        }
    ]
    assert counts(found) == {"cases": (2, 1, 1), "scores": (2, 1, 1)}
    found = read(tmp_path, "braintrust", {"events": [{"input": "Q", "expected": {"a": 1, "b": 2}}], "cursor": None})
    assert cases(found)[0]["reference"] == '{"a":1,"b":2}'


def test_phoenix_examples_and_experiments(tmp_path: Path) -> None:
    example = {"id": "x", "input": {"question": "Q"}, "output": {"answer": "R"}, "metadata": {}}
    found = read(tmp_path, "phoenix", {"data": {"dataset_id": "d", "examples": [example]}})
    assert (cases(found)[0]["reference"], found.experiments["old"].generate) == ("R", True)
    found = read(tmp_path, "phoenix", [{"example_id": "x", "input_question": "Q", "output_answer": "R"}], "csv")
    assert (cases(found)[0]["question"], cases(found)[0]["reference"]) == ("Q", "R")
    run = {
        "example_id": "x",
        "repetition_number": 1,
        "input": {"question": "Q"},
        "reference_output": {"answer": "R"},
        "output": "A",
        "error": None,
        "latency_ms": 250,
    }
    noted = [{"name": "exact", "score": 0.0, "label": "no"}, {"name": "kind", "score": None, "label": "odd"}]
    columns = {
        "annotation_exact_score": 0.0,
        "annotation_exact_label": "no",
        "annotation_kind_label": "odd",
        "annotation_kind_score": None,
    }
    for rows, form in ([{**run, "annotations": noted}], "json"), ([{**run, **columns}], "csv"):
        found = read(tmp_path, "phoenix", rows, form)
        [case] = cases(found)
        assert (case["answer"], case["reference"], case["latency_s"], case["group"]) == ("A", "R", 0.25, "x")
        assert case["phoenix"] == {"exact": 0.0}
        assert counts(found) == {"cases": (1, 1, 0), "scores": (2, 1, 1)}


def test_people_s_scores_are_labels(tmp_path: Path) -> None:
    judged = {"name": "helpful", "value": 1, "dataType": "NUMERIC", "source": "EVAL"}
    by_ana = {**judged, "value": 0, "source": "ANNOTATION", "authorUserId": "ana", "comment": "rude", "timestamp": "t"}
    by_ben = {**by_ana, "name": "tone", "stringValue": "warm", "dataType": "CATEGORICAL", "authorUserId": None}
    found = read(tmp_path, "langfuse", [{"id": "t1", "input": "Q", "output": "A", "scores": [judged, by_ana, by_ben]}])
    assert cases(found)[0]["langfuse"] == {"helpful": 1.0}
    assert labels(found) == [
        {"case_id": "t1", "metric": "old_helpful", "value": 0, "by": "ana", "comment": "rude", "at": "t"},
    ]
    assert cases(found, "old_labels_waiting.jsonl") == [
        {"case_id": "t1", "metric": "tone", "value": "warm", "comment": "rude", "at": "t"},
    ]
    assert counts(found)["labels"] == (2, 2, 0)
    assert any("need a metric of their name: tone" in note for note in found.notes)


def test_feedback_and_annotations_say_whether_a_person_gave_them(tmp_path: Path) -> None:
    app = {"key": "right", "score": 1, "feedback_source": {"type": "app", "user_name": "ana"}, "created_at": "t"}
    run = {"id": "r", "run_type": "chain", "inputs": {"q": "Q"}, "outputs": {"a": "A"}}
    found = read(tmp_path, "langsmith", [{**run, "feedback": [app, {**app, "feedback_source": {"type": "model"}}]}])
    assert labels(found) == [{"case_id": "r", "metric": "old_right", "value": 1, "by": "ana", "at": "t"}]
    human = {"name": "right", "annotator_kind": "HUMAN", "result": {"label": "yes", "explanation": "e"}, "user_id": "u"}
    row = {"example_id": "e", "input": "Q", "reference_output": "R", "output": "A", "annotations": [human]}
    found = read(tmp_path, "phoenix", [row])
    waiting = [{"case_id": "e", "metric": "right", "value": "yes", "by": "u", "comment": "e"}]
    assert cases(found, "old_labels_waiting.jsonl") == waiting


def test_scores_of_another_file_are_joined(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    traces = [{"id": name, "input": "Q", "output": "A"} for name in ("a", "b")]
    score = {"name": "helpful", "value": 0.5, "dataType": "NUMERIC", "source": "API"}
    scores = [{**score, "traceId": "b"}, {**score, "traceId": "gone"}]
    (folder / "traces.json").write_text(json.dumps(traces))
    (folder / "scores.jsonl").write_text("".join(json.dumps(one) + "\n" for one in scores))
    found = read_export(PLATFORMS["langfuse"], ImportSource(folder, "old", Path(mkdtemp(dir=tmp_path))))
    found.ledger.expect_balanced()
    assert [case.get("langfuse") for case in cases(found)] == [None, {"helpful": 0.5}]
    assert counts(found) == {"cases": (2, 2, 0), "scores": (2, 1, 1)}
    (folder / "more.json").write_text(json.dumps(traces))
    with pytest.raises(UserError, match="2 files of rows and 1 of scores"):
        read_export(PLATFORMS["langfuse"], ImportSource(folder, "old", Path(mkdtemp(dir=tmp_path))))
