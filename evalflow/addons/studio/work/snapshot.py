"""A frozen copy of all that a run uses: a self-contained config folder with data and prompts that repeats the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from evalflow import datasets as readers
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import Bot, get_bot
from evalflow.addons.studio.work.case_choice import KEYS, chosen_values, wrong_choices
from evalflow.addons.studio.work.cases import case_rows
from evalflow.addons.studio.work.checks import custom_checks
from evalflow.addons.studio.work.datasets import Dataset, get_dataset
from evalflow.addons.studio.work.definitions import declared, find_declared, remembered_content
from evalflow.addons.studio.work.judges import named_judges, with_judge
from evalflow.addons.studio.work.metric_yaml import metric_yaml
from evalflow.addons.studio.work.metrics import MetricDefinition, list_metrics
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace, not_found, refuse_elsewhere
from evalflow.addons.studio.work.titles import titled
from evalflow.addons.studio.work.validate import write_prompts
from evalflow.app.core.assemble import assemble, settings_of
from evalflow.app.core.connections import refuse_owners_options
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.calls.budget import Lease
from evalflow.calls.connections import Connections
from evalflow.config.load import compose
from evalflow.config.schema import DatasetConfig, RunConfig
from evalflow.config.validate import Composed, Settings
from evalflow.config.yaml_text import escaped, escaped_but_environment, yaml_of
from evalflow.errors import Problem, Subject, UserError, check_all, did_you_mean
from evalflow.paths import private_folder, prompt_dirs, shown

GROUPS = ("dataset", "metric", "target", "judge", "embedder")
BASES = MappingProxyType({"openai": ["_openai", "_self_"], "http": ["_service", "_self_"]})
"""The files in conf/ that a bot of each kind inherits from, so that it has every key with its default value."""
ASKING = ("prompt", "steps_prompt", "system_prompt")


@dataclass(frozen=True, slots=True)
class Own:
    """The definitions of the workspace that a run uses; all others come from conf/.

    Attributes:
        targets, judges: Descriptions and configurations by name, with their connections replaced.
        metrics: Definitions and prompts by name.
        datasets: `generates`, description and rows, by name.
    """

    targets: Mapping[str, tuple[str, Mapping[str, Any]]]
    metrics: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]]
    datasets: Mapping[str, tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]]
    judges: Mapping[str, tuple[str, Mapping[str, Any]]]


def write_own(folder: Path, own: Own) -> None:
    """Write the workspace's definitions as files of conf/, prompts/ and data/ below a folder."""
    for name, (said, config) in own.targets.items():
        inherited = {"defaults": BASES[config["kind"]]} if config["kind"] in BASES else {}
        _write_described(folder, "target", name, said, {**inherited, **escaped_but_environment(config)})
    for name, (said, config) in own.judges.items():
        _write_described(folder, "judge", name, said, {"defaults": _judge_bases(config), **escaped(config)})
    for name, (definition, prompts) in own.metrics.items():
        text = metric_yaml(definition)
        _write(folder / "conf" / "metric" / f"{name}.yaml", f"# @package metric.{name}\n{text}")
        write_prompts(folder / "prompts", prompts)
    for name, (options, rows) in own.datasets.items():
        _write_cases(folder, name, rows)
        _write_dataset(folder, name, options)


def _write_described(folder: Path, group: str, name: str, description: str, values: Mapping[str, Any]) -> None:
    comment = f"# {description}\n" if description else ""
    _write(folder / "conf" / group / f"{name}.yaml", f"{comment}{yaml_of(values)}")


def _judge_bases(config: Mapping[str, Any]) -> list[str]:
    """The files in conf/ that a judge inherits from, and each of its members."""
    members = cast("Mapping[str, Mapping[str, Any]]", config.get("members") or {})
    of_members = [f"_openai@members.{name}" for name, member in members.items() if member["kind"] == "openai"]
    return [*(BASES.get(config["kind"], ["_self_"])[:-1]), *of_members, "_self_"]


def freeze(folder: Path, own: Own, request: RunRequest, values: Mapping[str, Any]) -> list[str]:
    """Write a snapshot and return the command line that repeats the run; if this fails, the caller removes the folder.

    `values` override those of the parts: root keys, and maps under judge, metric, ...
    """
    private_folder(folder)
    write_own(folder, own)
    conf = folder / "conf"
    for group in GROUPS:
        (conf / group).mkdir(parents=True, exist_ok=True)
    drafted = compose(request.words(), conf, complete=False)
    config = _laid_over(drafted.storable, escaped(values))
    _flatten(folder, config, drafted, request, own)
    return ["--config-dir", shown(conf), *request.words()]


def inspect_snapshot(
    arguments: Sequence[str], connections: Connections | None = None, lease: Lease | None = None
) -> Inspection:
    """The inspection, as in `check`, of a snapshot's command line. `connections` and `lease` as of `assemble`."""
    return inspect(assemble(settings_for(arguments), connections=connections, lease=lease))


