"""Validate a composed configuration as typed settings, and build the parts of a run from them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from evalflow.app.core.cases import offered
from evalflow.app.core.connections import connection_problems
from evalflow.calls.batches import WAITING_CASES, BatchQueue
from evalflow.calls.budget import UNITS, Budget, Lease
from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession
from evalflow.calls.connections import Connections
from evalflow.calls.fence_key import FenceKey
from evalflow.calls.known_limits import KnownLimits
from evalflow.calls.limiter import Limiters
from evalflow.calls.objects import StoredFolder, is_address
from evalflow.calls.shared_cache import SharedCache
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.judges import Concurrency, each_judge, single_judges
from evalflow.config.kinds import Kinds
from evalflow.config.parameters import secrets_among
from evalflow.config.schema import DatasetConfig, JudgeConfig, RunConfig
from evalflow.config.surroundings import ENGINE_KINDS, OBSERVER_KINDS, ObserverConfig
from evalflow.config.targets import AgentTargetConfig, PythonTargetConfig
from evalflow.config.validate import Composed, Settings, validate
from evalflow.datasets.fields import field_map
from evalflow.engine.scoring import Pair
from evalflow.errors import Problem, UserError
from evalflow.llm.panel import single, with_embedder
from evalflow.llm.prices import price_facts, priced
from evalflow.llm.registry import EMBEDDER_KINDS, JUDGE_KINDS, build_embedder, build_judge
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.paths import from_home
from evalflow.prompts import Prompts
from evalflow.prompts.fences import NO_KEY
from evalflow.protocols import Judge, Metric, Target
from evalflow.redaction import SECRET_NAME, environment_values, secrets_in
from evalflow.targets.registry import SIMULATOR_KINDS, TARGET_KINDS, build_simulator, build_target
from evalflow.targets.reply import Form
from evalflow.values.jsonvalues import as_map

KINDS: Mapping[str, Kinds[Any, Any]] = {
    "metric": METRIC_KINDS,
    "judge": JUDGE_KINDS,
    "target": TARGET_KINDS,
    "embedder": EMBEDDER_KINDS,
    "simulator": SIMULATOR_KINDS,
    "engine": ENGINE_KINDS,
    "observer": OBSERVER_KINDS,
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PASSWORD = re.compile(r"://[^/@:]*:(?!\$\{)[^/@]+@")
_PARAMETER = re.compile(r"[?&]([^=&#]+)=([^&#]*)")


def settings_of(composed: Composed, *, programs: bool = True) -> Settings:
    """Validate a composed configuration; UserError lists every problem.

    `programs` as targets are refused to web forms.
    """
    models = {group: kinds.config for group, kinds in KINDS.items()}
    settings = validate(composed, models)
    config = composed.storable
    parts: dict[str, Any] = {group: config.get(group) for group in ("judge", "target", "embedder", "simulator")}
    parts |= {f"metric.{name}.judge": metric.get("judge") for name, metric in config["metric"].items()}
    problems = [*written_secrets(parts), *_code(settings.run, composed, programs=programs), *_unknown_fields(settings)]
    if settings.run.engine.kind != "local" and (batched := batched_keys(settings)):
        what = "batches are collected by one process, so they cannot use a cluster"
        problems.append(Problem(what, f"{batched[0]}.batch", f"add engine=local, or {batched[0]}.batch=false"))
    if problems:
        raise UserError(problems)
    return settings


def _unknown_fields(settings: Settings) -> Iterator[Problem]:
    for name, config in settings.run.dataset.items():
        try:
            field_map(settings.keys["dataset", name], config)
        except UserError as error:
            yield from error.problems


def composed_settings(overrides: Sequence[str], config_dir: Path | None) -> Settings:
    """Return the typed settings of a command line; `config_dir` is searched first. UserError lists every problem."""
    from evalflow.config.load import compose  # imported late: reading saved runs needs no Hydra

    return settings_of(compose(overrides, config_dir, check=settings_of))


def with_default_judge(arguments: Sequence[str], config_dir: Path | None, *, judged: bool = False) -> list[str]:
    """Add the target's own model as judge to a command line, if that is the default.

    This applies to G-Eval if no judge is chosen and the target is a model: the embedded judge cannot grade by criteria.
    A sweep must name its judge, or its runs could not be compared. `judged`: the metrics need a language model anyway.
    """
    overrides = [word for word in arguments if "=" in word and not word.startswith("-")]
    keys = {word.lstrip("+").partition("=")[0] for word in overrides}
    flags = set(arguments) - set(overrides)
    if "judge" in keys or flags or not keys & {"target", "experiment"} or os.environ.get("EVALFLOW_JUDGE"):
        return list(arguments)
    from evalflow.config.load import compose

    try:
        # Overrides of the judge's keys apply to the judge chosen below.
        plain = [word for word in overrides if not word.lstrip("+").startswith("judge.")]
        composition = compose(plain, config_dir, complete=False)
    except UserError:
        return list(arguments)  # the full composition reports the error
    kinds = {metric.get("kind") for metric in composition.values.get("metric", {}).values()}
    embedded, model = (
        composition.choices.get("judge") == "embedded",
        composition.values["target"].get("kind") == "openai",
    )
    return [*arguments, "judge=target"] if embedded and model and (judged or "g_eval" in kinds) else list(arguments)


def written_secrets(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Return the problems of plain-text secrets in addresses and headers, which would be saved with the run."""
    for key, part in parts.items():
        values = as_map(part)
        members = as_map(values.get("members"))
        yield from written_secrets({f"{key}.members.{name}": member for name, member in members.items()})
        variable = values.get("api_key_env")
        if isinstance(variable, str) and "${" not in variable and not _VARIABLE.match(variable):
            hint = "name the variable that holds the key, such as OPENAI_API_KEY; the key itself is never written"
            yield Problem("this cannot be the name of an environment variable", f"{key}.api_key_env", hint)
        for address in ("base_url", "url"):
            if _PASSWORD.search(str(values.get(address))):
                hint = "name a variable that holds it: http://USER:${oc.env:NAME}@HOST/v1"
                yield Problem("a password would be kept with the run", f"{key}.{address}", hint)
            for name, value in _PARAMETER.findall(str(values.get(address))):
                if SECRET_NAME.search(name) and value and "${" not in value:
                    hint = f"name a variable that holds it: {name}=${{oc.env:NAME}}"
                    yield Problem("a secret would be kept with the run", f"{key}.{address}", hint)
        for name in secrets_among(values.get("parameters")):
            hint = f"keys are named by api_key_env; any other secret by a variable: {name}: ${{oc.env:NAME}}"
            yield Problem(f"{name} is a secret, which would be kept with the run", f"{key}.parameters", hint)
        for name, value in as_map(values.get("headers")).items():
            if SECRET_NAME.search(name) and "${" not in str(value):
                hint = f"name a variable that holds it: {name}: ${{oc.env:NAME}}"
                yield Problem("a secret would be kept with the run", f"{key}.headers.{name}", hint)


