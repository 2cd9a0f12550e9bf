"""Turn a composed configuration into typed models. The `kind` of each part selects its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evalflow.config.explain import COMMAND_LINE, problems_of
from evalflow.config.foreign_keys import Untaken
from evalflow.config.judges import MembersConfig, RemoteModelConfig
from evalflow.config.schema import (
    BaseSimulatorConfig,
    DatasetConfig,
    JudgeConfig,
    MetricConfig,
    RunConfig,
    ScorerConfig,
    TargetConfig,
)
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Meant, Problem, UserError, command, did_you_mean
from evalflow.records import CASES
from evalflow.values.jsonvalues import as_map, is_mapping, is_object

_ABSENT = object()


def _sets(values: object, key: str) -> bool:
    for part in key.split("."):
        values = as_map(values).get(part, _ABSENT)
    return values is not _ABSENT


@dataclass(frozen=True, slots=True)
class Unsaved:
    """Options, prompts and values in memory, which take precedence over those of all folders.

    Attributes:
        options: The content of options by group and name, without a package line.
        prompts: Templates by name.
        changes: Values that override those of the chosen options: root keys, and maps under judge, metric, ...
    """

    options: Mapping[tuple[str, str], Mapping[str, object]] = field(
        default_factory=dict[tuple[str, str], Mapping[str, object]]
    )
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    changes: Mapping[str, object] = field(default_factory=dict[str, object])

    def sets(self, key: str) -> bool:
        """Return whether the changes set a key path."""
        return _sets(self.changes, key)


NOTHING_UNSAVED = Unsaved()


def laid_over(values: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return the values with the changes applied; maps are merged, everything else is replaced."""
    merged = dict(values)
    for key, value in changes.items():
        there = merged.get(key)
        merged[key] = laid_over(there, value) if is_object(there) and is_mapping(value) else value
    return merged


ModelOf = Callable[[str], type[BaseModel]]  # looks up the model of a `kind`; raises UserError for an unknown kind

TRY = (
    ("dataset=rag", "metric=faithfulness"),
    ("dataset=jailbreak_guardrails", "metric=jailbreak_guardrails"),
    ("dataset=rag", "metric=[faithfulness,relevance]"),
)
"""Runs that need no key, for a command line that names none."""

_DEFAULT_KEY = RemoteModelConfig.model_fields["api_key_env"].default
_GROUPS = ("dataset", "metric", "judge", "target", "embedder", "simulator", "engine")

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed configuration, not yet validated: plain values, with interpolations resolved."""

    values: dict[str, Any]
    choices: dict[str, str]  # the option chosen in each single-choice group
    # The file of each `dataset.NAME`, `metric.NAME`, `judge`, `embedder` and `target` that has one.
    sources: dict[str, Path]
    overrides: tuple[str, ...]
    # In search order: the first match wins.
    conf_folders: tuple[Path, ...]
    prompt_folders: tuple[Path, ...]
    shadowed: tuple[tuple[str, Path], ...] = ()  # parts that replace packaged ones of the same name, with their files
    # The plain configuration with interpolations unresolved; None if it has no interpolations.
    unresolved: dict[str, Any] | None = None
    root_files: tuple[Path, ...] = ()  # files that set keys of the whole configuration; later ones win
    untaken: tuple[Untaken, ...] = ()  # their keys that are ignored, of another judge or target
    unsaved: Unsaved = NOTHING_UNSAVED

    @property
    def storable(self) -> dict[str, Any]:
        """Return the configuration to store, with references to environment variables kept, as they may be secret."""
        return self.values if self.unresolved is None else self.unresolved

    def root_file_of(self, key: str) -> Path | None:
        """Return the file of an experiment or conf/local that sets this key path; None if none does."""
        files = reversed(self.root_files)
        return next((one for one in files if _sets(safe_yaml(one.read_text(encoding="utf-8")), key)), None)


@dataclass(frozen=True, slots=True)
class Settings:
    """A validated configuration, with the judge of each metric: the run's, with the metric's own overrides.

    `composed` is the configuration before validation; `keys` has the key of each dataset and metric by group and name.
    """

    run: RunConfig
    judges: Mapping[str, JudgeConfig]
    composed: Composed
    keys: Mapping[tuple[str, str], str]

    def key(self, group: str, name: str) -> str:
        """Return the key of a dataset or metric as in overrides: `metric.faithfulness`."""
        return f"{group}.{self.keys[group, name]}"

    def with_datasets(self, datasets: Mapping[str, DatasetConfig]) -> Settings:
        """Return the same run with other datasets, by name."""
        return replace(self, run=self.run.model_copy(update={"dataset": dict(datasets)}))

    def scorer(self, metric: str, *, asks: bool, embeds: bool) -> ScorerConfig:
        """Return the configuration with a metric's thresholds: its judge's, or the embedder's if it uses no judge."""
        judge, embedder = self.judges[metric], self.run.embedder
        if not embeds:
            return judge
        return judge.model_copy(update={"calibrated": judge.calibrated and embedder.calibrated}) if asks else embedder


