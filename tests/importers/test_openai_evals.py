"""Archives of OpenAI's evals API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.errors import UserError
from evalflow.importers.files import ImportedConfig, ImportSource
from evalflow.importers.openai_evals import read_openai_evals

from .conftest import counts

ANSWER = "{{sample.output_text}}"
EVAL: dict[str, Any] = {
    "object": "eval", "name": "Tickets", "data_source_config": {"type": "custom"},
    "testing_criteria": [
        {"type": "string_check", "name": "exact", "input": ANSWER, "reference": "{{item.label}}", "operation": "eq"},
        {"type": "text_similarity", "name": "near", "evaluation_metric": "cosine", "pass_threshold": 0.7,
         "input": ANSWER, "reference": "{{ item.label }}"},
        {"type": "score_model", "name": "Tone", "model": "gpt-4.1", "range": [1, 5], "pass_threshold": 4,
         "input": [{"role": "user", "content": "{{item.text}}: {{sample.output_text}}"}]},
        {"type": "label_model", "name": "ok", "model": "gpt-4.1", "labels": ["good", "bad"],
         "passing_labels": ["good"], "input": [{"role": "user", "content": {"text": ANSWER}}]},
        {"type": "python", "name": "code", "source": "..."},
        {"type": "string_check", "name": "odd", "input": "{{item.x}}", "reference": "a", "operation": "eq"},
    ],
}  # fmt: skip
ITEM = {"text": "My printer", "label": "Hardware"}
ROW = {"item": ITEM, "sample": {"output_text": "Hardware"}}
OUTPUT = {
    "datasource_item": ITEM, "status": "pass",
    "sample": {"input": [{"role": "user", "content": "Classify"}], "output": [{"role": "assistant", "content": "A"}]},
    "results": [{"name": "exact-0f8fad5b-d9cb-469f-a165-70867728950e", "score": 1.0, "passed": True}],
}  # fmt: skip


def read(path: Path) -> ImportedConfig:
    scratch = path.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    found = read_openai_evals(ImportSource(path, "old", scratch))
    found.ledger.expect_balanced()
    return found


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def rows(found: ImportedConfig, name: str = "old") -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data[f"{name}.jsonl"].read_text(encoding="utf-8").splitlines()]


def test_an_archive_has_graders_items_and_scores(tmp_path: Path) -> None:
    runs = [
        {"run": {"name": "a"}, "output_items": [OUTPUT]},
        {"run": {"name": "b"}, "output_items": {"data": [OUTPUT]}},
    ]
    found = read(written(tmp_path / "x.json", {"eval": EVAL, "rows": [ROW], "runs": runs}))
    assert counts(found)["graders"] == (6, 4, 2)
    [case] = rows(found, "old_a")
    assert (case["messages"], case["answer"], case["vars"]) == ([{"role": "user", "content": "Classify"}], "A", ITEM)
    assert case["openai"] == {"exact": 1.0}
    assert case["checks"] == [
        {"identifier": "exact", "params": {"op": "equals", "value": "Hardware", "normalize": None}},
        {"identifier": "near", "params": {"reference": "Hardware", "threshold": 0.7}},
    ]
    tone = found.metrics["old_tone"]
    assert (tone["scale"], tone["threshold"]) == ({"type": "likert", "min": 1, "max": 5}, 0.75)
    assert found.prompts[tone["prompt"]] == '{{ vars.text | fenced("text") }}: {{ answer | fenced("answer") }}'
    assert found.metrics["old_ok"]["scale"] == {"type": "label", "values": {"good": 1.0, "bad": 0.0}}
    assert found.metrics["old_exact_recorded"]["field"] == "openai.exact"
    assert found.judges["old_judge"]["model"] == "gpt-4.1"
    assert {"override /judge": "old_judge"} in found.experiments["old_b"]["defaults"]


def test_a_folder_joins_the_eval_with_its_items(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    written(tmp_path / "archive" / "eval.json", EVAL)
    written(tmp_path / "archive" / "data.jsonl", json.dumps(ROW) + "\n" + json.dumps({"item": {"text": "x"}}))
    found = read(tmp_path / "archive")
    assert counts(found)["checks"] == (4, 2, 2)
    assert counts(found)["cases"] == (2, 2, 0)
    assert found.experiments["old"]["generate"] == "missing"


def test_output_items_are_answers_and_scores(tmp_path: Path) -> None:
    failed = {"datasource_item": ITEM, "sample": {"error": {"message": "overloaded"}}, "results": []}
    found = read(written(tmp_path / "x.json", {"object": "list", "data": [OUTPUT, failed]}))
    assert [case.get("answer", case.get("failure")) for case in rows(found)] == ["A", "overloaded"]
    assert found.unjudged == {"old"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", EVAL, "it has no items, only how they are graded"),
        ("x.json", {"a": 1}, "it is no archive"),
        ("x.json", "", "the file is empty"),
        ("x.json", json.dumps({"data": [OUTPUT]})[:-30], "broken JSON"),
        ("x.jsonl", json.dumps({"a": 1}), "it is no data of an eval"),
        ("x.jsonl", json.dumps(ROW) + '\n{"item"', "x.jsonl:2: broken JSON"),
        ("x.yaml", "a: 1", "no YAML of the registry"),
        ("x.json", {"data": [1]}, "it is no object"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, name: str, content: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(written(tmp_path / name, content))
