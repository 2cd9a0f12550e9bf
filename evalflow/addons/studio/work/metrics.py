"""Metrics: those of each bot, and the library declared in conf/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.store.rows import from_row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import BOTS
from evalflow.addons.studio.work.definitions import (
    Definition,
    DefinitionStore,
    Origin,
    declared,
    find_declared,
    remembered_content,
)
from evalflow.addons.studio.work.judges import named_judges
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace, not_found, refuse_elsewhere, stale
from evalflow.addons.studio.work.titles import checked_title, declared_title, lifted, same_title
from evalflow.addons.studio.work.validate import check_metric
from evalflow.app.core.options import Catalogue, Option
from evalflow.errors import Problem, UserError
from evalflow.paths import prompt_dirs
from evalflow.prompts import Prompts
from evalflow.values.jsonvalues import is_list, is_mapping

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDefinition(Definition):
    """A metric of a bot or of the library.

    Its name is unique within the bot. Scores use it, unless the definition has its own `name`. The `version` in the
    definition is unrelated to the one here.

    Attributes:
        bot: The name of its bot; None for the library.
        prompts: Its own templates, by name, without the shipped templates that it uses.
    """

    bot: str | None = None
    definition: Mapping[str, Any]
    prompts: Mapping[str, str]
    origin: Origin = "workspace"


@dataclass(frozen=True, slots=True)
class MetricDraft:
    """A metric to be saved: name, content of the YAML, and its own templates by NAME/FILE.jinja.

    The title defaults to the one in the definition, or else stays.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # also the body of REST requests
    name: str
    definition: Mapping[str, Any]
    prompts: Mapping[str, str] | None = None
    title: str | None = None


METRICS = DefinitionStore("metric", partial(from_row, MetricDefinition))


@requires("read")
def list_library(_: Workspace) -> list[MetricDefinition]:
    """The metrics of conf/, as declared."""
    return [_shipped(option, option.values, {}) for option in declared("metric").values()]


@requires("read")
def keyless_metrics(_: Workspace) -> frozenset[str]:
    """The metrics of conf/ that can be scored without a key: by rules, or by the embedded judge and embedder."""
    metrics = declared("metric").values()
    catalogue = Catalogue(list(metrics))
    return frozenset(option.name for option in metrics if catalogue.keyless(option))


@requires("read")
def get_library(space: Workspace, name: str) -> MetricDefinition:
    """One metric of conf/, with the prompts that it uses under their original names."""
    option = find_declared("metric", "metric", name)
    prompts = Prompts(prompt_dirs())
    texts = {prompt: prompts.source(prompt) for prompt in option.prompts}
    return _shipped(option, remembered_content(space, "metric", name), texts)


def _shipped(option: Option, content: Mapping[str, object], prompts: Mapping[str, str]) -> MetricDefinition:
    definition, _ = lifted(content, None)
    return MetricDefinition(
        name=option.name, title=declared_title(option), definition=definition, prompts=prompts, origin="conf"
    )


@requires("read")
def list_metrics(space: Workspace, bot: str) -> list[MetricDefinition]:
    """The metrics of a bot, by name; empty for a bot of conf/."""
    if own := BOTS.find(space, bot):
        return [replace(metric, bot=bot) for metric in METRICS.own(space, own.id)]
    find_declared("target", "bot", bot)
    return []


@requires("read")
def get_metric(space: Workspace, bot: str, name: str) -> MetricDefinition:
    """One metric of a bot."""
    by_name = {metric.name: metric for metric in list_metrics(space, bot)}
    if name not in by_name:
        raise not_found("metric", name, list(by_name))
    return by_name[name]


@requires("edit")
def create_metric(space: Workspace, bot: str, draft: MetricDraft) -> MetricDefinition:
    """Define a metric."""
    checked = _complete(space, draft)
    row = BOTS.get(space, bot).id
    with space.changing("create", "metric", f"{bot}/{draft.name}") as connection:
        add_metric(connection, row, bot, checked)
    return get_metric(space, bot, draft.name)


@requires("edit")
def check_draft(space: Workspace, draft: MetricDraft) -> MetricDraft:
    """Validate and complete a draft; it may take steps only from runs that the person may see."""
    plain, title = lifted(draft.definition, draft.title)
    refuse_elsewhere(space, {"metric": {draft.name: plain}})
    return MetricDraft(draft.name, *check_metric(draft.name, plain, draft.prompts, space.allowed), title)


def _complete(space: Workspace, draft: MetricDraft) -> MetricDraft:
    """Like `check_draft`; also raise UserError if the judge that it names is missing."""
    checked = check_draft(space, draft)
    try:
        named_judges(space, [], [checked.definition])
    except NotFoundError as error:
        where = f"metric.{draft.name}.judge"
        raise UserError([replace(problem, where=where, key=where) for problem in error.problems]) from None
    return checked


def add_metric(connection: Connection, row: int, bot: str, checked: MetricDraft) -> None:
    """Add a metric to the bot of this row id and name, within a transaction."""
    METRICS.add(connection, row, asdict(checked), bot)