def validate(composed: Composed, models: Mapping[str, ModelOf]) -> Settings:
    """Validate a composed configuration; UserError lists every problem. `models` looks up a kind's model, by group."""
    values = composed.values
    if not values.get("dataset") and not values.get("metric"):
        hint = "\n    ".join(["try one of these:", *(command(*words) for words in TRY)])
        raise UserError(Problem("no dataset and no metric is chosen", COMMAND_LINE, hint))
    checker = _Checker(composed, models)
    for group in ("dataset", "metric"):
        if not values.get(group):
            hint = f"add {group}=NAME; `list {group}` shows the names"
            checker.problems.append(Problem(f"no {group} is chosen", COMMAND_LINE, hint))
    datasets: dict[str, Any] = {
        name: checker.part(DatasetConfig, part, f"dataset.{name}")
        for name, part in as_map(values.get("dataset")).items()
    }
    metrics = {
        name: checker.kind("metric", part, f"metric.{name}") for name, part in as_map(values.get("metric")).items()
    }
    parts = {group: checker.kind(group, values.get(group), group) for group in ("judge", "target", "embedder")}
    parts["simulator"] = checker.kind("simulator", values.get("simulator", {"kind": "none"}), "simulator")
    parts["engine"] = checker.kind("engine", values.get("engine", {"kind": "local"}), "engine")
    judges = {name: checker.judge_of(name, metric, parts["judge"]) for name, metric in metrics.items()}
    named_observers = as_map(values.get("observers"))
    observers = {name: checker.kind("observer", one, f"observers.{name}") for name, one in named_observers.items()}
    rest = {key: value for key, value in values.items() if key not in _GROUPS}
    if isinstance(values.get("observers"), Mapping):
        del rest["observers"]
    blank = {"dataset": {}, "metric": {}, **{group: {"kind": "-"} for group in parts}}
    checker.part(RunConfig, {**rest, **blank}, "")
    target, simulator = parts["target"], parts["simulator"]
    checker.problems += _combination(rest, target.kind if isinstance(target, TargetConfig) else None)
    if (
        isinstance(simulator, BaseSimulatorConfig)
        and simulator.turns
        and rest.get("generate", False) in (False, "demo")
    ):
        what = "no answers are generated, so nobody would talk to the simulated user"
        hint = "add generate=true and a target, or leave the simulator out to score the recorded conversations"
        checker.problems.append(Problem(what, COMMAND_LINE, hint))
    keys = checker.keys({"dataset": datasets, "metric": metrics})
    checker.unused(metrics, {name for group, name in keys if group == "dataset"})
    if checker.problems:
        raise UserError(checker.problems)
    named = {
        group: {part.name or key: part for key, part in parts.items()}
        for group, parts in (("dataset", datasets), ("metric", metrics))
    }
    names = {key: name for (group, name), key in keys.items() if group == "metric"}
    rest["gate"] = _gates_by_name(rest.get("gate"), names)
    run = RunConfig.model_validate({**rest, **named, **parts, "observers": observers})
    return Settings(run, {metrics[key].name or key: own for key, own in judges.items()}, composed, keys)


