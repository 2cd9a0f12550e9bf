"""Import of lm-evaluation-harness: samples_TASK_DATE.jsonl, alone or with the results_DATE.json beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalflow.errors import Problem, UserError
from evalflow.importers.exports import input_of, parsed
from evalflow.importers.files import ImportedConfig, ImportSource, key_for, output_text, question_of
from evalflow.importers.ledger import Ledger, Untranslatable
from evalflow.importers.recorded import PARTS, RecordedCases, recorded_cases, score_number
from evalflow.importers.sources import read_document, read_rows
from evalflow.jsonvalues import as_list, as_map
from evalflow.paths import shown

_DATE = r"\d{4}-\d\d-\d\dT[\d:.-]+"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl")
_RESULTS = re.compile(rf"results_(?P<date>{_DATE})\.json")
_LOG = "run the harness with --log_samples and --output_path"
_OWN = frozenset({"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
                  "prompt_hash", "target_hash"})  # fmt: skip
_LOWER = frozenset({"perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "ter", "brier_score"})
"""Metrics of which less is better, where there are no results that say so."""


def read_lm_eval(source: ImportSource) -> ImportedConfig:
    """Import the samples of one or more tasks; UserError if there are none."""
    path = _file(source.path)
    imported = ImportedConfig(ledger=Ledger(("tasks", *PARTS)))
    results: Mapping[str, Any] = {}
    files = {_task(path): path}
    if path.suffix.lower() == ".json":
        results = as_map(read_document(path))
        files = _with_samples(path, results, imported.ledger)
    imported.ledger.take("tasks", len(files))
    for task, samples in files.items():
        key = source.name if len(files) == 1 else key_for(f"{source.name} {task}", imported.datasets, "dataset")
        better = as_map(as_map(results.get("higher_is_better")).get(task))
        with recorded_cases(source, imported, "lm-evaluation-harness", "lm_eval", samples, key=key) as cases:
            for row in read_rows(samples):
                _take(cases, row.data, better, row.where)
    return imported


def _file(path: Path) -> Path:
    """The samples, or the results that lead to them."""
    if path.is_dir():
        found = sorted(file for pattern in ("*", "*/*") for file in path.glob(pattern) if _RESULTS.fullmatch(file.name))
        if len(found) != 1:
            hint = f"name one: {shown(found[-1])}" if found else _LOG
            raise UserError(Problem(f"the folder has {len(found)} files results_DATE.json", shown(path), hint))
        return found[0]
    if not path.is_file():
        raise UserError(Problem("there is no such file", str(path), "name samples_*.jsonl or results_*.json"))
    return path


def _task(path: Path) -> str:
    named = _SAMPLES.fullmatch(path.name)
    return named["task"] if named else path.stem


def _with_samples(path: Path, results: Mapping[str, Any], ledger: Ledger) -> dict[str, Path]:
    """The file of samples of each task of the results; those without are listed."""
    tasks = as_map(results.get("results"))
    date = _RESULTS.fullmatch(path.name)
    if not tasks:
        raise UserError(Problem("it is no results_DATE.json of lm-evaluation-harness", shown(path), _LOG))
    near = [(found, file) for file in sorted(path.parent.iterdir()) if (found := _SAMPLES.fullmatch(file.name))]
    files = {found["task"]: file for found, file in near if date and found["date"] == date["date"]}
    if not files:
        what = "it has only means, and no samples of its date are beside it"
        raise UserError(Problem(what, shown(path), f"name a file samples_*.jsonl; or {_LOG}"))
    for task in tasks:
        if task not in files:
            ledger.leave("tasks", f"task {task}", shown(path), "it is a group of tasks, or its samples were not logged")
    return files


def _take(cases: RecordedCases, sample: Mapping[str, Any], better: Mapping[str, Any], where: str) -> None:
    named = [str(name) for name in as_list(sample.get("metrics"))]
    values = {name: sample.get(name) for name in named or (name for name in sample if name not in _OWN)}
    chosen = sample.get("filter")
    end = f" {chosen}" if chosen not in (None, "none") else ""
    scores = [(f"{name}{end}", value) for name, value in values.items()]
    cases.lower |= {f"{name}{end}" for name in values if not better.get(name, name not in _LOWER)}

    def read() -> dict[str, Any]:
        case = _case(sample)
        responses = [one for one in as_list(sample.get("filtered_resps")) if _likelihood(one) is None]
        texts = sum(1 for _ in _texts(responses)) if "answer" in case else 0
        if texts > 1:
            ledger, more = cases.imported.ledger, texts - 1
            ledger.take("answers")
            ledger.found("answers", more)
            reason = "a case has one answer, the first; its scores are of all of them"
            ledger.left("answers", f"{more} more answers", where, reason, count=more)
        return case | ({"tags": [str(chosen)]} if end else {})

    cases.take(where, read, scores)


def _case(sample: Mapping[str, Any]) -> dict[str, Any]:
    requests = list(_requests(sample.get("arguments")))
    if not requests or "doc_id" not in sample:
        raise Untranslatable("it is no sample: it has no doc_id or arguments", _LOG)
    doc = dict(as_map(sample.get("doc"))) or {"doc": sample.get("doc")}
    responses = as_list(sample.get("filtered_resps"))
    prompts = {request[0] for request in requests}
    asked = requests[0][0] if len(prompts) == 1 else question_of(doc, "") or output_text(doc)
    chat = as_list(parsed(asked))
    is_chat = bool(chat) and all("role" in as_map(message) for message in chat)
    found: dict[str, Any] = {"group": str(sample["doc_id"]), **input_of(chat if is_chat else asked), "vars": doc}
    target = sample.get("target")
    reference = target if isinstance(target, str) else "" if target is None else output_text(target)
    likely = [_likelihood(response) for response in responses]
    if len(requests) > 1 and len(likely) == len(requests) and None not in likely:
        choices = [f"{'' if len(prompts) == 1 else prompt}{end}".strip() for prompt, end in requests]
        best = max(range(len(choices)), key=lambda number: likely[number] or 0.0)
        right = choices[int(reference)] if reference.isdecimal() and int(reference) < len(choices) else reference
        return {**found, "answer": choices[best], "reference": right, "vars": {**doc, "options": choices}}
    answer, raw = _first(responses), _first(as_list(sample.get("resps")))
    if isinstance(answer, str) and isinstance(requests[0][1], Mapping):
        found["answer"] = answer
        found |= {"metadata": {"response": raw}} if isinstance(raw, str) and raw != answer else {}
    return found | ({"reference": reference} if reference else {})


def _requests(arguments: Any) -> Iterator[tuple[str, Any]]:
    """The prompt of each request, and the continuation whose likelihood was asked, or how a text was generated."""
    for one in as_list(arguments) or as_map(arguments).values():
        parts = as_list(one) or list(as_map(one).values())
        if parts and isinstance(parts[0], str):
            yield parts[0], parts[1] if len(parts) > 1 else None


def _likelihood(response: Any) -> float | None:
    """The log likelihood of a response such as [-3.2, false]; None if it is a text."""
    pair = as_list(response)
    greedy = len(pair) == 2 and str(pair[1]) in ("True", "False")
    return score_number(pair[0]) if greedy else None


def _texts(value: Any) -> Iterator[str]:
    """The texts of nested lists."""
    if isinstance(value, str):
        yield value
    for one in as_list(value):
        yield from _texts(one)


def _first(value: Any) -> Any:
    """The first text of nested lists."""
    items = as_list(value)
    return _first(items[0]) if items else None if value == [] else value
