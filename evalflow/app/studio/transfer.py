"""Files in and out: lossless export and import of definitions, and upload of cases with a mapping of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

from evalflow import datasets as readers
from evalflow.app.core.options import Option
from evalflow.app.studio.access import requires
from evalflow.app.studio.bots import BOTS, bot_values, get_bot, list_bots
from evalflow.app.studio.cases import Fields, append_rows, append_stored, case_columns, case_rows
from evalflow.app.studio.checks import with_checks
from evalflow.app.studio.datasets import DATASETS, dataset_values, get_dataset, list_datasets, own_row
from evalflow.app.studio.definitions import declared, declared_content
from evalflow.app.studio.judges import JUDGES, judge_values, named_judges, with_judge
from evalflow.app.studio.metric_yaml import judge_by_name
from evalflow.app.studio.metrics import MetricDraft, add_metric, check_draft, list_metrics
from evalflow.app.studio.snapshot import BASES, Own, write_own
from evalflow.app.studio.space import TakenError, Workspace
from evalflow.config.schema import DatasetConfig
from evalflow.config.yaml_text import read_yaml, unescaped, unescaped_but_environment
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.store import cases as table
from evalflow.store.rows import storable


@dataclass(frozen=True, slots=True)
class ImportedNames:
    """Names of the imported definitions."""

    bots: Sequence[str]
    metrics: Sequence[str]
    datasets: Sequence[str]
    judges: Sequence[str]


@requires("own")
def export_files(space: Workspace, folder: Path, bot: str | None, datasets: Sequence[str] = ()) -> None:
    """Write definitions as files that the command line can use with `--config-dir FOLDER/conf`.

    `folder` is empty or new, and gets conf/, prompts/ and data/. A bot comes with its metrics and the judges that they
    name, a dataset with its cases. A metric that runs the checks of cases declares the reusable ones too.
    """
    if bot is None and not datasets:
        raise UserError(Problem("nothing is named that could be written", "bot", "name a bot, or datasets"))
    if folder.exists() and any(folder.iterdir()):
        raise UserError(Problem("this folder is not empty", "folder", "name a new one"))
    targets, texts = {}, {}
    if bot is not None:
        found = get_bot(space, bot)
        targets = {bot: space.resolve(found.config, "target")} if found.origin == "workspace" else {}
        texts = {bot: found.description}
    metrics = list_metrics(space, bot) if bot else []
    own = Own(
        targets=targets,
        metrics={
            one.name: (with_checks(space, with_judge(space, one.name, one.definition)), one.prompts) for one in metrics
        },
        judges=named_judges(space, [], [one.definition for one in metrics]),
        datasets={name: (_options(space, name), case_rows(space, name)) for name in datasets},
        descriptions=texts,
    )
    try:
        write_own(folder, own)
    except OSError as error:
        raise UserError(Problem(f"cannot write there: {error.strerror}", "folder")) from None


@requires("own")
def import_files(space: Workspace, folder: Path, bot: str | None = None) -> ImportedNames:
    """Import the bots, judges, metrics and datasets that a folder's conf/ declares; all or nothing.

    `bot` gets the metrics; None: the only bot of the folder.
    """
    conf = folder / "conf"
    if not conf.is_dir():
        raise UserError(Problem("there is no conf/ in this folder", "folder", "name the folder that holds conf/"))
    files = {group: _options_in(conf, group) for group in ("target", "judge", "metric", "dataset")}
    bots = {name: (_endpoint(option, conf), _description(option)) for name, option in files["target"].items()}
    metrics = [_metric(option, conf, folder / "prompts") for option in files["metric"].values()]
    owner = bot or (next(iter(bots)) if len(bots) == 1 else None)
    judges = {name: (_endpoint(option, conf), _description(option)) for name, option in files["judge"].items()}
    problems = _clashes(space, bots, files["dataset"], judges, metrics, owner)
    if problems:
        raise TakenError(problems)
    cases = {name: _cases(option, conf, folder) for name, option in files["dataset"].items()}
    _save_all(space, _check_all(space, bots, judges, metrics, cases), owner)
    return ImportedNames(list(bots), [metric.name for metric in metrics], list(cases), list(judges))


@dataclass(frozen=True, slots=True)
class _CheckedDefinitions:
    bots: list[dict[str, Any]]
    metrics: list[MetricDraft]
    datasets: list[tuple[dict[str, Any], Sequence[dict[str, Any]]]]
    judges: list[dict[str, Any]]


def _check_all(
    space: Workspace,
    bots: Mapping[str, tuple[dict[str, Any], str]],
    judges: Mapping[str, tuple[dict[str, Any], str]],
    metrics: Sequence[MetricDraft],
    cases: Mapping[str, tuple[DatasetConfig, list[dict[str, Any]]]],
) -> _CheckedDefinitions:
    problems: list[Problem] = []
    found = _CheckedDefinitions([], [], [], [])
    for name, (target, description) in bots.items():
        with _collected(problems):
            found.bots.append(bot_values(space, name, target, description))
    for name, (config, description) in judges.items():
        with _collected(problems):
            values = {key: value for key, value in config.items() if (key, value) != ("name", name)}
            found.judges.append(judge_values(space, name, values, description))
    for metric in metrics:
        with _collected(problems):
            definition, prompts = check_draft(space, metric)
            found.metrics.append(MetricDraft(metric.name, definition, prompts))
    for name, (config, rows) in cases.items():
        with _collected(problems):
            values = dataset_values(name, config.description or "", config.generates)
            found.datasets.append((values, [case_columns(row) for row in rows]))
    if problems:
        raise UserError(problems)
    return found


@contextmanager
def _collected(problems: list[Problem]) -> Generator[None]:
    """Collect the problems of a UserError in the block instead of raising it."""
    try:
        yield
    except UserError as error:
        problems += error.problems


def _save_all(space: Workspace, found: _CheckedDefinitions, owner: str | None) -> None:
    names = {bot["name"] for bot in found.bots}
    there = {owner: BOTS.get(space, owner)["id"]} if found.metrics and owner is not None and owner not in names else {}
    fields = [*(bot["name"] for bot in found.bots), *(metric.name for metric in found.metrics)]
    fields += [values["name"] for values in (*found.judges, *(values for values, _ in found.datasets))]
    with space.changing("import", "folder", owner or "", fields) as connection:
        rows = there | {bot["name"]: BOTS.add(connection, space.project_id, bot) for bot in found.bots}
        for judge in found.judges:
            JUDGES.add(connection, space.project_id, judge)
        for metric in found.metrics:
            name = cast("str", owner)
            add_metric(connection, rows[name], name, metric)
        for values, cases in found.datasets:
            append_stored(connection, DATASETS.add(connection, space.project_id, values), cases)


def _options(space: Workspace, name: str) -> Mapping[str, Any]:
    dataset = get_dataset(space, name)
    return {"description": dataset.description, "generates": dataset.generates}


def _options_in(conf: Path, group: str) -> dict[str, Option]:
    found = declared(group, conf)
    return {name: option for name, option in found.items() if option.file.is_relative_to(conf.resolve())}


def _clashes(
    space: Workspace,
    bots: Mapping[str, Any],
    datasets: Mapping[str, Any],
    judges: Mapping[str, Any],
    metrics: Sequence[MetricDraft],
    owner: str | None,
) -> list[Problem]:
    known = {
        "bot": ({bot.name for bot in list_bots(space)}, bots),
        "dataset": ({one.name for one in list_datasets(space)}, datasets),
        "judge": ({one["name"] for one in JUDGES.rows(space)}, judges),
    }
    problems = [
        Problem(f"there already is a {what} {name!r}", what, "rename its file, or delete what is here")
        for what, (taken, wanted) in known.items()
        for name in wanted
        if name in taken
    ]
    if metrics and owner is None:
        problems.append(Problem("it is not said whose the metrics are", "bot", "name the bot"))
    if metrics and owner is not None and owner not in bots:
        there = {metric.name for metric in list_metrics(space, owner)}
        problems += [
            Problem(f"the bot {owner!r} already has a metric {metric.name!r}", "metric", "rename its file")
            for metric in metrics
            if metric.name in there
        ]
    return problems


def _endpoint(option: Option, conf: Path) -> dict[str, Any]:
    """The configuration of a target or a judge."""
    values = read_yaml(option.text)
    base = values.pop("defaults", None)
    if base is not None and base != BASES.get(str(values.get("kind"))):
        return declared_content(option.group, option.name, conf)
    return _plain(unescaped_but_environment if option.group == "target" else unescaped, values, option)


def _metric(option: Option, conf: Path, prompts: Path) -> MetricDraft:
    values = judge_by_name(read_yaml(option.text))
    inherits = "defaults" in values
    values = declared_content("metric", option.name, conf) if inherits else _plain(unescaped, values, option)
    own = prompts / option.name
    texts = {file.relative_to(prompts).as_posix(): file.read_bytes().decode() for file in sorted(own.rglob("*.jinja"))}
    return MetricDraft(option.name, values, texts)


def _cases(option: Option, conf: Path, folder: Path) -> tuple[DatasetConfig, list[dict[str, Any]]]:
    config = DatasetConfig.model_validate(declared_content("dataset", option.name, conf))
    data = folder / "data" / f"{option.name}.jsonl"
    if Path(config.path).name == data.name and data.is_file():
        config = config.model_copy(update={"path": str(data)})  # the folder may have been moved
    if not data.is_file() or not data.stat().st_size:
        return config, []
    return config, [readers.case_to_row(case) for case in readers.read(option.name, config)]


def _plain(read: Any, values: Mapping[str, Any], option: Option) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(json.dumps(read(values))))
    except ValueError as error:
        raise UserError(Problem(f"cannot be taken in: {error}", str(option.file), "write the value itself")) from None


def _description(option: Option) -> str:
    lines: list[str] = []
    for line in option.text.split("\n"):
        if not line.startswith("#"):
            break
        lines.append(line[1:].strip())
    return " ".join(line for line in lines if line)


SHOWN = 100
"""Maximum number of problems listed."""
_AT_ONCE = 500
_PLACE = re.compile(r":(?P<line>\d+)$|\[(?P<record>\d+)\]$")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file.

    Attributes:
        field: The case field that it probably holds; None for an additional input.
        example: Its first value, as text.
    """

    name: str
    field: str | None
    example: str


