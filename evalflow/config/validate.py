"""Turn a composed configuration into typed models. The `kind` of each part selects its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from evalflow.config.explain import problems_of
from evalflow.config.judges import MembersConfig
from evalflow.config.schema import DatasetConfig, EmbedderConfig, JudgeConfig, MetricConfig, RunConfig, TargetConfig
from evalflow.errors import Problem, UserError, did_you_mean

if TYPE_CHECKING:
    from evalflow.config.load import Composed

ModelOf = Callable[[str], type[BaseModel]]
"""Look up the model of a `kind`; raises UserError for an unknown kind."""

TRY = """try one of these:
    python -m evalflow dataset=rag metric=faithfulness
    python -m evalflow dataset=jailbreak_guardrails metric=jailbreak_guardrails
    python -m evalflow dataset=rag 'metric=[faithfulness,relevance]'"""

_GROUPS = ("dataset", "metric", "judge", "target", "embedder")


@dataclass(frozen=True, slots=True)
class Settings:
    """A validated configuration.

    Attributes:
        run: The typed configuration.
        judges: The judge of each metric: the run's, with the metric's own overrides.
        composed: The composed configuration before validation.
        keys: The configuration key of each dataset and metric, by group and name.
    """

    run: RunConfig
    judges: Mapping[str, JudgeConfig]
    composed: Composed
    keys: Mapping[tuple[str, str], str]

    def key(self, group: str, name: str) -> str:
        """The key of a dataset or metric as in overrides: `metric.faithfulness`."""
        return f"{group}.{self.keys[group, name]}"

    def scorer(self, metric: str, *, asks: bool, embeds: bool) -> JudgeConfig | EmbedderConfig:
        """The configuration with the thresholds for a metric: its judge's, or the embedder's if it uses no judge.

        For a metric that uses both it is the judge's, which is calibrated only if both are.
        """
        judge, embedder = self.judges[metric], self.run.embedder
        if not embeds:
            return judge
        return judge.model_copy(update={"calibrated": judge.calibrated and embedder.calibrated}) if asks else embedder


def validate(
    composed: Composed, metric_model: ModelOf, judge_model: ModelOf, target_model: ModelOf, embedder_model: ModelOf
) -> Settings:
    """Validate a composed configuration.

    Args:
        composed: As composed by Hydra.
        metric_model: Looks up the model of a metric's kind.
        judge_model: The same for judges.
        target_model: The same for targets.
        embedder_model: The same for embedders.

    Raises:
        UserError: Lists every problem.
    """
    values = composed.values
    if not values.get("dataset") and not values.get("metric"):
        raise UserError(Problem("no dataset and no metric is chosen", "command line", TRY))
    checker = _Checker(composed)
    for group in ("dataset", "metric"):
        if not values.get(group):
            checker.problems.append(
                Problem(f"no {group} is chosen", "command line", f"add {group}=NAME; `list {group}` shows the names")
            )
    datasets = {
        name: checker.part(DatasetConfig, part, f"dataset.{name}") for name, part in _parts(values, "dataset").items()
    }
    metrics = {
        name: checker.kind(metric_model, part, f"metric.{name}") for name, part in _parts(values, "metric").items()
    }
    judge = checker.kind(judge_model, values.get("judge"), "judge")
    target = checker.kind(target_model, values.get("target"), "target")
    embedder = checker.kind(embedder_model, values.get("embedder"), "embedder")
    judges = _judges(checker, metrics, values.get("judge"), judge, judge_model)
    rest = {key: value for key, value in values.items() if key not in _GROUPS}
    blank = {"dataset": {}, "metric": {}, **{group: {"kind": "-"} for group in _GROUPS[2:]}}
    checker.part(RunConfig, {**rest, **blank}, "")
    kind = target.kind if isinstance(target, TargetConfig) else None
    checker.problems += _combination(rest, kind)
    keys = _keys(checker, {"dataset": datasets, "metric": metrics})
    checker.problems += _unused(checker, metrics, {name for group, name in keys if group == "dataset"})
    if checker.problems:
        raise UserError(checker.problems)
    named = {
        group: {part.name or key: part for key, part in parts.items()}
        for group, parts in (("dataset", datasets), ("metric", metrics))
    }
    rest["gate"] = _gates_by_name(
        rest.get("gate"), {key: name for (group, name), key in keys.items() if group == "metric"}
    )
    run = RunConfig.model_validate({**rest, **named, "judge": judge, "target": target, "embedder": embedder})
    return Settings(run, {metrics[key].name or key: own for key, own in judges.items()}, composed, keys)


class _Checker:
    def __init__(self, composed: Composed) -> None:
        self.composed = composed
        self.problems: list[Problem] = []

    def part(self, model: type[BaseModel], values: Any, key: str) -> Any:
        file = self.composed.sources.get(key)
        if not isinstance(values, Mapping):
            self.problems.append(Problem(f"{key} must be a map of keys", str(file or "configuration")))
            return None
        try:
            return model.model_validate(values)
        except ValidationError as error:
            self.problems += problems_of(error, model, key, file, self.composed.overrides)
            return None

    def kind(self, model_of: ModelOf, values: Any, key: str) -> Any:
        kind = cast("Mapping[str, Any]", values).get("kind") if isinstance(values, Mapping) else None
        if isinstance(kind, str):
            try:
                model = model_of(kind)
                if issubclass(model, MembersConfig):
                    return self._of_members(model, model_of, values, key)
                return self.part(model, values, key)
            except UserError as error:
                where = str(self.composed.sources.get(key, "configuration"))
                self.problems += [Problem(p.what, f"{where}: {key}.kind", p.hint) for p in error.problems]
                return None
        file: Path | None = self.composed.sources.get(key)
        self.problems.append(Problem(f"{key}.kind is required", str(file or "configuration"), "say which kind it is"))
        return None

    def _of_members(self, model: type[BaseModel], model_of: ModelOf, values: Any, key: str) -> Any:
        """Validate a judge with members, each by its own kind first."""
        known = len(self.problems)
        members = {
            name: self.kind(model_of, member, f"{key}.members.{name}") or JudgeConfig(kind="-")
            for name, member in _parts(values, "members").items()
        }
        whole = self.part(model, {**values, "members": members or values.get("members", {})}, key)
        return whole if len(self.problems) == known else None


def _parts(values: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    parts = values.get(group)
    return cast("Mapping[str, Any]", parts) if isinstance(parts, Mapping) else {}


def _judges(
    checker: _Checker, metrics: Mapping[str, Any], base: Any, judge: Any, judge_model: ModelOf
) -> dict[str, JudgeConfig]:
    judges: dict[str, JudgeConfig] = {}
    shared: Mapping[str, Any] = cast("Mapping[str, Any]", base) if isinstance(base, Mapping) else {}
    for name, metric in metrics.items():
        changes = metric.judge if isinstance(metric, MetricConfig) else None
        if not changes:
            judges[name] = judge
            continue
        same_kind = changes.get("kind", shared.get("kind")) == shared.get("kind")
        values = _changed(shared, changes) if same_kind else changes
        judges[name] = checker.kind(judge_model, values, f"metric.{name}.judge")
    return judges


def _changed(shared: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a metric's overrides into the judge's values; in members only the named keys change."""
    members = {name: dict(member) for name, member in _parts(shared, "members").items()}
    for name, member in _parts(changes, "members").items():
        members[name] = {**members.get(name, {}), **member}
    return {**shared, **changes, **({"members": members} if members else {})}


