"""OpenAI's open-source registry of evals: YAML that names a class and samples, and the samples alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from evalflow.errors import Problem, UserError
from evalflow.importers.files import ImportedConfig, ImportSource, dataset_option, experiment_option
from evalflow.importers.graders import rubric_option
from evalflow.importers.ledger import COMMAND, Ledger, Untranslatable
from evalflow.importers.located import LocatedMap
from evalflow.importers.sources import SourceFolder, read_document, read_rows
from evalflow.jsonvalues import as_list, as_map
from evalflow.paths import shown

PARTS = ("evals", "cases")
_Check = Callable[[list[str]], dict[str, Any]]


def _any(op: str, ideals: list[str], **changes: Any) -> dict[str, Any]:
    return {"op": "any", "rules": [{"op": op, "value": ideal, "normalize": None, **changes} for ideal in ideals]}


def _json_match(ideals: list[str]) -> dict[str, Any]:
    try:
        values = [json.loads(ideal) for ideal in ideals]
    except ValueError:
        raise Untranslatable("its ideal is no JSON", "mend the sample") from None
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


def is_registry(row: Mapping[str, Any]) -> bool:
    """Whether a line is a sample of the registry."""
    return "input" in row and "item" not in row


def read_samples(source: ImportSource, path: Path) -> ImportedConfig:
    """Import samples without their YAML, of which the class is not known: they are taken as `match`."""
    imported = ImportedConfig(ledger=Ledger(PARTS))
    imported.ledger.take("evals")
    imported.notes.append("samples do not say how they are graded: import the registry's YAML; here it is match")
    _write(source, imported, source.name, path, _CLASSES["Match"], "checks", f"Samples of {shown(path)}.")
    return imported


def read_registry(source: ImportSource, path: Path) -> ImportedConfig:
    """Import every eval of a file of the registry; its samples are below `data` beside `evals`."""
    document = read_document(path)
    evals = {
        str(name): one
        for name, one in (document.items() if isinstance(document, LocatedMap) else ())
        if isinstance(one, LocatedMap) and "class" in one
    }
    if not evals:
        hint = "it needs an eval with `class` and `args`"
        raise UserError(Problem("it is no YAML of the registry of evals", shown(path), hint))
    parent = path.resolve().parent
    root = source.root or (parent.parent if parent.name in ("evals", "completion_fns") else parent)
    folder = SourceFolder.of(path, root)
    imported = ImportedConfig(ledger=Ledger(PARTS))
    for number, (name, one) in enumerate(evals.items()):
        key = source.name if number == 0 else f"{source.name}_{number + 1}"
        with imported.ledger.taking("evals", f"eval {name}", one.where):
            _read_eval(source, imported, key, name, one, folder)
    if not imported.experiments:
        raise imported.ledger.nothing_taken(Problem("it has no evals", shown(path)))
    return imported


def _read_eval(
    source: ImportSource, imported: ImportedConfig, key: str, name: str, one: LocatedMap, folder: SourceFolder
) -> None:
    kind = str(one["class"]).rpartition(":")[2]
    args = as_map(one.get("args"))
    named = args.get("samples_jsonl")
    if not isinstance(named, str):
        raise Untranslatable("it names no samples_jsonl", "write them as JSON lines")
    if "://" in named or named.endswith(".gz"):
        raise Untranslatable("its samples are compressed or elsewhere", "put them beside it as JSON lines")
    below_data = folder.root / "data" / named
    path = folder.find(str(below_data) if below_data.exists() else named, folder.root, one.at("args"))
    check = (
        _CLASSES["FuzzyMatch" if kind == "Includes" and args.get("ignore_case") else kind] if kind in _CLASSES else None
    )
    metric = "checks" if check else key
    with imported.ledger.taking("graders", f"grader of {name}", one.where):
        if kind == "ModelBasedClassify":
            imported.metrics[key] = _model_graded(imported, key, args, folder, one)
        elif check is None:
            raise Untranslatable(f"its class {kind} is a program", COMMAND)
    if check is None and key not in imported.metrics:  # the samples are of use with another metric
        imported.notes.append(f"{name} has no grader here: its experiment has metric=relevance; choose your own")
        metric = "relevance"
    if kind in _NOTES:
        imported.notes.append(_NOTES[kind])
    _write(source, imported, key, path, check, metric, str(one.get("description") or name))


def _model_graded(
    imported: ImportedConfig, key: str, args: Mapping[str, Any], folder: SourceFolder, one: LocatedMap
) -> dict[str, Any]:
    """A modelgraded YAML as a rubric with labels."""
    spec = str(args.get("modelgraded_spec", args.get("modelgraded_spec_file", "")))
    path = folder.root / "modelgraded" / f"{spec}.yaml"
    if not re.fullmatch(r"[\w./-]+", spec) or ".." in spec or not path.is_file():
        hint = "put it into the folder `modelgraded` beside `evals`; or choose metric=factual_correctness"
        raise Untranslatable(f"its modelgraded_spec {spec!r} is not in the folder", hint)
    document = read_document(folder.inside(str(path), folder.root, one.where))
    declared: Any = document.get(spec.rpartition("/")[2]) if isinstance(document, LocatedMap) else None
    if not isinstance(declared, LocatedMap) or not isinstance(declared.get("prompt"), str):
        raise Untranslatable(
            "its modelgraded YAML has no prompt that is a text", "write it as a rubric: docs/metrics.md"
        )
    choices = [str(choice) for choice in _choices(declared.get("choice_strings"))]
    scores: Any = declared.get("choice_scores")
    if scores == "from_strings":
        scores = {choice: choice for choice in choices}
    try:
        values = {choice: float(cast("Mapping[str, Any]", scores)[choice]) for choice in choices}
    except (TypeError, KeyError, ValueError):
        hint = "say what each choice is worth: choice_scores"
        raise Untranslatable("its choices have no scores", hint) from None
    if len(values) < 2:
        raise Untranslatable("it has less than two choices", "name them in choice_strings")
    if not all(0 <= value <= 1 for value in values.values()):
        low, high = min(values.values()), max(values.values())
        values = {choice: (value - low) / ((high - low) or 1) for choice, value in values.items()}
        imported.notes.append(f"{key}: the scores {low:g} to {high:g} of its choices are 0 to 1")
    prompt, text = f"{key}/{key}.jinja", _jinja(str(declared["prompt"]))
    imported.prompts[prompt] = text
    option = rubric_option(f"{spec}, a modelgraded eval.", {"type": "label", "values": values}, None, text)
    return {**option, "prompt": prompt}


def _choices(declared: Any) -> list[Any]:
    """A list of choices; a text is one choice for each letter."""
    return list(declared) if isinstance(declared, str) else as_list(declared)


_NAMES: Mapping[str, str] = {"input": "question", "completion": "answer", "ideal": "reference"}


def _jinja(prompt: str) -> str:
    """A prompt with Python's braces in Jinja, with what is judged between delimiters."""

    def field(found: re.Match[str]) -> str:
        if found[0] in ("{{", "}}"):
            return "{{ '" + found[0][0] + "' }}"
        name = found[1]
        value = _NAMES.get(name, f"vars.{name}")
        return f'{{{{ {value} | fenced("{name}") }}}}'

    return re.sub(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}", field, prompt)