def settings_for(arguments: Sequence[str]) -> Settings:
    """The settings of a snapshot's command line. Targets that run a local program are refused."""
    _, conf, *words = arguments

    def check(composed: Composed) -> Settings:
        return settings_of(composed, programs=False)

    return check(compose(words, Path(conf).absolute(), check=check))


def remove_folder(folder: Path) -> None:
    """Remove the folder of a run that never started."""
    shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: Path, config: dict[str, Any], drafted: Composed, request: RunRequest, own: Own) -> None:
    """Write every part in full, so that nothing outside of the snapshot affects the run."""
    conf = folder / "conf"
    for name, values in config["metric"].items():
        if values.get("kind") == "g_eval":
            values.setdefault("steps_from", None)  # so that a repeat can override where the steps are
        _write(conf / "metric" / f"{name}.yaml", f"# @package metric.{name}\n{yaml_of(values)}")
    for name, values in config["dataset"].items():
        plain = DatasetConfig.model_validate(drafted.values["dataset"][name])
        if name not in own.datasets:
            _write_cases(folder, name, (readers.case_to_row(case) for case in readers.read(name, plain)))
        options = {key: getattr(plain, key) for key in ("name", "title", "description", "generates")}
        _write_dataset(folder, name, options, {key: values[key] for key in KEYS if values.get(key)})
    chosen = {"target": request.bot, "judge": request.judge, "embedder": request.embedder}
    if request.simulator:
        chosen["simulator"] = request.simulator
    for group, name in chosen.items():
        _write(conf / group / f"{name}.yaml", yaml_of(config[group]))
    root = {key: value for key, value in config.items() if key not in GROUPS and key not in chosen}
    _write(conf / "local" / "default.yaml", f"# @package _global_\n{yaml_of(root)}")
    _copy_prompts(folder, config)


def _copy_prompts(folder: Path, config: Mapping[str, Any]) -> None:
    """Copy every template that may be used, and those that it includes."""
    from evalflow.metrics.registry import METRIC_KINDS, build_metric
    from evalflow.prompts import Prompts

    prompts = Prompts(prompt_dirs(folder / "conf"))
    named = [*_templates(config["target"]), *_templates(config["simulator"])]
    for name, values in config["metric"].items():
        model = METRIC_KINDS.config(values["kind"]).model_validate(values)
        named += build_metric(name, model, prompts).prompts
        named += _templates(values)
    parts = dict.fromkeys(part for name in named for part in prompts.parts(name))
    write_prompts(folder / "prompts", {part: prompts.source(part) for part in parts})


def _templates(values: Mapping[str, Any]) -> list[str]:
    return [text for key in ASKING if isinstance(text := values.get(key), str) and text.endswith(".jinja")]


