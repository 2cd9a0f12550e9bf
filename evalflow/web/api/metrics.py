"""/metrics: the library that conf/ declares."""

from __future__ import annotations

from fastapi import APIRouter

from evalflow.app.workspace.metrics import Metric, get_library, list_library
from evalflow.web.api.deps import Name, Space
from evalflow.web.api.paging import Cursor, Limit, Page, page_of

router = APIRouter(prefix="/metrics", tags=["metrics"])


@router.get("")
def read_library(cursor: Cursor = None, limit: Limit = 50) -> Page[Metric]:
    """The metrics that conf/ declares, to be read and copied."""
    return page_of(sorted(list_library(), key=lambda metric: metric.name), lambda metric: (metric.name,), cursor, limit)


@router.get("/{metric}")
def read_metric(space: Space, metric: Name) -> Metric:
    """One of them, with the prompts that it uses."""
    return get_library(space, metric)
