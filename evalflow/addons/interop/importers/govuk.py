"""Import of GOV.UK Chat Evaluation: config files, each with one task, data and metrics; and outputs of rake tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from evalflow import datasets, paths
from evalflow.addons.interop.importers.columns import Columns
from evalflow.addons.interop.importers.files import (
    ImportedConfig,
    ImportedExperiment,
    ImportSource,
    dataset_option,
    first_file,
    judged_by,
    validated,
)
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.recorded import RecordedCases
from evalflow.addons.interop.importers.sources import read_rows
from evalflow.config.schema import DatasetConfig
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.values.jsonvalues import as_map, present

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
    "faithfulness",
    "relevance",
    "bias",
    "factual_precision",
    "factual_recall",
    "absence_of_factual_contradictions",
    "context_relevancy",
    "coherence",
)
PARTS = ("metrics", "settings")
_GENERATED = "generated.jsonl"
_EARLIER: Mapping[str, tuple[str, ...]] = {
    "question": ("question",),
    "actual": ("actual_chunk_uids_exact_paths_and_scores", "actual_exact_paths_and_scores"),
}  # earlier names of a column
_BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"
"""The tool's default region, used if AWS_BEDROCK_REGION is not set."""
_COLUMNS = {
    "expected_guardrails": "output_guardrails",
    "confidence_score": "question_router",
    "expected_chunk_uids": "retrieval",
    "expected_primary_topic": "topic_tagger",
    "structured_contexts": "rag_answers",
}
"""Columns that occur only in the data of one task."""


class _GovukMetric(BaseModel):
    """A metric with its judge, which people write directly, and the configuration beside results under `llm_judge`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    threshold: float | None = Field(default=None, ge=0, le=1)
    model: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)

    @model_validator(mode="before")
    @classmethod
    def _with_judge(cls, values: object) -> object:
        judge = as_map(as_map(values).get("llm_judge"))
        plain = {key: value for key, value in as_map(values).items() if key != "llm_judge"}
        others = {f"llm_judge.{key}": part for key, part in judge.items() if key not in ("model", "temperature")}
        return (
            {**{key: judge[key] for key in ("model", "temperature") if key in judge}, **others, **plain}
            if judge
            else values
        )

    @property
    def judge(self) -> dict[str, object]:
        settings = {"model": self.model, "temperature": self.temperature}
        return {key: value for key, value in settings.items() if value is not None}


class _Config(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    what: str | None = None
    generate: bool = False
    input_path: str
    claude_generation_model: str | None = None
    guardrail_type: str | None = None
    metrics: list[_GovukMetric] | None = None
    n_runs: int = Field(default=1, ge=1)


def read_govuk(source: ImportSource) -> ImportedConfig:
    """Convert a config file, or rake tasks' outputs as JSON lines; the ledger lists what has no counterpart."""
    path = source.file(hint="a config file in YAML, or the outputs of a rake task as JSON lines")
    if path.suffix.lower() in (".jsonl", ".json"):
        return _read_outputs(source)
    return read_config(path, source.name if source.is_named else None)


def read_config(path: Path, name: str | None = None) -> ImportedConfig:
    """Convert a config file to a dataset and an experiment, called govuk_TASK unless it has a name.

    The task is recognized by its metrics, its guardrail_type, the names of the file and its folders, or the data;
    UserError if none fits. If the answers that were generated lie beside it, these are taken.
    """
    config = _read(path)
    generated = path.parent / _GENERATED
    kept = config.generate and generated.is_file()
    data = generated.resolve() if kept else _located(config.input_path, path)
    columns = datasets.columns(DatasetConfig(path=str(data), format="jsonl"))
    task = _task(config, path, columns)
    form, metrics = _TASKS[task]
    key = name or f"govuk_{task}"
    imported = ImportedConfig(ledger=Ledger(PARTS))
    about = f"Cases of {data.name}, in the form of {task}."
    option = _shipped("dataset", form)
    imported.datasets[key] = {
        **option,
        "fields": _fields(as_map(option["fields"]), columns),
        "description": about,
        "path": str(data),
    }
    chosen = _metrics(config, path, imported)
    if task == "rag_answers" and not chosen:
        all_metrics = f"known: {', '.join((*_METRICS, *_RENAMED))}"
        raise UserError([Problem("it has no known metric", str(path), all_metrics)])
    if task == "retrieval" and "expected_chunk_uids" not in columns:
        metrics = ("retrieval_pages",)
    experiment = ImportedExperiment(key, list(chosen or metrics), config.generate and not kept)
    if config.n_runs > 1:
        experiment.more["repeats"] = {"judge": config.n_runs}
    imported.experiments[key] = experiment
    _judge(chosen, key, experiment, imported)
    if kept:
        imported.notes.append(
            f"{_GENERATED} beside it has the answers: they are scored; generate=true asks for new ones"
        )
    for what, why, hint in _unmapped(config):
        imported.ledger.leave("settings", what, str(path), why, hint)
    return imported


