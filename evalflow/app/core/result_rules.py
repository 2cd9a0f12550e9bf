"""How a run's results follow from its scores: metrics with their judges, thresholds, composites and gates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from evalflow.config.schema import MetricConfig, ScorerConfig
from evalflow.config.validate import Settings
from evalflow.engine.gate_looks import GateLooks
from evalflow.engine.looks import LookedMetric
from evalflow.errors import Problem, did_you_mean, quoted
from evalflow.metrics.kinds.composite import BY_PASSING, CompositeMetricConfig
from evalflow.protocols import Measured
from evalflow.records import CASES, FigureSpec
from evalflow.summary.gates import SHARES, Gate
from evalflow.summary.scan import Composite, Source
from evalflow.summary.summarise import Threshold


@dataclass(frozen=True, slots=True)
class RunMetric:
    """A metric of a run's scores; implements Measured."""

    config: MetricConfig
    bounded: bool
    figures: FigureSpec | None
    declared: str = ""  # the metric's name in the configuration, which may bind to several
    judge: str | None = None  # the judge column of its scores; None for a metric that needs no judge
    asks: bool = False  # whether it calls a judge
    embeds: bool = False  # whether it calls the embedder


@dataclass(frozen=True, slots=True)
class ResultRules:
    """Rules for deriving results, in addition to a run's files; the metrics are by the names of their scores."""

    settings: Settings
    metrics: Mapping[str, RunMetric]
    gates: Sequence[Gate]

    @property
    def bounded(self) -> list[str]:
        return [name for name, metric in self.metrics.items() if metric.bounded]

    def scorer(self, name: str) -> ScorerConfig:
        """The judge or embedder whose thresholds apply; a composite's is calibrated if those of all its parts are."""
        metric = self.metrics[name]
        config = self.settings.scorer(metric.declared, asks=metric.asks, embeds=metric.embeds)
        if isinstance(metric.config, CompositeMetricConfig):
            parts = {part: self.metrics[part] for part in metric.config.weights if part in self.metrics}
            judged = [self.scorer(part).calibrated for part, one in parts.items() if one.asks or one.embeds]
            config = config.model_copy(update={"calibrated": all(judged)})
        return config

    def thresholds(self) -> list[Threshold]:
        """The threshold of each metric that has one with its judge.

        A judge's own threshold for a metric takes precedence. The metric's own applies only if the judge is calibrated:
        the scores of other judges rank answers, but do not show which are good enough.
        """
        limits: list[Threshold] = []
        for name, metric in self.metrics.items():
            value = metric.config.threshold
            if metric.judge is not None:
                scorer = self.scorer(name)
                value = (scorer.thresholds or {}).get(name, value if scorer.calibrated else None)
            if value is not None:
                limits.append(Threshold(name, metric.judge, value, metric.config.direction))
        return limits

    def composites(self) -> list[Composite]:
        """The composites that are computed from the scores; their parts must be usable (see `unusable_parts`)."""
        limits = {limit.metric: limit.value for limit in self.thresholds()}
        titles = self._titles()

        def source(part: str) -> Source:
            metric = self.metrics[part]
            return Source(metric.asks, metric.config.direction, limits.get(part), titles[part])

        return [
            Composite(name, metric.judge, metric.config, {part: source(part) for part in metric.config.weights})
            for name, metric in self.metrics.items()
            if isinstance(metric.config, CompositeMetricConfig)
        ]

    def _titles(self) -> Mapping[str, str]:
        """The names of metrics for people: a title, or the name with spaces; the name if two would be called alike."""
        own = {name: metric.config.title if metric.declared == name else None for name, metric in self.metrics.items()}
        titles = {name: title or name.replace("_", " ") for name, title in own.items()}
        used = Counter(titles.values())
        return {name: title if used[title] == 1 else name for name, title in titles.items()}

    def undecided(self) -> Iterator[Problem]:
        """Parts of composites and gates on pass rates that need a threshold and have none."""
        for composite in self.composites():
            for name, source in composite.sources.items():
                if composite.config.op in BY_PASSING and source.limit is None:
                    what, hint = self._no_threshold(f"{name} has no threshold", name)
                    what += f", and {composite.config.op} is about what passes"
                    yield Problem(what, f"metric.{composite.name}.of", hint)
        limited = {threshold.metric for threshold in self.thresholds()}
        for gate in self.gates:
            if gate.metric == CASES:
                yield from self._undecided_cases(gate, limited)
                continue
            concerned = list(self.metrics) if gate.metric is None else [gate.metric]
            if gate.statistic in SHARES and not limited & {*concerned}:
                who = f"{gate.metric} has no" if gate.metric else "no metric has a"
                what, hint = self._no_threshold(f"there is no {gate.statistic}: {who} threshold", concerned[0])
                yield Problem(what, f"gate.{gate.about}.{gate.statistic}", hint)

    def _undecided_cases(self, gate: Gate, limited: Set[str]) -> Iterator[Problem]:
        brought = [name for name, metric in self.metrics.items() if metric.config.kind == "checks"]
        if len(limited) > 1 or not limited.isdisjoint(brought):
            return
        what, hint = self._no_threshold("no case can pass or fail: no metric has a threshold", next(iter(self.metrics)))
        for metric in limited:
            what = f"only {metric} has pass and fail, so there is no figure over several metrics"
            gated = f"{{{metric}: {{{gate.statistic}: {json.dumps(str(gate.condition))}}}}}"
            hint = f"gate this metric: {quoted(f'gate={gated}')}"
        yield Problem(what, f"gate.{gate.about}.{gate.statistic}", hint)

    def unlookable(self) -> Iterator[Problem]:
        """Looks at metrics that not every case has as soon as it is scored, and a stop that these do not allow."""
        looked = [gate for gate in self.gates if gate.looks is not None]
        for gate in looked:
            metric = self.metrics[str(gate.metric)]
            where = f"gate.{gate.about}.looks"
            if isinstance(metric.config, CompositeMetricConfig):
                what = f"{gate.metric} is computed once the run has ended"
                yield Problem(what, where, f"look at its parts instead: {', '.join(metric.config.weights)}")
            elif metric.declared != gate.metric:
                what = f"{gate.metric} is a check that only some cases bring"
                yield Problem(what, where, "look at a metric that scores every case")
        if self.settings.run.stop is None:
            return
        if not looked:
            example = f"'gate={{{next(iter(self.metrics))}: {{mean: \">= 0.8\", looks: anytime}}}}'"
            yield Problem(
                "no gate has looks, so no gate decides before the end", "stop", f"add looks to one: {example}"
            )
        for gate in self.gates:
            if gate.looks is None and looked:
                what = "this gate is only decided at the end, but the run would stop before"
                yield Problem(what, f"gate.{gate.about}.{gate.statistic}", "add looks: anytime, or leave stop out")

    def looks(self) -> GateLooks | None:
        """The looks at the gates while cases are asked in random order; None if no gate has any."""
        run, gates = self.settings.run, [gate for gate in self.gates if gate.looks is not None]
        if not gates:
            return None
        limits = {limit.metric: limit for limit in self.thresholds()}

        def looked(name: str) -> LookedMetric:
            config, limit = self.metrics[name].config, limits.get(name)
            cells = run.repeats.target * (run.repeats.judge if self.metrics[name].asks else 1)
            covered = [dataset for dataset in run.dataset if config.covers(dataset)]
            return LookedMetric(name, cells, covered, limit.value if limit else None, config.direction)

        names = dict.fromkeys(str(gate.metric) for gate in gates)
        return GateLooks(gates, map(looked, names), stops=run.stop is not None)

    def _no_threshold(self, what: str, name: str) -> tuple[str, str]:
        metric = self.metrics[name]
        if metric.judge is None or metric.config.threshold is None:
            return what, f"metric.{name}.threshold=0.8"
        what += f" that holds with the judge {metric.judge}, which is not calibrated"
        return what, f"say where its scores pass: 'judge.thresholds={{{name}: 0.5}}'"


