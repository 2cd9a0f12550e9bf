"""Projects and their members: who may change them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalflow.addons.studio.store import rows, server_tables
from evalflow.addons.studio.work import audit, bots, datasets, projects
from evalflow.addons.studio.work.access import Actor, ForbiddenError, Role
from evalflow.addons.studio.work.audit import AuditFilter
from evalflow.addons.studio.work.space import NotFoundError, StaleError, TakenError, Workspace
from evalflow.errors import UserError


def add_user(space: Workspace, name: str, *, is_owner: bool = False) -> int:
    values = {"name": name, "full_name": name.title(), "email": None, "version": 1}
    values |= {"is_owner": is_owner, "is_disabled": False, "created_at": rows.now(), "updated_at": rows.now()}
    with space.database.writing() as connection:
        return rows.add(connection, server_tables.users, values)


def acting(space: Workspace, user: int, name: str) -> Workspace:
    """The workspace for a user, whose roles are read at each call."""

    def identify() -> Actor:
        with space.database.reading() as connection:
            found = rows.every(
                connection, server_tables.members.select().where(server_tables.members.c.user_id == user)
            )
        roles: dict[int, Role] = {row["project_id"]: row["role"] for row in found}
        return Actor(user, name, roles=roles)

    return replace(space, identify=identify)


def test_a_project_is_created_changed_and_deleted(space: Workspace) -> None:
    made = projects.create_project(space, "desk", "The  help\ndesk.")
    assert (made.name, made.description, made.role, made.version) == ("desk", "The help desk.", "owner", 1)
    desk = space.in_project("desk")
    assert projects.update_project(desk, 1, {"description": "Fees"}).description == "Fees"
    with pytest.raises(StaleError, match="version 2, not 1"):
        projects.delete_project(desk, 1)
    with pytest.raises(TakenError, match="there already is a project 'desk'"):
        projects.create_project(space, "desk")
    projects.delete_project(desk, 2)
    assert [project.name for project in projects.list_projects(space)] == ["default"]
    changes = audit.list_changes(space, AuditFilter(project="desk", kind="project")).items
    assert [(change.action, list(change.fields)) for change in changes] == [
        ("delete", []),
        ("update", ["description"]),
        ("create", []),
    ]


def test_a_project_that_is_in_use_cannot_be_deleted(space: Workspace) -> None:
    projects.create_project(space, "desk")
    desk = space.in_project("desk")
    bots.create_bot(desk, "helper", {"kind": "recorded"})
    for name in ("one", "two"):
        datasets.create_dataset(desk, name)
    with pytest.raises(TakenError, match="the project 'desk' still has 1 bot, 2 datasets"):
        projects.delete_project(desk, 1)
    with pytest.raises(TakenError, match="cannot be deleted"):
        projects.delete_project(space, 1)


@pytest.mark.parametrize("name", ["", "Desk", "a/b", "new", "default"])
def test_a_name_must_fit_an_address(space: Workspace, name: str) -> None:
    with pytest.raises(UserError):
        projects.create_project(space, name)


def test_roles_take_effect_at_once(space: Workspace) -> None:
    projects.create_project(space, "desk")
    desk = space.in_project("desk")
    ann = acting(desk, add_user(space, "ann"), "ann")
    assert projects.list_projects(ann) == []
    with pytest.raises(ForbiddenError):
        bots.list_bots(ann)
    projects.set_role(desk, "ann", "viewer")
    assert [(project.name, project.role) for project in projects.list_projects(ann)] == [("desk", "viewer")]
    bots.list_bots(ann)
    with pytest.raises(ForbiddenError):
        projects.list_members(ann)
    assert projects.set_role(desk, "ann", "admin").role == "admin"
    assert [(member.name, member.role) for member in projects.list_members(ann)] == [("ann", "admin")]
    projects.remove_member(ann, "ann")
    with pytest.raises(ForbiddenError):
        bots.list_bots(ann)
    changes = audit.list_changes(space, AuditFilter(kind="member")).items
    assert [(change.by, change.action, list(change.fields)) for change in changes] == [
        ("ann", "delete", []),
        ("local", "update", ["role: admin"]),
        ("local", "create", ["role: viewer"]),
    ]


def test_an_admin_acts_on_members_of_the_project_but_not_on_an_owner(space: Workspace) -> None:
    ann = acting(space, add_user(space, "ann"), "ann")
    add_user(space, "bob")
    add_user(space, "chief", is_owner=True)
    projects.set_role(space, "ann", "admin")
    projects.set_role(space, "chief", "viewer")
    projects.set_role(ann, "bob", "editor")
    for change in (lambda: projects.set_role(ann, "chief", "viewer"), lambda: projects.remove_member(ann, "chief")):
        with pytest.raises(ForbiddenError, match="chief owns this server"):
            change()
    with pytest.raises(ForbiddenError, match="only the owner"):
        projects.create_project(ann, "mine")
    for name in ("dora", "chief"):
        with pytest.raises((NotFoundError, ForbiddenError)):
            projects.remove_member(ann, name)
    projects.create_project(space, "desk")
    with pytest.raises(NotFoundError, match="no member 'ann'"):
        projects.remove_member(space.in_project("desk"), "ann")
    assert [member.role for member in projects.list_members(ann)] == ["admin", "editor", "viewer"]


def test_tokens_of_a_project_end_with_the_membership(space: Workspace) -> None:
    ann = add_user(space, "ann")
    projects.set_role(space, "ann", "editor")
    token = {"user_id": ann, "project_id": space.project_id, "name": "ci", "role": "editor", "key_hash": "x"}
    with space.database.writing() as connection:
        rows.add(connection, server_tables.tokens, {**token, "created_at": rows.now(), "expires_at": "9"})
    projects.remove_member(space, "ann")
    with space.database.reading() as connection:
        assert rows.every(connection, server_tables.tokens.select()) == []
