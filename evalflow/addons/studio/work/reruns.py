"""A run again: on some of its cases, with another prompt of its bot, or with a changed metric."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import BOTS, Bot, copy_bot, get_bot, update_bot
from evalflow.addons.studio.work.cases import known_ids
from evalflow.addons.studio.work.datasets import list_datasets
from evalflow.addons.studio.work.definitions import declared
from evalflow.addons.studio.work.metrics import get_metric, list_metrics
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run, changed_request, create_run, get_run
from evalflow.addons.studio.work.scores import failed_cases
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.config.load import compose
from evalflow.config.schema import CacheConfig
from evalflow.engine.folder import RunFolder
from evalflow.errors import EvalflowError, Problem, UserError
from evalflow.values.jsonvalues import as_list, as_map, is_mapping


@dataclass(frozen=True, slots=True)
class KnownCases:
    """Cases of a run, by dataset, that its datasets still have; `gone` counts the others."""

    ids: Mapping[str, Sequence[str]]
    gone: int


@requires("read")
def known_cases(space: Workspace, ids: Mapping[str, Sequence[str]]) -> KnownCases:
    """Those of some cases that still exist; datasets of conf/ are read as a whole."""
    names = {dataset.name for dataset in list_datasets(space)}
    by_dataset = {name: known_ids(space, name, wanted) for name, wanted in ids.items() if name in names}
    kept = {name: known for name, known in by_dataset.items() if known}
    return KnownCases(kept, sum(map(len, ids.values())) - sum(map(len, kept.values())))


@requires("read")
def failed_only(space: Workspace, request: RunRequest, run_id: str) -> RunRequest:
    """A request for only those of its cases that failed in a run: with a score that fails or ended in an error."""
    known, chosen = known_cases(space, failed_cases(space, run_id)).ids, dict[str, list[str]]()
    for name in request.datasets:
        given = request.dataset_values.get(name, {}).get("ids")
        if ids := [one for one in known.get(name, ()) if given is None or one in as_list(given)]:
            chosen[name] = ids
    if not chosen:
        what = f"no case of {', '.join(request.datasets)} failed in run {run_id}"
        raise TakenError(Problem(what, "failed_in", "choose another run, or all cases"))
    values = {name: {**request.dataset_values.get(name, {}), "ids": ids} for name, ids in chosen.items()}
    return replace(request, datasets=list(chosen), dataset_values=values)


_KEY = re.compile(r"\b(?:judge|target|embedder|simulator|dataset|metric|budget|repeats)\.[A-Za-z_][\w.]*[A-Za-z0-9_]")
_VALUES = ("base_url", "url", "api_key_env", "model")


@requires("read")
def fault_of(space: Workspace, run_id: str) -> Problem | None:
    """Why a run failed, with the key that its message names, or whose value it names; None if it did not fail."""
    run = get_run(space, run_id)
    if run.state != "failed" or not run.message:
        return None
    problem = run.message.removeprefix("error:").strip()
    what, _, hint = problem.partition("\n  hint: ")
    named = _KEY.search(problem)
    return Problem(what, hint=hint, key=named[0] if named else _key_of_value(run, what))


def _key_of_value(run: Run, what: str) -> str:
    """The key of the bot or the judge whose address, key or model a message names."""
    try:
        config = RunFolder(run.folder).read_manifest().config
    except (EvalflowError, OSError, ValueError):
        return ""
    parts: dict[str, Mapping[str, object]] = {group: config.get(group) or {} for group in ("target", "judge")}
    for key in _VALUES:
        for group, values in parts.items():
            if values.get(key) and str(values[key]) in what:
                return f"{group}.{key}"
    return ""


@requires("edit")
def bot_with_prompt(space: Workspace, run: Run) -> Bot | None:
    """The bot of a run, if it is a model whose prompt can be changed here and the run can be repeated; else None."""
    try:
        bot = get_bot(space, run.bot)
    except NotFoundError:
        return None
    return bot if run.request is not None and bot.config.get("kind") == "openai" else None


@requires("edit")
def run_with_prompt(space: Workspace, run_id: str, prompt: str, expected: int, creation_key: str | None = None) -> Run:
    """Save a system prompt in the bot of a run, and have it answer and be scored again as in that run.

    The bot gets a new version, of which `expected` is the one before; a bot of conf/ is copied. Earlier runs keep what
    they used.
    """
    run = get_run(space, run_id)
    bot = bot_with_prompt(space, run)
    if bot is None:
        raise UserError(Problem(f"the bot of run {run_id} has no prompt to change here", "prompt"))
    written, name = prompt.strip() or None, bot.name
    if written != (bot.config.get("system_prompt") or None):
        if bot.origin == "conf":
            name, title = BOTS.free(space, bot.title)
            copy_bot(space, bot.name, name, {"system_prompt": written}, title)
        else:
            update_bot(space, name, expected, config={**bot.config, "system_prompt": written})
    options = {**run.request.options, "generate": True} if run.request else {}
    return create_run(
        space,
        changed_request(run, bot=name, title=f"{run.title or bot.title}, new prompt", options=options),
        creation_key,
    )


@dataclass(frozen=True, slots=True)
class ChangeableMetric:
    """A metric of a run that can be changed for its bot.

    Attributes:
        is_own: Whether it is the bot's own. Otherwise a copy of the library's is changed, which takes its place.
    """

    bot: str
    name: str
    is_own: bool


@requires("edit")
def changeable_metrics(space: Workspace, run_id: str) -> dict[str, ChangeableMetric]:
    """The metrics of a run that can be changed here, by name; empty if the run cannot be repeated here."""
    run = get_run(space, run_id)
    if run.request is None or BOTS.find(space, run.bot) is None:
        return {}
    own = {metric.name for metric in list_metrics(space, run.bot)}
    known = own | set(declared("metric"))
    return {name: ChangeableMetric(run.bot, name, name in own) for name in run.request.metrics if name in known}


@requires("edit")
def uses_cache(_: Workspace, request: RunRequest) -> bool:
    """Whether a run takes the replies that earlier runs have paid for from the cache."""
    given = {**compose([], complete=False).values["cache"], **as_map(request.options.get("cache", {}))}
    return CacheConfig.model_validate(given).mode in ("on", "read")


@requires("edit")
def request_with_metric(space: Workspace, run_id: str, metric: str, instead: str) -> RunRequest:
    """The request of a run, with a metric that was changed since, or with another one instead of one of the run.

    The run's threshold for it is left out, and its gates get the new name. UserError if `instead` is not in the run.
    """
    run = get_run(space, run_id)
    request = changed_request(run)
    if instead not in request.metrics:
        hint = f"choose one of {', '.join(request.metrics)}"
        raise UserError(Problem(f"metric {instead} is not in run {run_id}", "metric", hint))
    names = list(dict.fromkeys(metric if name == instead else name for name in request.metrics))
    thresholds = {name: value for name, value in request.thresholds.items() if name not in (metric, instead)}
    options = dict(request.options)
    if is_mapping(gates := options.get("gate")):
        options["gate"] = _gates_of(gates, metric, instead)
    title = f"{run.title or get_bot(space, run.bot).title}, metric changed"
    return replace(request, metrics=names, thresholds=thresholds, options=options, title=title)


def _gates_of(gates: Mapping[str, Any], metric: str, instead: str) -> dict[str, Any]:
    """The gates of a run, those of one metric, also on a tag, under the name of another."""
    renamed: dict[str, Any] = {}
    for about, conditions in gates.items():
        name, at, tag = about.partition("@")
        key = f"{metric}{at}{tag}" if name == instead else about
        renamed[key] = {**renamed.get(key, {}), **conditions}
    return renamed


@requires("edit")
def run_with_metric(space: Workspace, run_id: str, metric: str, instead: str, creation_key: str | None = None) -> Run:
    """Repeat a run as `request_with_metric` says.

    Answers and grades whose requests are as before come from the cache, unless the run does without. Repeating a call
    with the same `creation_key` returns the existing run, unless the metric has changed since.
    """
    request = request_with_metric(space, run_id, metric, instead)
    if creation_key is not None:  # names and versions come back when a metric is made again
        saved = get_metric(space, request.bot, metric)
        content = json.dumps([asdict(request), saved.definition, saved.prompts], sort_keys=True)
        creation_key = f"{creation_key}\0{content}"
    return create_run(space, request, creation_key)
