"""A run read back from its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import yaml

from evalflow import datasets
from evalflow.app.core.assemble import select, settings_of
from evalflow.app.core.composites import Asking, Recipe, scorers_of, thresholds, unusable_parts
from evalflow.config.load import Composed, resolved
from evalflow.config.schema import DatasetConfig, MetricConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.records import Case, FigureSpec
from evalflow.run.folder import RunFolder
from evalflow.run.manifest import SCHEMA
from evalflow.summary.gates import parse_gates

_DERIVED_OF_METRICS = ("threshold", "gate", "of", "op", "may_lack")
_DERIVED_OF_RUNS = ("gate", "judge.thresholds", "max_error_rate", "baseline")
_DERIVED = re.compile(
    rf"\+?(metric\.\w+\.({'|'.join(_DERIVED_OF_METRICS)}|of\.\w+)|{'|'.join(map(re.escape, _DERIVED_OF_RUNS))})"
)
"""What may be changed of a finished run."""


@dataclass(frozen=True, slots=True)
class Described:
    """A metric as run.json describes it; implements Measured without the prompts, which may be gone."""

    config: MetricConfig
    bounded: bool
    figures: FigureSpec | None


@dataclass(frozen=True, slots=True)
class Saved:
    """A run as its folder tells it."""

    folder: RunFolder
    manifest: dict[str, Any]
    recipe: Recipe

    def cases(self) -> Iterator[Case]:
        """The cases as evaluated, in input order; from the data where the run ended before it wrote them down."""
        if self.folder.cases.is_file():
            yield from read_cases(self.folder, self.manifest)
        else:
            yield from select(self.recipe.settings.run)


def read_manifest(folder: RunFolder) -> dict[str, Any]:
    """run.json.

    Raises:
        UserError: It was written by another version.
    """
    manifest = folder.read_manifest()
    if manifest.get("schema") != SCHEMA:
        what = f"this run was written by another version of evalflow (schema {manifest.get('schema')}, not {SCHEMA})"
        raise UserError(Problem(what, str(folder.manifest), "open it with the version named in it"))
    return manifest


def composed_of(manifest: dict[str, Any]) -> Composed:
    """The configuration that a run was made from."""
    search = manifest["search_folders"]
    return Composed(
        values=resolved(manifest["config"]),
        unresolved=manifest["config"],
        choices=manifest["choices"],
        sources={},
        overrides=tuple(manifest["overrides"]),
        conf_folders=tuple(Path(path) for path in search["conf"]),
        prompt_folders=tuple(Path(path) for path in search["prompts"]),
    )


def rederived(manifest: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The manifest with other thresholds, gates or rules of composites: what a run's scores mean, not what they are.

    Args:
        manifest: run.json.
        overrides: `metric.NAME.threshold=X`, `metric.NAME.gate={...}`, `judge.thresholds={...}`, `gate={...}`,
            `max_error_rate=X`; of a composite `metric.NAME.of.PART=X`, `metric.NAME.op=X` and the like.

    Raises:
        UserError: An override would need new scores.
    """
    config = json.loads(json.dumps(manifest["config"]))
    problems: list[Problem] = []
    for override in overrides:
        key, _, text = override.partition("=")
        *parents, last = key.lstrip("+").split(".")
        here: Any = config
        for parent in parents:
            here = cast("dict[str, Any]", here).get(parent) if isinstance(here, dict) else None
        if not _DERIVED.fullmatch(key) or not isinstance(here, dict):
            problems.append(_unchangeable(key, config))
            continue
        here[last] = yaml.safe_load(text)
    if problems:
        raise UserError(problems)
    return {**manifest, "config": config, "overrides": [*manifest["overrides"], *overrides]}


def _unchangeable(key: str, config: dict[str, Any]) -> Problem:
    """Why a key of a finished run cannot be changed, and which can: of the metric that is named, where one is."""
    group, _, below = key.lstrip("+").partition(".")
    metrics: dict[str, Any] = config["metric"]
    name, _, last = below.partition(".")
    if group == "metric" and name not in metrics:
        return Problem(f"the run has no metric {name!r}", "command line", did_you_mean(name, metrics))
    if group == "metric" and last:
        known = [part for part in _DERIVED_OF_METRICS if part in metrics[name]]
        if last not in metrics[name] and not last.startswith("of."):
            return Problem(f"the metric {name} has no key {last!r}", "command line", did_you_mean(last, known))
    elif group not in config:
        return Problem(f"there is no key {group!r}", "command line", did_you_mean(group, _DERIVED_OF_RUNS))
    keys = ", ".join((*_DERIVED_OF_RUNS, *(f"metric.NAME.{part}" for part in _DERIVED_OF_METRICS)))
    what = f"{key} cannot be changed after the run"
    return Problem(what, "command line", f"these can: {keys}; for all else start a new run")


