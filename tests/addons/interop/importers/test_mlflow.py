"""MLflow's datasets, tables of evaluations and traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.addons.interop.importers.conftest import counts
from tests.addons.interop.importers.test_platforms import cases, read

RECORD: dict[str, Any] = {
    "inputs": {"question": "When?", "lang": "en"},
    "outputs": {"answer": "At nine.", "source": "p.7"},
    "expectations": {"expected_response": "At 9.", "expected_facts": ["nine", "daily"], "guidelines": ["Be brief."]},
    "tags": {"team": "pool"},
    "dataset_record_id": "dr-1",
    "source_type": "HUMAN",
}
PERSON = {
    "assessment_name": "good",
    "source": {"source_type": "HUMAN", "source_id": "ana"},
    "feedback": {"value": False},
    "rationale": "Too short.",
}
JUDGE = {"assessment_name": "safe", "source": {"source_type": "LLM_JUDGE"}, "feedback": {"value": "yes"}}
EXPECTED = {"assessment_name": "expected_response", "expectation": {"value": "At 9."}}


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_records_keep_all_expectations(tmp_path: Path, form: str) -> None:
    assert cases(read(tmp_path, "mlflow", [RECORD], form)) == [
        {
            "id": "dr-1",
            "question": "When?",
            "answer": "At nine.",
            "reference": "At 9.",
            "vars": {
                "question": "When?",
                "lang": "en",
                "expected_facts": ["nine", "daily"],
                "guidelines": ["Be brief."],
                "tags": {"team": "pool"},
                "source_type": "HUMAN",
            },
            "metadata": {"output": RECORD["outputs"]},
        }
    ]


def test_expectations_without_a_reference_are_variables(tmp_path: Path) -> None:
    record = {"inputs": {"messages": [{"role": "user", "content": "Q"}]}, "expectations": {"expected_facts": ["x"]}}
    [case] = cases(read(tmp_path, "mlflow", [record]))
    assert (case["messages"], case["vars"]) == ([{"role": "user", "content": "Q"}], {"expected_facts": ["x"]})
    assert "reference" not in case


def test_results_have_scores_and_what_people_said(tmp_path: Path) -> None:
    row = {
        "trace_id": "t",
        "request": {"question": "Q"},
        "response": "A",
        "safe/value": "yes",
        "safe/rationale": "ok",
        "words/value": 3,
        "tone/value": "warm",
        "expected_response/value": "R",
        "execution_duration": 500,
        "assessments": [PERSON, JUDGE, EXPECTED],
        "spans": [{"name": "root"}],
    }
    found = read(tmp_path, "mlflow", [row, row | {"trace_id": "u", "words/value": None}])
    first, second = cases(found)
    assert (first["mlflow"], second["mlflow"]) == ({"safe": 1.0, "words": 3.0}, {"safe": 1.0})
    assert (first["reference"], first["latency_s"], first["vars"]["safe/rationale"]) == ("At 9.", 0.5, "ok")
    assert labels_of(found)[0] == {
        "case_id": "t",
        "metric": "good",
        "value": False,
        "by": "ana",
        "comment": "Too short.",
    }
    assert counts(found)["scores"] == (6, 3, 3)
    assert any(one.what == "column spans" for one in found.ledger.left_out)


def labels_of(found: Any) -> list[dict[str, Any]]:
    return cases(found, "old_labels_waiting.jsonl")


def test_tables_of_evaluate_are_split_by_columns(tmp_path: Path) -> None:
    table = {
        "columns": ["inputs", "ground_truth", "outputs", "toxicity/v1/score", "latency"],
        "data": [["What?", "R", "A", 0.25, 0.5], ["Who?", "R", "B", None, 0.25]],
    }
    found = read(tmp_path, "mlflow", table)
    assert [case.get("mlflow") for case in cases(found)] == [{"toxicity": 0.25}, None]
    assert [case["latency_s"] for case in cases(found)] == [0.5, 0.25]
    assert counts(found)["scores"] == (2, 1, 1)


def test_a_trace_has_what_its_outermost_span_says(tmp_path: Path) -> None:
    said = {"mlflow.spanInputs": json.dumps({"question": "When?"}), "mlflow.spanOutputs": json.dumps("At nine.")}
    spans = [{"span_id": "2", "parent_span_id": "1"}, {"span_id": "1", "parent_span_id": None, "attributes": said}]
    info = {"trace_id": "tr", "execution_duration_ms": 1500, "assessments": [PERSON, JUDGE, EXPECTED]}
    for content in ({"info": info, "data": {"spans": spans}}, [{"info": info, "data": {"spans": spans}}]):
        found = read(tmp_path, "mlflow", content)
        [case] = cases(found)
        assert {name: case[name] for name in ("id", "question", "answer", "reference", "latency_s", "mlflow")} == {
            "id": "tr",
            "question": "When?",
            "answer": "At nine.",
            "reference": "At 9.",
            "latency_s": 1.5,
            "mlflow": {"safe": 1.0},
        }
    assert labels_of(found)[0]["by"] == "ana"
