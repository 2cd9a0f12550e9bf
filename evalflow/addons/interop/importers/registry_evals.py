"""OpenAI's open-source registry of evals: YAML that names a class and samples, and the samples alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evalflow.addons.interop.importers.columns import Columns, is_missing
from evalflow.addons.interop.importers.conversation import message_rows, read_turns
from evalflow.addons.interop.importers.files import ImportedConfig, ImportedExperiment, ImportSource, dataset_option
from evalflow.addons.interop.importers.graders import rubric_option
from evalflow.addons.interop.importers.ledger import COMMAND, Ledger, Untranslatable
from evalflow.addons.interop.importers.located import LocatedMap
from evalflow.addons.interop.importers.readers import parsed, text_in, text_of
from evalflow.addons.interop.importers.recorded import RecordedCases
from evalflow.addons.interop.importers.sources import SourceFolder, read_document, read_rows
from evalflow.datasets.messages import read_messages
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map, kind

PARTS = ("evals", "cases")
_Check = Callable[[list[object]], dict[str, object]]


def _any(op: str, ideals: list[object], **changes: object) -> dict[str, object]:
    wrong = next((ideal for ideal in ideals if not isinstance(ideal, str)), None)
    if wrong is not None:
        raise Untranslatable(f"its ideal is {kind(wrong)}, not text", "write it in quotes")
    return {"op": "any", "rules": [{"op": op, "value": ideal, "normalize": None, **changes} for ideal in ideals]}


def _json_match(ideals: list[object]) -> dict[str, object]:
    try:
        values = [json.loads(ideal) if isinstance(ideal, str) else ideal for ideal in ideals]
    except ValueError:
        raise Untranslatable("its ideal is not JSON", "correct the sample") from None
    return {"op": "any", "rules": [{"op": "jsonpath", "path": "$", "equals": value} for value in values]}


_CLASSES: Mapping[str, _Check] = {
    "Match": lambda ideals: _any("starts_with", ideals),
    "Includes": lambda ideals: _any("contains", ideals),
    "FuzzyMatch": lambda ideals: _any("contains", ideals, case_sensitive=False),
    "JsonMatch": _json_match,
}
_NOTES: Mapping[str, str] = {
    "Match": "match is a rule: the answer begins with an ideal",
    "FuzzyMatch": "fuzzy_match is a rule: an ideal is in the answer, whatever the case; it also ignored articles and "
    "punctuation, and took an answer that is a part of the ideal",
}


def is_registry(row: Mapping[str, object]) -> bool:
    """Whether a line is a sample of the registry."""
    return "input" in row and "item" not in row


def read_samples(source: ImportSource, path: Path) -> ImportedConfig:
    """Import samples without their YAML; since their class is unknown, they are read as `match`."""
    imported = ImportedConfig(ledger=Ledger(PARTS))
    imported.ledger.take("evals")
    imported.notes.append("samples lack their grader, so match is assumed; for the real one import the registry's YAML")
    _write(source, imported, source.name, path, _CLASSES["Match"], "checks", f"Samples of {shown(path)}.")
    return imported


def read_registry(source: ImportSource, path: Path) -> ImportedConfig:
    """Import every eval of a file of the registry; its samples are below `data` beside `evals`."""
    document = read_document(path)
    entries = {
        name: Columns(value, value.where, f"{name}.")
        for name, value in (document.items() if isinstance(document, LocatedMap) else ())
        if isinstance(value, LocatedMap)
    }
    evals = {name: value for name, value in entries.items() if "class" in value}
    if not evals:
        hint = "it needs an eval with `class` and `args`"
        raise UserError(Problem("it is not YAML of the registry of evals", shown(path), hint))
    parent = path.resolve().parent
    root = source.root or (parent.parent if parent.name in ("evals", "completion_fns") else parent)
    folder = SourceFolder.of(path, root)
    imported = ImportedConfig(ledger=Ledger(PARTS))
    about = _abouts(entries, evals)
    for number, (name, item) in enumerate(evals.items()):
        key = source.name if number == 0 else f"{source.name}_{number + 1}"
        with imported.ledger.taking("evals", f"eval {name}", item.where):
            described = item.text("description") or text_in(about, name) or name
            _read_eval(source, imported, key, name, item, folder, described)
            item.close(imported.ledger)
    for name, item in entries.items():
        if name not in evals:
            item.close(imported.ledger)
    if not imported.experiments:
        raise imported.ledger.nothing_taken(Problem("it has no evals", shown(path)))
    return imported


def _abouts(entries: Mapping[str, Columns], evals: Collection[str]) -> dict[str, object]:
    """The descriptions given at aliases of evals, by the evals' own names."""
    descriptions: dict[str, object] = {}
    for entry in entries.values():
        name = entry.peek("id")
        if isinstance(name, str) and name in evals:
            entry.get("id")
            descriptions[name] = entry.get("description")
    return descriptions