def _code(run: RunConfig, composed: Composed, *, programs: bool) -> Iterator[Problem]:
    target = run.target
    for name, metric in run.metric.items():
        where = f"metric.{name}.{metric.programs_key}"
        if metric.programs and not programs:
            hint = f"leave `{metric.programs_key}` out; programs are started on the command line only"
            yield Problem(f"{name} starts a program, which is not allowed here", where, hint)
        elif metric.programs_key == "call":
            [[call]] = metric.programs
            yield from _only_given(where, call, "callable", composed)
    if target.runs_here and not programs:
        hint = "use a target that is reached over HTTP"
        yield Problem(f"a target of kind {target.kind} runs a program, which is not allowed here", "target.kind", hint)
        return
    match target:
        case PythonTargetConfig():
            yield from _only_given("target.call", target.call, "callable", composed)
        case AgentTargetConfig():
            yield from _only_given("target.module", target.module, "module", composed)
        case _:
            pass


def _only_given(key: str, named: str | None, what: str, composed: Composed) -> Iterator[Problem]:
    """Return the problem of a key that names code but was set in YAML."""
    pairs = (override.lstrip("+").partition("=") for override in composed.overrides)
    given = [value.strip("'\"").replace("\\", "") for name, _, value in pairs if name == key]  # as a sweep escapes it
    if named is not None and named not in given:
        yield Problem(
            f"YAML carries meaning, never code: a {what} is named on the command line only", key, f"add {key}={named}"
        )