@dataclass(frozen=True, slots=True)
class Examined:
    """The preview of an import.

    Attributes:
        good: The number of rows that can be imported.
        faulty: Positions of the other rows in the file, from 0.
        problems: The problems of those rows, at most `SHOWN`; `where` is `line 7`, or `record 7` of a JSON list.
        first: The first cases, as rows of JSON lines.
    """

    good: int
    faulty: Sequence[int]
    problems: Sequence[Problem]
    first: Sequence[Mapping[str, Any]]


@requires("edit")
def upload_cases(
    space: Workspace, dataset: str, path: Path, fields: Fields | None = None, *, skip_faulty: bool = False
) -> int:
    """Add the cases of a file (.jsonl, .json, .csv or .parquet); returns their number.

    `fields`: case field to column or JSONPath; a column named like a field needs no entry. Without `skip_faulty`, one
    invalid row rejects the file.
    """
    own_row(space, dataset)
    if not skip_faulty:
        cases = list(readers.read(dataset, _file_config(path, fields)))
        return append_rows(space, dataset, (readers.case_to_row(case) for case in cases))
    rows = [readers.case_to_row(row.case) for row in _checked_rows(space, dataset, path, fields) if row.case]
    if not rows:
        raise UserError(Problem("no row of it can be taken", path.name))
    return append_rows(space, dataset, rows)


