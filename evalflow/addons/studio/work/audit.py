"""The audit: who changed what, from where and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from evalflow.addons.studio.store import audit
from evalflow.addons.studio.store.rows import Row, from_row, storable
from evalflow.addons.studio.work.access import ForbiddenError, requires
from evalflow.addons.studio.work.space import Page, Workspace, row_number
from evalflow.errors import Problem, UserError


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
class AuditFilter:
    """A filter of changes; None matches all.

    Attributes:
        since, until: Inclusive start and exclusive end; in UTC if without a zone.
    """

    by: str | None = None
    project: str | None = None
    kind: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditWords:
    """The kinds and the actions that occur, to filter by."""

    kinds: Sequence[str]
    actions: Sequence[str]


_EQUAL = ("by", "project", "kind", "action")
EXPORTED = 1_000
"""Changes read at once for an export."""


@requires("admin")
def list_changes(space: Workspace, wanted: AuditFilter, cursor: str | None = None, limit: int = 50) -> Page[AuditEntry]:
    """Changes, newest first: for the owner those of the server and all projects, else those of the workspace's project.

    Raises:
        ForbiddenError: The filter names another project, and the person does not own the server.
    """
    rows = _read(space, _allowed(space, wanted), row_number(cursor), limit + 1)
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
    while found := _read(space, wanted, before, EXPORTED):
        yield from found
        before = found[-1]["id"]


def _allowed(space: Workspace, wanted: AuditFilter) -> AuditFilter:
    if space.identify().is_owner:
        return wanted
    if wanted.project not in (None, space.project):
        what = f"these are the changes of project {space.project!r}, not of {wanted.project!r}"
        raise ForbiddenError(Problem(what, "?project", f"ask at /p/{wanted.project}/, or ask the owner of this server"))
    return replace(wanted, project=space.project)


def _read(space: Workspace, wanted: AuditFilter, before: int | None, limit: int) -> list[Row]:
    equal = {name: value and storable(value) for name, value in asdict(wanted).items() if name in _EQUAL}
    return space.read(audit.page, before, limit, equal, _stored(wanted.since), _stored(wanted.until))


def _stored(moment: datetime | None) -> str | None:
    """Format a moment like the table does, so that comparing texts compares moments."""
    if moment is None:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return zoned.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        raise UserError(Problem("this moment is in no calendar", "?since", "such as 2026-11-23")) from None