def _write(
    source: ImportSource, imported: ImportedConfig, key: str, path: Path, check: _Check | None, metric: str, about: str
) -> None:
    with source.rows(imported, key) as file:
        for row in read_rows(path):
            imported.ledger.found("cases")
            try:
                file.write({"id": str(file.count + 1), **_case(row.data, check)})
            except Untranslatable as failure:
                imported.ledger.left("cases", "sample", row.where, failure.reason, failure.hint)
    if not file.count:
        raise imported.ledger.nothing_taken(Problem("it has no samples", shown(path)))
    imported.datasets[key] = dataset_option(key, about)
    imported.experiments[key] = experiment_option(key, [metric], generate=True)
    if check is not None:
        imported.unjudged.add(key)


def _case(row: Mapping[str, Any], check: _Check | None) -> dict[str, Any]:
    asked = row.get("input")
    if isinstance(asked, str):
        found: dict[str, Any] = {"question": asked}
    else:
        messages = list(_messages(asked))
        if not messages:
            raise Untranslatable("it has no `input` of a user", "give it one")
        found = {"messages": messages}
    ideal = row.get("ideal")
    listed = cast("list[Any]", ideal) if isinstance(ideal, list) else [ideal]
    ideals = [one if isinstance(one, str) else json.dumps(one) for one in listed if one is not None]
    if ideals:
        found["reference"] = ideals[0]
    extra = {name: value for name, value in row.items() if name not in ("input", "ideal")}
    found |= {"vars": {**extra, "ideals": ideals}}
    if check is None:
        return found
    if not ideals:
        raise Untranslatable("it has no `ideal` to compare with", "give it one")
    return found | {"checks": [{"identifier": "rule", "params": check(ideals)}]}


def _messages(asked: Any) -> Iterator[dict[str, str]]:
    """The chat of a sample: examples by name are turns, and what a system message at the end says is the question."""
    listed = [as_map(one) for one in as_list(asked)]
    for number, one in enumerate(listed):
        if not isinstance(one.get("content"), str):
            raise Untranslatable("a message of it has no text", "give each message a `content`")
        role = {"example_user": "user", "example_assistant": "assistant"}.get(
            str(one.get("name")), str(one.get("role"))
        )
        is_last = number == len(listed) - 1
        if is_last and role == "assistant":
            raise Untranslatable("its last message is the assistant's", "leave that message out")
        yield {"role": "user" if is_last else role, "content": str(one["content"])}
