"""/exports and /imports: to files of conf/, prompts/ and JSON lines below the working directory, and back."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.studio.space import within
from evalflow.app.studio.transfer import ImportedNames, export_files, import_files
from evalflow.web.api.deps import Space

router = APIRouter(tags=["files"])


class Export(BaseModel):
    """What is to be written, and where."""

    model_config = ConfigDict(extra="forbid")

    folder: str = Field(min_length=1, max_length=4096, description="A new one, below the working directory.")
    bot: str | None = Field(default=None, max_length=200, description="With its metrics.")
    datasets: list[str] = Field(default=[], max_length=100)


class Import(BaseModel):
    """What is to be taken in."""

    model_config = ConfigDict(extra="forbid")

    folder: str = Field(min_length=1, max_length=4096, description="Below the working directory; it has conf/.")
    bot: str | None = Field(default=None, max_length=200, description="Whose the metrics are; null: its one bot's.")


class Exported(BaseModel):
    """Where the files are."""

    config_dir: str = Field(description="For the command line: --config-dir CONFIG_DIR.")


@router.post("/exports", status_code=201)
def post_export(space: Space, wanted: Export) -> Exported:
    """Write a bot with its metrics, and datasets, as files that the command line takes."""
    export_files(space, Path(within(space, Path(wanted.folder))), wanted.bot, wanted.datasets)
    return Exported(config_dir=f"{wanted.folder}/conf")


@router.post("/imports", status_code=201)
def post_import(space: Space, wanted: Import) -> ImportedNames:
    """Define here what a folder declares: its bots, metrics and datasets."""
    return import_files(space, Path(within(space, Path(wanted.folder))), wanted.bot)
