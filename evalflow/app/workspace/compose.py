"""From what people picked to what is combined: names looked up here first, then in conf/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from evalflow.app.workspace import library
from evalflow.app.workspace.bots import get_bot
from evalflow.app.workspace.cases import case_rows
from evalflow.app.workspace.datasets import get_dataset
from evalflow.app.workspace.metrics import list_metrics
from evalflow.app.workspace.snapshot import Choice, Own
from evalflow.app.workspace.space import Workspace, not_found
from evalflow.config.schema import RunConfig
from evalflow.errors import Problem, UserError, did_you_mean

if TYPE_CHECKING:
    from evalflow.app.workspace.run_types import RunRequest

OPTIONS = tuple(
    name for name in RunConfig.model_fields if name not in ("dataset", "target", "metric", "judge", "embedder")
)
"""Root keys that a run may set."""


def owned(space: Workspace, request: RunRequest) -> Own:
    """What of a request is defined in the workspace.

    Raises:
        NotFoundError: Something of what it names is neither there nor in conf/.
    """
    bot = get_bot(space, request.bot)
    own = {metric.name: metric for metric in list_metrics(space, request.bot)}
    shipped = library.declared("metric")
    for name in request.metrics:
        if name not in own and name not in shipped:
            raise not_found("metric", name, [*own, *shipped])
    datasets = [get_dataset(space, name) for name in request.datasets]
    library.find("judge", "judge", judge_of(bot.config, request))
    library.find("embedder", "embedder", request.embedder)
    return Own(
        targets={bot.name: bot.config} if bot.origin == "workspace" else {},
        metrics={name: (own[name].definition, own[name].prompts) for name in request.metrics if name in own},
        datasets={
            one.name: ({"description": one.description, "generates": one.generates}, case_rows(space, one.name))
            for one in datasets
            if one.origin == "workspace"
        },
    )


def chosen(space: Workspace, request: RunRequest) -> Choice:
    """How the parts of a request are combined.

    Raises:
        UserError: It has an option that no run has, or names nothing to run.
    """
    bot = get_bot(space, request.bot)
    problems = list(_wrong(request))
    if problems:
        raise UserError(problems)
    judge = judge_of(bot.config, request)
    values: dict[str, Any] = {"generate": bot.config.get("kind") != "recorded", **request.options}
    if request.judge_values:
        values["judge"] = dict(request.judge_values)
    if request.embedder_values:
        values["embedder"] = dict(request.embedder_values)
    if request.thresholds:
        values["metric"] = {name: {"threshold": value} for name, value in request.thresholds.items()}
    return Choice(request.bot, list(request.datasets), list(request.metrics), judge, request.embedder, values)


def judge_of(config: Mapping[str, Any], request: RunRequest) -> str:
    """The judge of a request: the one it names, or the bot's own model, or the embedded one where the bot has none."""
    return request.judge or ("target" if config.get("kind") == "openai" else "embedded")


def _wrong(request: RunRequest) -> Iterator[Problem]:
    for group, names in (("dataset", request.datasets), ("metric", request.metrics)):
        if not names:
            yield Problem(f"no {group} is chosen", f"{group}s", "choose at least one")
        if len(set(names)) < len(names):
            yield Problem(f"a {group} is chosen twice", f"{group}s", "choose each once")
    for name in request.options:
        if name not in OPTIONS:
            yield Problem(f"a run has no option {name!r}", f"options.{name}", did_you_mean(name, OPTIONS))
    cache = request.options.get("cache")
    if cache is not None and (not isinstance(cache, Mapping) or set(cast("Mapping[str, Any]", cache)) - {"mode"}):
        yield Problem("of the cache only the mode can be chosen", "options.cache", 'such as {"mode": "off"}')
    for name in request.thresholds:
        if name not in request.metrics:
            yield Problem(f"the run has no metric {name!r}", f"thresholds.{name}", did_you_mean(name, request.metrics))
