"""/runs/{run}/files: what a run wrote, by fixed names; the report as a page that can do nothing but show itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from evalflow.app.workspace.run_files import FileName, RunFile, list_files, open_file
from evalflow.report.html import report_policy
from evalflow.web.api.deps import Name, Space
from evalflow.web.api.paging import Page

router = APIRouter(prefix="/runs/{run}/files", tags=["runs"])
_AT_ONCE = 256 * 1024
_TYPES = {
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "xml": "application/xml",
    "parquet": "application/vnd.apache.parquet",
}
SHOWN = "sandbox allow-scripts; frame-ancestors 'none'"
"""Of a page that is shown: it has an origin of its own, and so reaches nothing of this application."""


@router.get("")
def read_files(space: Space, run: Name) -> Page[RunFile]:
    """What a run wrote and is still there."""
    return Page[RunFile](items=list_files(space, run), next=None)


@router.get(
    "/{file}",
    response_class=StreamingResponse,
    responses={200: {"content": {kind.partition(";")[0]: {} for kind in _TYPES.values()}}},
)
def read_file(space: Space, run: Name, file: FileName) -> StreamingResponse:
    """One of these files; the report is shown, the others are downloads."""
    opened, size = open_file(space, run, file)
    suffix = file.rpartition(".")[2]
    headers = {"Content-Length": str(size), "Cache-Control": "no-cache"}
    if suffix == "html":
        headers["Content-Security-Policy"] = f"{SHOWN}; {report_policy()}"
    else:
        said = re.sub(r"[^\w.-]", "_", run, flags=re.ASCII)  # of a run from elsewhere, whatever its files say
        headers["Content-Disposition"] = f'attachment; filename="{said}-{file}"'
    return StreamingResponse(_blocks(opened, size), media_type=_TYPES[suffix], headers=headers)


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """As much as was promised: the journal of a run that goes on grows meanwhile."""
    with file:
        while size > 0 and (block := file.read(min(_AT_ONCE, size))):
            size -= len(block)
            yield block
