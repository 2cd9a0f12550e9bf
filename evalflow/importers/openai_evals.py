"""Import of OpenAI's evals: archives of the API, and samples and YAML of the open-source registry.

The API ends on 2026-11-30. Of it there are the eval (`testing_criteria`), its data (`{item, sample}` a line), the
output items of a run (`{data: [{datasource_item, sample, results}]}`), and all in one file (`{eval, rows, runs}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.importers.files import (
    DataFile,
    ImportedConfig,
    ImportSource,
    dataset_option,
    experiment_option,
    generate_for,
    judged_by,
    key_for,
    metric_option,
    output_text,
    question_of,
    recorded_option,
)
from evalflow.importers.graders import Grader, grader_of
from evalflow.importers.ledger import Ledger, Untranslatable
from evalflow.importers.located import LocatedList, LocatedMap, place
from evalflow.importers.registry_evals import is_registry, read_registry, read_samples
from evalflow.importers.scores import RecordedScores
from evalflow.importers.sources import LARGEST_FILE, expect_object, read_document, read_objects, read_rows
from evalflow.jsonvalues import as_list, as_map
from evalflow.paths import shown

PARTS = ("graders", "cases", "checks", "scores")
_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_NEXT = "put it into a folder with its items, and import the folder"


_Tables = Mapping[str, Iterator[SourceRow]]
"""The items of each run."""


@dataclass(slots=True)
class _Archive:
    """What is read of an archive: the graders, and the scores that were recorded, by their names."""

    source: ImportSource
    imported: ImportedConfig
    scores: RecordedScores
    graders: list[Grader] = field(default_factory=list[Grader])
    checks: dict[str, str] = field(default_factory=dict[str, str])
    columns: dict[str, tuple[int, int]] = field(default_factory=dict[str, "tuple[int, int]"])

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger


def read_openai_evals(source: ImportSource) -> ImportedConfig:
    """Import an archive of the API, a registry's YAML, or a file of samples; UserError if it is none of them."""
    path = source.path
    if path.is_dir():
        return _of_folder(source, path)
    source.expect_file()
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_registry(source, path)
    if path.suffix.lower() != ".json":
        first = next(read_rows(path)).data
        if is_registry(first):
            return read_samples(source, path)
        if "item" not in first and "datasource_item" not in first:
            what = f"its first line has none of item, datasource_item, input: {', '.join(list(first)[:8])}"
            raise UserError(Problem(f"it is no data of an eval: {what}", f"{shown(path)}:1"))
        return _of_items(source, path, None)
    if path.stat().st_size > LARGEST_FILE:
        return _of_items(source, path, None)
    document = read_document(path)
    if isinstance(document, LocatedList):
        return _of_items(source, path, None)
    if not isinstance(document, LocatedMap) or not {"testing_criteria", "eval", "data"} & set(document):
        hint = "it needs testing_criteria, or eval, rows and runs, or the data of output items"
        raise UserError(Problem("it is no archive of OpenAI's evals", shown(path), hint))
    return _of_items(source, path, document)


