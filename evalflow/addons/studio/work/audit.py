"""The audit: who changed what, from where and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evalflow.addons.studio.store import audit
from evalflow.addons.studio.store.audit import AuditFilter
from evalflow.addons.studio.store.rows import from_row
from evalflow.addons.studio.work.access import ForbiddenError, requires
from evalflow.addons.studio.work.space import Page, Workspace, row_number
from evalflow.errors import Problem


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change, as it was recorded in its own transaction.

    Attributes:
        id: Increases with every change.
        at: ISO 8601, UTC.
        by: The name of a user, `local` without accounts, or the part of the server that acted by itself.
        address: The client's address; empty without accounts.
        project: The changed object's project; None for a change of the server.
        action: create, update, delete, ...
        kind: bot, dataset, run, member, ...
        name: The changed object's name.
        fields: The names of its changed fields; for a member, the role.
    """

    id: int
    at: str
    by: str
    address: str
    project: str | None
    action: str
    kind: str
    name: str
    fields: Sequence[str]


@dataclass(frozen=True, slots=True)
class AuditWords:
    """The kinds and the actions that occur, to filter by."""

    kinds: Sequence[str]
    actions: Sequence[str]


EXPORTED = 1_000
"""Changes read at once for an export."""


@requires("admin")
def list_changes(space: Workspace, wanted: AuditFilter, cursor: str | None = None, limit: int = 50) -> Page[AuditEntry]:
    """Changes, newest first: for the owner those of the server and all projects, else those of the workspace's project.

    Raises:
        ForbiddenError: The filter names another project, and the person does not own the server.
    """
    rows = space.read(audit.page, row_number(cursor), limit + 1, _allowed(space, wanted))
    return Page.of([from_row(AuditEntry, row) for row in rows], limit)


@requires("admin")
def all_changes(space: Workspace, wanted: AuditFilter) -> Iterator[dict[str, object]]:
    """All changes as rows of JSON lines, in the order of `list_changes`; errors as there."""
    return _rows(space, _allowed(space, wanted))


@requires("admin")
def audit_words(space: Workspace) -> AuditWords:
    """The kinds and the actions of the changes that the person may see."""
    project = None if space.identify().is_owner else space.project
    return AuditWords(*(space.read(audit.distinct, column, project) for column in ("kind", "action")))


def _rows(space: Workspace, wanted: AuditFilter) -> Iterator[dict[str, object]]:
    before = None
    while page := space.read(audit.page, before, EXPORTED, wanted):
        yield from page
        before = page[-1]["id"]


def _allowed(space: Workspace, wanted: AuditFilter) -> AuditFilter:
    if space.identify().is_owner:
        return wanted
    if wanted.project not in (None, space.project):
        what = f"these are the changes of project {space.project!r}, not of {wanted.project!r}"
        raise ForbiddenError(Problem(what, "?project", f"ask at /p/{wanted.project}/, or ask the owner of this server"))
    return replace(wanted, project=space.project)
