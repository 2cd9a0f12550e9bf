"""Projects of a server, and who may do what in each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from evalflow.addons.studio.store import DEFAULT_PROJECT, people, trash
from evalflow.addons.studio.store import projects as stored
from evalflow.addons.studio.store.rows import Row, from_row
from evalflow.addons.studio.work.access import ROLES, ForbiddenError, Right, Role, requires
from evalflow.addons.studio.work.definitions import Definition, DefinitionStore
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.addons.studio.work.validate import check_name, one_line
from evalflow.errors import Problem, Subject

_HELD = ("bots", "datasets", "runs")
"""What a project must not have to be deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProject(Definition):
    """Bots, datasets and runs that belong together.

    Its addresses begin with /p/NAME/; the name never changes. `description` is for people.
    """

    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(StoredProject):
    """A project, and the people who work with it.

    Attributes:
        role: What the person who asks may do in it.
        members, bots, datasets, runs: How many it has.
    """

    role: Role | Literal["owner"]
    members: int = 0
    bots: int = 0
    datasets: int = 0
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """A person with a role in a project.

    Attributes:
        name: The name that they sign in with.
        full_name: For people; may be empty.
        role: What they may do in the project.
        is_owner: Whether they own the server, and so may do everything, whatever their role says.
        is_disabled: Whether they cannot sign in at present.
    """

    name: str
    full_name: str
    role: Role
    is_owner: bool
    is_disabled: bool


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may do something in a project."""

    name: str
    full_name: str


PROJECTS = DefinitionStore("project", partial(from_row, StoredProject))


@requires("account")
def list_projects(space: Workspace) -> list[Project]:
    """The projects that the person may see, by name."""
    counted = space.read(stored.counts)
    return [replace(project, **counted.get(project.id, {})) for project in uncounted_projects(space)]


@requires("account")
def uncounted_projects(space: Workspace) -> list[Project]:
    """The projects that the person may see, by name, without the numbers of what they have."""
    actor = space.identify()
    visible: list[Project] = []
    for project in PROJECTS.own(space):
        role = "owner" if actor.is_owner else actor.roles.get(project.id)
        if role is not None:
            visible.append(Project(**asdict(project), role=role))
    return visible


@requires("account")
def get_project(space: Workspace, name: str) -> Project:
    """A project that the person may see."""
    by_name = {project.name: project for project in list_projects(space)}
    if name not in by_name:
        raise not_found("project", name, list(by_name))
    return by_name[name]


@requires("own")
def create_project(space: Workspace, name: str, description: str = "", title: str | None = None) -> Project:
    """Create an empty project, without members."""
    check_name(name, "project")
    about = one_line(description, "project")
    values: dict[str, object] = {"name": name, "title": title, "description": about, "budget": {}}
    PROJECTS.create(replace(space, project=name), values)  # so that the audit has it as a change of the new project
    return get_project(space, name)


@requires("own")
def update_project(space: Workspace, expected: int, values: Mapping[str, Any]) -> Project:
    """Change columns of the workspace's project; `expected` is the version that the change is based on."""
    changed = dict(values)
    if "description" in values:
        changed["description"] = one_line(values["description"], "project")
    PROJECTS.change(space, PROJECTS.get(space, space.project), expected, changed)
    return get_project(space, space.project)


@requires("own")
def delete_project(space: Workspace, expected: int) -> None:
    """Delete the workspace's project with its memberships and tokens. It must be empty; the audit stays."""
    name = space.project
    if name == DEFAULT_PROJECT:
        what = f"the project {name!r} cannot be deleted: addresses without a project lead to it"
        raise TakenError(Problem(what, "project", "delete what is in it, or its members"))
    project = PROJECTS.get(space, name)
    with space.changing("delete", "project", name) as connection:
        held = stored.counts(connection, space.project_id).get(space.project_id, {})
        parts = [_counted(held.get(key, 0), key) for key in _HELD if held.get(key)]
        if parts:
            what = f"the project {name!r} still has {', '.join(parts)}"
            see = tuple(Subject(key, "", project=name) for key in _HELD if held.get(key))
            raise TakenError(Problem(what, "project", "delete these first", see=see))
        trash.clear(connection, space.project_id)
        PROJECTS.remove(connection, project, expected)


def _counted(count: int, key: str) -> str:
    return f"{count:,} {key if count > 1 else key.removesuffix('s')}"


@requires("admin")
def list_members(space: Workspace) -> list[Member]:
    """The members of the workspace's project, by name."""
    return [from_row(Member, row) for row in space.read(stored.project_members, space.project_id)]


@requires("read")
def people_who_may(space: Workspace, right: Right) -> list[Person]:
    """Those who have a right in the workspace's project, by name; without accounts, the person at this machine."""
    with space.database.reading() as connection:
        if not people.has_users(connection):
            return [Person(space.identify().name, "")]
        members = stored.project_members(connection, space.project_id)
        roles: dict[str, Role] = {row["name"]: row["role"] for row in members}
        users = [user for user in people.every_user(connection) if not user.is_disabled]
    may = (one for one in users if one.is_owner or (one.name in roles and right in ROLES[roles[one.name]]))
    return [Person(one.name, one.full_name) for one in may]


@requires("admin", confirmed=True)
def set_role(space: Workspace, name: str, role: Role) -> Member:
    """Make a user a member of the workspace's project, or give a member another role, from now on.

    Raises:
        NotFoundError: There is no such user.
        ForbiddenError: They own the server, and the person who asks does not.
    """
    person = _person(space, name)
    action = "update" if person["role"] else "create"
    with space.changing(action, "member", name, [f"role: {role}"]) as connection:
        stored.set_role(connection, space.project_id, person["id"], role)
    return from_row(Member, person, role=role)


@requires("admin")
def remove_member(space: Workspace, name: str) -> None:
    """End a membership of the workspace's project, with the member's tokens of it; errors as in `set_role`."""
    person = _person(space, name)
    if person["role"] is None:
        raise not_found("member", name, [member.name for member in list_members(space)])
    with space.changing("delete", "member", name) as connection:
        stored.remove_member(connection, space.project_id, person["id"])


def _person(space: Workspace, name: str) -> Row:
    person = space.read(stored.person, space.project_id, name)
    if person is None:
        raise not_found("user", name, [])
    if person["is_owner"] and not space.identify().is_owner:
        hint = "owners may do everything in every project, and only an owner can change that"
        raise ForbiddenError(Problem(f"{name} owns this server", "user", hint))
    return person