def secrets_of(settings: Settings) -> set[str]:
    """Return the secrets that the configuration names: keys, passwords, headers and variables."""
    secret_values = environment_values(settings.composed.storable)
    judges = [one for judge in (settings.run.judge, *settings.judges.values()) for one in single_judges(judge).values()]
    for endpoint in (settings.run.target, settings.run.embedder, settings.run.simulator, *judges):
        secret_values.add(os.environ.get(getattr(endpoint, "api_key_env", None) or "", ""))
        address: str = getattr(endpoint, "base_url", None) or getattr(endpoint, "url", None) or ""
        secret_values |= secrets_in(address) | set(getattr(endpoint, "secrets", ()))
    return {secret for secret in secret_values if secret.strip()}


class Needed(NamedTuple):
    """The names of the metrics that use a judge, and of those that use the embedder."""

    asking: Collection[str]
    embedding: Collection[str]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a run: the metrics with their judges, and the objects shared by all calls."""

    settings: Settings
    pairs: tuple[Pair, ...]
    target: Target
    prompts: Prompts
    session: CallSession

    @property
    def needed(self) -> Needed:
        asking = {pair.metric.name for pair in self.pairs if pair.judge}
        return Needed(asking, {pair.metric.name for pair in self.pairs if pair.embedder})

    @property
    def metrics(self) -> dict[str, Metric]:
        return {pair.metric.name: pair.metric for pair in self.pairs}

    @property
    def judges(self) -> dict[str, Judge]:
        return {judge.info.name: judge for pair in self.pairs for judge in (pair.judge, pair.embedder) if judge}

    @property
    def datasets(self) -> Mapping[str, DatasetConfig]:
        return self.settings.run.dataset

    def asked(self, pair: Pair) -> list[tuple[Judge, JudgeConfig]]:
        """Return the pair's judge, or the ordered members of its panel or cascade, with their configurations."""
        if pair.judge is None:
            return []
        configs = single_judges(self.settings.judges[pair.metric.name]).values()
        return list(zip(single(pair.judge), configs, strict=True))

    def prices(self) -> dict[str, dict[str, Any] | None]:
        judges = {judge.info.name: config for pair in self.pairs for judge, config in self.asked(pair)}
        configs: dict[str, Any] = {self.target.name: self.settings.run.target, **judges}
        configs |= {pair.embedder.info.name: self.settings.run.embedder for pair in self.pairs if pair.embedder}
        configs["simulator"] = self.settings.run.simulator
        return {name: price_facts(config) for name, config in configs.items()}

    def width(self) -> int:
        """Return the number of concurrent cases: enough to saturate limiters or fill batches, at least a few."""
        judges = [one for config in self.settings.judges.values() for one in single_judges(config).values()]
        run = self.settings.run
        configs: list[Any] = [run.target, run.embedder, run.simulator, *judges]
        limits = [c.concurrency.max for c in configs if isinstance(getattr(c, "concurrency", None), Concurrency)]
        return max([8, *limits, WAITING_CASES if self.session.batches else 0])

    async def close(self) -> None:
        try:
            if self.session.batches is not None:
                await self.session.batches.close()
            await self.target.close()
            for judge in self.judges.values():
                await judge.close()
        finally:
            self.session.close()


def assemble(
    settings: Settings,
    run_id: str = "",
    session: CallSession | None = None,
    connections: Connections | None = None,
    lease: Lease | None = None,
    needed: Needed | None = None,
    *,
    isolated: bool = False,
) -> Parts:
    """Build every part; UserError has the problems of all of them. No file is opened for writing.

    Without `run_id` and without a call session no calls are possible. Without a call session, `connections` limits the
    addresses that may be called and `lease` the spending; None: those of the process. With `needed` no case is read.
    Prompts written by strangers, as in a process with connections, are `isolated`.
    """
    settings = _settled(settings)
    if session is None:
        connections = Connections.of_process() if connections is None else connections
        session = _session(settings, run_id, connections, lease or Lease.of_process())
    elif session.fence_key is NO_KEY:
        session = replace(session, fence_key=FenceKey(from_home(settings.run.cache.path), keeps=False))
    if session.connections is not None and (problems := connection_problems(settings, session.connections)):
        raise UserError(problems)
    return _Assembly(settings, session, needed, isolated or session.connections is not None).parts()


