"""Composites: their parts before the run, and their scores after it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from evalflow.app.core.assemble import Parts
from evalflow.config.schema import EmbedderConfig, JudgeConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, did_you_mean
from evalflow.llm.embedding_judge import JudgeWithEmbedder
from evalflow.metrics.combine import BY_PASSING, CompositeMetricConfig
from evalflow.protocols import Judge, Measured, Metric
from evalflow.summary.composites import Composite, Source
from evalflow.summary.gates import Gate
from evalflow.summary.summarise import Threshold


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is needed to derive, beside the run's files.

    Attributes:
        settings: The run's configuration.
        metrics: The metrics, by the names that their scores have.
        judge_of: The judge's column value of each metric; None for a metric that asks nobody.
        scorers: The configuration of whom each metric asks, with its own thresholds; see `scorers_of`.
        asking: The metrics that ask a judge, who may be asked repeatedly.
        gates: The conditions that decide the exit code.
    """

    settings: Settings
    metrics: Mapping[str, Measured]
    judge_of: Mapping[str, str | None]
    scorers: Mapping[str, JudgeConfig | EmbedderConfig]
    asking: Collection[str]
    gates: Sequence[Gate]

    @property
    def bounded(self) -> list[str]:
        """The metrics whose scores lie in 0..1."""
        return [name for name, metric in self.metrics.items() if metric.bounded]


class Asking(NamedTuple):
    """Of whom a metric asks its scores.

    Attributes:
        declared: The metric's name in the configuration.
        asks: Whether it asks a judge.
        embeds: Whether it compares meanings.
    """

    declared: str
    asks: bool
    embeds: bool


def scorers_of(settings: Settings, metrics: Mapping[str, Asking]) -> dict[str, JudgeConfig | EmbedderConfig]:
    """Whose thresholds hold for each metric; for a composite the judge's, who is calibrated as far as all parts' are.

    Args:
        settings: The run's.
        metrics: By the names that their scores have.
    """
    found = {name: settings.scorer(one.declared, asks=one.asks, embeds=one.embeds) for name, one in metrics.items()}
    for name, one in metrics.items():
        config = settings.run.metric[one.declared]
        if isinstance(config, CompositeMetricConfig):
            parts = [part for part in config.weights if part in metrics]
            judged = [found[part].calibrated for part in parts if metrics[part].asks or metrics[part].embeds]
            found[name] = found[name].model_copy(update={"calibrated": all(judged)})
    return found


def thresholds(recipe: Recipe) -> list[Threshold]:
    """The threshold of each metric that has one with its judge.

    A judge's own threshold for a metric comes first. The metric's counts unless the judge is not calibrated: its
    scores rank answers, and where on its scale an answer is good enough nobody knows.
    """
    found: list[Threshold] = []
    for name, metric in recipe.metrics.items():
        judge = recipe.judge_of[name]
        config = recipe.scorers[name]
        value = metric.config.threshold
        if judge is not None:
            value = (config.thresholds or {}).get(name, value if config.calibrated else None)
        if value is not None:
            found.append(Threshold(name, judge, value, metric.config.direction))
    return found


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


@dataclass(frozen=True, slots=True)
class ScoreName:
    """Scores that a run will have under one name.

    Attributes:
        metric: What makes them.
        judge: Who is asked for them, or for what they are made of; None where nobody is.
        declared: The name of the metric in the configuration, which may bind to several.
    """

    metric: Metric
    judge: Judge | None
    declared: str


def composites(parts: Parts, scored: Mapping[str, ScoreName]) -> tuple[dict[str, ScoreName], list[Problem]]:
    """The composites of a run with whoever judges their parts, and what is wrong with them.

    Args:
        parts: The run's.
        scored: The scores that the run will have without them.
    """
    wrong = unusable_parts(parts.settings, {name: one.metric for name, one in scored.items()})
    made = {
        name: ScoreName(metric, _judge(metric, scored), name)
        for name, metric in parts.metrics.items()
        if metric.parts and name not in wrong
    }
    return made, [problem for problems in wrong.values() for problem in problems]


def _judge(metric: Metric, scored: Mapping[str, ScoreName]) -> Judge | None:
    """Whoever judges the parts, as one."""
    judges = {judge.info.name: judge for part in metric.parts if (judge := scored[part].judge)}
    return reduce(JudgeWithEmbedder, judges.values()) if judges else None
