"""Check that a configuration calls connections only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from evalflow.calls.connections import Connections, variables_in
from evalflow.config.judges import MembersConfig, RemoteModelConfig
from evalflow.config.kinds import Kinds
from evalflow.config.schema import ScorerConfig, SimulatorConfig, TargetConfig
from evalflow.config.targets import HttpTargetConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError
from evalflow.llm.registry import EMBEDDER_KINDS, JUDGE_KINDS
from evalflow.llm.sdk import OPENAI_URL
from evalflow.metrics.registry import METRIC_KINDS
from evalflow.targets.registry import SIMULATOR_KINDS, TARGET_KINDS

_SECRETS = ("headers", "body")
"""The keys of a bot that may read its connection's variable. Others are shown, or sent unredacted."""
_ROUTING = re.compile(r"host|connection|content-length|transfer-encoding|upgrade|te|trailer|expect|proxy-.*|keep-alive")
"""Headers that say where a request goes, or where it ends: another server may stand behind the same address."""


def connection_problems(settings: Settings, connections: Connections) -> list[Problem]:
    """Why a run may not be carried out by a process that calls connections only; empty if it may."""
    run, written = settings.run, settings.composed.storable
    kinds = {"target": TARGET_KINDS, "judge": JUDGE_KINDS, "embedder": EMBEDDER_KINDS, "simulator": SIMULATOR_KINDS}
    problems: list[Problem] = []
    for group, known in kinds.items():
        problems += part_problems(connections, known, getattr(run, group), written.get(group, {}), group)
    if run.otel.endpoint is not None:
        try:
            connections.of_receiver(run.otel.endpoint, "otel.endpoint")
        except UserError as error:
            problems += error.problems
        read = sorted(variables_in(written.get("otel")))
        problems += [Problem(f"{name} cannot be read here", "otel", "write the address itself") for name in read]
    for key, value in (("copy_to", run.copy_to), ("cache.url", run.cache.url)):
        if value is not None:
            problems.append(Problem("a public server reaches its connections only", key, f"leave it out: {key}=null"))
    for name, metric in run.metric.items():
        key = settings.key("metric", name)
        problems += _plugin(METRIC_KINDS, metric.kind, key)
        if metric.programs:
            what = f"{name} starts a program, which a public server does not"
            problems.append(Problem(what, f"{key}.commands", "leave `commands` out"))
        if metric.judge:
            own = written["metric"][settings.keys["metric", name]]["judge"]
            problems += part_problems(connections, JUDGE_KINDS, settings.judges[name], own, f"{key}.judge")
    return problems


def part_problems(
    connections: Connections,
    kinds: Kinds[Any, Any],
    config: ScorerConfig | TargetConfig | SimulatorConfig,
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
        hint = "only headers and body of a bot may read a variable: that of its connection's key"
        yield Problem(f"{name} cannot be read here", key, hint, key)
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
    """The address that a model's requests begin with; that of a deployment of Azure's has its name."""
    address = config.base_url or OPENAI_URL
    is_in_path = config.azure is not None and config.azure.api_version is not None
    return f"{address.rstrip('/')}/openai/deployments/{config.model}" if is_in_path else address


def _plugin(kinds: Kinds[Any, Any], kind: str, key: str) -> Iterator[Problem]:
    if not kinds.ships(kind):
        what = f"the kind {kind!r} comes from an installed package, whose calls a public server cannot check"
        yield Problem(what, f"{key}.kind", "use a kind of evalflow's own")
