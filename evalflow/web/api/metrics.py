"""/metrics and /checks."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from evalflow.app.studio.metrics import MetricDefinition, get_library, list_checks, list_library
from evalflow.web.api.deps import Cursor, Limit, Name, Page, Space, page_of

router = APIRouter(prefix="/metrics", tags=["metrics"])


@router.get("")
def read_library(cursor: Cursor = None, limit: Limit = 50) -> Page[MetricDefinition]:
    """The metrics that conf/ declares, to be read and copied."""
    return page_of(sorted(list_library(), key=lambda metric: metric.name), lambda metric: (metric.name,), cursor, limit)


@router.get("/{metric}")
def read_metric(space: Space, metric: Name) -> MetricDefinition:
    """One of them, with the prompts that it uses."""
    return get_library(space, metric)


checks_router = APIRouter(prefix="/checks", tags=["checks"])


class CheckOut(BaseModel):
    """A check that every case may name."""

    identifier: str
    description: str
    is_judged: bool = Field(description="Whether a judge decides it.")
    params: dict[str, Any] = Field(description="The JSON Schema of its parameters.")


@checks_router.get("")
def read_checks(cursor: Cursor = None, limit: Limit = 50) -> Page[CheckOut]:
    """The built-in checks, by identifier."""
    found = [CheckOut.model_validate(check, from_attributes=True) for check in list_checks()]
    return page_of(found, lambda check: (check.identifier,), cursor, limit)
