"""Judges that are defined once in a project, and chosen by name for metrics and runs.

A panel and a cascade may name their members, which are judges of the project or of conf/: `members` is then a list, and
a run gets each member as it is defined when the run starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from evalflow.app.core.options import Option
from evalflow.app.studio.access import requires
from evalflow.app.studio.definitions import (
    DefinitionStore,
    declared,
    declared_content,
    given,
    kind_of,
    remembered_content,
)
from evalflow.app.studio.space import TakenError, Workspace, not_found
from evalflow.app.studio.titles import lifted, titled
from evalflow.app.studio.validate import check_judge, one_line
from evalflow.config.yaml_text import MISSING
from evalflow.errors import Problem, Subject, UserError
from evalflow.store import definitions
from evalflow.store import judges as stored
from evalflow.store.rows import from_row


@dataclass(frozen=True, slots=True)
class StoredJudge:
    """A judge of the project, or one that conf/ declares.

    Attributes:
        name: Unique in the project; it never changes.
        title: What people call it.
        description: For people.
        config: A judge's configuration: kind, model and other keys. It holds the name of a key's variable, not the key.
        used_by: The metrics of the project that name it, as BOT/METRIC, and the judges of which it is a member.
        runs: How many runs of the project chose it.
        missing_key: The environment variable that has no value and must be set first; None if nothing is missing.
        origin: "conf" if a file declares it; it cannot be changed here.
        version: Counts its changes; 0 for conf.
        created_at, updated_at: ISO 8601, UTC; empty for conf.
    """

    name: str
    description: str
    config: Mapping[str, Any]
    used_by: list[str]
    runs: int
    missing_key: str | None
    origin: str = "workspace"
    version: int = 0
    created_at: str = ""
    updated_at: str = ""
    title: str = ""


JUDGES = DefinitionStore("judge", "judges", "judge")


@requires("read")
def list_judges(space: Workspace) -> list[StoredJudge]:
    """All judges: the defined ones by name, then those of conf/."""
    users, runs = _users(space), _runs(space)
    own = [_shown(space, row, users, runs) for row in JUDGES.rows(space)]
    taken = {judge.name for judge in own}
    shipped = (option for name, option in declared("judge").items() if name not in taken)
    return [*own, *(_of_conf(space, option, users, runs) for option in shipped)]


@requires("read")
def get_judge(space: Workspace, name: str) -> StoredJudge:
    """One judge."""
    row = JUDGES.find(space, name)
    if row is not None:
        return _shown(space, row, _users(space), _runs(space))
    if option := declared("judge").get(name):
        return _of_conf(space, option, _users(space), _runs(space))
    raise not_found("judge", name, [judge.name for judge in list_judges(space)])


@requires("edit")
def create_judge(
    space: Workspace, name: str, config: Mapping[str, Any], description: str = "", title: str | None = None
) -> StoredJudge:
    """Define a judge."""
    JUDGES.create(space, judge_values(space, name, config, description, title))
    return get_judge(space, name)


@requires("edit")
def judge_values(
    space: Workspace, name: str, config: Mapping[str, Any], description: str = "", title: str | None = None
) -> dict[str, Any]:
    """The columns of a new judge, for `JUDGES.add`."""
    plain, title = lifted(config, title)
    checked = _checked(space, name, plain)
    JUDGES.expect_free(name)
    return {"name": name, "title": title, "description": one_line(description, "judge"), "config": checked}


def _checked(space: Workspace, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    whole = with_members(space, config)
    checked = check_judge(name, whole, space.allowed)
    return {key: list(config[key]) if key == "members" and whole is not config else checked[key] for key in config}


@requires("edit")
def tried_judge(space: Workspace, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """A judge that is not saved, checked and complete, for a trial."""
    _checked(space, name, config)
    return {"name": name, **space.resolve(with_members(space, config), "judge")}


@requires("read")
def with_members(space: Workspace, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A judge's configuration with the named members in full, and their connections replaced by address and key."""
    named = config.get("members")
    if not isinstance(named, list):
        return config
    own, shipped = {row["name"]: row["config"] for row in JUDGES.rows(space)}, declared("judge")
    members: dict[str, Mapping[str, Any]] = {}
    for name in map(str, cast("list[Any]", named)):
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
    config: Mapping[str, Any],
    description: str = "",
    title: str | None = None,
) -> StoredJudge:
    """Replace a judge's configuration and description, and its title unless that is None.

    Runs that exist keep the judge that they started with.
    """
    row = JUDGES.get(space, name)
    plain, title = lifted(config, title)
    checked = _checked(space, name, plain)
    values = {"title": title, "config": checked, "description": one_line(description, "judge")}
    JUDGES.change(space, row, expected, values)
    return get_judge(space, name)