def _laid_over(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(config)
    for key, value in changes.items():
        there = merged.get(key)
        both = isinstance(there, dict) and isinstance(value, Mapping)
        merged[key] = _laid_over(there, cast("Mapping[str, Any]", value)) if both else value  # pyright: ignore
    return merged


def _write_cases(folder: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    data = _data(folder, name)
    data.parent.mkdir(parents=True, exist_ok=True)
    with data.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n")


def _data(folder: Path, name: str) -> Path:
    return folder / "data" / f"{name}.jsonl"


def frozen_cases(folder: Path, datasets: Iterable[str]) -> dict[str, int]:
    """The number of cases that a snapshot holds, by dataset."""
    found: dict[str, int] = {}
    for name in datasets:
        with _data(folder, name).open("rb") as file:
            found[name] = sum(1 for _ in file)
    return found


def _write_dataset(
    folder: Path, name: str, options: Mapping[str, Any], choice: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Write a dataset's file; `choice`, which says what cases are taken, is escaped already."""
    values = {**escaped(dict(options)), **choice, "path": escaped(shown(_data(folder, name)))}
    values |= {"format": "jsonl", "allow_irregular": True}
    _write(folder / "conf" / "dataset" / f"{name}.yaml", f"# @package dataset.{name}\n{yaml_of(values)}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


OPTIONS = tuple(
    name for name in RunConfig.model_fields if name not in ("dataset", "target", "metric", "judge", "embedder")
)
"""Root keys that a run may set."""


@requires("read")
def own_definitions(space: Workspace, request: RunRequest) -> Own:
    """The definitions of the workspace that a request uses."""
    check_all(
        lambda: get_bot(space, request.bot),
        lambda: _check(request),
        lambda: refuse_elsewhere(space, request.options),
        lambda: refuse_owners_options(request.options if space.allowed is not None else ()),
    )
    bot = get_bot(space, request.bot)
    own = {metric.name: metric for metric in list_metrics(space, request.bot)}
    shipped = declared("metric")
    for name in request.metrics:
        if name not in own and name not in shipped:
            raise not_found("metric", name, [*own, *shipped])
    datasets = [get_dataset(space, name) for name in request.datasets]
    chosen = [own[name] for name in request.metrics if name in own]
    judge = [judge_of(bot.config, request)]
    find_declared("embedder", "embedder", request.embedder)
    return own_of(space, bot, chosen, [one for one in datasets if one.origin == "workspace"], judge)


@requires("read")
def own_of(
    space: Workspace,
    bot: Bot | None,
    metrics: Sequence[MetricDefinition],
    datasets: Iterable[Dataset],
    judges: Iterable[str] = (),
) -> Own:
    """What is defined here of a bot, of its metrics, of the judges that they and `judges` name, and of datasets."""
    targets: dict[str, tuple[str, Mapping[str, Any]]] = {}
    if bot is not None and bot.origin == "workspace":
        targets[bot.name] = bot.description, titled(space.resolve(bot.config, "target"), bot.name, bot.title)
    return Own(
        targets=targets,
        metrics={
            one.name: (titled(with_judge(space, one.name, one.definition), one.name, one.title), one.prompts)
            for one in metrics
        },
        datasets={
            one.name: (
                titled({"description": one.description, "generates": one.generates}, one.name, one.title),
                case_rows(space, one.name),
            )
            for one in datasets
        },
        judges=named_judges(space, judges, [one.definition for one in metrics]),
    )


def _expect_cases(dataset: Dataset) -> None:
    if dataset.origin != "workspace" or (dataset.cases or 0) > dataset.drafts:
        return
    what, hint = f"the dataset {dataset.name} has no cases", "write some, or import them"
    if dataset.drafts:
        what, hint = f"all cases of the dataset {dataset.name} are drafts", "activate some"
    see = (Subject("dataset", dataset.name), Subject("import", "", dataset.name))
    raise UserError(Problem(what, "datasets", hint, see=see))


@requires("read")
def with_values(space: Workspace, request: RunRequest) -> tuple[RunRequest, dict[str, Any]]:
    """The request with its judge named, and the values that it changes."""
    bot = get_bot(space, request.bot)
    for name in request.thresholds:
        if name not in request.metrics:
            hint = did_you_mean(name, request.metrics)
            raise UserError(Problem(f"the run has no metric {name!r}", f"thresholds.{name}", hint))
    check_all(*(partial(_expect_cases, get_dataset(space, name)) for name in request.datasets))
    values: dict[str, Any] = {"generate": bot.config.get("kind") != "recorded", **request.options}
    if chosen := chosen_values(space, request):
        values["dataset"] = chosen
    if request.judge_values:
        values["judge"] = space.resolve(request.judge_values, "judge")
    if request.simulator:
        values["simulator"] = space.resolve(request.options["simulator"], "simulator")
    if request.embedder_values:
        values["embedder"] = space.resolve(request.embedder_values, "embedder")
    metrics: dict[str, dict[str, Any]] = {name: {"threshold": value} for name, value in request.thresholds.items()}
    if custom := custom_checks(space):
        for name, own in _checking(space, request):
            metrics.setdefault(name, {})["custom"] = {key: one for key, one in custom.items() if key not in own}
    if metrics:
        values["metric"] = metrics
    return replace(request, judge=judge_of(bot.config, request)), values


def _checking(space: Workspace, request: RunRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The metrics of a request that run the checks of cases, with the custom checks that they declare themselves."""
    own = {metric.name: metric.definition for metric in list_metrics(space, request.bot)}
    shipped = declared("metric")
    for name in request.metrics:
        if name in own or name in shipped:
            definition = own[name] if name in own else remembered_content(space, "metric", name)
            if definition.get("kind") == "checks":
                yield name, definition.get("custom") or {}


def judge_of(config: Mapping[str, Any], request: RunRequest) -> str:
    """The judge of a request: the given one, else the bot's own model, else the embedded one if it has none."""
    return request.judge or ("target" if config.get("kind") == "openai" else "embedded")


def _check(request: RunRequest) -> None:
    if problems := list(_wrong(request)):
        raise UserError(problems)


def _wrong(request: RunRequest) -> Iterator[Problem]:
    for group, names in (("dataset", request.datasets), ("metric", request.metrics)):
        if not names:
            yield Problem(f"no {group} is chosen", f"{group}s", "choose at least one")
        if len(set(names)) < len(names):
            yield Problem(f"a {group} is chosen twice", f"{group}s", "choose each once")
    yield from wrong_choices(request)
    for name in request.options:
        if name not in OPTIONS:
            yield Problem(f"a run has no option {name!r}", f"options.{name}", did_you_mean(name, OPTIONS))
    cache = request.options.get("cache")
    if cache is not None and (not isinstance(cache, Mapping) or set(cast("Mapping[str, Any]", cache)) - {"mode"}):
        yield Problem("of the cache only the mode can be chosen", "options.cache", 'such as {"mode": "off"}')
