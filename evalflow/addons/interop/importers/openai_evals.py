"""Import of OpenAI's evals: archives of the API, and samples and YAML of the open-source registry.

The API ends on 2026-11-30. Its files are the eval (`testing_criteria`), its data (`{item, sample}` per line), the
output items of a run (`{data: [{datasource_item, sample, results}]}`), or everything in one file (`{eval, rows,
runs}`).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns
from evalflow.addons.interop.importers.files import (
    ImportedConfig,
    ImportedExperiment,
    ImportSource,
    dataset_option,
    generate_for,
    judged_by,
    key_for,
    metric_option,
    recorded_option,
)
from evalflow.addons.interop.importers.graders import Grader, grader_of, passes_at
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.located import LocatedList, LocatedMap, place
from evalflow.addons.interop.importers.openai_items import case_of, item_of, read_scores
from evalflow.addons.interop.importers.readers import WRITE_TEXT
from evalflow.addons.interop.importers.recorded import RecordedCases
from evalflow.addons.interop.importers.registry_evals import is_registry, read_registry, read_samples
from evalflow.addons.interop.importers.scores import RecordedScores, Verdicts
from evalflow.addons.interop.importers.sources import (
    LARGEST_FILE,
    begins_with,
    leave_document_keys,
    objects,
    read_document,
    read_objects,
    read_rows,
)
from evalflow.datasets.json_files import document_values
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map, kind

PARTS = ("graders", "cases", "checks", "scores")
_NEXT = "put it into a folder with its items, and import the folder"
_WHOLE = "it is about the whole file, not about a case"


_Tables = Mapping[str, Iterator[SourceRow]]
"""The items of each run."""


@dataclass(slots=True)
class _Archive:
    """The content of an archive: the graders, and the recorded scores, by name."""

    source: ImportSource
    imported: ImportedConfig
    scores: RecordedScores = field(default_factory=RecordedScores)
    verdicts: defaultdict[str, Verdicts] = field(default_factory=lambda: defaultdict(Verdicts))
    graders: list[Grader] = field(default_factory=list[Grader])
    limits: dict[str, float] = field(default_factory=dict[str, float])
    checks: dict[str, str] = field(default_factory=dict[str, str])
    tables: dict[str, RecordedCases] = field(default_factory=dict[str, RecordedCases])

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger


def read_openai_evals(source: ImportSource) -> ImportedConfig:
    """Import an archive of the API, a registry's YAML, or a file of samples; UserError for any other file."""
    path = source.path
    ledger = Ledger(PARTS)
    archive = _Archive(source, ImportedConfig(ledger=ledger))
    if path.is_dir():
        return _of_folder(archive, path)
    source.file()
    if path.suffix.lower() in (".yaml", ".yml"):
        return read_registry(source, path)
    if path.suffix.lower() != ".json":
        first = next(read_rows(path, Ledger(), broken=lambda _: None), None) or next(read_rows(path, Ledger()))
        if is_registry(first.data):
            return read_samples(source, path)
        if "item" not in first.data and "datasource_item" not in first.data:
            what = f"its first line has none of item, datasource_item, input: {', '.join(list(first.data)[:8])}"
            raise UserError(Problem(f"it is not data of an eval: {what}", first.where))
        return _imported(
            archive,
            path,
            Columns({}, shown(path)),
            {"": read_rows(path, archive.ledger, broken=archive.ledger.leave_broken)},
        )
    document = None if path.stat().st_size > LARGEST_FILE else read_document(path)
    if document is None or isinstance(document, LocatedList):
        return _imported(archive, path, Columns({}, shown(path)), {"": _items_in(archive, path)})
    if not isinstance(document, LocatedMap) or not {"testing_criteria", "eval", "data"} & set(document):
        hint = "it needs testing_criteria, or eval, rows and runs, or the data of output items"
        raise UserError(Problem("it is not an archive of OpenAI's evals", shown(path), hint))
    root = Columns(document, shown(path))
    return _imported(archive, path, root, _tables(archive, path, root))


