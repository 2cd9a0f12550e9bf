"""/audit: who changed what."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from evalflow.addons.studio.web.api.deps import Paging, Space, json_lines, json_lines_described
from evalflow.addons.studio.work import audit
from evalflow.addons.studio.work.space import Page

router = APIRouter(prefix="/audit", tags=["audit"])
Text = Annotated[str | None, Query(max_length=200)]


def _wanted(
    by: Annotated[str | None, Query(max_length=200, description="The name of a user.")] = None,
    project: Text = None,
    kind: Annotated[str | None, Query(max_length=200, description="bot, dataset, run, member, user, ...")] = None,
    action: Annotated[str | None, Query(max_length=200, description="create, update, delete, ...")] = None,
    since: Annotated[datetime | None, Query(description="From this moment on; without a zone, in UTC.")] = None,
    until: Annotated[datetime | None, Query(description="Before this moment.")] = None,
) -> audit.AuditFilter:
    return audit.AuditFilter(by, project, kind, action, since, until)


Wanted = Annotated[audit.AuditFilter, Depends(_wanted)]


@router.get("")
def read_changes(space: Space, wanted: Wanted, paging: Paging) -> Page[audit.AuditEntry]:
    """Changes, the newest first: all for the owner of the server; for an admin, those of the project."""
    return audit.list_changes(space, wanted, *paging)


@router.get("/export", response_class=StreamingResponse, responses=json_lines_described("One change a line."))
def export_changes(space: Space, wanted: Wanted) -> StreamingResponse:
    """All changes that match, as JSON lines, the newest first."""
    return json_lines(audit.all_changes(space, wanted), "audit")
