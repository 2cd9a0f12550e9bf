"""Judges: defined once in a project, and chosen by name for metrics and runs.

The `members` of a panel or a cascade may be a list of names of judges of the project or of conf/; a run gets their
definitions as of its start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evalflow.addons.studio.store import uses
from evalflow.addons.studio.store.rows import Row, from_row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.definitions import (
    Definition,
    DefinitionStore,
    Origin,
    declared,
    declared_content,
    given,
    kind_of,
    new_values,
    remembered_content,
)
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.addons.studio.work.titles import declared_title, lifted, titled
from evalflow.addons.studio.work.validate import check_judge
from evalflow.app.core.options import Option
from evalflow.config.yaml_text import MISSING
from evalflow.errors import Problem, Subject, UserError
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJudge(Definition):
    """A judge of the project or of conf/; its name never changes.

    Attributes:
        description: For people.
        config: The configuration: kind, model and other keys. It holds the name of the API key's variable, not the key.
        used_by: The project's metrics that name it (BOT/METRIC), and the judges that have it as a member.
        runs: The number of the project's runs that chose it.
        missing_key: The environment variable that must be set first; None if nothing is missing.
    """

    description: str
    config: Mapping[str, object]
    used_by: Sequence[str] = ()
    runs: int = 0
    missing_key: str | None = None
    origin: Origin = "workspace"


JUDGES = DefinitionStore("judge", partial(from_row, StoredJudge), "judge")


@requires("read")
def list_judges(space: Workspace) -> list[StoredJudge]:
    """All judges: those of the database by name, then those of conf/."""
    uses = _Uses.of(space)
    return [uses.shown(judge) for judge in JUDGES.every(space, partial(_of_conf, space))]


@requires("read")
def get_judge(space: Workspace, name: str) -> StoredJudge:
    """One judge."""
    return _Uses.of(space).shown(JUDGES.one(space, name, partial(_of_conf, space)))


@requires("edit")
def create_judge(
    space: Workspace, name: str, config: Mapping[str, object], description: str = "", title: str | None = None
) -> StoredJudge:
    """Define a judge."""
    JUDGES.create(space, judge_values(space, name, config, description, title))
    return get_judge(space, name)


@requires("edit")
def judge_values(
    space: Workspace, name: str, config: Mapping[str, object], description: str = "", title: str | None = None
) -> Row:
    """The columns of a new judge, for `JUDGES.add`."""
    values = new_values("judge", name, config, description, title, partial(_checked, space))
    JUDGES.expect_free(name)
    return values


def _checked(space: Workspace, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    whole = with_members(space, config)
    checked = check_judge(name, whole, space.allowed)
    return {key: list(config[key]) if key == "members" and whole is not config else checked[key] for key in config}


@requires("edit")
def tried_judge(space: Workspace, name: str, config: Mapping[str, object]) -> dict[str, object]:
    """Validate and complete an unsaved judge, for a trial."""
    _checked(space, name, config)
    return {"name": name, **space.resolve(with_members(space, config), "judge")}


@requires("read")
def with_members(space: Workspace, config: Mapping[str, object]) -> Mapping[str, object]:
    """Replace named members of a judge by their configurations, with connections resolved to address and key."""
    named = config.get("members")
    if not is_list(named):
        return config
    own, shipped = {judge.name: judge.config for judge in JUDGES.own(space)}, declared("judge")
    members: dict[str, Mapping[str, object]] = {}
    for name in map(str, named):
        if name in own:
            members[name] = {**space.resolve(own[name], "judge"), "name": name}
        elif name in shipped and name != "target":
            members[name] = {**declared_content("judge", name), "name": name}
        else:
            raise not_found("judge", name, [*own, *(one for one in shipped if one != "target")])
        if "members" in members[name]:
            what = f"the member {name!r} is itself made of members"
            raise UserError(Problem(what, "judge.members", "choose single judges"))
    ordered = {"order": [*members]} if config.get("kind") == "cascade" and not config.get("order") else {}
    return {**config, **ordered, "members": members}


@requires("edit")
def update_judge(
    space: Workspace,
    name: str,
    expected: int,
    config: Mapping[str, object],
    description: str = "",
    title: str | None = None,
) -> StoredJudge:
    """Replace a judge's configuration and description, and its title unless it is None.

    Existing runs keep the judge that they started with.
    """
    judge = JUDGES.get(space, name)
    values = new_values("judge", name, config, description, title, partial(_checked, space))
    JUDGES.change(space, judge, expected, values)
    return get_judge(space, name)


@requires("edit")
def delete_judge(space: Workspace, name: str, expected: int) -> int:
    """Delete a judge; returns its id in the trash. Raises TakenError if metrics name it; runs keep their copy."""
    judge = JUDGES.get(space, name)
    if used := _users(space).get(name):
        what = f"the judge {name!r} is used by {', '.join(used)}"
        see = tuple(_subject(user) for user in used)
        raise TakenError(Problem(what, "judge", "choose another judge there first", see=see))
    return JUDGES.delete(space, judge, expected)


@requires("read")
def named_judges(
    space: Workspace, names: Iterable[str], metrics: Iterable[Mapping[str, object]]
) -> dict[str, tuple[str, Mapping[str, object]]]:
    """By name, the description and configuration of the database's judges among `names` and the metrics' judges.

    Connections are resolved to address and key.

    Raises NotFoundError for a name that neither the project nor conf/ has.
    """
    own, shipped = {judge.name: judge for judge in JUDGES.own(space)}, declared("judge")
    chosen = [judge for metric in metrics if isinstance(judge := metric.get("judge"), str)]
    wanted = dict.fromkeys([*names, *chosen])
    for name in wanted:
        if name not in own and name not in shipped:
            raise not_found("judge", name, [*own, *shipped])
    own_judges = [own[name] for name in wanted if name in own]
    return {
        judge.name: (judge.description, titled({"name": judge.name, **called}, judge.name, judge.title))
        for judge in own_judges
        for called in [space.resolve(with_members(space, judge.config), "judge")]
    }


@requires("read")
def with_judge(space: Workspace, name: str, definition: Mapping[str, object]) -> Mapping[str, object]:
    """Resolve the connection of a metric's own judge to address and key."""
    own = definition.get("judge")
    if not is_mapping(own):
        return definition
    return {**definition, "judge": space.resolve(own, f"metric.{name}.judge")}


