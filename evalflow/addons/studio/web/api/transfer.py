"""Files: /datasets/{dataset}/cases/upload, /exports, /imports and archives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from evalflow.addons.studio.web.api.deps import Name, RequestBody, Space, attached
from evalflow.addons.studio.web.api.problems import ProblemError
from evalflow.addons.studio.work.archives import bot_archive, run_archive
from evalflow.addons.studio.work.space import Workspace, within
from evalflow.addons.studio.work.transfer import ImportedNames, export_files, import_files
from evalflow.addons.studio.work.uploads import CaseFile, examine_upload, upload_cases
from evalflow.config.schema import FieldValue
from evalflow.errors import Problem, UserError

upload_router = APIRouter(prefix="/datasets/{dataset}/cases", tags=["cases"])
Format = Literal["csv", "jsonl", "json", "xlsx"]
"""Without parquet: a small compressed file could fill the memory."""
_BODY = {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


class Uploaded(BaseModel):
    """The result of an upload, or of a dry run."""

    count: int = Field(description="Cases that were added.")
    good: int = Field(description="Rows that are valid.")
    faulty: int = Field(description="Rows with errors.")
    errors: list[ProblemError] = Field(description="Their errors, at most 100.")
    first: Sequence[Mapping[str, Any]] = Field(description="The first cases, as mapped.")
    notes: Sequence[str] = Field(description="What was left out or changed, such as empty rows.")


def _fields(
    fields: Annotated[
        str | None,
        Query(
            max_length=20_000,
            description='JSON: case field to column, e.g. {"question": "Frage"}; a column named like a field fills it. '
            'Another name with a type is an additional input: {"score": {"column": "S", "type": "number"}}.',
        ),
    ] = None,
) -> dict[str, FieldValue] | None:
    try:
        return None if fields is None else TypeAdapter(dict[str, FieldValue]).validate_json(fields)
    except ValidationError as error:
        messages = [one["msg"] for one in error.errors() if one["type"] == "value_error"]
        what = messages[0] if messages else "it is a JSON object of case fields and the columns that fill them"
        raise HTTPException(422, f"fields: {what.removeprefix('Value error, ')}") from None


@upload_router.post("/upload", status_code=201, openapi_extra={"requestBody": _BODY})
async def post_upload(
    space: Space,
    dataset: Name,
    request: Request,
    format: Annotated[Format, Query(description="Of the body, which is the file unchanged.")],
    fields: Annotated[Any, Depends(_fields)] = None,
    sheet: Annotated[
        str | None, Query(max_length=200, description="Of a workbook; by default its only one with rows.")
    ] = None,
    skip_faulty: Annotated[
        bool, Query(description="Skip rows with errors; otherwise one error refuses the file.")
    ] = False,
    dry_run: Annotated[bool, Query(description="Only check the file.")] = False,
) -> Uploaded:
    """Add the cases of a file; the file is the body."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{format}"
        await _write(path, request.stream())
        return await to_thread.run_sync(_upload, space, dataset, CaseFile(path, sheet), fields, skip_faulty, dry_run)


async def _write(path: Path, parts: AsyncIterator[bytes]) -> None:
    with path.open("wb") as file:
        async for part in parts:
            await to_thread.run_sync(file.write, part)


def _upload(
    space: Workspace, dataset: str, source: CaseFile, fields: Any, skip_faulty: bool, dry_run: bool
) -> Uploaded:
    try:
        inspection = examine_upload(space, dataset, source, fields)
        if inspection.problems and not (skip_faulty or dry_run):
            raise UserError([Problem(f"{one.where}: {one.what}", "", one.hint) for one in inspection.problems])
        count = 0 if dry_run else upload_cases(space, dataset, source, fields, skip_faulty=skip_faulty)
    except UserError as error:
        if type(error) is not UserError:  # the error is not about the file
            raise
        raise UserError([_without_path(problem, source.path) for problem in error.problems]) from None
    faults = [ProblemError(pointer=one.where, detail=one.what, hint=one.hint) for one in inspection.problems]
    good, faulty = inspection.good, len(inspection.faulty)
    return Uploaded(
        count=count, good=good, faulty=faulty, errors=faults, first=inspection.first, notes=inspection.notes
    )


def _without_path(problem: Problem, path: Path) -> Problem:
    what, where = (text.replace(str(path), "the file") for text in (problem.what, problem.where))
    return replace(problem, what=f"{where}: {what}" if where else what, where="")


router = APIRouter(tags=["files"])
_ZIP = "application/zip"
_ZIPPED: dict[int | str, dict[str, Any]] = {200: {"content": {_ZIP: {}}, "description": "A zip archive."}}


@router.get("/runs/{run}/archive", response_class=StreamingResponse, responses=_ZIPPED)
def read_run_archive(space: Space, run: Name) -> StreamingResponse:
    """A run's results, configuration, prompts and cases: unpacked, a run for the command line that can be repeated."""
    return StreamingResponse(run_archive(space, run), media_type=_ZIP, headers=attached(f"{run}.zip"))


@router.get("/bots/{bot}/archive", response_class=StreamingResponse, responses=_ZIPPED)
def read_bot_archive(
    space: Space,
    bot: Name,
    dataset: Annotated[list[Name], Query(max_length=100, description="With their cases.")] = [],  # noqa: B006
) -> StreamingResponse:
    """A bot with its metrics, prompts, judges, checks and datasets: unpacked, a conf/ for the command line."""
    return StreamingResponse(bot_archive(space, bot, dataset), media_type=_ZIP, headers=attached(f"{bot}.zip"))


class Export(RequestBody):
    """The definitions to export, and the target folder."""

    folder: str = Field(min_length=1, max_length=4096, description="A new one, below the working directory.")
    bot: str | None = Field(default=None, max_length=200, description="With its metrics.")
    datasets: list[str] = Field(default=[], max_length=100)


class Import(RequestBody):
    """What to import."""

    folder: str = Field(min_length=1, max_length=4096, description="Below the working directory; it has conf/.")
    bot: str | None = Field(
        default=None, max_length=200, description="The bot that gets the metrics; null: the folder's only bot."
    )


class Exported(BaseModel):
    """The exported files."""

    config_dir: str = Field(description="For the command line: --config-dir CONFIG_DIR.")


@router.post("/exports", status_code=201)
def post_export(space: Space, wanted: Export) -> Exported:
    """Write a bot with its metrics, and datasets, as files for the command line."""
    export_files(space, Path(within(space, Path(wanted.folder))), wanted.bot, wanted.datasets)
    return Exported(config_dir=f"{wanted.folder}/conf")


@router.post("/imports", status_code=201)
def post_import(space: Space, wanted: Import) -> ImportedNames:
    """Import the bots, metrics and datasets that a folder declares."""
    return import_files(space, Path(within(space, Path(wanted.folder))), wanted.bot)
