"""/datasets: sources of cases."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.cases import case_rows, copy_dataset
from evalflow.app.workspace.datasets import (
    Dataset,
    Generates,
    create_dataset,
    delete_dataset,
    get_dataset,
    list_datasets,
    update_dataset,
)
from evalflow.app.workspace.declared import declared_rows
from evalflow.web.api.deps import Expected, Name, Space, created, tagged
from evalflow.web.api.paging import Cursor, Limit, Page, page_of

router = APIRouter(prefix="/datasets", tags=["datasets"])
_JSONL = "application/jsonl"
_EXPORT: dict[int | str, dict[str, Any]] = {200: {"content": {_JSONL: {}}, "description": "One case a line."}}


class NewDataset(BaseModel):
    """A dataset to define, without cases."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200, description="Lower-case letters, digits and _.")
    description: str = Field(default="", max_length=10_000)
    generates: Generates = Field(default="answer", description="The case field that a live bot's reply fills.")


class DatasetCopy(BaseModel):
    """A dataset to define like another one."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200)


class DatasetChange(BaseModel):
    """What is to change of a dataset; what is not there stays."""

    model_config = ConfigDict(extra="forbid")

    description: str | None = Field(default=None, max_length=10_000)
    generates: Generates | None = None


@router.get("")
def read_datasets(space: Space, cursor: Cursor = None, limit: Limit = 50) -> Page[Dataset]:
    """All datasets: those defined here by name, then those that conf/ declares."""
    return page_of(list_datasets(space), lambda one: (one.origin == "conf", one.name), cursor, limit)


@router.post("", status_code=201)
def post_dataset(space: Space, new: NewDataset, request: Request, response: Response) -> Dataset:
    """Define a dataset, without cases."""
    made = create_dataset(space, new.name, new.description, new.generates)
    created(request, response, made.name, made.version)
    return made


@router.get("/{dataset}/export", response_class=StreamingResponse, responses=_EXPORT)
def export_dataset(space: Space, dataset: Name) -> StreamingResponse:
    """All cases as JSON lines, which load again as a dataset."""
    own = get_dataset(space, dataset).origin == "workspace"
    rows = case_rows(space, dataset) if own else declared_rows(space, dataset)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{dataset}.jsonl"'}
    return StreamingResponse(lines, media_type=_JSONL, headers=headers)


@router.get("/{dataset}")
def read_dataset(space: Space, dataset: Name, response: Response) -> Dataset:
    """One dataset."""
    found = get_dataset(space, dataset)
    tagged(response, found.version)
    return found


@router.post("/{dataset}/copies", status_code=201)
def post_copy(space: Space, dataset: Name, copy: DatasetCopy, response: Response) -> Dataset:
    """Define a dataset like this one, which may be of conf/, with all its cases."""
    made = copy_dataset(space, dataset, copy.name)
    tagged(response, made.version)
    return made


@router.patch("/{dataset}")
def patch_dataset(
    space: Space, dataset: Name, change: DatasetChange, expected: Expected, response: Response
) -> Dataset:
    """Change what is said of a dataset."""
    changed = update_dataset(space, dataset, expected, description=change.description, generates=change.generates)
    tagged(response, changed.version)
    return changed


@router.delete("/{dataset}", status_code=204)
def remove_dataset(space: Space, dataset: Name, expected: Expected) -> None:
    """Delete a dataset and its cases; runs keep their own copies."""
    delete_dataset(space, dataset, expected)