def _read_outputs(source: ImportSource) -> ImportedConfig:
    """Outputs of the tasks that answer: `{input, output: {message, sources}}` on each line."""
    imported = ImportedConfig(ledger=Ledger(("cases",)))
    with source.rows(imported, source.name) as file:
        cases = RecordedCases(imported, file)
        for item in read_rows(source.path, imported.ledger, broken=imported.ledger.leave_broken):
            row = Columns(item.data, item.where)
            cases.take(row, partial(_output, row), ())
    if not file.count:
        raise imported.ledger.nothing_taken(Problem("it has no answers", str(source.path)))
    about = f"Outputs of a rake task, from {source.path.name}."
    imported.datasets[source.name] = dataset_option(source.name, about)
    imported.experiments[source.name] = ImportedExperiment(source.name, ["faithfulness", "relevance"], generate=False)
    imported.unjudged.add(source.name)
    return imported


def _output(row: Columns) -> dict[str, object]:
    """The case of an output; further keys of the row become its metadata."""
    question, output = row.get("input", "question"), row.child("output")
    failure = output.get("error_message", "error", "response_error")
    message = output.get("message", "llm_answer") if failure is None else None
    if not isinstance(question, str) or not isinstance(message or failure, str):
        hint = "import the config file of the run: generated.jsonl beside it has expected values too"
        raise Untranslatable("it has no question, or its output has no message", hint)
    case: dict[str, object] = {"question": question, **({"failure": failure} if failure else {"answer": message})}
    sources = output.children("sources")
    if sources and all("chunk" in source for source in sources):
        case["contexts"] = [_context(source) for source in sources]
    elif output.has("sources"):
        case["contexts"] = output.get("sources")
    return case | present(metadata=row.rest() or None)


def _context(source: Columns) -> object:
    """A chunk with its further keys."""
    chunk, rest = source.get("chunk"), source.rest()
    return {**({"text": chunk} if isinstance(chunk, str) else as_map(chunk)), **rest} if rest else chunk


def _read(path: Path) -> _Config:
    try:
        value = safe_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error.strerror}", str(path))) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(Problem(f"is not YAML: {' '.join(str(error).split())}", str(path))) from None
    return validated(_Config, value, path)


def _located(name: str, config: Path) -> Path:
    folders = [Path.cwd(), *config.resolve().parents]
    file = first_file(name, folders)
    if file is None:
        what = f"input_path: there is no {name}"
        raise UserError(Problem(what, str(config), f"neither in {Path.cwd()} nor above the config file"))
    return file


def _task(config: _Config, path: Path, columns: Collection[str]) -> str:
    if config.metrics is not None:
        return "rag_answers"
    if config.guardrail_type is not None:
        return "output_guardrails"
    folders = [folder.name for folder in path.resolve().parents if folder.name in _TASKS]
    named = [task for task in _TASKS if task in path.stem] or folders[:1]
    tasks = named or [task for column, task in _COLUMNS.items() if column in columns]
    if not tasks:
        hint = f"name the file after its task: {', '.join(_TASKS)}"
        raise UserError(Problem("it does not show which task it configures", str(path), hint))
    return tasks[0]


def _shipped(group: str, name: str) -> dict[str, object]:
    text = (paths.share_dir() / "conf" / group / f"{name}.yaml").read_text(encoding="utf-8")
    return dict(as_map(safe_yaml(text)))


