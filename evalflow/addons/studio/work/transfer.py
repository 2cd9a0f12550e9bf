"""Definitions as files: lossless export and import."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from evalflow import datasets as readers
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import BOTS, bot_values, get_bot, list_bots
from evalflow.addons.studio.work.cases import append_stored, case_columns
from evalflow.addons.studio.work.checks import custom_checks, with_checks
from evalflow.addons.studio.work.datasets import DATASETS, dataset_values, get_dataset, list_datasets
from evalflow.addons.studio.work.definitions import declared, declared_content
from evalflow.addons.studio.work.judges import JUDGES, judge_values
from evalflow.addons.studio.work.metric_yaml import judge_by_name
from evalflow.addons.studio.work.metrics import MetricDefinition, MetricDraft, add_metric, check_draft, list_metrics
from evalflow.addons.studio.work.own_parts import BASES, Own, own_of
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.addons.studio.work.trials import takes_turn
from evalflow.app.core.json_schema import add_schema_lines
from evalflow.app.core.options import Option
from evalflow.config.load import read_yaml
from evalflow.config.schema import DatasetConfig
from evalflow.config.yaml_text import SCHEMA_MARK, unescaped, unescaped_but_environment
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_map


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

    `folder` is empty or new, and gets conf/, prompts/ and data/.
    """
    if bot is None and not datasets:
        raise UserError(Problem("nothing is named that could be written", "bot", "name a bot, or datasets"))
    if folder.exists() and any(folder.iterdir()):
        raise UserError(Problem("this folder is not empty", "folder", "name a new one"))
    own = definitions_of(space, bot, datasets)
    try:
        own.write(folder)
        add_schema_lines(folder)
    except OSError as error:
        raise UserError(Problem(f"cannot write there: {error.strerror}", "folder")) from None


@requires("read")
def definitions_of(space: Workspace, bot: str | None, datasets: Sequence[str] = ()) -> Own:
    """A bot with its metrics and the judges that they name, and datasets with their cases.

    The metric that runs the checks of cases declares the reusable ones too: the bot's own, or a copy of the library's.
    """
    metrics = list_metrics(space, bot) if bot else []
    sources = [get_dataset(space, name) for name in datasets]
    own = own_of(space, get_bot(space, bot) if bot else None, metrics, sources)
    checked = {name: (with_checks(space, definition), prompts) for name, (definition, prompts) in own.metrics.items()}
    return replace(own, metrics=_library_checks(space, metrics) | checked)


def _library_checks(
    space: Workspace, own: Sequence[MetricDefinition]
) -> dict[str, tuple[dict[str, object], Mapping[str, str]]]:
    """The library's metric with the reusable checks, unless there are none, or an own metric runs them."""
    name = "checks"
    if not custom_checks(space) or any(one.name == name or one.definition.get("kind") == name for one in own):
        return {}
    return {name: (with_checks(space, declared_content("metric", name)), {})}


@requires("own")
@takes_turn
def import_files(space: Workspace, folder: Path, bot: str | None = None) -> ImportedNames:
    """Import the bots, judges, metrics and datasets that a folder's conf/ declares; all or nothing.

    `bot` gets the metrics; None: the only bot of the folder.
    """
    conf = folder / "conf"
    if not conf.is_dir():
        raise UserError(Problem("there is no conf/ in this folder", "folder", "name the folder that holds conf/"))
    _refuse_links(folder)
    files = {group: _options_in(conf, group) for group in ("target", "judge", "metric", "dataset")}
    bots, judges = (
        {name: (_endpoint(option, conf), _description(option)) for name, option in files[group].items()}
        for group in ("target", "judge")
    )
    metrics = [_metric(option, conf, folder / "prompts") for option in files["metric"].values()]
    owner = bot or (next(iter(bots)) if len(bots) == 1 else None)
    problems = _clashes(space, bots, files["dataset"], judges, metrics, owner)
    if problems:
        raise TakenError(problems)
    cases = {name: _cases(option, conf, folder) for name, option in files["dataset"].items()}
    _save_all(space, _check_all(space, bots, judges, metrics, cases), owner)
    return ImportedNames(list(bots), [metric.name for metric in metrics], list(cases), list(judges))


def _refuse_links(folder: Path) -> None:
    """UserError if one of the folder's parts is or has a link, through which files of the server would be read."""
    parts = [folder / name for name in ("conf", "prompts", "data")]
    link = next((path for part in parts for path in (part, *part.rglob("*")) if path.is_symlink()), None)
    if link is not None:
        what = f"{link.relative_to(folder)} is a link, which may lead out of the folder"
        raise UserError(Problem(what, "folder", "put the file itself there"))