def load(folder: RunFolder, manifest: dict[str, Any] | None = None) -> Saved:
    """Read a run back.

    Args:
        folder: The run's.
        manifest: Another run.json than the one that it has, such as `rederived` gives; nothing is written.

    Raises:
        UserError: Its files are of another version, what it was made from is gone, or what was changed is wrong.
    """
    manifest = manifest or read_manifest(folder)
    settings = settings_of(composed_of(manifest))
    known: dict[str, Any] = manifest["metrics"]
    metrics = {name: _described(settings, facts) for name, facts in known.items()}
    wrong = unusable_parts(settings, metrics)
    if wrong:
        raise UserError([problem for problems in wrong.values() for problem in problems])
    judge_of = {name: facts["judge"] for name, facts in known.items()}
    asked = {name: Asking(facts["declared"], facts["asks"], facts["embeds"]) for name, facts in known.items()}
    asking = [name for name, one in asked.items() if one.asks]
    gates = parse_gates(settings.run.gate, metrics, settings.run.baseline)
    return Saved(folder, manifest, Recipe(settings, metrics, judge_of, scorers_of(settings, asked), asking, gates))


def _described(settings: Settings, facts: dict[str, Any]) -> Described:
    config = settings.run.metric[facts["declared"]].model_copy(update={"description": facts["description"]})
    return Described(config, facts["bounded"], FigureSpec(**facts["figures"]) if facts["figures"] else None)


def read_cases(folder: RunFolder, manifest: dict[str, Any]) -> Iterator[Case]:
    """The cases of a run's cases.jsonl, each under the name of the dataset it came from."""
    everything = datasets.read("cases", DatasetConfig(path=str(folder.cases), format="jsonl", allow_irregular=True))
    for name, facts in manifest["datasets"].items():
        for case in islice(everything, facts["cases"]):
            yield replace(case, dataset=name)


_MADE_FROM = ".hydra/config.yaml"
"""The configuration that a run was made from; `report` changes the one in run.json, and never this."""


def standing(saved: Saved) -> dict[str, float]:
    """The threshold of each metric that has one, as it counts now."""
    return {limit.metric: limit.value for limit in thresholds(saved.recipe)}


def declared(saved: Saved) -> dict[str, float]:
    """The threshold of each metric that had one when the run was made.

    Where nothing says any more what it was made from, those that count now.
    """
    path = saved.folder.path / _MADE_FROM
    if not path.is_file():
        return standing(saved)
    made: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    config = json.loads(json.dumps(saved.manifest["config"]))
    for name, metric in config["metric"].items():
        metric["threshold"] = made["metric"][name].get("threshold")
    config["judge"]["thresholds"] = made["judge"].get("thresholds")
    return standing(load(saved.folder, {**saved.manifest, "config": config}))


def override_of(saved: Saved, metric: str, value: float | None) -> str:
    """The override of `report` by which a metric has that threshold, or none.

    A judge's own threshold for a metric goes before the metric's, which does not count at all where the judge is not
    calibrated.

    Raises:
        UserError: No override gives it, as where the metric is strict.
    """
    recipe = saved.recipe
    scorer, asked = recipe.scorers[metric], recipe.judge_of[metric] is not None
    own = dict(scorer.thresholds or {})
    if asked and (metric in own or not scorer.calibrated):
        own = {name: limit for name, limit in {**own, metric: value}.items() if limit is not None}
        said = ", ".join(f"{name}: {limit!r}" for name, limit in own.items())
        override = f"judge.thresholds={{{said}}}" if own else "judge.thresholds=null"
    else:
        said = "null" if value is None else repr(value)
        override = f"metric.{saved.manifest['metrics'][metric]['declared']}.threshold={said}"
    if standing(load(saved.folder, rederived(saved.manifest, [override]))).get(metric) != value:
        what = f"the threshold of {metric} is fixed by its definition"
        raise UserError(Problem(what, "threshold", "a strict metric passes what is perfect, and nothing else"))
    return override


def kept(saved: Saved) -> list[str]:
    """The overrides that lead from the thresholds that the run was made with to those that count now."""
    before, now = declared(saved), standing(saved)
    changed = [name for name in saved.recipe.metrics if before.get(name) != now.get(name)]
    return list(dict.fromkeys(override_of(saved, name, now.get(name)) for name in changed))