def _of_folder(source: ImportSource, folder: Path) -> ImportedConfig:
    """An eval with the files of its items, all in one folder."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".json", ".jsonl"))
    small = [path for path in files if path.suffix.lower() == ".json" and path.stat().st_size <= LARGEST_FILE]
    evals: dict[Path, Mapping[str, Any]] = {
        path: one for path in small if "testing_criteria" in (one := as_map(read_document(path)))
    }
    if len(evals) != 1 or len(files) < 2:
        hint = "one .json with testing_criteria, and its items in .jsonl or .json"
        raise UserError(Problem(f"the folder has {len(evals)} evals in {len(files)} files", shown(folder), hint))
    path = next(iter(evals))
    declared = evals[path]
    others = [one for one in files if one != path]
    tables = {one.stem if len(others) > 1 else "": _streamed(one, one in small) for one in others}
    return _imported(source, path, declared, tables)


def _of_items(source: ImportSource, path: Path, document: LocatedMap | None) -> ImportedConfig:
    declared: Mapping[str, Any] = {} if document is None else as_map(document.get("eval", document))
    return _imported(source, path, declared, _tables(path, document))


def _imported(source: ImportSource, path: Path, declared: Mapping[str, Any], tables: _Tables) -> ImportedConfig:
    ledger = Ledger(PARTS)
    archive = _Archive(source, ImportedConfig(ledger=ledger), RecordedScores(ledger))
    _read_graders(archive, declared, shown(path))
    with ExitStack() as stack:
        for key, items in tables.items():
            option = source.name if key == "" else key_for(f"{source.name} {key}", archive.columns, "dataset")
            _write(archive, stack.enter_context(source.rows(archive.imported, option)), option, items)
    if not any(total for total, _ in archive.columns.values()):
        raise UserError(Problem("it has no items, only how they are graded", shown(path), _NEXT))
    _declare(archive, declared, shown(path))
    return archive.imported


def _tables(path: Path, document: LocatedMap | None) -> _Tables:
    """The items of each run, by its name; the plain rows of an archive where there is no run."""
    if document is None or "data" in document:
        return {"": _streamed(path, document is not None)}
    runs = document.get("runs")
    found: dict[str, Iterator[SourceRow]] = {}
    for number, run in enumerate(as_list(runs)):
        known: Mapping[str, Any] = as_map(run)
        about: Any = known.get("run")
        name = str(cast("Mapping[str, Any]", about).get("name") or number + 1) if isinstance(about, Mapping) else ""
        items: Any = known.get("output_items")
        listed: Any = cast("Mapping[str, Any]", items).get("data") if isinstance(items, Mapping) else items
        key = name if len(cast("list[Any]", runs)) > 1 else ""
        found[key if key not in found else f"{key} {number + 1}"] = _listed(listed, shown(path))
    return found or {"": _listed(document.get("rows"), shown(path))}


def _streamed(path: Path, below_data: bool) -> Iterator[SourceRow]:
    return read_objects(path, "data") if below_data else read_rows(path)


def _listed(items: Any, file: str) -> Iterator[SourceRow]:
    for number, item in enumerate(as_list(items)):
        yield expect_object(item, items.at(number) if isinstance(items, LocatedList) else f"{file}[{number}]")


def _read_graders(archive: _Archive, declared: Mapping[str, Any], file: str) -> None:
    criteria = declared.get("testing_criteria")
    for number, one in enumerate(as_list(criteria)):
        name = as_map(one).get("name") or number + 1
        with archive.ledger.taking("graders", f"grader {name}", place(one, file)):
            archive.graders.append(grader_of(one))


def _write(archive: _Archive, file: DataFile, option: str, items: Iterator[SourceRow]) -> None:
    answered = failed = 0
    for source in items:
        archive.ledger.found("cases")
        row, where = source.data, source.where
        item: Any = row.get("item", row.get("datasource_item"))
        if not isinstance(item, Mapping):
            archive.ledger.left("cases", "item", where, "it has neither item nor datasource_item", "give it one")
            continue
        known = dict(cast("Mapping[str, Any]", item))
        sample: Any = row.get("sample")
        case = {"id": str(file.count + 1), **_case(known, as_map(sample)), "vars": known}
        case |= {"openai": scores} if (scores := archive.scores.read(_scores(row.get("results")), where)) else {}
        checks = [check for grader in archive.graders if (check := _check(archive, grader, known, where))]
        file.write({**case, "checks": checks} if checks else case)
        answered += "answer" in case
        failed += "failure" in case
    archive.columns[option] = (file.count - (failed if answered else 0), answered)


def _case(item: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    error = sample.get("error")
    asked = [as_map(one) for one in as_list(sample.get("input"))]
    messages = [
        {"role": str(one["role"]), "content": str(one["content"])}
        for one in asked
        if isinstance(one.get("content"), str) and "role" in one
    ]
    question = question_of(item, "")
    found: dict[str, Any] = {"messages": messages} if _is_conversation(messages) else {"question": question}
    text = sample.get("output_text")
    said = as_list(sample.get("output"))
    last: Any = said[-1] if said else None
    answer = text if text is not None else as_map(last).get("content", last)
    if answer is not None:
        return {**found, "answer": answer if isinstance(answer, str) else output_text(answer)}
    message = as_map(error).get("message")
    return {**found, "failure": str(message)} if message else found


def _is_conversation(messages: Sequence[Mapping[str, Any]]) -> bool:
    turns = [message["role"] for message in messages if message["role"] not in ("system", "developer")]
    known = {"system", "user", "assistant"} >= {message["role"] for message in messages}
    return known and bool(turns) and turns[-1] == "user" and turns[0] == "user"


def _scores(declared: Any) -> Iterator[tuple[str, Any]]:
    for known in map(as_map, as_list(declared)):
        yield _UUID.sub("", str(known.get("name") or "score")), known.get("score", known.get("passed"))


def _check(archive: _Archive, grader: Grader, item: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """The grader as a check of one case."""
    if grader.check is None:
        return None
    archive.ledger.found("checks")
    try:
        kind, params = grader.check(item)
    except (Untranslatable, ValueError) as failure:
        archive.ledger.left("checks", f"check {grader.name}", where, str(failure), "give the item that column")
        return None
    archive.ledger.took("checks")
    name = re.sub(r"[\s#]+", "_", grader.name) or kind
    identifier = name if name not in ("rule", "group", "command") and name != kind else f"{name}_check"
    archive.checks[identifier] = kind
    return {"identifier": identifier, "params": params}


def _declare(archive: _Archive, declared: Mapping[str, Any], file: str) -> None:
    imported, name = archive.imported, archive.source.name
    about = str(declared.get("name") or f"Items of {file}.")
    chosen: list[str] = []
    if archive.checks:
        chosen.append(name)
        imported.metrics[name] = checks_option({key: {"type": kind} for key, kind in archive.checks.items()}, about)
    models: set[str] = set()
    for grader in archive.graders:
        if grader.check is None:
            key = key_for(f"{name} {grader.name}", imported.metrics, "metric")
            imported.prompts[f"{name}/{key}.jinja"] = grader.prompt
            imported.metrics[key] = {**grader.metric, "prompt": f"{name}/{key}.jinja"}
            models |= {grader.model} if grader.model else set()
            chosen.append(key)
    for label, score in archive.scores.keys.items():
        key = key_for(f"{name} {score} recorded", imported.metrics, "metric")
        about_score = f"The score that OpenAI's grader gave the recorded answer: {label}."
        imported.metrics[key] = recorded_option(f"openai.{score}", about_score)
        chosen.append(key)
    for option, (total, answered) in archive.columns.items():
        imported.datasets[option] = dataset_option(option, about, name=name)
        experiment = experiment_option(option, chosen or ["relevance"], generate_for(answered, total))
        imported.experiments[option] = experiment
    if len(models) == 1:
        judged_by(imported, f"{name}_judge", "openai", {"model": next(iter(models)), "api_key_env": "OPENAI_API_KEY"})
    elif not any(metric["kind"] == "rubric" for metric in imported.metrics.values()):
        imported.unjudged |= set(imported.experiments)
    if not chosen:
        imported.notes.append("the file has no graders: the experiment has metric=relevance; choose your own")


def checks_option(custom: Mapping[str, Any], about: str) -> dict[str, Any]:
    """The YAML of a metric over checks of cases."""
    return metric_option(
        "checks", "checks", about, threshold=1.0, custom=dict(custom) or None, only=None, stop_on_fail=False
    )