class _Assembly:
    def __init__(self, settings: Settings, session: CallSession, needed: Needed | None, isolated: bool) -> None:
        self._settings, self._session, self._needed, self._isolated = settings, session, needed, isolated
        self._problems: list[Problem] = []

    def parts(self) -> Parts:
        settings = self._settings
        unsaved = settings.composed.unsaved.prompts
        folders, key = settings.composed.prompt_folders, self._session.fence_key
        prompts = Prompts(folders, unsaved, isolated=self._isolated, key=key)
        metrics: dict[str, Metric] = {}
        for name, config in settings.run.metric.items():
            try:
                metrics[name] = build_metric(name, config, prompts)
            except UserError as error:
                self._note(error, settings.composed.sources.get(settings.key("metric", name)))
        asking, embedding = self._needed or self._scorers_needed(metrics)
        judges = self._judges(asking)
        embedder = self._embedder(judges) if embedding else None
        target = self._target(prompts)
        for key, observer in observers_of(settings.run):
            try:
                observer.expect_ready(key)
            except UserError as error:
                self._note(error)
        if self._problems or target is None:
            raise UserError(self._problems)
        pairs: list[Pair] = []
        for name, metric in metrics.items():
            judge, own = judges.get(name), embedder if name in embedding else None
            pairs.append(Pair(metric, judge, own, with_embedder(judge, own) if judge and own else None))
        return Parts(settings, tuple(pairs), target, prompts, self._session)

    def _note(self, error: UserError, file: Path | None = None) -> None:
        """Add problems with their file, unknown for a resumed run since its configuration is from run.json."""
        given = {word.lstrip("+~").partition("=")[0] for word in self._settings.composed.overrides}
        files = {one: "command line" if one.where in given else file for one in error.problems}
        placed = [replace(one, where=f"{files[one]}: {one.where}") if file else one for one in error.problems]
        self._problems += [problem for problem in placed if problem not in self._problems]

    def _note_same_name(self, name: str, key: str) -> None:
        what = (
            f"two judges with different settings would have the same name {name!r}, and their scores would be mixed up"
        )
        self._problems.append(Problem(what, "configuration", f"name one of them: {key}=..."))

    def _scorers_needed(self, metrics: Mapping[str, Metric]) -> Needed:
        """Return the metrics that need a judge, and those that need the embedder.

        For a metric that runs the checks named in the cases, cases are read until one check of each sort is found.
        """
        asking = {name for name, metric in metrics.items() if metric.asks and not metric.embeds}
        embedding = {name for name, metric in metrics.items() if metric.embeds and not metric.asks}
        try:
            for name, metric in metrics.items():
                if metric.asks and metric.embeds:
                    for one in _checks(metric, self._settings.run):
                        asking |= {name} if one.asks else set()
                        embedding |= {name} if one.embeds else set()
                        if name in asking and name in embedding:
                            break
        except UserError as error:
            self._note(error)
            return Needed(frozenset(), frozenset())
        return Needed(frozenset(asking), frozenset(embedding))

    def _judges(self, asking: Collection[str]) -> dict[str, Judge]:
        """Return the judge of each metric that needs one; metrics with the same configuration share it."""
        built: list[tuple[Any, Judge]] = []
        judges: dict[str, Judge] = {}
        for name, config in self._settings.judges.items():
            if name not in asking:
                continue
            known = next((judge for other, judge in built if other == config), None)
            if known is None:
                try:
                    known = build_judge(config, self._settings.composed.choices["judge"], self._session)
                except UserError as error:
                    self._note(error)
                    continue
                if any(judge.info.name == known.info.name for _, judge in built):
                    self._note_same_name(known.info.name, f"metric.{name}.judge.name")
                built.append((config, known))
            judges[name] = known
        return judges

    def _embedder(self, judges: Mapping[str, Judge]) -> Judge | None:
        config, choices = self._settings.run.embedder, self._settings.composed.choices
        try:
            embedder = build_embedder(config, choices.get("embedder", config.kind), self._session)
        except UserError as error:
            return self._note(error)
        if any(judge.info.name == embedder.info.name for judge in judges.values()):
            self._note_same_name(embedder.info.name, "embedder.name")
        return embedder

    def _target(self, prompts: Prompts) -> Target | None:
        run, composed = self._settings.run, self._settings.composed
        forms = {name: Form.of(config) for name, config in run.dataset.items()}
        try:
            choice = composed.choices.get("simulator", "none")
            simulator = build_simulator(run.simulator, choice, prompts, self._session)
        except UserError as error:
            return self._note(error, composed.sources.get("simulator"))
        try:
            choice = composed.choices["target"]
            return build_target(run.target, choice, prompts, forms, run.generate, self._session, simulator)
        except UserError as error:
            return self._note(error, composed.sources.get("target"))