@dataclass(frozen=True, slots=True)
class _CheckedDefinitions:
    bots: list[dict[str, object]]
    metrics: list[MetricDraft]
    datasets: list[tuple[dict[str, object], Sequence[dict[str, object]]]]
    judges: list[dict[str, object]]


def _check_all(
    space: Workspace,
    bots: Mapping[str, tuple[dict[str, object], str]],
    judges: Mapping[str, tuple[dict[str, object], str]],
    metrics: Sequence[MetricDraft],
    cases: Mapping[str, tuple[DatasetConfig, list[dict[str, object]]]],
) -> _CheckedDefinitions:
    problems: list[Problem] = []
    definitions = _CheckedDefinitions([], [], [], [])
    for name, (target, description) in bots.items():
        with _collected(problems):
            definitions.bots.append(bot_values(space, name, target, description))
    for name, (config, description) in judges.items():
        with _collected(problems):
            values = {key: value for key, value in config.items() if (key, value) != ("name", name)}
            definitions.judges.append(judge_values(space, name, values, description))
    for metric in metrics:
        with _collected(problems):
            definitions.metrics.append(check_draft(space, metric))
    for name, (config, rows) in cases.items():
        with _collected(problems):
            values = dataset_values(name, config.description or "", config.generates, config.title)
            definitions.datasets.append((values, [case_columns(row) for row in rows]))
    if problems:
        raise UserError(problems)
    return definitions


@contextmanager
def _collected(problems: list[Problem]) -> Generator[None]:
    """Collect the problems of a UserError in the block instead of raising it."""
    try:
        yield
    except UserError as error:
        problems += error.problems


def _save_all(space: Workspace, definitions: _CheckedDefinitions, owner: str | None) -> None:
    names = {bot["name"] for bot in definitions.bots}
    there = (
        {owner: BOTS.get(space, owner).id} if definitions.metrics and owner is not None and owner not in names else {}
    )
    fields = [*(str(bot["name"]) for bot in definitions.bots), *(metric.name for metric in definitions.metrics)]
    fields += [str(values["name"]) for values in (*definitions.judges, *(values for values, _ in definitions.datasets))]
    with space.changing("import", "folder", owner or "", fields) as connection:
        rows = there | {bot["name"]: BOTS.add(connection, space.project_id, bot) for bot in definitions.bots}
        for judge in definitions.judges:
            JUDGES.add(connection, space.project_id, judge)
        for metric in definitions.metrics:
            name = cast("str", owner)
            add_metric(connection, rows[name], name, metric)
        for values, cases in definitions.datasets:
            append_stored(connection, DATASETS.add(connection, space.project_id, values), cases)


def _options_in(conf: Path, group: str) -> dict[str, Option]:
    by_name = declared(group, conf)
    return {name: option for name, option in by_name.items() if option.file.is_relative_to(conf.resolve())}


def _clashes(
    space: Workspace,
    bots: Mapping[str, object],
    datasets: Mapping[str, object],
    judges: Mapping[str, object],
    metrics: Sequence[MetricDraft],
    owner: str | None,
) -> list[Problem]:
    known = {
        "bot": ({bot.name for bot in list_bots(space)}, bots),
        "dataset": ({one.name for one in list_datasets(space)}, datasets),
        "judge": ({judge.name for judge in JUDGES.own(space)}, judges),
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


def _endpoint(option: Option, conf: Path) -> dict[str, object]:
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


def _cases(option: Option, conf: Path, folder: Path) -> tuple[DatasetConfig, list[dict[str, object]]]:
    config = DatasetConfig.model_validate(declared_content("dataset", option.name, conf))
    data = folder / "data" / f"{option.name}.jsonl"
    if Path(config.path).name == data.name and data.is_file():
        config = config.model_copy(update={"path": str(data)})  # the folder may have been moved
    if not data.is_file() or not data.stat().st_size:
        return config, []
    return config, [readers.case_to_row(case) for case in readers.read(option.name, config)]


def _plain(
    read: Callable[[Mapping[str, object]], object], values: Mapping[str, object], option: Option
) -> dict[str, object]:
    try:
        return dict(as_map(json.loads(json.dumps(read(values)))))
    except ValueError as error:
        raise UserError(Problem(f"cannot be taken in: {error}", str(option.file), "write the value itself")) from None


def _description(option: Option) -> str:
    lines: list[str] = []
    for line in option.text.split("\n"):
        if not line.startswith("#"):
            break
        lines.append(line[1:].strip())
    return " ".join(line for line in lines if line and not line.startswith(SCHEMA_MARK))
