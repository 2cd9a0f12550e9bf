"""From settings to the parts of a run: datasets, target, metrics and their judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalflow.app.setup.demand import Demand, demand_of
from evalflow.app.setup.select import offered
from evalflow.calls.budget import Budget
from evalflow.calls.cache import Cache
from evalflow.calls.once import Once
from evalflow.calls.session import CallSession
from evalflow.config.endpoints import Concurrency
from evalflow.config.panels import each_judge, single_judges
from evalflow.config.schema import DatasetConfig, JudgeConfig, RunConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError
from evalflow.llm.panel import single, with_embedder
from evalflow.llm.prices import price_facts, priced
from evalflow.llm.registry import build_embedder, build_judge
from evalflow.metrics.registry import build_metric
from evalflow.prompts import Prompts
from evalflow.protocols import Judge, Metric, Target
from evalflow.run.pair import Pair
from evalflow.targets.form import Form
from evalflow.targets.registry import build_target


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made of.

    Attributes:
        settings: What it was made from.
        pairs: The metrics with their judges, in the order of the configuration.
        target: Who answers.
        prompts: The templates.
        session: What judges and target share.
    """

    settings: Settings
    pairs: tuple[Pair, ...]
    target: Target
    prompts: Prompts
    session: CallSession

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by name."""
        return {pair.metric.name: pair.metric for pair in self.pairs}

    @property
    def judges(self) -> dict[str, Judge]:
        """The judges by name, the embedder among them."""
        return {judge.name: judge for pair in self.pairs for judge in (pair.judge, pair.embedder) if judge}

    @property
    def datasets(self) -> Mapping[str, DatasetConfig]:
        """The datasets by name."""
        return self.settings.run.dataset

    def asked(self, pair: Pair) -> list[tuple[Judge, JudgeConfig]]:
        """The judges that are really asked, in order, with their configurations: the pair's judge, or its members."""
        if pair.judge is None:
            return []
        return list(
            zip(single(pair.judge), single_judges(self.settings.judges[pair.metric.name]).values(), strict=True)
        )

    def prices(self) -> dict[str, dict[str, Any] | None]:
        """What is known of the price of each judge, of the embedder and of the target, by their names."""
        judges = {judge.name: config for pair in self.pairs for judge, config in self.asked(pair)}
        configs: dict[str, Any] = {self.target.name: self.settings.run.target, **judges}
        configs |= {pair.embedder.name: self.settings.run.embedder for pair in self.pairs if pair.embedder}
        return {name: price_facts(config) for name, config in configs.items()}

    def width(self) -> int:
        """Cases under way at once: enough that the limiters are always fed, never less than a few."""
        judges = [one for config in self.settings.judges.values() for one in single_judges(config).values()]
        configs: list[Any] = [self.settings.run.target, self.settings.run.embedder, *judges]
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


def assemble(settings: Settings, run_id: str = "", session: CallSession | None = None) -> Parts:
    """Build every part, and report the problems of all of them together. No file is opened for writing.

    Args:
        settings: What the run is made from.
        run_id: The run that will ask; without one, and without a session, nothing may be asked.
        session: What judges and target share; None: the cache and the budget of the settings.

    Raises:
        UserError: A prompt, a metric, a key or a name is wrong.
    """
    problems: list[Problem] = []
    settings = _settled(settings)
    prompts = Prompts(settings.composed.prompt_folders)
    session = session or _session(settings.run, run_id)
    metrics = _metrics(settings, prompts, problems)
    demand = _demand(settings, metrics, problems)
    judges = _judges(settings, demand, session, problems)
    embedder = _embedder(settings, judges, session, problems) if demand.embedding else None
    target = _target(settings, prompts, session, problems)
    if problems or target is None:
        raise UserError(problems)
    pairs = tuple(
        _pair(metric, judges.get(name), embedder if name in demand.embedding else None)
        for name, metric in metrics.items()
    )
    return Parts(settings, pairs, target, prompts, session)


def _pair(metric: Metric, judge: Judge | None, embedder: Judge | None) -> Pair:
    both = with_embedder(judge, embedder) if judge and embedder else None
    return Pair(metric, judge, embedder, both)


def _settled(settings: Settings) -> Settings:
    """The settings with the list prices of models whose price they do not tell, and the baseline's real folder.

    `outputs/latest` is this very run as soon as it has begun.
    """
    run = settings.run
    known = run.baseline is not None and Path(run.baseline).is_dir()
    baseline = str(Path(run.baseline or "").resolve()) if known else run.baseline
    run = run.model_copy(update={"target": priced(run.target), "embedder": priced(run.embedder), "baseline": baseline})
    judges = {name: each_judge(config, priced) for name, config in settings.judges.items()}
    return replace(settings, run=run, judges=judges)


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
            problems += _in_file(file, error)
    return metrics


def _demand(settings: Settings, metrics: Mapping[str, Metric], problems: list[Problem]) -> Demand:
    try:
        return demand_of(metrics, lambda: offered(settings.run))
    except UserError as error:
        problems += error.problems
        return Demand()


def _judges(settings: Settings, demand: Demand, session: CallSession, problems: list[Problem]) -> dict[str, Judge]:
    """The judge of each metric that asks one; metrics with the same configuration share it."""
    built: list[tuple[Any, Judge]] = []
    judges: dict[str, Judge] = {}
    for name, config in settings.judges.items():
        if name not in demand.asking:
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


def _embedder(
    settings: Settings, judges: Mapping[str, Judge], session: CallSession, problems: list[Problem]
) -> Judge | None:
    config = settings.run.embedder
    try:
        embedder = build_embedder(config, settings.composed.choices.get("embedder", config.kind), session)
    except UserError as error:
        problems += error.problems
        return None
    if any(judge.name == embedder.name for judge in judges.values()):
        problems.append(_same_name("judge", embedder.name, "embedder.name"))
    return embedder


def _target(settings: Settings, prompts: Prompts, session: CallSession, problems: list[Problem]) -> Target | None:
    run = settings.run
    forms = {name: Form.of(config) for name, config in run.dataset.items()}
    try:
        return build_target(run.target, settings.composed.choices["target"], prompts, forms, run.generate, session)
    except UserError as error:
        problems += _in_file(settings.composed.sources.get("target"), error)
        return None


def _in_file(file: Path | None, error: UserError) -> Iterable[Problem]:
    """The problems with the file they are in, where it is known: a resumed run has its configuration from run.json."""
    if file is None:
        return error.problems
    return [replace(problem, where=f"{file}: {problem.where}") for problem in error.problems]


def _same_name(what: str, name: str, key: str) -> Problem:
    return Problem(
        f"two {what}s with different settings would both be called {name!r}, and their scores would mix",
        "configuration",
        f"name one of them: {key}=...",
    )
