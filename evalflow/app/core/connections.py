"""Limits of a run on a public server: it calls connections only, and sets only keys that are open to everybody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalflow.calls.connections import Connections, variables_in
from evalflow.config.judges import MembersConfig, RemoteModelConfig
from evalflow.config.kinds import Kinds
from evalflow.config.schema import BaseSimulatorConfig, RunConfig, ScorerConfig, TargetConfig
from evalflow.config.surroundings import ENGINE_KINDS, EngineConfig
from evalflow.config.targets import HttpTargetConfig
from evalflow.config.validate import Settings
from evalflow.config.yaml_text import interpolations, safe_yaml
from evalflow.errors import Problem, UserError
from evalflow.llm.registry import EMBEDDER_KINDS, JUDGE_KINDS
from evalflow.llm.sdk import OPENAI_URL
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.targets.registry import SIMULATOR_KINDS, TARGET_KINDS
from evalflow.values.jsonvalues import as_list, as_map

PARTS = frozenset({"dataset", "target", "metric", "judge", "embedder"})
"""Root keys that are checked part by part, and chosen by name."""
PUBLIC_OPTIONS = frozenset(
    {"simulator", "generate", "repeats", "limit", "sample", "seed", "stop", "cache", "budget", "batch", "gate"}
    | {"baseline", "objective", "case_timeout_s", "max_error_rate", "otel"}
)
"""Root keys that people may set for a run on a public server; all others are the owner's."""
OWNERS = frozenset({"engine"})
"""Root keys that only conf/local/default.yaml of the server sets."""
NEVER = frozenset({"copy_to", "observers"})
"""Root keys that nobody may set on a public server."""
_SECRETS = ("headers",)
"""The keys of a bot that may read its connection's variable; the values of others may be shown, stored or echoed."""
_OF_KEY = re.compile(r"\$\{oc\.env:[A-Za-z_]\w*(,[^${}]*)?\}")
_REFERENCE = re.compile(r"\$\{[A-Za-z_]\w*(\.(?!headers\b)\w+)+\}")
"""Allowed interpolations in all other keys except headers; any other one could read the environment."""
_READ = "only headers of a bot may read a variable: that of its connection's key"
_PART = re.compile(r"(target|judge|embedder|simulator|otel|metric\.[^.]+\.judge)\.")
_ROUTING = re.compile(r"host|connection|content-length|transfer-encoding|upgrade|te|trailer|expect|proxy-.*|keep-alive")
"""Headers that affect routing or framing, so that a request could reach another server behind the same address."""


def connection_problems(settings: Settings, connections: Connections) -> list[Problem]:
    """Return why a process that may call connections only must refuse a run; empty if it may run."""
    run, written = settings.run, settings.composed.storable
    problems = [*_closed(run), *_interpolated(written)]
    kinds = {"target": TARGET_KINDS, "judge": JUDGE_KINDS, "embedder": EMBEDDER_KINDS, "simulator": SIMULATOR_KINDS}
    for group, known in kinds.items():
        problems += part_problems(connections, known, getattr(run, group), written.get(group, {}), group)
    if run.otel.endpoint is not None:
        try:
            connections.of_receiver(run.otel.endpoint, "otel.endpoint")
        except UserError as error:
            problems += error.problems
        read = sorted(variables_in(written.get("otel")))
        problems += [Problem(f"{name} cannot be read here", "otel", "write the address itself") for name in read]
    if run.cache.url is not None:
        problems.append(_is_elsewhere("cache.url"))
    for name, metric in run.metric.items():
        key = settings.key("metric", name)
        problems += _plugin(METRIC_KINDS, metric.kind, key)
        if metric.programs:
            what = f"{name} starts a program, which a public server does not"
            problems.append(Problem(what, f"{key}.{metric.programs_key}", f"leave `{metric.programs_key}` out"))
        if metric.judge:
            own = written["metric"][settings.keys["metric", name]]["judge"]
            problems += part_problems(connections, JUDGE_KINDS, settings.judges[name], own, f"{key}.judge")
    return problems


def refuse_owners_options(names: Iterable[str]) -> None:
    """UserError if a run would set root keys that are the owner's on a public server."""
    problems = [_is_owners(name, f"options.{name}") for name in names if name not in PUBLIC_OPTIONS]
    if problems:
        raise UserError(problems)