def _fields(fields: Mapping[str, object], columns: Collection[str]) -> dict[str, object]:
    """The fields of a form, with the names that earlier data have for them."""
    columns_of_fields = dict(fields)
    for field, others in _EARLIER.items():
        if field in columns_of_fields and columns_of_fields[field] not in columns:
            columns_of_fields[field] = next((other for other in others if other in columns), columns_of_fields[field])
    if columns_of_fields.get("question") == "question":
        del columns_of_fields["question"]
    return columns_of_fields


def _metrics(config: _Config, path: Path, imported: ImportedConfig) -> dict[str, _GovukMetric]:
    metrics: dict[str, _GovukMetric] = {}
    for metric in config.metrics or []:
        name = _RENAMED.get(metric.name, metric.name)
        with imported.ledger.taking("metrics", f"metric {metric.name}", str(path)):
            if name not in _METRICS:
                raise Untranslatable("evalflow has no such metric", did_you_mean(metric.name, _METRICS))
            if name in metrics:
                raise Untranslatable(f"{name} already replaces it")
            metrics[name] = metric
            if name != metric.name:
                note = f"metric {metric.name} became {name}, since it measured that; undefined is not 0 here"
                imported.notes.append(note)
    return metrics


def _judge(
    metrics: Mapping[str, _GovukMetric], key: str, experiment: ImportedExperiment, imported: ImportedConfig
) -> None:
    """Set the metrics' thresholds and own judges, and write the judge that most metrics share as a separate file."""
    asking = {name: (_endpoint(metric.model), metric.judge) for name, metric in metrics.items() if metric.model}
    common = Counter(choice for choice, _ in asking.values()).most_common(1)
    chosen = common[0][0] if common else ""
    alike = [judge for choice, judge in asking.values() if choice == chosen]
    shared = alike[0] if alike else dict[str, object]()
    overrides: dict[str, dict[str, object]] = {}
    for name, metric in metrics.items():
        choice, judge = asking.get(name, (chosen, metric.judge))
        own = {item: value for item, value in judge.items() if shared.get(item) != value}
        if choice != chosen:
            own = {**judge, **_address(choice)}
        threshold: dict[str, object] = {} if metric.threshold is None else {"threshold": metric.threshold}
        if override := {**threshold, **({"judge": own} if own else {})}:
            overrides[name] = override
    if overrides:
        experiment.more["metric"] = overrides
    if not chosen:
        imported.unjudged |= set() if metrics else {key}
        return
    where = {"base_url": _BEDROCK} if chosen == "bedrock" else {}
    judged_by(imported, f"{key}_judge", chosen, {**shared, **where})
    if "bedrock" in {choice for choice, _ in asking.values()}:
        imported.notes.append(f"judge: Amazon Bedrock in eu-west-1 ({_BEDROCK}); for another region change the address")


def _address(choice: str) -> dict[str, object]:
    """The keys of another judge: its address, its key's variable, and its reply format."""
    own = {key: value for key, value in _shipped("judge", choice).items() if key not in ("defaults", "model")}
    where = {"base_url": _BEDROCK} if choice == "bedrock" else {}
    return {"base_url": None, "mode": "json_schema", "strict": False, "logprobs": False, **own, **where}


def _endpoint(model: str) -> str:
    if model.startswith("gemini"):
        return "gemini"
    return "bedrock" if "." in model.partition(":")[0] and not model.startswith("gpt-") else "openai"


def _unmapped(config: _Config) -> Iterator[tuple[str, str, str]]:
    """The parts of a file that are left out: name, reason, and what to do instead."""
    service = "the target decides it"
    if config.claude_generation_model:
        hint = f"target.model={config.claude_generation_model}, where the target has a model"
        yield "claude_generation_model", service, hint
    if config.guardrail_type:
        yield f"guardrail_type {config.guardrail_type}", service, "set it in your service or command"
    for key, value in (config.model_extra or {}).items():
        if value is not None:
            why = service if key in ("provider", "embedding_provider") else "it has no equivalent"
            yield f"{key} {value}" if isinstance(value, str) else key, why, ""
    for metric in config.metrics or []:
        for key in metric.model_extra or {}:
            yield f"{key} of metric {metric.name}", "it has no equivalent", ""
