"""/datasets/{dataset}/cases/upload: the cases of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from evalflow.app.studio.space import Workspace
from evalflow.app.studio.uploads import examine_upload, upload_cases
from evalflow.errors import Problem, UserError
from evalflow.web.api.deps import Name, Space
from evalflow.web.api.problems import ProblemError

router = APIRouter(prefix="/datasets/{dataset}/cases", tags=["cases"])
Format = Literal["csv", "jsonl", "json"]
"""No parquet: a few packed bytes of it may hold more than any memory does."""
_BODY = {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


class Uploaded(BaseModel):
    """What a file gave, or would give."""

    count: int = Field(description="Cases that were added.")
    good: int = Field(description="Rows that can be taken.")
    faulty: int = Field(description="Rows that cannot.")
    errors: list[ProblemError] = Field(description="What is wrong with those, at most 100.")
    first: Sequence[Mapping[str, Any]] = Field(description="The first cases, as the mapping makes them.")


def _fields(
    fields: Annotated[
        str | None,
        Query(
            max_length=20_000,
            description='JSON: case field to column, such as {"question": "Frage"}; a column of a field\'s name is it.',
        ),
    ] = None,
) -> dict[str, str | dict[str, str]] | None:
    try:
        return None if fields is None else TypeAdapter(dict[str, str | dict[str, str]]).validate_json(fields)
    except ValidationError:
        raise HTTPException(422, "fields is a JSON object of case fields and the columns that fill them") from None


@router.post("/upload", status_code=201, openapi_extra={"requestBody": _BODY})
async def post_upload(
    space: Space,
    dataset: Name,
    request: Request,
    format: Annotated[Format, Query(description="Of the body, which is the file as it stands.")],
    fields: Annotated[Any, Depends(_fields)] = None,
    skip_faulty: Annotated[bool, Query(description="Pass over rows that are wrong; else none is taken then.")] = False,
    dry_run: Annotated[bool, Query(description="Only say what it would give.")] = False,
) -> Uploaded:
    """Add the cases of a file, which is the body."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{format}"
        await _write(path, request.stream())
        return await to_thread.run_sync(_taken, space, dataset, path, fields, skip_faulty, dry_run)


async def _write(path: Path, parts: AsyncIterator[bytes]) -> None:
    with path.open("wb") as file:
        async for part in parts:
            await to_thread.run_sync(file.write, part)


def _taken(space: Workspace, dataset: str, path: Path, fields: Any, skip_faulty: bool, dry_run: bool) -> Uploaded:
    try:
        found = examine_upload(space, dataset, path, fields)
        if found.problems and not (skip_faulty or dry_run):
            raise UserError([Problem(f"{one.where}: {one.what}", "", one.hint) for one in found.problems])
        count = 0 if dry_run else upload_cases(space, dataset, path, fields, skip_faulty=skip_faulty)
    except UserError as error:
        if type(error) is not UserError:  # it is not about the file
            raise
        raise UserError([_without(problem, path) for problem in error.problems]) from None
    faults = [ProblemError(pointer=one.where, detail=one.what, hint=one.hint) for one in found.problems]
    return Uploaded(count=count, good=found.good, faulty=len(found.faulty), errors=faults, first=found.first)


def _without(problem: Problem, path: Path) -> Problem:
    """The problem without the place where the file lies for the moment, which is nobody's business."""
    what, where = (text.replace(str(path), "the file") for text in (problem.what, problem.where))
    return replace(problem, what=f"{where}: {what}" if where else what, where="")