def _gates_by_name(gates: Any, names: Mapping[str, str]) -> Any:
    """The gates by metric name; a gate may also use the metric's key in the configuration."""
    if not isinstance(gates, Mapping):
        return gates
    found: dict[str, Any] = {}
    for about, conditions in cast("Mapping[str, Mapping[str, Any]]", gates).items():
        key, at, tag = about.partition("@")
        known = about in names.values() or key in names.values() or key not in names
        about = about if known else f"{names[key]}{at}{tag}"
        found[about] = {**found.get(about, {}), **conditions}
    return found


def _keys(checker: _Checker, groups: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """The key of each dataset and metric by its name. Duplicate names are refused: their scores would mix."""
    keys: dict[tuple[str, str], str] = {}
    for group, parts in groups.items():
        for key, part in parts.items():
            name = part.name if part is not None and part.name else key
            taken = keys.setdefault((group, name), key)
            if taken != key:
                what = f"two {group}s are both called {name!r}: {group}.{taken} and {group}.{key}"
                where = str(checker.composed.sources.get(f"{group}.{key}", "configuration"))
                checker.problems.append(Problem(what, where, f"give one of them another name: {group}.{key}.name=NAME"))
    return keys


def _unused(checker: _Checker, metrics: Mapping[str, Any], datasets: Set[str]) -> Iterator[Problem]:
    """Report metrics that score none of the run's datasets."""
    for key, metric in metrics.items():
        wanted = metric.datasets if isinstance(metric, MetricConfig) else None
        if wanted is not None and datasets.isdisjoint(wanted):
            where = f"{checker.composed.sources.get(f'metric.{key}', 'configuration')}: metric.{key}.datasets"
            hint = did_you_mean(wanted[0], datasets) if wanted else "name some, or set it to null"
            yield Problem(f"the run has none of its datasets ({', '.join(wanted)})", where, hint)


def _combination(rest: Mapping[str, Any], target: str | None) -> list[Problem]:
    """Problems of keys in combination, also if another key is invalid on its own; `target` is its kind or None."""
    problems: list[Problem] = []
    generate = rest.get("generate", False)
    if not generate and target not in ("recorded", None):
        problems.append(
            Problem(
                "generate is false, so the target would never be asked",
                "command line",
                "add generate=true, or leave the target out to score the recorded answers",
            )
        )
    if generate in (True, "missing") and target == "recorded":
        problems.append(
            Problem("generate asks for new answers, but the target is `recorded`", "command line", "add target=openai")
        )
    if rest.get("limit") is not None and rest.get("sample") is not None:
        problems.append(Problem("limit and sample exclude each other", "command line", "give one of them"))
    return problems
