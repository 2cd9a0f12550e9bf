"""Other thresholds than a run was made with, kept with it: what they are, and what it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from evalflow.app.results.derive import thresholds
from evalflow.app.results.saved import Saved, load, rederived
from evalflow.errors import Problem, UserError

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
