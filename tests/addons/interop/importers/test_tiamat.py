"""Tiamat's files, and what is wrong with some of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.interop.importers.tiamat import read_test
from evalflow.addons.interop.importing import tiamat_results
from evalflow.errors import UserError
from evalflow.values.jsonvalues import as_list, as_map

DATASET: dict[str, Any] = {
    "name": "Example Dataset",
    "config": {"example_outputs": True},
    "data": [{"input": "What is a stack?", "output": "A stack is..."}, {"input": "Just tell me", "output": "No"}],
}
METRIC: dict[str, Any] = {
    "name": "Example Metric",
    "config": {"needs_history": False, "needs_example_output": True},
    "metric_description": "How right the output is",
    "score": {"type": "scale", "description": "1 is all wrong, 5 is all right", "min": 1, "max": 5},
}


class Files:
    """A folder of Tiamat files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, value: Any) -> str:
        (self.folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return name

    def test(self, datasets: list[Any], metrics: list[Any]) -> Path:
        names = {
            "datasets": [self.write(f"d{i}.json", value) for i, value in enumerate(datasets)],
            "metrics": [self.write(f"m{i}.json", value) for i, value in enumerate(metrics)],
        }
        return self.folder / self.write("test.json", names)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def problems(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_test(path)
    return str(caught.value)


def test_a_metric_says_what_its_file_says(files: Files) -> None:
    found = read_test(files.test([DATASET], [METRIC]))
    assert list(found.datasets) == ["example_dataset"]
    assert found.datasets["example_dataset"]["name"] == "Example Dataset"
    metric = found.metrics["example_metric"]
    assert metric["name"] == "Example Metric"
    assert metric["description"] == "How right the output is\n\n1 is all wrong, 5 is all right"
    assert metric["scale"] == {"type": "likert", "min": 1, "max": 5}
    assert metric["needs"] == ["question", "answer", "reference"]
    assert metric["datasets"] is None
    assert not found.has_answers


@pytest.mark.parametrize("kind", ["boolean", "percentage"])
def test_the_other_scores_need_nothing_more(files: Files, kind: str) -> None:
    found = read_test(files.test([DATASET], [{**METRIC, "score": {"type": kind, "description": "yes"}}]))
    assert found.metrics["example_metric"]["scale"] == {"type": kind}


def test_a_metric_that_needs_history_makes_the_dataset_one_conversation(files: Files) -> None:
    history = {**METRIC, "config": {"needs_history": True, "needs_example_output": False}}
    found = read_test(files.test([DATASET], [history]))
    [table] = found.datasets.values()
    assert (table["name"], table["conversation"]) == ("Example Dataset", True)
    assert found.metrics["example_metric"]["needs"] == ["messages", "answer"]


def test_beside_other_metrics_each_has_its_own_form_of_the_dataset(files: Files) -> None:
    history = {**METRIC, "name": "Memory", "config": {"needs_history": True, "needs_example_output": True}}
    found = read_test(files.test([DATASET], [METRIC, history]))
    assert [(table["name"], table["conversation"]) for table in found.datasets.values()] == [
        ("Example Dataset", False),
        ("Example Dataset (as one conversation)", True),
    ]
    assert found.metrics["example_metric"]["datasets"] == ["Example Dataset"]
    assert found.metrics["memory"]["datasets"] == ["Example Dataset (as one conversation)"]
    assert found.metrics["memory"]["needs"] == ["messages", "answer", "vars.outputs"]


def test_recorded_outputs_are_the_answers(files: Files) -> None:
    rows = [{**row, "actual_output": "A list."} for row in DATASET["data"]]
    found = read_test(files.test([{**DATASET, "data": rows}], [METRIC]))
    assert found.datasets["example_dataset"]["fields"] == {"answer": "actual_output"}
    assert found.has_answers


def test_paths_are_of_the_working_directory_then_of_the_file(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.test([DATASET], [METRIC])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert read_test(path).datasets["example_dataset"]["path"] == str(tmp_path / "d0.json")
    Files(elsewhere).write("d0.json", DATASET)
    assert read_test(path).datasets["example_dataset"]["path"] == str(elsewhere / "d0.json")


@pytest.mark.parametrize(
    ("dataset", "metric", "said"),
    [
        (
            {"config": {"example_outputs": False}},
            {},
            "Example Metric needs example outputs, and Example Dataset has none",
        ),
        ({"config": {"exmaple_outputs": True}}, {}, "did you mean 'example_outputs'?"),
        ({"data": {"input": "x"}}, {}, "data: Input should be a valid list"),
        ({}, {"score": {"type": "scale", "min": 5, "max": 5}}, "min must be below max, but min is 5 and max is 5"),
        ({}, {"score": {"type": "scale", "min": 1}}, "max: Field required"),
        ({}, {"score": {"type": "stars"}}, "does not match any of the expected tags: 'scale', 'boolean', 'percentage'"),
        ({}, {"config": {"need_history": True}}, "did you mean 'needs_history'?"),
        ({}, {"metric_description": ""}, "metric_description: String should have at least 1 character"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    files: Files, dataset: dict[str, Any], metric: dict[str, Any], said: str
) -> None:
    assert said in problems(files.test([{**DATASET, **dataset}], [{**METRIC, **metric}]))


def test_all_problems_are_told_at_once(files: Files) -> None:
    broken = {**METRIC, "name": "Other", "score": {"type": "stars"}}
    files.test([DATASET, {**DATASET}], [METRIC, broken])
    files.write("test.json", {"datasets": ["d0.json", "d1.json", "gone.json"], "metrics": ["m0.json", "m1.json"]})
    told = problems(files.folder / "test.json")
    assert "two datasets are called 'Example Dataset'" in told
    assert "there is no dataset file gone.json" in told
    assert "stars" in told


def test_a_file_that_is_no_json_is_named_with_its_line(files: Files) -> None:
    files.test([DATASET], [METRIC])
    files.write("m0.json", '{"name": "x",\n "config": }')
    assert "m0.json:2" in problems(files.folder / "test.json")


def test_a_file_that_is_no_object_is_told_so(files: Files) -> None:
    files.write("test.json", [])
    assert "must be an object with keys" in problems(files.folder / "test.json")


@pytest.mark.parametrize(
    ("score", "scale"),
    [
        ({"type": "Scale", "min": 0, "max": 10}, {"type": "likert", "min": 0, "max": 10}),
        ({"type": "BOOLEAN", "description": "true if so"}, {"type": "boolean"}),
        ({"type": "Percentage"}, {"type": "percentage"}),
        (None, {"type": "percentage"}),
    ],
)
def test_types_of_scores_are_read_as_the_tool_reads_them(files: Files, score: Any, scale: dict[str, Any]) -> None:
    metric = {key: value for key, value in {**METRIC, "score": score}.items() if value is not None}
    imported = read_test(files.test([DATASET], [metric]))
    assert imported.metrics["example_metric"]["scale"] == scale


def test_a_name_is_obeyed_and_gives_an_experiment(files: Files) -> None:
    imported = read_test(files.test([DATASET], [METRIC]), "tutor")
    assert list(imported.datasets) == ["tutor_example_dataset"]
    assert list(imported.metrics) == ["tutor_example_metric"]
    assert {name: experiment.option() for name, experiment in imported.experiments.items()} == {
        "tutor": {
            "defaults": [
                {"override /dataset": ["tutor_example_dataset"]},
                {"override /metric": ["tutor_example_metric"]},
            ],
            "generate": True,
        }
    }


def test_results_are_written_as_the_tool_writes_them() -> None:
    score = {"metric": "Example Metric", "status": "scored", "value": 4}
    rows = [
        {"dataset": "d", "answer": "A", "messages": [{"role": "user", "content": "Q"}], "scores": [score]},
        {"dataset": "d", "answer": "B", "messages": [], "scores": [{**score, "status": "undefined", "value": None}]},
    ]
    assert tiamat_results(rows) == {
        "data": [
            {"question": "Q", "answer": "A", "metrics": [{"metric": "Example Metric", "metric_score": 4}]},
            {"question": "", "answer": "B", "metrics": [{"metric": "Example Metric", "metric_score": None}]},
        ],
        "overall_metric_score": {"Example Metric": 4},
    }
    both = tiamat_results([rows[0], {**rows[0], "dataset": "e"}])
    assert [row["dataset"] for row in map(as_map, as_list(both["data"]))] == ["d", "e"]
