"""Import of lm-evaluation-harness: samples_TASK_DATE.jsonl, alone or with the results_DATE.json beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns, is_missing
from evalflow.addons.interop.importers.conversation import are_messages
from evalflow.addons.interop.importers.exports import input_of
from evalflow.addons.interop.importers.files import (
    ImportedConfig,
    ImportSource,
    as_json,
    key_for,
    output_text,
    question_of,
)
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import parsed
from evalflow.addons.interop.importers.recorded import PARTS, RecordedCases, recorded_cases
from evalflow.addons.interop.importers.scores import score_number
from evalflow.addons.interop.importers.sources import read_document, read_rows
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map

_DATE = r"\d{4}-\d\d-\d\dT[\d:.-]+"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl")
_RESULTS = re.compile(rf"results_(?P<date>{_DATE})\.json")
_LOG = "run the harness with --log_samples and --output_path"
_OWN = frozenset(
    {
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    }
)
_LOWER = frozenset({"perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "ter", "brier_score"})
"""Metrics for which lower is better, if no results file gives the direction."""


def read_lm_eval(source: ImportSource) -> ImportedConfig:
    """Import the samples of one or more tasks; UserError if there are none."""
    path = _file(source)
    imported = ImportedConfig(ledger=Ledger(("tasks", *PARTS)))
    results: Mapping[str, object] = {}
    files = {_task(path): path}
    if path.suffix.lower() == ".json":
        results = as_map(read_document(path))
        files = _with_samples(path, results, imported.ledger)
    imported.ledger.take("tasks", len(files))
    for task, samples in files.items():
        key = source.name if len(files) == 1 else key_for(f"{source.name} {task}", imported.datasets, "dataset")
        better = as_map(as_map(results.get("higher_is_better")).get(task))
        with recorded_cases(
            source, "lm-evaluation-harness", "lm_eval", path=samples, key=key, imported=imported
        ) as cases:
            for row in read_rows(samples, imported.ledger, broken=imported.ledger.leave_broken):
                _take(cases, Columns(row.data, row.where), better)
    return imported


def _file(source: ImportSource) -> Path:
    """The file of samples, or of results that name the samples."""
    path = source.path
    if path.is_dir():
        results = sorted(
            file for pattern in ("*", "*/*") for file in path.glob(pattern) if _RESULTS.fullmatch(file.name)
        )
        if len(results) != 1:
            hint = f"name one: {shown(results[-1])}" if results else _LOG
            raise UserError(Problem(f"the folder has {len(results)} files results_DATE.json", shown(path), hint))
        return results[0]
    return source.file(hint="name samples_*.jsonl or results_*.json")


def _task(path: Path) -> str:
    named = _SAMPLES.fullmatch(path.name)
    return named["task"] if named else path.stem


def _with_samples(path: Path, results: Mapping[str, object], ledger: Ledger) -> dict[str, Path]:
    """The samples file of each task in the results; tasks without one are listed."""
    tasks = as_map(results.get("results"))
    date = _RESULTS.fullmatch(path.name)
    if not tasks:
        raise UserError(Problem("it is not a results_DATE.json of lm-evaluation-harness", shown(path), _LOG))
    near = [(match, file) for file in sorted(path.parent.iterdir()) if (match := _SAMPLES.fullmatch(file.name))]
    files = {item["task"]: file for item, file in near if date and item["date"] == date["date"]}
    if not files:
        what = "it has only means, and the samples of its date are not beside it"
        raise UserError(Problem(what, shown(path), f"name a file samples_*.jsonl; or {_LOG}"))
    for task in tasks:
        if task not in files:
            ledger.leave("tasks", f"task {task}", shown(path), "it is a group of tasks, or its samples were not logged")
    return files


def _take(cases: RecordedCases, sample: Columns, better: Mapping[str, object]) -> None:
    given = as_list(sample.get("metrics"))
    named = [name for name in given if isinstance(name, str)]
    names = named or [name for name in sample.names if name not in _OWN]
    chosen = sample.get("filter")
    end = f" {chosen}" if chosen not in (None, "none") else ""
    scores: list[tuple[object, object]] = [(name, None) for name in given if not isinstance(name, str)]
    for name in names:
        value = sample.peek(name)
        scores.append((f"{name}{end}", value))
        if score_number(value) is not None:  # other values are kept as they are
            sample.get(name)
    cases.lower |= {f"{name}{end}" for name in names if not better.get(name, name not in _LOWER)}
    cases.undirected |= {f"{name}{end}" for name in names if name not in better}

    def read() -> dict[str, object]:
        case = _case(sample, cases.ledger, end)
        return case | ({"tags": [str(chosen)]} if end else {})

    cases.take(sample, read, scores)


def _case(sample: Columns, ledger: Ledger, end: str) -> dict[str, object]:
    requests = list(_requests(sample.get("arguments")))
    number = sample.get("doc_id")
    if not requests or number is None:
        raise Untranslatable("it is not a sample: it has no doc_id or arguments", _LOG)
    declared = sample.get("doc")
    doc = dict(as_map(declared)) or ({} if is_missing(declared) else {"doc": declared})
    prompts = {request[0] for request in requests}
    asked = requests[0][0] if len(prompts) == 1 else question_of(doc, "") or output_text(doc)
    chat = as_list(parsed(asked))
    case: dict[str, object] = {"id": f"{number}{end.replace(' ', '/')}", "group": str(number), "vars": doc}
    case |= {**input_of(chat if are_messages(chat) else asked, ledger, sample.where), "vars": doc}
    reference = _reference(sample, ledger)
    likely = [_likelihood(response) for response in as_list(sample.peek("filtered_resps"))]
    if len(requests) > 1 and len(likely) == len(requests) and None not in likely:
        choices = [f"{'' if len(prompts) == 1 else prompt}{end}".strip() for prompt, end in requests]
        best = max(range(len(choices)), key=lambda number: likely[number] or 0.0)
        numbered = {str(number): choice for number, choice in enumerate(choices)}
        right = numbered.get(reference, reference) if isinstance(reference, str) else reference
        case |= {"answer": choices[best], "vars": {**doc, "options": choices}}
        return case | ({} if right is None else {"reference": right})
    if isinstance(requests[0][1], Mapping):
        case |= _generated(sample, ledger)
        case["vars"] = {**doc, **({"arguments": requests[0][1]} if requests[0][1] else {})}
    return case | ({} if reference is None else {"reference": reference})


def _reference(sample: Columns, ledger: Ledger) -> str | list[str] | None:
    """The target, or several. If it is not text, None, and the key stays unread."""
    references = sample.take(_targets, "target")
    if references is None and sample.peek("target") not in (None, []):
        reason = "it is neither a text nor a list of texts; it is kept in `vars`"
        ledger.leave("values", "target", sample.where, reason)
    return references[0] if references and len(references) == 1 else references


def _targets(value: object) -> list[str] | None:
    items = as_list(value) if isinstance(value, list) else [value]
    is_text = all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in items)
    return [as_json(item) for item in items] if items and is_text else None


def _generated(sample: Columns, ledger: Ledger) -> dict[str, object]:
    """The first generated text after filtering; the unfiltered text is in the metadata."""
    answers = [text for filtered_resp in as_list(sample.peek("filtered_resps")) for text in _texts(filtered_resp)]
    raw = [text for resp in as_list(sample.peek("resps")) for text in _texts(resp)]
    if not answers:
        return {}
    if len(answers) == 1:
        sample.get("filtered_resps")
    else:
        ledger.take("answers")
        reason = "the case gets the first answer; its scores are for all answers, which are kept in `vars`"
        ledger.found("answers", len(answers) - 1)
        ledger.left("answers", f"{len(answers) - 1} more answers", sample.where, reason, count=len(answers) - 1)
    if len(raw) > 1:
        return {"answer": answers[0]}
    sample.get("resps")
    return {"answer": answers[0], **({"metadata": {"response": raw[0]}} if raw and raw != answers[:1] else {})}


def _requests(arguments: object) -> Iterator[tuple[str, object]]:
    """The prompt of each request, with the continuation whose likelihood was asked, or the generation settings."""
    for argument in as_list(arguments) or as_map(arguments).values():
        parts = as_list(argument) or list(as_map(argument).values())
        if parts and isinstance(parts[0], str):
            yield parts[0], parts[1] if len(parts) > 1 else None


def _likelihood(response: object) -> float | None:
    """The log likelihood of a response such as [-3.2, false]; None if it is a text."""
    pair = as_list(response)
    greedy = len(pair) == 2 and str(pair[1]) in ("True", "False")
    return score_number(pair[0]) if greedy else None


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in as_list(value):
        yield from _texts(item)
