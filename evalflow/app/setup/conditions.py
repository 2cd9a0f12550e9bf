"""What gates and judges' thresholds name must be there, once it is known what the scores will be called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalflow.app.results.derive import thresholds
from evalflow.app.results.recipe import Recipe
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.protocols import Measured
from evalflow.summary import Gate, parse_gates
from evalflow.summary.gates import SHARES


def gates_of(settings: Settings, metrics: Mapping[str, Measured], problems: list[Problem]) -> Sequence[Gate]:
    """The gates of a run; what is wrong with them goes to `problems`.

    Args:
        settings: The run's.
        metrics: By the names that their scores have.
        problems: Where to complain.
    """
    try:
        return parse_gates(settings.run.gate, metrics, settings.run.baseline)
    except UserError as error:
        problems += error.problems
        return ()


def undecidable_gates(recipe: Recipe) -> Iterator[Problem]:
    """Gates on a pass rate where nothing will pass or fail, for want of a threshold."""
    judged = {threshold.metric for threshold in thresholds(recipe)}
    for gate in recipe.gates:
        concerned = list(recipe.metrics) if gate.metric is None else [gate.metric]
        if gate.statistic not in SHARES or judged & {*concerned}:
            continue
        name = concerned[0]
        judge, metric = recipe.judge_of[name], recipe.metrics[name].config
        who = f"{gate.metric} has no" if gate.metric else "no metric has a"
        what = f"there is no {gate.statistic}: {who} threshold"
        hint = f"metric.{name}.threshold=0.8"
        if judge is not None and metric.threshold is not None:
            what += f" that holds with the judge {judge}, which is not calibrated"
            hint = f"say where its scores pass: 'judge.thresholds={{{name}: 0.5}}'"
        yield Problem(what, f"gate.{gate.about}.{gate.statistic}", hint)


def wrong_thresholds(settings: Settings, metrics: Mapping[str, Measured]) -> Iterator[Problem]:
    """Thresholds of judges and of the embedder for what is no metric, or where no score can be.

    A judge may well have some for metrics that this run leaves out.
    """
    run = settings.run
    files = (file for folder in settings.composed.conf_folders for file in (folder / "metric").glob("[!_]*.yaml"))
    known = {*run.metric, *metrics, *(file.stem for file in files)}
    own = {name: (metric.judge or {}).get("thresholds") for name, metric in run.metric.items()}
    declared = {"judge": run.judge.thresholds, "embedder": run.embedder.thresholds}
    declared |= {f"metric.{name}.judge": found for name, found in own.items()}
    for key, stated in declared.items():
        for name, value in (stated or {}).items():
            where = f"{key}.thresholds.{name}"
            if name not in known:
                yield Problem(f"there is no metric {name!r}", where, did_you_mean(name, known))
            elif name in metrics and metrics[name].bounded and not 0 <= float(value) <= 1:
                yield Problem(f"{float(value):g} is no threshold of {name}", where, "its scores lie in 0..1")
