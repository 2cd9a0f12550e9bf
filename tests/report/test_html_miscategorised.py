"""miscategorised.csv: which cases are in it, and what is said of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from evalflow.report.html import write_reports


def cell(number: int, truth: Any, prediction: Any, **fields: Any) -> dict[str, Any]:
    value = json.dumps({"truth": truth, "prediction": prediction, **fields.pop("stated", {})})
    score = float(truth == prediction)
    return {"case_id": f"case-{number}", "metric": "route", "judge": None, "score": score, "value": value, **fields}


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "miscategorised.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_cases_in_a_wrong_class_and_no_others(make_run: Any, make_case: Any, tmp_path: Path) -> None:
    cells = [
        cell(0, "a", "a"),
        cell(1, "a", "=b", stated={"confidence": 0.9}),
        cell(2, 1, 2, stated={"confidence": None}),
        cell(3, "a", "b", status="error", score=None, value=None, error="no label"),
        {"case_id": "case-3", "metric": "other", "score": 0.0},
    ]
    cases = [make_case(i, tags=("x", "y > z")) for i in range(4)]
    write_reports(tmp_path, make_run(cases, cells, categorising=["route"]))
    first, second = table(tmp_path)
    assert first == {
        "dataset": "rag",
        "case_id": "case-1",
        "target": "recorded",
        "target_repeat": "0",
        "metric": "route",
        "question": "What does rule 1 say?",
        "expected": "a",
        "actual": "'=b",
        "confidence": "0.9",
        "tags": "x; y > z",
    }
    assert (second["expected"], second["actual"], second["confidence"]) == ("1", "2", "")


def test_where_all_are_right_it_has_its_columns_only(make_run: Any, make_case: Any, tmp_path: Path) -> None:
    write_reports(tmp_path, make_run([make_case(0)], [cell(0, "a", "a")], categorising=["route"]))
    assert table(tmp_path) == []
    assert (tmp_path / "miscategorised.csv").read_text("utf-8").startswith("dataset,case_id,")


def test_a_run_without_several_classes_has_none(make_run: Any, make_case: Any, tmp_path: Path) -> None:
    write_reports(tmp_path, make_run([make_case(0)], [{"case_id": "case-0", "score": 1.0}]))
    assert not (tmp_path / "miscategorised.csv").exists()
