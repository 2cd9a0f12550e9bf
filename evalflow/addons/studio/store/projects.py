"""Projects: their contents and members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sqlalchemy import Connection, Table, delete, func, select

from evalflow.addons.studio.store.rows import Query, Row, every, one, upsert
from evalflow.addons.studio.store.server_tables import members, tokens, users
from evalflow.addons.studio.store.tables import bots, datasets, runs

Content = Literal["members", "bots", "datasets", "runs"]
_CONTENTS: Mapping[Content, Table] = {"members": members, "bots": bots, "datasets": datasets, "runs": runs}


def counts(connection: Connection, project: int | None = None) -> dict[int, dict[Content, int]]:
    """Count the contents of one project, or of all that are not empty; by project id."""
    by_project: dict[int, dict[Content, int]] = {}
    for name, table in _CONTENTS.items():
        query = select(table.c.project_id, func.count()).group_by(table.c.project_id)
        for owner, count in connection.execute(
            query if project is None else query.where(table.c.project_id == project)
        ):
            by_project.setdefault(owner, {})[name] = count
    return by_project


def project_members(connection: Connection, project: int) -> list[Row]:
    """The members of a project by name: name, full_name, is_owner, is_disabled and role."""
    return every(connection, _members(project).order_by(users.c.name))


def person(connection: Connection, project: int, name: str) -> Row | None:
    """A user, as in `project_members`; the role of a non-member is None. None if there is no such user."""
    return one(connection, _members(project, only_members=False).where(users.c.name == name))


def set_role(connection: Connection, project: int, user: int, role: str) -> None:
    """Add a member to a project, or change a member's role."""
    connection.execute(upsert(connection, members).values(project_id=project, user_id=user, role=role))


def remove_member(connection: Connection, project: int, user: int) -> None:
    """End a membership, and delete the user's tokens of the project."""
    for table in (tokens, members):
        connection.execute(delete(table).where(table.c.project_id == project, table.c.user_id == user))


def _members(project: int, *, only_members: bool = True) -> Query:
    columns = (users.c.id, users.c.name, users.c.full_name, users.c.is_owner, users.c.is_disabled, members.c.role)
    is_theirs = (members.c.user_id == users.c.id) & (members.c.project_id == project)
    return select(*columns).select_from(users.join(members, is_theirs, isouter=not only_members))
