"""Resolve a run request: the workspace's definitions that it uses, and the values that it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import Bot, get_bot
from evalflow.addons.studio.work.case_choice import chosen_values, wrong_choices
from evalflow.addons.studio.work.cases import case_rows, case_texts
from evalflow.addons.studio.work.checks import custom_checks
from evalflow.addons.studio.work.conf_files import data_keys, json_line, write_cases, write_option, write_prompts
from evalflow.addons.studio.work.datasets import Dataset, get_dataset
from evalflow.addons.studio.work.definitions import declared, find_declared, remembered_content
from evalflow.addons.studio.work.judges import named_judges, with_judge
from evalflow.addons.studio.work.metric_yaml import metric_option
from evalflow.addons.studio.work.metrics import MetricDefinition, list_metrics
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace, not_found, refuse_elsewhere
from evalflow.addons.studio.work.titles import titled
from evalflow.app.core.connections import refuse_owners_options
from evalflow.config.schema import RunConfig
from evalflow.config.validate import Unsaved
from evalflow.config.yaml_text import escaped, escaped_but_environment
from evalflow.errors import Problem, Subject, UserError, check_all, did_you_mean
from evalflow.values.jsonvalues import as_map, is_mapping

BASES = MappingProxyType({"openai": ["_openai", "_self_"], "http": ["_service", "_self_"]})
"""By kind, the files of conf/ that a bot inherits from, so that every key has its default value."""

T = TypeVar("T")


class CountedRows:
    """Rows that are read again by each iteration, and counted."""

    def __init__(
        self,
        read: Callable[[], Iterable[Mapping[str, object]]],
        count: int | None = None,
        lines: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        self._read = read
        self._count = count
        self._lines = lines or (lambda: map(json_line, read()))

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        return self._counted(self._read())

    def lines(self) -> Iterator[str]:
        """Read the rows as JSON lines."""
        return self._counted(self._lines())

    def _counted(self, rows: Iterable[T]) -> Iterator[T]:
        count = 0
        for row in rows:
            yield row
            count += 1
        self._count = count

    @property
    def count(self) -> int:
        """Their number when they were last fully read; reads them if it is unknown."""
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count


@dataclass(frozen=True, slots=True)
class Own:
    """The workspace's definitions that a run uses; all others come from conf/.

    Attributes:
        targets, judges: Descriptions and configurations by name, with connections resolved.
        metrics: Definitions and prompts by name.
        datasets: Options (`generates`, description) and rows, by name.
    """

    targets: Mapping[str, tuple[str, Mapping[str, object]]]
    metrics: Mapping[str, tuple[Mapping[str, object], Mapping[str, str]]]
    datasets: Mapping[str, tuple[Mapping[str, object], CountedRows]]
    judges: Mapping[str, tuple[str, Mapping[str, object]]]

    def unsaved(self, changes: Mapping[str, object] = MappingProxyType({})) -> Unsaved:
        """The definitions as unsaved options for `compose`, with `changes` applied; no text is interpolated."""
        return Unsaved(dict(self._options(Path())), self._prompts(), escaped(changes))

    def write(self, folder: Path) -> None:
        """Write the definitions as files of conf/, prompts/ and data/ below a folder."""
        descriptions = {("target", name): text for name, (text, _) in self.targets.items()}
        descriptions |= {("judge", name): text for name, (text, _) in self.judges.items()}
        for name, (_, rows) in self.datasets.items():
            write_cases(folder, name, rows.lines())
        for (group, name), values in self._options(folder):
            write_option(folder, group, name, values, descriptions.get((group, name), ""))
        write_prompts(folder, self._prompts())

    def _options(self, folder: Path) -> Iterator[tuple[tuple[str, str], Mapping[str, object]]]:
        for name, (_, config) in self.targets.items():
            bases = BASES.get(str(config["kind"]))
            inherited = {} if bases is None else {"defaults": bases}
            yield ("target", name), {**inherited, **escaped_but_environment(config)}
        for name, (_, config) in self.judges.items():
            yield ("judge", name), {"defaults": _judge_bases(config), **escaped(config)}
        for name, (definition, _) in self.metrics.items():
            yield ("metric", name), metric_option(definition)
        for name, (options, _) in self.datasets.items():
            yield ("dataset", name), escaped({**options, **data_keys(folder, name)})

    def _prompts(self) -> dict[str, str]:
        return {file: text for _, prompts in self.metrics.values() for file, text in prompts.items()}


def _judge_bases(config: Mapping[str, Any]) -> list[str]:
    """The files of conf/ that a judge and each of its members inherit from."""
    members = cast("Mapping[str, Mapping[str, object]]", config.get("members") or {})
    of_members = [f"_openai@members.{name}" for name, member in members.items() if member["kind"] == "openai"]
    return [*(BASES.get(config["kind"], ["_self_"])[:-1]), *of_members, "_self_"]


OPTIONS = tuple(
    name for name in RunConfig.model_fields if name not in ("dataset", "target", "metric", "judge", "embedder")
)
"""Root keys that a run may set."""


@requires("read")
def own_definitions(space: Workspace, request: RunRequest) -> Own:
    """Collect the workspace's definitions that a request uses."""
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
    """Collect the definitions of a bot, metrics and datasets, and of the judges that the metrics and `judges` name."""
    targets: dict[str, tuple[str, Mapping[str, object]]] = {}
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
                CountedRows(
                    partial(case_rows, space, one.name),
                    (one.cases or 0) - one.drafts,
                    partial(case_texts, space, one.name),
                ),
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
def with_values(space: Workspace, request: RunRequest) -> tuple[RunRequest, dict[str, object]]:
    """Return the request with its judge filled in, and the values that it changes."""
    bot = get_bot(space, request.bot)
    for name in request.thresholds:
        if name not in request.metrics:
            hint = did_you_mean(name, request.metrics)
            raise UserError(Problem(f"the run has no metric {name!r}", f"thresholds.{name}", hint))
    check_all(*(partial(_expect_cases, get_dataset(space, name)) for name in request.datasets))
    values: dict[str, object] = {"generate": bot.config.get("kind") != "recorded", **request.options}
    if chosen := chosen_values(space, request):
        values["dataset"] = chosen
    if request.judge_values:
        values["judge"] = space.resolve(request.judge_values, "judge")
    if request.simulator:
        values["simulator"] = space.resolve(as_map(request.options["simulator"]), "simulator")
    if request.embedder_values:
        values["embedder"] = space.resolve(request.embedder_values, "embedder")
    metrics: dict[str, dict[str, object]] = {name: {"threshold": value} for name, value in request.thresholds.items()}
    if custom := custom_checks(space):
        for name, own in checking(space, request):
            metrics.setdefault(name, {})["custom"] = {key: one for key, one in custom.items() if key not in own}
    if metrics:
        values["metric"] = metrics
    return replace(request, judge=judge_of(bot.config, request)), values


@requires("read")
def checking(space: Workspace, request: RunRequest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a request's metrics that run the checks of cases, each with its own custom checks."""
    own = {metric.name: metric.definition for metric in list_metrics(space, request.bot)}
    shipped = declared("metric")
    for name in request.metrics:
        if name in own or name in shipped:
            definition = own[name] if name in own else remembered_content(space, "metric", name)
            if definition.get("kind") == "checks":
                yield name, as_map(definition.get("custom"))


def judge_of(config: Mapping[str, object], request: RunRequest) -> str:
    """The judge of a request: the given one, else the bot's own model, else the embedded judge."""
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
    if cache is not None and (not is_mapping(cache) or set(cache) - {"mode"}):
        yield Problem("of the cache only the mode can be chosen", "options.cache", 'such as {"mode": "off"}')
