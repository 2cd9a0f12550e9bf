"""/runs/{run}/labels: what people said to the run's scores."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from evalflow.app.studio import verdicts
from evalflow.app.studio.space import Page
from evalflow.web.api.deps import Cursor, Limit, Name, Space

router = APIRouter(prefix="/runs/{run}/labels", tags=["labels"])
_JSONL = "application/jsonl"
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"description": "JSON lines.", "content": {_JSONL: {"schema": {"type": "string"}}}}
}


@router.get("")
def read_labels(space: Space, run: Name, cursor: Cursor = None, limit: Limit = 50) -> Page[verdicts.VerdictLabel]:
    """Labels by people who saw the scores, the oldest first; those of reviews are not among them."""
    return verdicts.run_labels(space, run, cursor, limit)


@router.get("/export", response_class=StreamingResponse, responses=_EXPORT)
def export_labels(space: Space, run: Name) -> StreamingResponse:
    """The same as JSON lines: a labels file, which `calibrate` reads and keeps out of corrected means."""
    rows = verdicts.all_run_labels(space, run)
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{run}-labels.jsonl"'}
    return StreamingResponse(lines, media_type=_JSONL, headers=headers)