@requires("edit")
def examine_upload(
    space: Workspace, dataset: str, path: Path, fields: Fields | None = None, limit: int = 5
) -> Examined:
    """Read a whole file and report what an import would give, with the first `limit` cases; nothing is saved."""
    _expect_columns(path, fields or {})
    good, faulty, problems = 0, list[int](), list[Problem]()
    first: list[Mapping[str, Any]] = []
    for row in _checked_rows(space, dataset, path, fields):
        if row.case is None:
            faulty.append(row.position)
            problems += [at_place_in_file(problem) for problem in row.problems if len(problems) < SHOWN]
            continue
        good += 1
        if len(first) < limit:
            first.append(readers.case_to_row(row.case))
    return Examined(good, faulty, problems[:SHOWN], first)


def faulty_rows(path: Path, faulty: Sequence[int]) -> Iterator[str]:
    """The rows at these positions, copied from the file with its header, if any, so that users can correct them."""
    return readers.excerpt(_file_config(path, None), set(faulty))


def columns_of(path: Path) -> list[Column]:
    """The columns of a file, each with the case field that it probably holds."""
    found = readers.examples(_file_config(path, None))
    proposed = {column: field for field, column in readers.propose_fields(list(found)).items()}
    fields = {name: proposed.get(name, name if name in readers.FIELDS else None) for name in found}
    texts = {name: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for name, one in found.items()}
    return [Column(name, fields[name], "" if one is None else texts[name]) for name, one in found.items()]