class _Checker:
    def __init__(self, composed: Composed, models: Mapping[str, ModelOf]) -> None:
        self._composed = composed
        self._models = models
        self.problems: list[Problem] = []

    def part(self, model: type[M], values: object, key: str) -> M | None:
        if not isinstance(values, Mapping):
            self.problems.append(Problem(f"{key} must be a map of keys", self._file(key)))
            return None
        try:
            return model.model_validate(values)
        except ValidationError as error:
            composed = self._composed
            for problem in problems_of(error, model, key, composed.sources.get(key), composed.overrides):
                if composed.unsaved.sets(problem.key):
                    problem = replace(problem, where="configuration")
                elif problem.where != COMMAND_LINE and (own := composed.root_file_of(problem.key)):
                    problem = replace(problem, where=str(own))
                self.problems.append(problem)
        except OverflowError:
            what = f"{key} has a number that is too large; numbers end at about 1.8e308"
            self.problems.append(Problem(what, self._file(key)))
        return None

    def kind(self, group: str, values: object, key: str) -> Any:
        """Validate a part with the model of its kind, and a judge's members with those of theirs."""
        kind = as_map(values).get("kind")
        if not isinstance(kind, str):
            self.problems.append(Problem(f"{key}.kind is required", self._file(key), "say which kind it is"))
            return None
        try:
            model = self._models[group](kind)
        except UserError as error:
            self.problems += [Problem(p.what, f"{self._file(key)}: {key}.kind", p.hint) for p in error.problems]
            return None
        if not issubclass(model, MembersConfig):
            return self.part(model, values, key)
        count, given = len(self.problems), as_map(values)
        members = {
            name: self.kind(group, member, f"{key}.members.{name}") or JudgeConfig(kind="-")
            for name, member in as_map(given.get("members")).items()
        }
        whole = self.part(model, {**given, "members": members or given.get("members", {})}, key)
        return whole if len(self.problems) == count else None

    def judge_of(self, name: str, metric: object, judge: Any) -> JudgeConfig:
        """Return the run's judge with the metric's overrides; overrides of another kind replace the judge."""
        changes = metric.judge if isinstance(metric, MetricConfig) else None
        if not changes:
            return judge
        shared = as_map(self._composed.values.get("judge"))
        same_kind = changes.get("kind", shared.get("kind")) == shared.get("kind")
        key = f"metric.{name}.judge"
        self.problems += _lent_keys(changes, shared if same_kind else {}, key, self._file(f"metric.{name}"))
        return self.kind("judge", _changed(shared, changes) if same_kind else changes, key)

    def keys(self, groups: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], str]:
        """Return the keys of datasets and metrics by name. Duplicate names are errors: their scores would be mixed."""
        keys: dict[tuple[str, str], str] = {}
        for group, parts in groups.items():
            for key, part in parts.items():
                name = part.name if part is not None and part.name else key
                if (group, name) == ("metric", CASES):
                    what = f"no metric can be called {CASES!r}: that is the figure of the cases that pass everything"
                    hint = f"give it another name: metric.{key}.name=NAME"
                    self.problems.append(Problem(what, self._file(f"{group}.{key}"), hint))
                taken = keys.setdefault((group, name), key)
                if taken != key:
                    what = f"two {group}s are both called {name!r}: {group}.{taken} and {group}.{key}"
                    hint = f"give one of them another name: {group}.{key}.name=NAME"
                    self.problems.append(Problem(what, self._file(f"{group}.{key}"), hint))
        return keys

    def unused(self, metrics: Mapping[str, object], datasets: Set[str]) -> None:
        for key, metric in metrics.items():
            names = metric.datasets if isinstance(metric, MetricConfig) else None
            if names is not None and datasets.isdisjoint(names):
                where = f"{self._file(f'metric.{key}')}: metric.{key}.datasets"
                hint = did_you_mean(names[0], datasets) if names else "name some, or set it to null"
                self.problems.append(Problem(f"the run has none of its datasets ({', '.join(names)})", where, hint))

    def _file(self, key: str) -> str:
        return str(self._composed.sources.get(key, "configuration"))


def _changed(shared: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Merge a metric's overrides into the judge's values; in members only the named keys change."""
    members = {name: as_map(member) for name, member in as_map(shared.get("members")).items()}
    for name, member in as_map(changes.get("members")).items():
        members[name] = {**members.get(name, {}), **as_map(member)}
    return {**shared, **changes, **({"members": members} if members else {})}


def _lent_keys(changes: Mapping[str, object], shared: Mapping[str, object], key: str, file: str) -> Iterator[Problem]:
    """Report a metric's own judge address without a key: the key of the run's judge would be sent to it."""
    parts = {key: (changes, shared)}
    members, own = as_map(shared.get("members")), as_map(changes.get("members"))
    parts |= {f"{key}.members.{name}": (as_map(one), as_map(members.get(name))) for name, one in own.items()}
    for place, (part, base) in parts.items():
        lent = base.get("api_key_env") if base else _DEFAULT_KEY
        address = part.get("base_url")
        if address is not None and address != base.get("base_url") and "api_key_env" not in part and lent:
            what = f"{place}.base_url is another address, and the key in {lent} would be sent there"
            hint = f"name its own key: +{place}.api_key_env=VARIABLE, or null if it needs none"
            yield Problem(what, file, hint)


def _gates_by_name(gates: object, names: Mapping[str, str]) -> object:
    """Return the gates by metric name; a gate may also use the metric's configuration key."""
    if not isinstance(gates, Mapping):
        return gates
    by_name: dict[str, Mapping[str, object]] = {}
    for about, conditions in as_map(gates).items():
        key, at, tag = about.partition("@")
        if about not in names.values() and key not in names.values() and key in names:
            about = f"{names[key]}{at}{tag}"
        by_name[about] = {**by_name.get(about, {}), **as_map(conditions)}
    return by_name


def _combination(rest: Mapping[str, object], target: str | None) -> list[Problem]:
    """Return problems of keys in combination, even if another key is invalid; `target` is the target's kind or None."""
    problems: list[Problem] = []
    generate = rest.get("generate", False)
    if not generate and target not in ("recorded", None):
        what = "generate is false, so the target would never be asked"
        hint = "add generate=true, or leave the target out to score the recorded answers"
        problems.append(Problem(what, COMMAND_LINE, hint, meant=Meant((), ("generate=true",))))
    if generate in (True, "missing") and target == "recorded":
        what = "generate asks for new answers, but the target is `recorded`"
        hint = "add target=openai or another of `list target`; target=http, command or python asks your own program"
        problems.append(Problem(what, COMMAND_LINE, hint))
    if rest.get("limit") is not None and rest.get("sample") is not None:
        problems.append(Problem("limit and sample exclude each other", COMMAND_LINE, "give one of them"))
    return problems
