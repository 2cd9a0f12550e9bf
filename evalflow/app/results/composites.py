"""The metrics of a run that are made of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalflow.app.results.recipe import Recipe
from evalflow.config.validate import Settings
from evalflow.errors import Problem, did_you_mean
from evalflow.metrics.composition import BY_PASSING, CompositeMetricConfig
from evalflow.protocols import Measured
from evalflow.summary import Composite, Source, Threshold


def composites_of(recipe: Recipe, limits: Sequence[Threshold]) -> list[Composite]:
    """What is to be made of a run's scores.

    Args:
        recipe: How its results are derived; `unusable_parts` finds nothing wrong with it.
        limits: The thresholds that hold.
    """
    limit_of = {limit.metric: limit.value for limit in limits}
    return [
        Composite(
            name,
            recipe.judge_of[name],
            metric.config,
            {
                part: Source(part in recipe.asking, recipe.metrics[part].config.direction, limit_of.get(part))
                for part in metric.config.weights
            },
        )
        for name, metric in recipe.metrics.items()
        if isinstance(metric.config, CompositeMetricConfig)
    ]


def unusable_parts(settings: Settings, scored: Mapping[str, Measured]) -> dict[str, list[Problem]]:
    """What composites are made of and cannot be, by the composite's name.

    Args:
        settings: The run's.
        scored: What the run has scores of.
    """
    found: dict[str, list[Problem]] = {}
    for name, config in settings.run.metric.items():
        if isinstance(config, CompositeMetricConfig):
            problems = [*_absent(settings, scored, name, config), *_misfits(settings, scored, name, config)]
            found |= {name: problems} if problems else {}
    return found


def undecided_parts(recipe: Recipe, limits: Sequence[Threshold]) -> Iterator[Problem]:
    """Parts that neither pass nor fail, of composites that ask which of them do."""
    for composite in composites_of(recipe, limits):
        for name, source in composite.sources.items():
            if composite.config.op not in BY_PASSING or source.limit is not None:
                continue
            judge, config = recipe.judge_of[name], recipe.metrics[name].config
            what, hint = f"{name} has no threshold", f"metric.{name}.threshold=0.8"
            if judge is not None and config.threshold is not None:
                what += f" that holds with the judge {judge}, which is not calibrated"
                hint = f"say where its scores pass: 'judge.thresholds={{{name}: 0.5}}'"
            what += f", and {composite.config.op} is about what passes"
            yield Problem(what, f"metric.{composite.name}.of", hint)


def _absent(
    settings: Settings, scored: Mapping[str, Measured], name: str, config: CompositeMetricConfig
) -> Iterator[Problem]:
    declared = settings.run.metric
    absent = [part for part in config.weights if part not in declared and part not in scored]
    if not absent:
        return
    folders = settings.composed.conf_folders
    known = {*declared, *(file.stem for folder in folders for file in folder.glob("metric/[!_]*.yaml"))}
    wrong = next((part for part in absent if part not in known), None)
    hint = did_you_mean(wrong, known) if wrong else f"'metric=[{','.join([*absent, *declared])}]'"
    yield Problem(f"it is made of {', '.join(absent)}, which this run does not score", f"metric.{name}.of", hint)


def _misfits(
    settings: Settings, scored: Mapping[str, Measured], name: str, config: CompositeMetricConfig
) -> Iterator[Problem]:
    for part in config.weights:
        fault = _misfit(settings, scored, config, part)
        if fault:
            yield Problem(f"{part} {fault}", f"metric.{name}.of")


def _misfit(settings: Settings, scored: Mapping[str, Measured], config: CompositeMetricConfig, part: str) -> str | None:
    """Why a metric of the run can be no part; None for one that is not there at all."""
    declared = settings.run.metric.get(part)
    if declared is None and part not in scored:
        return None
    if isinstance(declared, CompositeMetricConfig):
        return f"is a composite itself; name what it is made of: {', '.join(declared.weights)}"
    if declared is None or part not in scored:
        return "stands for checks that only some cases bring; name metrics that score every case"
    if not scored[part].bounded:
        return "has scores beyond 0..1, which cannot be put together with others"
    beyond = [name for name in settings.run.dataset if config.covers(name) and not declared.covers(name)]
    return f"does not score the dataset {beyond[0]}; set `datasets` of both to the same" if beyond else None