@requires("edit")
def update_metric(space: Workspace, bot: str, draft: MetricDraft, expected: int) -> MetricDefinition:
    """Replace a metric's definition and prompts; a draft without `prompts` keeps the templates."""
    metric = _own(space, bot, draft.name)
    texts = metric.prompts if draft.prompts is None else draft.prompts
    checked = _complete(space, replace(draft, prompts=texts))
    values = {"title": checked.title, "definition": checked.definition, "prompts": checked.prompts}
    METRICS.change(space, metric, expected, values)
    return get_metric(space, bot, draft.name)


@requires("edit")
def delete_metric(space: Workspace, bot: str, name: str, expected: int) -> int:
    """Delete a metric; runs that used it stay. Returns its id in the trash."""
    return METRICS.delete(space, _own(space, bot, name), expected)


@requires("edit")
def replace_metrics(
    space: Workspace, bot: str, drafts: Sequence[MetricDraft], expected: Mapping[str, int]
) -> list[MetricDefinition]:
    """Replace all metrics of a bot; change nothing if one is invalid.

    `expected`: by name, the versions of all metrics when they were read.
    """
    checked = _checked(space, drafts)
    row = BOTS.get(space, bot).id
    with space.changing("replace metrics", "bot", bot, [draft.name for draft in drafts]) as connection:
        there = {one.name: one for one in map(METRICS.read, definitions.listed(connection, "metric", row))}
        for name in dict.fromkeys([*there, *expected]):
            version, updated_at = (there[name].version, there[name].updated_at) if name in there else (0, "")
            if version != expected.get(name, 0):
                raise stale("metric", name, expected.get(name, 0), version, updated_at)
        titles = _distinct_titles(checked, there)
        for name, draft in checked.items():
            values = {"title": titles[name], "definition": draft.definition, "prompts": draft.prompts}
            if name not in there:
                definitions.add(connection, "metric", {"bot_id": row, "name": name, **values})
            elif any(getattr(there[name], key) != value for key, value in values.items()):
                definitions.change(connection, "metric", there[name].id, there[name].version, values)
        for name, metric in there.items():
            if name not in checked:
                definitions.delete(connection, "metric", metric.id, metric.version)
    return list_metrics(space, bot)


def _distinct_titles(drafts: Mapping[str, MetricDraft], there: Mapping[str, MetricDefinition]) -> dict[str, str]:
    """The titles of a bot's metrics by name; TakenError if two are the same."""
    by_name: dict[str, str] = {}
    for name, draft in drafts.items():
        title = checked_title(draft.title or (there[name].title if name in there else name), "metric")
        if other := next((other for other, one in by_name.items() if same_title(one) == same_title(title)), None):
            what = f"the metrics {other} and {name} are both called {title!r}"
            raise TakenError(Problem(what, "metric.title", "rename one of them"))
        by_name[name] = title
    return by_name


@requires("edit")
def copy_metric(
    space: Workspace, source: str, bot: str, name: str, *, of: str | None = None, title: str | None = None
) -> MetricDefinition:
    """Copy a metric of the bot `of` (None: of the library) with its prompts; later changes affect only the copy."""
    if of is None:
        definition, prompts = own_prompts(name, get_library(space, source).definition)
        return create_metric(space, bot, MetricDraft(name, definition, prompts, title))
    original = get_metric(space, of, source)
    draft = MetricDraft(name, original.definition, original.prompts, title)
    return create_metric(space, bot, with_prompts_of(draft, source))


def own_prompts(name: str, definition: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Copy the prompts of a definition: returns the definition with their new names, and the copies.

    The metric's name becomes the folder of its prompts. Included templates are not copied.
    """
    prompts = Prompts(prompt_dirs())
    copies: dict[str, str] = {}

    def moved(part: Any) -> Any:
        if not is_mapping(part):
            return part
        changed = dict(part)
        for key in ("prompt", "steps_prompt"):
            old = changed.get(key)
            if isinstance(old, str) and old.endswith(".jinja"):
                changed[key] = own = f"{name}/{Path(old).name}"
                copies[own] = prompts.source(old)
        return changed

    changed = moved(dict(definition))
    if is_list(steps := definition.get("steps")):
        changed["steps"] = [moved(step) for step in steps]
    if is_mapping(nodes := definition.get("nodes")):
        changed["nodes"] = {node: moved(part) for node, part in nodes.items()}
    return changed, copies


def with_prompts_of(draft: MetricDraft, source: str) -> MetricDraft:
    """Move a draft's own prompts from the folder `source` to the folder of the draft's name."""
    prompts = {f"{draft.name}/{file.partition('/')[2]}": text for file, text in (draft.prompts or {}).items()}
    return replace(draft, definition=_renamed(draft.definition, source, draft.name), prompts=prompts)


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(inner, old, new) for key, inner in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [_renamed(item, old, new) for item in value]  # pyright: ignore
    own = isinstance(value, str) and value.startswith(f"{old}/") and value.endswith(".jinja")
    return f"{new}/{value.partition('/')[2]}" if own else value


def _checked(space: Workspace, drafts: Sequence[MetricDraft]) -> dict[str, MetricDraft]:
    checked: dict[str, MetricDraft] = {}
    problems: list[Problem] = []
    for draft in drafts:
        if draft.name in checked:
            problems.append(Problem(f"two metrics are called {draft.name!r}", "metric.name", "rename one of them"))
            continue
        try:
            checked[draft.name] = _complete(space, draft)
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)
    return checked


def _own(space: Workspace, bot: str, name: str) -> MetricDefinition:
    return METRICS.get(space, name, BOTS.get(space, bot).id)