def observers_of(run: RunConfig) -> Iterator[tuple[str, ObserverConfig]]:
    """Return the observers of a configuration by key, including `otel` if it has an endpoint."""
    if run.otel.endpoint is not None:
        yield "otel", OBSERVER_KINDS.config("otel").model_validate({"kind": "otel", **run.otel.model_dump()})
    yield from ((f"observers.{name}", config) for name, config in run.observers.items())


def _checks(metric: Metric, run: RunConfig) -> Iterator[Metric]:
    from evalflow.metrics.kinds.checks import ChecksMetric

    for case in offered(run):
        try:
            if not isinstance(metric, ChecksMetric) or metric.may_call(case):
                yield from metric.bind(case)
        except UserError:
            continue  # DataChecks reports it


def _settled(settings: Settings) -> Settings:
    """Fill in list prices and the baseline's real folder, since `latest` will soon be this run."""
    run = settings.run
    baseline = run.baseline
    if baseline is not None and is_address(baseline):
        baseline = str(StoredFolder(baseline, "baseline").fetch_all("run.json"))
    elif baseline is not None and Path(baseline).is_dir():
        baseline = str(Path(baseline).resolve())
    parts = {name: priced(getattr(run, name)) for name in ("target", "embedder", "simulator")}
    run = run.model_copy(update={**parts, "baseline": baseline})
    judges = {name: each_judge(config, priced) for name, config in settings.judges.items()}
    return replace(settings, run=run, judges=judges)


def _session(settings: Settings, run_id: str, connections: Connections | None, lease: Lease | None) -> CallSession:
    run = settings.run
    path = from_home(run.cache.path)
    cache = Cache(path, run.cache.mode, run_id=run_id, max_bytes=run.cache.max_bytes)
    limited = any(getattr(run.budget, unit) is not None for unit in UNITS)
    budget = Budget(run.budget, lease=lease) if limited or lease else None
    shared, fence_key = None, FenceKey(path, keeps=bool(run_id))
    if run.cache.url is not None and run.cache.mode in ("on", "read"):
        shared = SharedCache(run.cache.url, reading=run.cache.mode == "read", fence_key=fence_key)
    limiters = Limiters(KnownLimits(path) if run_id and run.cache.mode != "off" else None)
    batches = BatchQueue(run.batch, limiters) if batched_keys(settings) else None
    flight = SingleFlight(cache, shared)
    return CallSession(limiters, flight, budget, connections, batches, run_id, fence_key=fence_key, computed=cache)


def batched_keys(settings: Settings) -> list[str]:
    """Return the configuration keys whose calls are sent by batch: `judge`, `judge.members.first`, `target`."""
    judges = {key: config for name, config in settings.judges.items() for key, config in _judges_of(settings, name)}
    parts: dict[str, Any] = {"target": settings.run.target, **judges}
    return [key for key, config in parts.items() if getattr(config, "batch", False)]


def _judges_of(settings: Settings, metric: str) -> Iterator[tuple[str, JudgeConfig]]:
    config = settings.judges[metric]
    key = "judge" if config == settings.run.judge else f"{settings.key('metric', metric)}.judge"
    for member, one in single_judges(config).items():
        yield f"{key}.members.{member}" if member else key, one
