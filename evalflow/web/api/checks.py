"""/checks: what a case may bring along to be checked by."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from evalflow.app.workspace.checks import list_checks
from evalflow.web.api.paging import Cursor, Limit, Page, page_of

router = APIRouter(prefix="/checks", tags=["checks"])


class Check(BaseModel):
    """A check that every case may name."""

    identifier: str
    description: str
    is_judged: bool = Field(description="Whether a judge decides it.")
    params: dict[str, Any] = Field(description="The JSON Schema of its parameters.")


@router.get("")
def read_checks(cursor: Cursor = None, limit: Limit = 50) -> Page[Check]:
    """The built-in checks, by identifier."""
    found = [Check.model_validate(check, from_attributes=True) for check in list_checks()]
    return page_of(found, lambda check: (check.identifier,), cursor, limit)
