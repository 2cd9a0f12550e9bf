"""Config files of GOV.UK Chat Evaluation, of its present and its earlier form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalflow.addons.interop.importers.files import ImportSource
from evalflow.addons.interop.importers.govuk import read_config, read_govuk
from evalflow.app.core.assemble import assemble, settings_of
from evalflow.app.core.inspect import inspect
from evalflow.config.load import compose
from evalflow.errors import UserError
from evalflow.values.jsonvalues import as_map
from tests.config.test_load import BOMB

ROW = {
    "question": "q",
    "ideal_answer": "i",
    "llm_answer": "a",
    "structured_contexts": [
        {"exact_path": "/p", "title": "t", "heading_hierarchy": None, "description": "d", "html_content": "h"}
    ],
}
ALL = (
    "faithfulness",
    "bias",
    "relevance",
    "factual_precision",
    "factual_recall",
    "absence_of_factual_contradictions",
    "context_relevancy",
    "coherence",
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(task: str, row: dict[str, Any], **values: Any) -> Path:
    Path("data.jsonl").write_text(json.dumps(row))
    path = Path("config/defaults") / f"{task}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"what": "Evaluating", "generate": False, "input_path": "data.jsonl", **values}))
    return path


def metric(name: str, threshold: float = 1.0, model: str = "openai.gpt-oss-120b-1:0") -> dict[str, Any]:
    return {"name": name, "threshold": threshold, "model": model, "temperature": 0.0}


def test_the_default_config_of_rag_answers_composes_into_a_run() -> None:
    path = written("rag_answers", ROW, claude_generation_model=None, n_runs=2, metrics=[metric(name) for name in ALL])
    imported = read_config(path)
    [experiment] = imported.experiments.values()
    assert experiment.option()["defaults"] == [
        {"override /dataset": "govuk_rag_answers"},
        {"override /metric": list(ALL)},
        {"override /judge": "govuk_rag_answers_judge"},
    ]
    address = "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"
    assert imported.judges == {
        "govuk_rag_answers_judge": {
            "defaults": ["bedrock", "_self_"],
            "model": "openai.gpt-oss-120b-1:0",
            "temperature": 0.0,
            "base_url": address,
        }
    }
    [dataset] = imported.datasets.values()
    assert dataset["description"] == "Cases of data.jsonl, in the form of rag_answers."
    for name, text in imported.files().items():
        target = Path("conf") / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    settings = settings_of(compose(["experiment=govuk_rag_answers", "judge.api_key_env=null"]))
    assert settings.run.repeats.judge == 2
    assert settings.run.metric["bias"].threshold == 1.0
    judge: Any = settings.judges["bias"]
    assert (judge.model, judge.temperature, judge.base_url) == ("openai.gpt-oss-120b-1:0", 0.0, address)
    assert inspect(assemble(settings)).cells == 16


def test_the_earlier_form_is_read_and_what_cannot_be_mapped_is_said() -> None:
    metrics = [
        metric("factual_correctness", model="gpt-4o"),
        metric("factual_precision", model="gpt-4o"),
        metric("coherense", model="gpt-4o"),
        metric("relevance", 0.8, "eu.amazon.nova-pro-v1:0"),
        {**metric("bias", 0.0, "gpt-4o"), "strict": True},
    ]
    path = written("rag", ROW, provider="openai", claude_generation_model="claude", n_runs=1, metrics=metrics)
    imported = read_config(path)
    [experiment] = imported.experiments.values()
    assert list(as_map(experiment.more["metric"])) == ["factual_precision", "relevance", "bias"]
    assert "repeats" not in experiment.more
    metrics: Any = experiment.more["metric"]
    other = metrics["relevance"]["judge"]
    assert other["model"] == "eu.amazon.nova-pro-v1:0"
    assert (other["api_key_env"], other["mode"]) == ("AWS_BEARER_TOKEN_BEDROCK", "md_json")
    assert imported.judges["govuk_rag_answers_judge"]["model"] == "gpt-4o"
    assert "metric factual_correctness became factual_precision, since it measured that" in imported.notes[0]
    left = {entry.what: f"{entry.reason} {entry.hint}" for entry in imported.ledger.left_out}
    assert list(left) == [
        "metric factual_precision",
        "metric coherense",
        "claude_generation_model",
        "provider openai",
        "strict of metric bias",
    ]
    assert "did you mean 'coherence'?" in left["metric coherense"]
    assert "target.model=claude" in left["claude_generation_model"]


def test_a_configuration_beside_results_is_read_with_the_answers_there() -> None:
    judge = {"model": "gpt-4o", "temperature": 0.0}
    path = Path("results/rag_answers/2026-03-01T10:00:00/config.yaml")
    path.parent.mkdir(parents=True)
    metrics = [
        {"name": "faithfulness", "threshold": 0.9, "llm_judge": judge},
        {"name": "coherence", "llm_judge": judge},
    ]
    values = {"what": "x", "generate": True, "provider": "claude", "input_path": "data.jsonl", "metrics": metrics}
    path.write_text(yaml.safe_dump({**values, "n_runs": 1}))
    Path("data.jsonl").write_text(json.dumps({"question": "q"}))
    (path.parent / "generated.jsonl").write_text(json.dumps(ROW))
    imported = read_config(path, "answers")
    assert imported.judges == {"answers_judge": {"defaults": ["openai", "_self_"], **judge}}
    assert imported.experiments["answers"].generate is False
    assert imported.experiments["answers"].more["metric"] == {"faithfulness": {"threshold": 0.9}}
    assert imported.datasets["answers"]["path"] == str((path.parent / "generated.jsonl").resolve())


@pytest.mark.parametrize(
    ("task", "row", "fields"),
    [
        ("output_guardrails", {"question": "an answer", "expected_triggered": True}, {"question": None}),
        (
            "retrieval",
            {"question": "q", "expected_exact_paths": ["/a"], "actual_exact_paths_and_scores": [{"exact_path": "/a"}]},
            {"actual": "actual_exact_paths_and_scores"},
        ),
    ],
)
def test_earlier_columns_of_results_are_found(task: str, row: dict[str, Any], fields: dict[str, Any]) -> None:
    path = Path("results") / task / "2025-01-01" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump({"generate": False, "input_path": "data.jsonl"}))
    Path("data.jsonl").write_text(json.dumps(row))
    imported = read_config(path)
    found = imported.datasets[f"govuk_{task}"]["fields"]
    assert {name: as_map(found).get(name) for name in fields} == fields
    if task == "retrieval":
        assert imported.experiments["govuk_retrieval"].metrics == ["retrieval_pages"]


def test_outputs_of_rake_tasks_are_recorded_answers(tmp_path: Path) -> None:
    chunk = {**ROW["structured_contexts"][0], "base_path": "/p"}
    rows = [
        {
            "input": "When?",
            "output": {"message": "Now.", "sources": [{"chunk": chunk}], "metrics": {"x": {"duration": 2}}},
        },
        {"input": "Why?", "output": {"message": None, "error_message": "timed out"}},
        {"input": "Route me", "output": {"classification": "greetings"}},
        {"input": "Who?", "output": {"message": "Me.", "sources": [{"chunk": "I do.", "used": True}]}, "model": "m"},
    ]
    Path("out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"input"')
    imported = read_govuk(ImportSource(Path("out.jsonl"), "bot", tmp_path))
    imported.ledger.expect_balanced()
    cases = [json.loads(line) for line in imported.data["bot.jsonl"].read_text().splitlines()]
    assert cases == [
        {
            "id": "1",
            "question": "When?",
            "answer": "Now.",
            "contexts": [chunk],
            "metadata": {"output": {"metrics": {"x": {"duration": 2}}}},
        },
        {"id": "2", "question": "Why?", "failure": "timed out"},
        {
            "id": "3",
            "question": "Who?",
            "answer": "Me.",
            "contexts": [{"text": "I do.", "used": True}],
            "metadata": {"model": "m"},
        },
    ]
    assert imported.ledger.counts()["cases"] == (5, 3, 2)


@pytest.mark.parametrize(
    ("task", "row", "metrics"),
    [
        ("jailbreak_guardrails", {"question": "q", "expected_outcome": True}, 1),
        ("output_guardrails", {"message": "m", "expected_triggered": True}, 2),
        ("question_router", {"question": "q", "expected_outcome": "a"}, 1),
        ("retrieval", {"question": "q", "expected_chunk_uids": ["a"]}, 2),
        ("topic_tagger", {"question": "q", "expected_primary_topic": "a"}, 5),
    ],
)
def test_the_other_tasks(task: str, row: dict[str, Any], metrics: int) -> None:
    more = {"guardrail_type": "answer_guardrails"} if task == "output_guardrails" else {}
    imported = read_config(written(task, row, generate=True, **more))
    experiment = imported.experiments[f"govuk_{task}"]
    assert len(experiment.metrics) == metrics
    assert experiment.generate is True
    assert imported.datasets[f"govuk_{task}"]["path"] == str(Path("data.jsonl").resolve())
    assert ("guardrail_type answer_guardrails" in {left.what for left in imported.ledger.left_out}) is bool(more)


def test_the_task_is_told_by_the_data_where_the_name_says_nothing() -> None:
    path = written("mine", {"question": "q", "confidence_score": 0.5})
    assert list(read_config(path).experiments) == ["govuk_question_router"]
    path = written("mine", {"question": "q"})
    with pytest.raises(UserError, match="it does not show which task"):
        read_config(path)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"n_runs": 0}, "n_runs: Input should be greater than or equal to 1"),
        ({"input_path": "away.jsonl"}, "input_path: there is no away.jsonl"),
        ({"metrics": [metric("toxicness")]}, "it has no known metric"),
        ({"metrics": [{**metric("bias"), "threshold": 2}]}, "metrics.0.threshold: Input should be less"),
    ],
)
def test_what_is_wrong_is_told(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as found:
        read_config(written("rag_answers", ROW, **values))
    assert told in str(found.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [("a: [", "is not YAML"), ("- a", "must be an object with keys"), (BOMB, "written out it has more than")],
)
def test_a_file_that_is_no_config(text: str, told: str) -> None:
    Path("x.yaml").write_text(text)
    with pytest.raises(UserError, match=told):
        read_config(Path("x.yaml"))
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_config(Path("absent.yaml"))