@requires("edit")
def delete_judge(space: Workspace, name: str, expected: int) -> int:
    """Delete a judge; returns its id in the trash. Raises TakenError if metrics name it; runs keep their copy."""
    row = JUDGES.get(space, name)
    if used := _users(space).get(name):
        what = f"the judge {name!r} is used by {', '.join(used)}"
        see = tuple(_subject(user) for user in used)
        raise TakenError(Problem(what, "judge", "choose another judge there first", see=see))
    return JUDGES.delete(space, row, expected)


@requires("read")
def named_judges(
    space: Workspace, names: Iterable[str], metrics: Iterable[Mapping[str, Any]]
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Descriptions and configurations of the defined judges of these names, and of those that the metrics name.

    Their connections are replaced by address and key.

    Raises NotFoundError for a name that neither the project nor conf/ has.
    """
    own, shipped = {row["name"]: row for row in JUDGES.rows(space)}, declared("judge")
    chosen = [judge for metric in metrics if isinstance(judge := metric.get("judge"), str)]
    wanted = dict.fromkeys([*names, *chosen])
    for name in wanted:
        if name not in own and name not in shipped:
            raise not_found("judge", name, [*own, *shipped])
    found = [own[name] for name in wanted if name in own]
    return {
        row["name"]: (row["description"], titled({"name": row["name"], **called}, row["name"], row["title"]))
        for row in found
        for called in [space.resolve(with_members(space, row["config"]), "judge")]
    }


@requires("read")
def with_judge(space: Workspace, name: str, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A metric's definition with the connection of its own judge replaced by address and key."""
    own = definition.get("judge")
    if not isinstance(own, Mapping):
        return definition
    return {**definition, "judge": space.resolve(cast("Mapping[str, Any]", own), f"metric.{name}.judge")}


def has_models(judge: StoredJudge) -> bool:
    """Whether it reads prompts, by a model of its own or by its members'."""
    return bool(judge.config.get("model") or judge.config.get("members"))


def can_be_member(judge: StoredJudge) -> bool:
    """Whether a panel or a cascade can have it as it is: it is single, and complete."""
    is_embedded, model = judge.config.get("kind") == "embedded", judge.config.get("model")
    return judge.name != "target" and "members" not in judge.config and (is_embedded or model not in (None, MISSING))


def _runs(space: Workspace) -> dict[str, int]:
    with space.database.reading() as connection:
        return stored.runs_by_judge(connection, space.project_id)


def _users(space: Workspace) -> dict[str, list[str]]:
    """The metrics of the project that name each judge."""
    found: dict[str, list[str]] = {}
    with space.database.reading() as connection:
        for bot in definitions.listed(connection, "bots", space.project_id):
            for metric in definitions.listed(connection, "metrics", bot["id"]):
                named = metric["definition"].get("judge")
                if isinstance(named, str):
                    found.setdefault(named, []).append(f"{bot['name']}/{metric['name']}")
        for row in definitions.listed(connection, "judges", space.project_id):
            for member in _member_names(row["config"]):
                found.setdefault(member, []).append(row["name"])
    return found


def _subject(user: str) -> Subject:
    """What `_users` names: a metric of a bot, or a judge."""
    bot, _, name = user.rpartition("/")
    return Subject("metric", name, bot) if bot else Subject("judge", name)


def _member_names(config: Mapping[str, Any]) -> list[str]:
    named = config.get("members")
    return cast("list[str]", named) if isinstance(named, list) else []


def _shown(
    space: Workspace, row: Mapping[str, Any], users: Mapping[str, list[str]], runs: Mapping[str, int]
) -> StoredJudge:
    config: Mapping[str, Any] = row["config"]
    try:
        called = with_members(space, space.resolve(config, "judge"))
    except UserError:  # its connection, or a member, was deleted
        called = config
    return from_row(
        StoredJudge,
        row,
        used_by=users.get(row["name"], []),
        runs=runs.get(row["name"], 0),
        missing_key=_missing_key(called),
    )


def _of_conf(space: Workspace, option: Option, users: Mapping[str, list[str]], runs: Mapping[str, int]) -> StoredJudge:
    name, has_members = option.name, "members" in _inherited(option.values)
    values = remembered_content(space, "judge", name) if has_members else given(option.values)
    config = {**lifted(values, None)[0], "kind": kind_of(option)}
    config.pop("defaults", None)
    return StoredJudge(
        *(name, option.description, config, users.get(name, []), runs.get(name, 0), _missing_key(config), "conf"),
        title=option.title,
    )


def _inherited(values: Mapping[str, Any]) -> str:
    """The defaults list of a judge's file, in which members are named."""
    return str(values.get("defaults", ""))


def _missing_key(config: Mapping[str, Any]) -> str | None:
    """The first variable of the judge, or of one of its members, that has no value."""
    members = config.get("members")
    called = [config, *cast("Mapping[str, Any]", members).values()] if isinstance(members, Mapping) else [config]
    variables = [cast("str | None", one.get("api_key_env")) for one in called]
    return next((one for one in variables if one and not one.startswith("${") and not os.environ.get(one)), None)
