"""From settings to the parts of a run: datasets, target, metrics and their judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from evalflow.app.derive import Recipe
from evalflow.app.select import offered
from evalflow.calls.budget import Budget
from evalflow.calls.cache import Cache
from evalflow.calls.once import Once
from evalflow.calls.session import CallSession
from evalflow.config.schema import Concurrency, DatasetConfig, RunConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.llm.prices import price_facts, priced
from evalflow.llm.registry import build_judge
from evalflow.metrics.registry import build_metric
from evalflow.prompts import Prompts
from evalflow.protocols import Judge, Metric, Target
from evalflow.records import Case
from evalflow.run.pipeline import Pair
from evalflow.summary import Gate, parse_gates
from evalflow.targets.registry import build_target


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of.

    Attributes:
        settings: What it was made from.
        pairs: The metrics with their judges, in the order of the configuration.
        target: Who answers.
        prompts: The templates.
        gates: The conditions that decide the exit code.
        session: What judges and target share.
    """

    settings: Settings
    pairs: tuple[Pair, ...]
    target: Target
    prompts: Prompts
    gates: Sequence[Gate]
    session: CallSession

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by name."""
        return {pair.metric.name: pair.metric for pair in self.pairs}

    @property
    def judges(self) -> dict[str, Judge]:
        """The judges by name."""
        return {pair.judge.name: pair.judge for pair in self.pairs if pair.judge}

    @property
    def datasets(self) -> Mapping[str, DatasetConfig]:
        """The datasets by name."""
        return self.settings.run.dataset

    def prices(self) -> dict[str, dict[str, Any] | None]:
        """What is known of the price of each judge, and of the target, by their names."""
        judges = {pair.judge.name: self.settings.judges[pair.metric.name] for pair in self.pairs if pair.judge}
        configs = {self.target.name: self.settings.run.target, **judges}
        return {name: price_facts(config) for name, config in configs.items()}

    def recipe(self) -> Recipe:
        """How results are derived from the run's files."""
        judges = {pair.metric.name: pair.judge.name if pair.judge else None for pair in self.pairs}
        return Recipe(self.settings, self.metrics, judges, self.gates)

    def cases(self) -> Iterator[Case]:
        """The cases of all datasets, streamed; of each the first `limit`, where there is a limit."""
        yield from offered(self.settings.run)

    def width(self) -> int:
        """Cases under way at once: enough that the limiters are always fed, never less than a few."""
        configs: list[Any] = [self.settings.run.target, *self.settings.judges.values()]
        limits = [c.concurrency.max for c in configs if isinstance(getattr(c, "concurrency", None), Concurrency)]
        return max([8, *limits])

    async def close(self) -> None:
        """Release every connection, and write what is to be remembered."""
        try:
            await self.target.close()
            for judge in self.judges.values():
                await judge.close()
        finally:
            self.session.close()


def assemble(settings: Settings, run_id: str = "") -> Parts:
    """Build every part, and report the problems of all of them together. No file is opened for writing.

    Args:
        settings: What the run is made from.
        run_id: The run that will ask; without one nothing may be asked.

    Raises:
        UserError: A prompt, a metric, a key or a name is wrong.
    """
    problems: list[Problem] = []
    settings = _priced(settings)
    prompts = Prompts(settings.composed.prompt_folders)
    session = _session(settings.run, run_id)
    metrics = _metrics(settings, prompts, problems)
    judges = _judges(settings, metrics, session, problems)
    target = _target(settings, prompts, session, problems)
    gates = _gates(settings, metrics, problems)
    problems += _thresholds(settings, metrics)
    if problems or target is None:
        raise UserError(problems)
    pairs = tuple(Pair(metric, judges.get(name)) for name, metric in metrics.items())
    return Parts(settings, pairs, target, prompts, gates, session)


def _priced(settings: Settings) -> Settings:
    """The settings with the list prices of models whose price they do not tell."""
    run = settings.run.model_copy(update={"target": priced(settings.run.target)})
    return replace(settings, run=run, judges={name: priced(config) for name, config in settings.judges.items()})


