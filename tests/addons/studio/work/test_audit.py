"""What the audit shows, and to whom."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from evalflow.addons.studio.work import audit, datasets, projects
from evalflow.addons.studio.work.access import Actor, ForbiddenError, Role
from evalflow.addons.studio.work.audit import AuditFilter
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError


def names(space: Workspace, **wanted: object) -> list[str]:
    return [change.name for change in audit.list_changes(space, AuditFilter(**wanted)).items]  # type: ignore[arg-type]


def fill(space: Workspace) -> Workspace:
    """Five changes, two of them in a project of their own; returns the workspace in it."""
    projects.create_project(space, "desk")
    ann = replace(space, identify=lambda: Actor(1, "ann", roles={space.project_id: "editor"}))
    datasets.create_dataset(ann, "one")
    datasets.create_dataset(space, "two")
    datasets.delete_dataset(space, "two", 1)
    datasets.create_dataset(space.in_project("desk"), "three")
    return space.in_project("desk")


def test_the_owner_finds_changes_by_any_of_their_facts(space: Workspace) -> None:
    fill(space)
    assert names(space) == ["three", "two", "two", "one", "desk"]
    assert names(space, by="ann") == ["one"]
    assert names(space, project="desk") == ["three", "desk"]
    assert names(space, kind="dataset", action="create") == ["three", "two", "one"]
    assert names(space, by="\0'--") == []
    now = datetime.now(UTC)
    assert len(names(space, since=now - timedelta(hours=1), until=now + timedelta(hours=1))) == 5
    assert names(space, since=now + timedelta(hours=1)) == names(space, until=now - timedelta(hours=1)) == []


def test_an_admin_sees_the_changes_of_the_project_only(space: Workspace) -> None:
    desk = fill(space)
    admin = replace(desk, identify=lambda: Actor(2, "bea", roles={desk.project_id: "admin"}))
    assert names(admin) == names(admin, project="desk") == ["three", "desk"]
    assert [row["name"] for row in audit.all_changes(admin, AuditFilter())] == ["three", "desk"]
    with pytest.raises(ForbiddenError, match="not of 'default'"):
        audit.list_changes(admin, AuditFilter(project="default"))
    lesser: list[Role] = ["viewer", "annotator", "editor"]
    for role in lesser:
        eve = Actor(3, "eve", roles={desk.project_id: role})
        other = replace(desk, identify=lambda eve=eve: eve)
        for work in (audit.list_changes, audit.all_changes):
            with pytest.raises(ForbiddenError):
                work(other, AuditFilter())


def test_pages_and_the_export_hold_every_change_once(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "EXPORTED", 2)
    fill(space)
    first = audit.list_changes(space, AuditFilter(), None, 3)
    rest = audit.list_changes(space, AuditFilter(), first.next, 3)
    assert [change.name for change in [*first.items, *rest.items]] == names(space)
    assert rest.next is None
    assert [row["name"] for row in audit.all_changes(space, AuditFilter())] == names(space)
    with pytest.raises(UserError, match="not a cursor"):
        audit.list_changes(space, AuditFilter(), "²")