def has_models(judge: StoredJudge) -> bool:
    """Whether the judge, or one of its members, is a model that reads prompts."""
    return bool(judge.config.get("model") or judge.config.get("members"))


def can_be_member(judge: StoredJudge) -> bool:
    """Whether a judge can be a member of a panel or a cascade: it is single and complete."""
    is_embedded, model = judge.config.get("kind") == "embedded", judge.config.get("model")
    return judge.name != "target" and "members" not in judge.config and (is_embedded or model not in (None, MISSING))


def _users(space: Workspace) -> dict[str, list[str]]:
    """By judge, the project's metrics and judges that name it."""
    by_judge: dict[str, list[str]] = {}
    for one in space.read(uses.configurations, space.project_id):
        named = one.content.get("judge")
        if one.kind == "metric" and isinstance(named, str):
            by_judge.setdefault(named, []).append(f"{one.bot}/{one.name}")
        for member in as_list(one.content.get("members")) if one.kind == "judge" else ():
            by_judge.setdefault(str(member), []).append(one.name)
    return by_judge


def _subject(user: str) -> Subject:
    bot, _, name = user.rpartition("/")
    return Subject("metric", name, bot) if bot else Subject("judge", name)


@dataclass(frozen=True, slots=True)
class _Uses:
    """The uses of judges, to show with them: the metrics and judges that name each, and the number of its runs."""

    space: Workspace
    users: Mapping[str, list[str]]
    runs: Mapping[str, int]

    @classmethod
    def of(cls, space: Workspace) -> _Uses:
        return cls(space, _users(space), space.read(uses.runs_by_judge, space.project_id))

    def shown(self, judge: StoredJudge) -> StoredJudge:
        called = judge.config
        if judge.origin == "workspace":
            with suppress(UserError):  # its connection, or a member, was deleted
                called = with_members(self.space, self.space.resolve(called, "judge"))
        used_by, runs = self.users.get(judge.name, []), self.runs.get(judge.name, 0)
        return replace(judge, missing_key=_missing_key(called), used_by=used_by, runs=runs)


def _of_conf(space: Workspace, option: Option) -> StoredJudge:
    is_whole = "members" not in str(option.values.get("defaults", ""))  # members come from other files
    values = given(option.values) if is_whole else remembered_content(space, "judge", option.name)
    config = {**lifted(values, None)[0], "kind": kind_of(option)}
    config.pop("defaults", None)
    return StoredJudge(
        name=option.name,
        title=declared_title(option),
        description=option.description,
        config=config,
        origin="conf",
    )


def _missing_key(config: Mapping[str, object]) -> str | None:
    """The first unset API key variable of the judge or its members."""
    called = [config, *(as_map(member) for member in as_map(config.get("members")).values())]
    variables = [one.get("api_key_env") for one in called]
    named = [one for one in variables if isinstance(one, str) and one and not one.startswith("${")]
    return next((name for name in named if not os.environ.get(name)), None)