def _read_eval(
    source: ImportSource,
    imported: ImportedConfig,
    key: str,
    name: str,
    declared: Columns,
    folder: SourceFolder,
    about: str,
) -> None:
    kind_of = text_of(declared.get("class"), "class").rpartition(":")[2]
    args = declared.child("args")
    named = args.get("samples_jsonl")
    if not isinstance(named, str):
        raise Untranslatable("it names no samples_jsonl", "write them as JSON lines")
    if "://" in named or named.endswith(".gz"):
        raise Untranslatable("its samples are compressed or elsewhere", "put them beside it as JSON lines")
    below_data = folder.root / "data" / named
    path = folder.find(str(below_data) if below_data.exists() else named, folder.root, declared.where)
    any_case = kind_of == "Includes" and args.get("ignore_case") is True
    check = _CLASSES.get("FuzzyMatch" if any_case else kind_of)
    metric = "checks" if check else key
    with imported.ledger.taking("graders", f"grader of {name}", declared.where):
        if kind_of == "ModelBasedClassify":
            imported.metrics[key] = _model_graded(imported, key, args, folder)
        elif check is None:
            raise Untranslatable(f"its class {kind_of} is a program", COMMAND)
    if check is None and key not in imported.metrics:  # the samples are useful with another metric
        imported.notes.append(f"{name} has no grader here: its experiment has metric=relevance; choose your own")
        metric = "relevance"
    if kind_of in _NOTES:
        imported.notes.append(_NOTES[kind_of])
    _write(source, imported, key, path, check, metric, about)


def _model_graded(imported: ImportedConfig, key: str, args: Columns, folder: SourceFolder) -> dict[str, object]:
    """A modelgraded YAML as a rubric with labels."""
    spec = text_of(args.get("modelgraded_spec", "modelgraded_spec_file") or "", "modelgraded_spec")
    path = folder.root / "modelgraded" / f"{spec}.yaml"
    if not re.fullmatch(r"[\w./-]+", spec) or ".." in spec or not path.is_file():
        hint = "put it into the folder `modelgraded` beside `evals`; or choose metric=factual_correctness"
        raise Untranslatable(f"its modelgraded_spec {spec!r} is not in the folder", hint)
    name = spec.rpartition("/")[2]
    document = read_document(folder.inside(str(path), folder.root, args.where))
    spec_document: object = document.get(name) if isinstance(document, LocatedMap) else None
    if not isinstance(spec_document, LocatedMap) or not isinstance(spec_document.get("prompt"), str):
        raise Untranslatable("the prompt of its modelgraded YAML is not text", "write it as a rubric: docs/metrics.md")
    declared = Columns(spec_document, spec_document.where, f"{name}.")
    values = _worth(imported, key, declared)
    text = _jinja(text_of(declared.get("prompt"), "prompt"), declared.get("input_outputs"))
    declared.close(imported.ledger)
    prompt = f"{key}/{key}.jinja"
    imported.prompts[prompt] = text
    option = rubric_option(f"{spec}, a modelgraded eval.", {"type": "label", "values": values}, None, text)
    return {**option, "prompt": prompt}


