"""Tiamat's test files as its users run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.cli import run_command
from evalflow.testing import Endpoint, Request, reply
from tests.addons.interop.importers.test_tiamat import DATASET, METRIC, Files
from tests.cli.conftest import Program, judge_arguments

HISTORY: dict[str, Any] = {
    "name": "Memory & ${manners}",
    "config": {"needs_history": True, "needs_example_output": False},
    "metric_description": "Whether it remembers what was said before",
    "score": {"type": "boolean", "description": "true if it does"},
}


def script(request: Request) -> Any:
    """A bot, and a judge that gives full marks."""
    if request.model == "bot":
        return reply(f"You asked: {request.user}")
    grade = (request.schema or {})["properties"]["score"]
    return {"reason": "It is.", "score": grade.get("maximum", True)}


def bot(url: str) -> tuple[str, ...]:
    return ("target=openai", "target.model=bot", f"target.base_url={url}", "target.api_key_env=null")


@pytest.fixture
def files(program: Program) -> Files:
    return Files(program.folder)


def test_every_dataset_meets_every_metric_in_one_run(program: Program, files: Files) -> None:
    second = {"name": "Second", "config": {"example_outputs": True}, "data": [{"input": "Hi", "output": "Hello"}]}
    files.test([DATASET, second], [METRIC, HISTORY])
    with Endpoint(script) as endpoint:
        done = program("tiamat", "test.json", *bot(endpoint.url), *judge_arguments(endpoint.url))
        asked = [request.text for request in endpoint.requests if request.model == "scripted"]
    assert done.returncode == 0, done.stderr

    scores = pl.read_parquet(program.latest / "scores.parquet")
    whole = " (as one conversation)"
    counts = scores.group_by("dataset", "metric").len().sort("dataset", "metric").rows()
    assert counts == [
        ("Example Dataset", "Example Metric", 2),
        (f"Example Dataset{whole}", HISTORY["name"], 1),
        ("Second", "Example Metric", 1),
        (f"Second{whole}", HISTORY["name"], 1),
    ]
    assert set(scores["value"]) == {"5", "true"}
    assert set(scores["score"]) == {1.0}
    assert "Example" not in program.latest.name

    correct = next(text for text in asked if METRIC["metric_description"] in text)
    assert METRIC["score"]["description"] in correct
    memory = next(text for text in asked if HISTORY["metric_description"] in text and "stack" in text)
    assert HISTORY["score"]["description"] in memory
    assert "What is a stack?" in memory
    assert "Just tell me" in memory

    assert "dataset Example Dataset with metric Example Metric" in done.stdout
    assert "A stack is..." in done.stdout
    assert "mean 5.00 on the metric's own scale, over 2 of 2 scored" in done.stdout


def test_a_row_without_an_example_output_is_named_before_any_call(program: Program, files: Files) -> None:
    rows = [*DATASET["data"], {"input": "And now?"}]
    files.test([{**DATASET, "data": rows}], [METRIC])
    with Endpoint(script) as endpoint:
        done = program("tiamat", "test.json", *bot(endpoint.url), *judge_arguments(endpoint.url))
        assert endpoint.count == 0
    assert done.returncode == 2
    assert "d0.json[2]: the row has no output, but config.example_outputs is true" in done.stderr


def test_without_a_judge_the_targets_own_model_grades_and_that_is_said(
    program: Program, files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files.test([DATASET], [METRIC])
    monkeypatch.chdir(program.folder)

    def both(request: Request) -> Any:
        return script(request) if request.schema is None else {"reason": "It is.", "score": 4}

    with Endpoint(both) as endpoint:
        assert run_command(["tiamat", "test.json", *bot(endpoint.url)]) == 0
        assert endpoint.count == 4
    said = capsys.readouterr()
    assert "self-preference" in said.out + said.err
    assert set(pl.read_parquet(program.latest / "scores.parquet")["judge"]) == {"target:bot"}
    assert program.manifest["overrides"][-1] == "judge=target"


def test_without_a_target_it_says_which_one_to_add(program: Program, files: Files) -> None:
    files.test([DATASET], [METRIC])
    done = program("tiamat", "test.json")
    assert done.returncode == 2
    assert "add target=openai" in done.stderr


def test_recorded_outputs_need_no_target(program: Program, files: Files) -> None:
    rows = [{**row, "actual_output": "A list."} for row in DATASET["data"]]
    files.test([{**DATASET, "data": rows}], [METRIC])
    with Endpoint(script) as endpoint:
        done = program("tiamat", "test.json", *judge_arguments(endpoint.url))
        assert endpoint.count == 2
    assert done.returncode == 0, done.stderr


def test_a_second_file_gets_the_results_in_the_tools_own_form(program: Program, files: Files) -> None:
    rows = {"name": "Lessons", "data": [{"input": "Why?", "actual_output": "So."}]}
    files.write("lessons.json", rows)
    files.write(
        "tone.json", {"name": "Tone", "metric_description": "Kind?", "score": {"type": "Scale", "min": 1, "max": 5}}
    )
    files.write("own.json", {"datasets": "lessons.json", "metrics": ["tone.json"]})
    with Endpoint(script) as endpoint:
        done = program("tiamat", "own.json", "results.json", *judge_arguments(endpoint.url))
    assert done.returncode == 0, done.stderr
    assert json.loads((program.folder / "results.json").read_text(encoding="utf-8")) == {
        "data": [{"question": "Why?", "answer": "So.", "metrics": [{"metric": "Tone", "metric_score": 5}]}],
        "overall_metric_score": {"Tone": 5.0},
    }


def test_a_grade_off_the_scale_is_asked_again_and_then_an_error(program: Program, files: Files) -> None:
    files.test([DATASET], [METRIC])
    with Endpoint(lambda request: reply("hm") if request.model == "bot" else {"reason": "!", "score": 9}) as endpoint:
        done = program("tiamat", "test.json", *bot(endpoint.url), *judge_arguments(endpoint.url), "judge.reasks=1")
        judged = sum(request.model == "scripted" for request in endpoint.requests)
    assert done.returncode == 3
    assert judged == 4
    assert set(pl.read_parquet(program.latest / "scores.parquet")["status"]) == {"error"}


def test_import_writes_the_same_as_yaml(program: Program, files: Files) -> None:
    files.test([DATASET], [METRIC])
    done = program("import", "tiamat", "test.json")
    assert done.returncode == 0, done.stderr
    assert sorted(str(path.relative_to(program.folder)) for path in (program.folder / "conf").rglob("*.yaml")) == [
        "conf/dataset/example_dataset.yaml",
        "conf/metric/example_metric.yaml",
    ]
    assert "path: d0.json" in (program.folder / "conf/dataset/example_dataset.yaml").read_text(encoding="utf-8")
    with Endpoint(script) as endpoint:
        words = [
            "dataset=example_dataset",
            "metric=example_metric",
            "generate=true",
            "metric.example_metric.threshold=1",
        ]
        ran = program(*words, *bot(endpoint.url), *judge_arguments(endpoint.url))
    assert ran.returncode == 0, ran.stderr
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))["rows"][0]
    assert (summary["dataset"], summary["metric"], summary["pass_rate"]) == ("Example Dataset", "Example Metric", 1.0)
    again = program("import", "tiamat", "test.json")
    assert again.returncode == 2
    assert "the file is there already" in again.stderr


def test_a_killed_or_failed_run_of_it_can_be_resumed(program: Program, files: Files) -> None:
    files.test([DATASET], [METRIC])
    with Endpoint(script) as endpoint:
        words = [*bot(endpoint.url), *judge_arguments(endpoint.url), "budget.requests=3"]
        assert program("tiamat", "test.json", *words).returncode == 4
        assert program("resume", "budget.requests=10").returncode == 0
        assert endpoint.count == 4
    assert pl.read_parquet(Path(program.latest) / "scores.parquet")["status"].to_list() == ["scored", "scored"]


@pytest.mark.slow
def test_two_runs_compare_and_gates_find_a_metric_by_name_and_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name, a title with spaces, is not the key that the metric stands under."""
    monkeypatch.chdir(tmp_path)
    Files(tmp_path).test([DATASET], [METRIC, HISTORY])
    with Endpoint(script) as endpoint:
        words = ["tiamat", "test.json", *bot(endpoint.url), *judge_arguments(endpoint.url)]
        assert run_command(words) == 0
        first = str((tmp_path / "outputs/latest").resolve())
        gates = "{Example Metric: {mean: '>= 0.1'}, memory_manners: {n_scored: '>= 1'}}"
        assert run_command([*words, f"gate={gates}"]) == 0, capsys.readouterr().err
        assert "gate passed  Memory & ${manners} n_scored >= 1: 1" in capsys.readouterr().out
        gate = "gate={example_metric: {mean: {not_worse_by: 0.9}}}"
        assert run_command([*words, f"baseline={first}", gate]) == 0, capsys.readouterr().err
        assert run_command(["compare", first]) == 0, capsys.readouterr().err
        assert "Example Metric" in capsys.readouterr().out
        assert run_command([*words, "-m", "judge.model=scripted,other"]) == 0, capsys.readouterr().err
