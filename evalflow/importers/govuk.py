"""Import of config files of GOV.UK Chat Evaluation. Each has one task with data, metrics and number of judge runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field

from evalflow import datasets, paths
from evalflow.config.schema import DatasetConfig
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.importers.files import ImportedConfig, experiment_option, first_file, validated

_TASKS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rag_answers": ("rag", ()),
    "jailbreak_guardrails": ("jailbreak_guardrails", ("jailbreak_guardrails",)),
    "output_guardrails": ("output_guardrails", ("output_guardrails_triggered", "output_guardrails")),
    "question_router": ("question_router", ("question_router",)),
    "retrieval": ("retrieval", ("retrieval", "retrieval_pages")),
    "topic_tagger": (
        "topic_tagger",
        ("topics_in_order", "topics_any_order", "topic_primary", "topic_primary_in_either", "topic_any"),
    ),
}  # task to evalflow's dataset and metrics; the metrics of rag_answers are in the file
_RENAMED = {"factual_correctness": "factual_precision", "factual_completeness": "factual_recall"}
_METRICS = (
    "faithfulness", "relevance", "bias", "factual_precision", "factual_recall", "absence_of_factual_contradictions",
    "context_relevancy", "coherence",
)  # fmt: skip
_BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"
"""The tool's default region, used if AWS_BEDROCK_REGION is not set."""
_COLUMNS = {
    "expected_guardrails": "output_guardrails", "confidence_score": "question_router",
    "expected_chunk_uids": "retrieval", "expected_primary_topic": "topic_tagger", "structured_contexts": "rag_answers",
}  # fmt: skip
"""Columns that occur only in the data of one task."""


class _GovukMetric(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    threshold: float | None = Field(default=None, ge=0, le=1)
    model: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)


class _Config(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    what: str | None = None
    generate: bool = False
    input_path: str
    claude_generation_model: str | None = None
    guardrail_type: str | None = None
    metrics: list[_GovukMetric] | None = None
    n_runs: int = Field(default=1, ge=1)


def read_config(path: Path) -> ImportedConfig:
    """Convert a config file to a dataset and an experiment; `notes` list what has no counterpart.

    The task is recognized by its metrics, its guardrail_type, the file's name, or the data; UserError if none fits.
    """
    config = _read(path)
    data = _located(config.input_path, path)
    task = _task(config, path, data)
    form, metrics = _TASKS[task]
    name = f"govuk_{task}"
    imported = ImportedConfig()
    about = f"Cases of {data.name}, in the form of {task}."
    imported.datasets[name] = {**_shipped(form), "description": about, "path": str(data)}
    chosen = _metrics(config, imported.notes)
    if task == "rag_answers" and not chosen:
        known = f"known: {', '.join((*_METRICS, *_RENAMED))}"
        raise UserError([Problem("no metric of it is known", str(path), known)])
    experiment = experiment_option(name, list(chosen or metrics), config.generate)
    experiment |= _judges(chosen, experiment["defaults"], imported.notes)
    if config.n_runs > 1:
        experiment["repeats"] = {"judge": config.n_runs}
    imported.experiments[name] = experiment
    imported.notes.extend(_unmapped(config))
    return imported


def _read(path: Path) -> _Config:
    try:
        value = safe_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error.strerror}", str(path))) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(Problem(f"is no YAML: {' '.join(str(error).split())}", str(path))) from None
    return validated(_Config, value, path)


def _located(name: str, config: Path) -> Path:
    folders = [Path.cwd(), *config.resolve().parents]
    found = first_file(name, folders)
    if found is None:
        what = f"input_path: there is no {name}"
        raise UserError(Problem(what, str(config), f"neither in {Path.cwd()} nor above the config file"))
    return found


def _task(config: _Config, path: Path, data: Path) -> str:
    if config.metrics is not None:
        return "rag_answers"
    if config.guardrail_type is not None:
        return "output_guardrails"
    named = [task for task in _TASKS if task in path.stem]
    columns = datasets.columns(DatasetConfig(path=str(data), format="jsonl"))
    found = named or [task for column, task in _COLUMNS.items() if column in columns]
    if not found:
        hint = f"name the file after its task: {', '.join(_TASKS)}"
        raise UserError(Problem("nothing in it says which task it configures", str(path), hint))
    return found[0]


def _shipped(form: str) -> dict[str, Any]:
    text = (paths.share_dir() / "conf" / "dataset" / f"{form}.yaml").read_text(encoding="utf-8")
    return cast("dict[str, Any]", yaml.safe_load(text))


def _metrics(config: _Config, notes: list[str]) -> dict[str, _GovukMetric]:
    found: dict[str, _GovukMetric] = {}
    for metric in config.metrics or []:
        name = _RENAMED.get(metric.name, metric.name)
        if name not in _METRICS:
            notes.append(f"metric {metric.name} is left out: there is none; {did_you_mean(metric.name, _METRICS)}")
        elif name in found:
            notes.append(f"metric {metric.name} is left out: {name} stands for it already")
        else:
            found[name] = metric
            if name != metric.name:
                notes.append(f"metric {metric.name} is {name}, which is what it measured; undefined is not 0 here")
    return found


def _judges(metrics: Mapping[str, _GovukMetric], defaults: list[dict[str, Any]], notes: list[str]) -> dict[str, Any]:
    """The metrics' thresholds and own judges, and their common endpoint."""
    overrides: dict[str, dict[str, Any]] = {}
    for name, metric in metrics.items():
        judge = {key: getattr(metric, key) for key in ("model", "temperature") if getattr(metric, key) is not None}
        threshold = {} if metric.threshold is None else {"threshold": metric.threshold}
        overrides[name] = {**threshold, **({"judge": judge} if judge else {})}
    found: dict[str, Any] = {"metric": overrides} if overrides else {}
    endpoints = {name: _endpoint(metric.model) for name, metric in metrics.items() if metric.model}
    if not endpoints:
        return found
    chosen = next(iter(endpoints.values()))
    defaults.append({"override /judge": chosen})
    if chosen == "bedrock":
        found["judge"] = {"base_url": _BEDROCK}
        notes.append(f"judge: Amazon Bedrock in eu-west-1; another region is judge.base_url (now {_BEDROCK})")
    for name, endpoint in endpoints.items():
        if endpoint != chosen:
            there = f"metric.{name}.judge.base_url and api_key_env as in judge={endpoint}"
            notes.append(f"metric {name}: {metrics[name].model} is not at judge={chosen}; set {there}")
    return found


def _endpoint(model: str) -> str:
    if model.startswith("gemini"):
        return "gemini"
    return "bedrock" if "." in model.partition(":")[0] and not model.startswith("gpt-") else "openai"


def _unmapped(config: _Config) -> Iterator[str]:
    if config.claude_generation_model:
        model = config.claude_generation_model
        yield f"claude_generation_model is the target's business: target.model={model}, where the target has one"
    if config.guardrail_type:
        yield f"guardrail_type {config.guardrail_type} is the target's business: tell your service or command"
    for key in config.model_extra or {}:
        yield f"{key} is left out: it has no counterpart"
    for metric in config.metrics or []:
        for key in metric.model_extra or {}:
            yield f"metric {metric.name}: {key} is left out: it has no counterpart"