def _worth(imported: ImportedConfig, key: str, declared: Columns) -> dict[str, float]:
    """The score of each choice, from 0 to 1."""
    strings = declared.get("choice_strings")  # each letter of a text is a choice
    choices = [text_of(choice, "choice") for choice in (strings if isinstance(strings, str) else as_list(strings))]
    scores: Mapping[str, Any] = as_map(declared.get("choice_scores"))
    if declared.peek("choice_scores") == "from_strings":
        scores = {choice: choice for choice in choices}
    try:
        values = {choice: float(scores[choice]) for choice in choices}
    except (TypeError, KeyError, ValueError):
        hint = "give each choice a score: choice_scores"
        raise Untranslatable("its choices have no scores", hint) from None
    if len(values) < 2:
        raise Untranslatable("it has fewer than two choices", "name them in choice_strings")
    if all(0 <= value <= 1 for value in values.values()):
        return values
    low, high = min(values.values()), max(values.values())
    imported.notes.append(f"{key}: the scores {low:g} to {high:g} of its choices are 0 to 1")
    return {choice: (value - low) / ((high - low) or 1) for choice, value in values.items()}


def _jinja(prompt: str, said_to: object) -> str:
    """A prompt with Python's braces, in Jinja, with the judged text between delimiters.

    `said_to` names the answer to each input; null: input and completion.
    """
    asked = as_map(said_to) or {"input": "completion"}
    if len(asked) > 1:
        raise Untranslatable("its prompt compares answers to several inputs", "metric=preference compares two bots")
    ((question, answer),) = asked.items()
    names = {question: "question", text_of(answer, "input_outputs"): "answer", "ideal": "reference"}

    def field(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return "{{ '" + match[0][0] + "' }}"
        name = match[1]
        value = names.get(name, f"vars.{name}")
        return f'{{{{ {value} | fenced("{name}") }}}}'

    return re.sub(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}", field, prompt)


def _write(
    source: ImportSource, imported: ImportedConfig, key: str, path: Path, check: _Check | None, metric: str, about: str
) -> None:
    ledger = imported.ledger
    with source.rows(imported, key) as file:
        cases = RecordedCases(imported, file)
        for read_row in read_rows(path, ledger, broken=ledger.leave_broken):
            row = Columns(read_row.data, read_row.where)
            cases.take(row, partial(_case, row, check, ledger), ())
    if not file.count:
        raise ledger.nothing_taken(Problem("it has no samples", shown(path)))
    imported.datasets[key] = dataset_option(key, about)
    imported.experiments[key] = ImportedExperiment(key, [metric], generate=True)
    if check is not None:
        imported.unjudged.add(key)


def _case(row: Columns, check: _Check | None, ledger: Ledger) -> dict[str, object]:
    asked = row.get("input")
    if isinstance(asked, str):
        case: dict[str, object] = {"question": asked}
    else:
        case = {"messages": _messages(parsed(asked), ledger, row.where)}
    declared = row.get("ideal")
    ideals = [
        item for item in (as_list(declared) if isinstance(declared, list) else [declared]) if not is_missing(item)
    ]
    if all(isinstance(ideal, str | int | float) for ideal in ideals):
        case |= {"reference": ideals[0] if len(ideals) == 1 else ideals} if ideals else {}
    else:
        case["vars"] = {"ideal": declared}
    if (own := row.case_id("id")) is not None:
        case["id"] = own
    if check is None:
        return case
    if not ideals:
        raise Untranslatable("it has no `ideal` to compare with", "give it one")
    return case | {"checks": [{"identifier": "rule", "params": check(ideals)}]}


def _messages(asked: object, ledger: Ledger, where: str) -> list[dict[str, object]]:
    """The chat of a sample: named example messages become turns, and a final system message the question."""
    listed = [dict(as_map(entry)) for entry in as_list(asked)]
    if not listed:
        raise Untranslatable("it has no `input` of a user", "give it one")
    for item in listed:
        named = item.get("name")
        role = _EXAMPLES.get(named) if isinstance(named, str) else None
        if role:
            item |= {"role": role, "name": None}
    if listed[-1].get("role") == "assistant":
        raise Untranslatable("its last message is the assistant's", "delete that message")
    if listed[-1].get("role") in ("system", "developer"):
        listed[-1]["role"] = "user"
    try:
        read_messages(listed)
    except ValueError as error:
        raise Untranslatable(f"its input is not a chat: {error}", "give each message a `content`") from None
    return message_rows(read_turns(listed, ledger, where, ordered=True))


_EXAMPLES: Mapping[str, str] = {"example_user": "user", "example_assistant": "assistant"}
"""The roles meant by the names of system messages."""