def unusable_parts(settings: Settings, scored: Mapping[str, Measured]) -> dict[str, list[Problem]]:
    """The parts of composites that are missing or do not fit, by the composite's name."""
    unusable: dict[str, list[Problem]] = {}
    for name, config in settings.run.metric.items():
        if isinstance(config, CompositeMetricConfig):
            faults = ((part, _misfit(settings, scored, config, part)) for part in config.weights)
            problems = [*_absent(settings, scored, name, config)]
            problems += [Problem(f"{part} {fault}", f"metric.{name}.of") for part, fault in faults if fault]
            unusable |= {name: problems} if problems else {}
    return unusable


def _absent(
    settings: Settings, scored: Mapping[str, Measured], name: str, config: CompositeMetricConfig
) -> Iterator[Problem]:
    declared = settings.run.metric
    absent = [part for part in config.weights if part not in declared and part not in scored]
    if not absent:
        return
    known = known_metrics(settings)
    wrong = next((part for part in absent if part not in known), None)
    hint = did_you_mean(wrong, known) if wrong else f"'metric=[{','.join([*absent, *declared])}]'"
    yield Problem(f"it is made of {', '.join(absent)}, which this run does not score", f"metric.{name}.of", hint)


def _misfit(settings: Settings, scored: Mapping[str, Measured], config: CompositeMetricConfig, part: str) -> str | None:
    """Return why a metric of the run cannot be a part; None if it can, or if the run does not have it."""
    declared = settings.run.metric.get(part)
    if declared is None and part not in scored:
        return None
    if isinstance(declared, CompositeMetricConfig):
        return f"is a composite itself; name its parts: {', '.join(declared.weights)}"
    if declared is None or part not in scored:
        return "stands for checks that only some cases have; name metrics that score every case"
    if not scored[part].bounded:
        return "has scores beyond 0..1, which cannot be put together with others"
    beyond = [name for name in settings.run.dataset if config.covers(name) and not declared.covers(name)]
    return f"does not score the dataset {beyond[0]}; set `datasets` of both to the same" if beyond else None


def known_metrics(settings: Settings) -> set[str]:
    """The metrics of the run and of its config folders."""
    files = (file for folder in settings.composed.conf_folders for file in folder.glob("metric/[!_]*.yaml"))
    return {*settings.run.metric, *(file.stem for file in files)}