def _is_owners(name: str, where: str) -> Problem:
    if name in NEVER:
        return _is_elsewhere(where)
    what = f"{name} can be set on a public server by its owner only"
    return Problem(what, where, f"leave {name} out; the owner sets it in conf/local/default.yaml, for all runs")


def _is_elsewhere(key: str) -> Problem:
    return Problem("a public server reaches its connections only", key, f"leave it out: {key}=null")


def _closed(run: RunConfig) -> Iterator[Problem]:
    """Root keys that are not opened, with another value than the default; the owner's own engine is none of them."""
    for name, field in RunConfig.model_fields.items():
        value = getattr(run, name)
        if name in PARTS | PUBLIC_OPTIONS or value == field.get_default(call_default_factory=True):
            continue
        if name not in OWNERS or value != _engine_of_owner():
            yield _is_owners(name, name)


def _engine_of_owner() -> EngineConfig | None:
    file = Path.cwd() / "conf" / "local" / "default.yaml"
    if not file.is_file():
        return None
    engine = as_map(as_map(safe_yaml(file.read_text(encoding="utf-8"))).get("engine"))
    return ENGINE_KINDS.config(str(engine["kind"])).model_validate(engine) if "kind" in engine else None


def _interpolated(written: Mapping[str, Any]) -> Iterator[Problem]:
    """Interpolations that could read the environment, but for the variables that `part_problems` finds."""
    for place, text in _texts(written, ""):
        in_headers = place.startswith("target.headers.")
        is_found = bool(_PART.match(place)) and bool(variables_in(text)) and not in_headers
        for expression in () if is_found else interpolations(text):
            if not (_OF_KEY if in_headers else _REFERENCE).fullmatch(expression):
                yield Problem(f"{expression} cannot be read here", place, _READ)


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    named = as_map(value).items() if isinstance(value, Mapping) else enumerate(as_list(value))
    for key, inner in named if isinstance(value, Mapping | list) else ():
        yield from _texts(inner, f"{place}.{key}" if place else str(key))


def part_problems(
    connections: Connections,
    kinds: Kinds[Any, Any],
    config: ScorerConfig | TargetConfig | BaseSimulatorConfig,
    written: Mapping[str, Any],
    key: str,
) -> Iterator[Problem]:
    """The problems of a part of a run; `written` is its configuration with references unresolved."""
    yield from _plugin(kinds, config.kind, key)
    if isinstance(config, TargetConfig) and config.runs_here:
        what = f"a target of kind {config.kind} runs a program, which a public server does not"
        yield Problem(what, f"{key}.kind", "use a target that is reached over HTTP")
    if isinstance(config, MembersConfig):
        for name, member in config.members.items():
            yield from part_problems(connections, kinds, member, {}, f"{key}.members.{name}")
    for name in sorted(variables_in({name: value for name, value in written.items() if name not in _SECRETS})):
        yield Problem(f"{name} cannot be read here", key, _READ, key)
    try:
        if isinstance(config, HttpTargetConfig):
            for address in config.addresses.values():
                connections.of_service(address, variables_in([written.get(name) for name in _SECRETS]), key)
            for name in filter(lambda name: _ROUTING.fullmatch(name.lower()), config.headers or {}):
                what = f"the header {name} could lead to another server than the connection's"
                yield Problem(what, f"{key}.headers", "leave it out", f"{key}.headers")
        elif isinstance(config, RemoteModelConfig):
            connections.of_model(_called(config), config.api_key_env, key)
            if config.azure is not None and config.azure.sign_in == "entra":
                hint = "give the connection a key, and set azure.sign_in to key"
                yield Problem("the server does not sign in with its own identity", f"{key}.azure.sign_in", hint)
    except UserError as error:
        yield from error.problems


def _called(config: RemoteModelConfig) -> str:
    """The beginning of the addresses of a model's requests; an Azure deployment's includes its name."""
    address = config.base_url or OPENAI_URL
    is_in_path = config.azure is not None and config.azure.api_version is not None
    return f"{address.rstrip('/')}/openai/deployments/{config.model}" if is_in_path else address


def _plugin(kinds: Kinds[Any, Any], kind: str, key: str) -> Iterator[Problem]:
    if not kinds.ships(kind):
        what = f"the kind {kind!r} comes from an installed package, whose calls a public server cannot check"
        yield Problem(what, f"{key}.kind", "use a kind of evalflow's own")