def _checked_rows(space: Workspace, dataset: str, path: Path, fields: Fields | None) -> Iterator[readers.ReadRow]:
    """The rows of a file. A case id that the dataset already has is a problem of its row."""
    owner = own_row(space, dataset)["id"]
    named = "id" in (fields or {}) or "id" in readers.examples(_file_config(path, fields))
    rows = readers.read_rows(dataset, _file_config(path, fields))
    seen: set[str] = set()
    while chunk := list(islice(rows, _AT_ONCE)):
        keys = {row.position: storable(row.case.id) for row in chunk if row.case}
        with space.database.reading() as connection:
            known = table.known_keys(connection, owner, list(keys.values()))
        for row in chunk:
            key = keys.get(row.position)
            if key is not None and (key in known or key in seen):
                place = "in the dataset" if key in known else "in this file"
                row = replace(row, case=None, problems=[_repeated(key, place, row.where, named=named)])
            elif key is not None:
                seen.add(key)
            yield row


def _expect_columns(path: Path, fields: Fields) -> None:
    """Refuse a mapping from columns that a table lacks, which would leave their fields empty in every row."""
    if path.suffix not in (".csv", ".parquet"):
        return  # rows of JSON may have different keys
    there = list(readers.examples(_file_config(path, None)))
    wanted = {field: [source] if isinstance(source, str) else list(source.values()) for field, source in fields.items()}
    problems = [
        Problem(f"there is no column {column!r}", "", did_you_mean(column, there), key=field)
        for field, columns in wanted.items()
        for column in columns
        if not column.startswith("$") and column not in there
    ]
    if problems:
        raise UserError(problems)


def _repeated(key: str, place: str, where: str, *, named: bool) -> Problem:
    if named:
        hint = "give it another id, or leave it out; a row without an id gets one of its content"
        return Problem(f"the id {key!r} is {place} already", where, hint)
    return Problem(f"the same case is {place} already", where, "leave it out, or give each an id of its own")


def at_place_in_file(problem: Problem) -> Problem:
    """The problem with `where` reduced to the place within the file."""
    place = _PLACE.search(problem.where)
    where = "" if place is None else f"line {place['line']}" if place["line"] else f"record {place['record']}"
    return replace(problem, where=where)


def _file_config(path: Path, fields: Fields | None) -> DatasetConfig:
    return DatasetConfig(path=str(path), fields=dict(fields or {}) or None)