def _of_folder(archive: _Archive, folder: Path) -> ImportedConfig:
    """An eval with the files of its items, all in one folder."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".json", ".jsonl"))
    small = [path for path in files if path.suffix.lower() == ".json" and path.stat().st_size <= LARGEST_FILE]
    evals: dict[Path, Mapping[str, object]] = {
        path: document for path in small if "testing_criteria" in (document := as_map(read_document(path)))
    }
    if len(evals) != 1 or len(files) < 2:
        hint = "one .json with testing_criteria, and its items in .jsonl or .json"
        raise UserError(Problem(f"the folder has {len(evals)} evals in {len(files)} files", shown(folder), hint))
    path = next(iter(evals))
    others = [file for file in files if file != path]
    tables = {other.stem if len(others) > 1 else "": _items_in(archive, other) for other in others}
    return _imported(archive, path, Columns(evals[path], shown(path)), tables)


def _items_in(archive: _Archive, path: Path) -> Iterator[SourceRow]:
    """The items of a file: its lines, the objects of its list, or those of its `data`."""
    if path.suffix.lower() != ".json" or begins_with(path, b"["):
        return read_rows(path, archive.ledger, broken=archive.ledger.leave_broken)
    leave_document_keys(path, document_values(path), ("data",), archive.ledger)
    return read_objects(path, "data", archive.ledger, archive.ledger.leave_broken)


def _imported(archive: _Archive, path: Path, root: Columns, tables: _Tables) -> ImportedConfig:
    source, imported = archive.source, archive.imported
    declared = root.child("eval") if "eval" in root else root
    _read_graders(archive, declared, shown(path))
    with ExitStack() as stack:
        for key, items in tables.items():
            option = source.name if key == "" else key_for(f"{source.name} {key}", archive.tables, "dataset")
            file = stack.enter_context(source.rows(imported, option))
            archive.tables[option] = RecordedCases(
                imported, file, column="openai", scores=archive.scores, verdicts=archive.verdicts
            )
            _write(archive, archive.tables[option], items)
    if not any(table.file.count for table in archive.tables.values()):
        raise archive.ledger.nothing_taken(Problem("it has no items, only graders", shown(path), _NEXT), "cases")
    _declare(archive, _name_of(declared) or f"Items of {shown(path)}.", shown(path))
    for item in (root, declared):
        item.leave(_WHOLE, *item.names)
    root.close(archive.ledger)
    return imported


def _tables(archive: _Archive, path: Path, root: Columns) -> _Tables:
    """The items of each run, by its name; the plain rows of an archive without runs."""
    if root.get("data") is not None:
        return {"": read_objects(path, "data", archive.ledger, archive.ledger.leave_broken)}
    runs, tables = root.children("runs"), dict[str, Iterator[SourceRow]]()
    for number, run in enumerate(runs):
        about, listed = run.child("run"), _answers_of(run)
        name = _name_of(about) or str(number + 1)
        about.leave(_WHOLE, *about.names)
        key = name if len(runs) > 1 else ""
        tables[key if key not in tables else f"{key} {number + 1}"] = _listed(archive, listed, shown(path))
    rows = root.get("rows")
    if tables:
        _leave_rows(archive, rows, runs, shown(path))
        return tables
    return {"": _listed(archive, rows, shown(path))}


def _answers_of(run: Columns) -> object:
    items = run.get("output_items")
    return as_map(items).get("data") if isinstance(items, Mapping) else items


def _name_of(declared: Columns) -> str:
    """The name if it is text, else "": any other value stays unread and is listed."""
    return declared.text("name") if isinstance(declared.peek("name"), str) else ""


def _listed(archive: _Archive, items: object, file: str) -> Iterator[SourceRow]:
    at: Callable[[int], str] = items.at if isinstance(items, LocatedList) else lambda number: f"{file}[{number}]"
    return objects(((item, at(number)) for number, item in enumerate(as_list(items))), archive.ledger.leave_broken)


def _leave_rows(archive: _Archive, rows: object, runs: list[Columns], file: str) -> None:
    """List the rows of an archive that are in no run."""
    listed = as_list(rows)
    asked: set[str] = set()
    for item in (item for run in runs for item in as_list(_answers_of(run))):
        asked.add(json.dumps(item_of(as_map(item)), sort_keys=True))
    for row in listed:
        if json.dumps(item_of(as_map(row)), sort_keys=True) not in asked:
            hint = "to import it, remove `runs` from a copy of the file and import the copy"
            archive.ledger.leave("cases", "row", place(row, file), "no run answered it", hint)


def _read_graders(archive: _Archive, declared: Columns, file: str) -> None:
    for number, item in enumerate(as_list(declared.get("testing_criteria"))):
        grader = Columns(as_map(item), place(item, file), "testing_criteria.")
        name, limit = grader.peek("name") or str(number + 1), passes_at(grader)
        with archive.ledger.taking("graders", f"grader {name if isinstance(name, str) else number + 1}", grader.where):
            if not isinstance(name, str):
                raise Untranslatable(f"its name is {kind(name)}, not text", WRITE_TEXT)
            if limit is not None:
                archive.limits[name] = limit
            archive.graders.append(grader_of(grader))
            grader.close(archive.ledger)


def _write(archive: _Archive, cases: RecordedCases, items: Iterator[SourceRow]) -> None:
    for source in items:
        row = Columns(source.data, source.where)
        scores: list[tuple[object, object]] = []
        for score in read_scores(row):
            scores.append((score.name, score.value))
            if score.number is not None and isinstance(score.name, str):
                archive.verdicts[score.name].add(
                    score.number, archive.limits.get(score.name), score.passed, source.where
                )
        cases.take(row, partial(_case, archive, row), scores)


def _case(archive: _Archive, row: Columns) -> dict[str, object]:
    expected = {column for grader in archive.graders for column in grader.expected}
    case = case_of(row, archive.ledger, expected)
    checks = [check for item in archive.graders if (check := _check(archive, item, as_map(case["vars"]), row.where))]
    return {**case, "checks": checks} if checks else case


def _check(archive: _Archive, grader: Grader, item: Mapping[str, object], where: str) -> dict[str, object] | None:
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


def _declare(archive: _Archive, about: str, file: str) -> None:
    imported, name = archive.imported, archive.source.name
    chosen: list[str] = []
    if archive.checks:
        chosen.append(name)
        imported.metrics[name] = checks_option({key: {"type": kind} for key, kind in archive.checks.items()}, about)
    asking: dict[str, Grader] = {}
    for grader in archive.graders:
        if grader.check is None:
            key = key_for(f"{name} {grader.name}", imported.metrics, "metric")
            imported.prompts[f"{name}/{key}.jinja"] = grader.prompt
            imported.metrics[key] = {**grader.metric, "prompt": f"{name}/{key}.jinja"}
            asking[key] = grader
            chosen.append(key)
    for label, score in archive.scores.keys.items():
        key = key_for(f"{name} {score} recorded", imported.metrics, "metric")
        rule = archive.verdicts[label].rule("higher_is_better")
        archive.verdicts[label].list_unread(label, rule, archive.ledger, file)
        about_score = f"The score that OpenAI's grader gave the recorded answer: {label}."
        option = recorded_option(f"openai.{score}", about_score, threshold=rule[1])
        imported.metrics[key] = {**option, "direction": rule[0] or "higher_is_better"}
        chosen.append(key)
    for option, table in archive.tables.items():
        answered = table.answered
        total = table.file.count - (table.recorded - answered if answered else 0)
        imported.datasets[option] = dataset_option(option, about, name=name)
        experiment = ImportedExperiment(option, chosen or ["relevance"], generate_for(answered, total))
        imported.experiments[option] = experiment
    if not _choose_judge(archive, asking) and chosen:
        imported.unjudged |= set(imported.experiments)
    if not chosen:
        imported.notes.append("the file has no graders: the experiment has metric=relevance; choose your own")


def _choose_judge(archive: _Archive, graders: Mapping[str, Grader]) -> bool:
    """Write the judge that most graders ask and list the others; returns whether any grader asks a judge."""
    counted = Counter(json.dumps(item.judge, sort_keys=True) for item in graders.values() if item.judge)
    if counted:
        most = counted.most_common(1)[0][0]
        values = {**json.loads(most), "api_key_env": "OPENAI_API_KEY"}
        judged_by(archive.imported, f"{archive.source.name}_judge", "openai", values)
        for key, grader in graders.items():
            if grader.judge and json.dumps(grader.judge, sort_keys=True) != most:
                hint = f"write `judge: {json.dumps(grader.judge)}` into conf/metric/{key}.yaml"
                what = f"the judge {grader.judge['model']} of grader {grader.name}"
                archive.ledger.leave(
                    "judges", what, grader.where, "the experiment has only one judge, that of other graders", hint
                )
    return bool(graders)


def checks_option(custom: Mapping[str, object], about: str) -> dict[str, object]:
    """The YAML of a metric over checks of cases."""
    return metric_option(
        "checks", "checks", about, threshold=1.0, custom=dict(custom) or None, only=None, stop_on_fail=False
    )
