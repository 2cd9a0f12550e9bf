"""The files that a run wrote, for people to read and to take along."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Literal, get_args

from evalflow.app.workspace.runs import run_row
from evalflow.app.workspace.space import Workspace, not_found, within

FileName = Literal[
    "report.html",
    "results.csv",
    "scores.parquet",
    "scores.jsonl",
    "cases.jsonl",
    "summary.md",
    "summary.csv",
    "summary.json",
    "summary.parquet",
    "junit.xml",
    "miscategorised.csv",
]
"""The only names that are ever looked for in a run's folder."""
ABOUT: Mapping[FileName, str] = MappingProxyType(
    {
        "report.html": "The report: tables, pictures and every case, in one page that opens offline",
        "results.csv": "A row for each answer, with the scores and reasons of all metrics",
        "scores.parquet": "Every score, for Polars, pandas or DuckDB",
        "scores.jsonl": "Every score as it was made, one JSON object a line",
        "cases.jsonl": "The cases with their answers; loads again as a dataset",
        "summary.md": "The numbers in words, for a pull request",
        "summary.csv": "The numbers with their intervals, also by tag",
        "summary.json": "The same, with matrices",
        "summary.parquet": "The same, for Polars, pandas or DuckDB",
        "junit.xml": "Gates and thresholds, for CI",
        "miscategorised.csv": "What was put into a wrong class",
    }
)


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file that a run wrote; `size` in bytes."""

    name: FileName
    about: str
    size: int


def list_files(space: Workspace, run_id: str) -> list[RunFile]:
    """The files that are there, in the order of `FileName`.

    Raises:
        NotFoundError: There is no such run.
        UserError: Its folder is not below the working directory.
    """
    folder = _folder(space, run_id)
    found: list[RunFile] = []
    for name in get_args(FileName):
        try:
            file = _opened(folder, name)
        except OSError:
            continue
        with file:
            found.append(RunFile(name, ABOUT[name], os.fstat(file.fileno()).st_size))
    return found


def open_file(space: Workspace, run_id: str, name: FileName) -> tuple[BinaryIO, int]:
    """A file that a run wrote, opened, and its size in bytes. The caller closes it.

    Raises:
        NotFoundError: There is no such run, or no such file of it.
        UserError: Its folder is not below the working directory.
    """
    try:
        file = _opened(_folder(space, run_id), name)
    except OSError:
        raise not_found("file", name, [one.name for one in list_files(space, run_id)]) from None
    return file, os.fstat(file.fileno()).st_size


def _folder(space: Workspace, run_id: str) -> Path:
    return Path(within(space, Path(run_row(space, run_id)["folder"])))


def _opened(folder: Path, name: FileName) -> BinaryIO:
    """Open one of the known files; raises an OSError for a link, a pipe, or anything else that is no plain file."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise FileNotFoundError(name)
    return os.fdopen(number, "rb")