def _session(run: RunConfig, run_id: str) -> CallSession:
    path = Path(run.cache.path).expanduser()
    cache = Cache(path, run.cache.mode, run_id=run_id, max_bytes=run.cache.max_bytes)
    limits = run.budget
    limited = any(limit is not None for limit in (limits.usd, limits.requests, limits.tokens))
    return CallSession(once=Once(cache), budget=Budget(limits) if limited else None)


def _metrics(settings: Settings, prompts: Prompts, problems: list[Problem]) -> dict[str, Metric]:
    metrics: dict[str, Metric] = {}
    for name, config in settings.run.metric.items():
        try:
            metrics[name] = build_metric(name, config, prompts)
        except UserError as error:
            file = settings.composed.sources.get(settings.key("metric", name))
            problems += [replace(problem, where=f"{file}: {problem.where}") for problem in error.problems]
    return metrics


def _judges(
    settings: Settings, metrics: Mapping[str, Metric], session: CallSession, problems: list[Problem]
) -> dict[str, Judge]:
    """The judge of each metric that asks one; metrics with the same configuration share it."""
    built: list[tuple[Any, Judge]] = []
    judges: dict[str, Judge] = {}
    for name, config in settings.judges.items():
        if name not in metrics or not metrics[name].asks:
            continue
        known = next((judge for other, judge in built if other == config), None)
        if known is None:
            try:
                known = build_judge(config, settings.composed.choices["judge"], session)
            except UserError as error:
                problems += [problem for problem in error.problems if problem not in problems]
                continue
            clash = next((judge for _, judge in built if judge.name == known.name), None)
            if clash:
                problems.append(_same_name("judge", known.name, f"metric.{name}.judge.name"))
            built.append((config, known))
        judges[name] = known
    return judges


def _target(settings: Settings, prompts: Prompts, session: CallSession, problems: list[Problem]) -> Target | None:
    run = settings.run
    generates: dict[str, Literal["answer", "actual"]] = {name: config.generates for name, config in run.dataset.items()}
    try:
        return build_target(run.target, settings.composed.choices["target"], prompts, generates, run.generate, session)
    except UserError as error:
        file = settings.composed.sources.get("target")
        problems += [
            replace(problem, where=f"{file}: {problem.where}" if file else problem.where) for problem in error.problems
        ]
        return None


def _gates(settings: Settings, metrics: Mapping[str, Metric], problems: list[Problem]) -> list[Gate]:
    if len(metrics) < len(settings.run.metric):
        return []  # a metric that could not be built has been reported; its gates would be told as unknown
    try:
        return parse_gates(settings.run.gate, metrics)
    except UserError as error:
        problems += error.problems
        return []


def _thresholds(settings: Settings, metrics: Mapping[str, Metric]) -> Iterator[Problem]:
    """Judges' thresholds for what is no metric, or where no score can be.

    A judge may well have some for metrics that this run leaves out.
    """
    run = settings.run
    files = (file for folder in settings.composed.conf_folders for file in (folder / "metric").glob("[!_]*.yaml"))
    known = {*run.metric, *(file.stem for file in files)}
    own = {name: (metric.judge or {}).get("thresholds") for name, metric in run.metric.items()}
    declared = {"judge": run.judge.thresholds, **{f"metric.{name}.judge": found for name, found in own.items()}}
    for key, thresholds in declared.items():
        for name, value in (thresholds or {}).items():
            where = f"{key}.thresholds.{name}"
            if name not in known:
                yield Problem(f"there is no metric {name!r}", where, did_you_mean(name, known))
            elif name in metrics and metrics[name].bounded and not 0 <= float(value) <= 1:
                yield Problem(f"{float(value):g} is no threshold of {name}", where, "its scores lie in 0..1")


def _same_name(what: str, name: str, key: str) -> Problem:
    return Problem(
        f"two {what}s with different settings would both be called {name!r}, and their scores would mix",
        "configuration",
        f"name one of them: {key}=...",
    )
