"""A dataset's files, their formats, and a hash of their contents."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from evalflow import paths
from evalflow.config.schema import DatasetConfig
from evalflow.datasets.csv_file import open_csv
from evalflow.datasets.json_files import open_jsonl
from evalflow.datasets.rows import Broken, SourceRow, shown
from evalflow.errors import Problem, UserError, did_you_mean, nearest

Format = Literal["jsonl", "json", "csv", "parquet"]
ENDINGS: dict[str, Format] = {".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


def files(config: DatasetConfig) -> list[Path]:
    """The dataset's files, absolute and sorted; UserError if there is none, or the path is a folder."""
    path = paths.resolve(str(Path(config.path).expanduser()))
    if path.is_file():
        return [path]
    if path.is_dir():
        hint = f"name files in it: {config.path.rstrip('/')}/*.jsonl"
        raise UserError(Problem("expected a file or a glob, got a folder", shown(path), hint))
    if not _is_glob(path):
        raise UserError(Problem("no such file", shown(path), _beside(path)))
    found = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    matches = sorted(match for match in found if match.is_file())
    if not matches:
        raise UserError(Problem("no file matches", shown(path), _beside(path)))
    return matches


def format_of(path: Path, config: DatasetConfig) -> Format:
    """The declared format, else that of the file extension; UserError if neither tells."""
    found = config.format or ENDINGS.get(path.suffix.lower())
    if found is None:
        ending = f"ending {path.suffix!r}" if path.suffix else "no ending"
        hint = f"set `format` to one of: {', '.join(ENDINGS.values())}"
        raise UserError(Problem(f"unknown format: the file has {ending}", shown(path), hint))
    return found


def digest(config: DatasetConfig) -> str:
    """A hexadecimal SHA-256 of the contents; for a single file, of the file itself."""
    sums = [_sha256(path) for path in files(config)]
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()


def text_bytes(config: DatasetConfig) -> float:
    """Size of the dataset's files in bytes; infinite if one is compressed, since its text size is unknown."""
    paths = files(config)
    if any(format_of(path, config) == "parquet" for path in paths):
        return math.inf
    return sum(path.stat().st_size for path in paths)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(unreadable(path, error)) from None


def unreadable(path: Path, error: OSError) -> Problem:
    """The problem of a file that the system refuses to open or read."""
    return Broken(f"the file cannot be read: {error.strerror or error}", shown(path))


def _is_glob(path: Path) -> bool:
    return any(c in str(path) for c in "*?[")


def _beside(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return "" if _is_glob(folder) else f"the folder {shown(folder)} does not exist"
    names = [entry.name for entry in folder.iterdir() if entry.suffix.lower() in ENDINGS]
    if not names:
        return f"no data file lies in {shown(folder)}"
    return did_you_mean(path.name, names) if nearest(path.name, names) or len(names) <= 10 else ""


def plain_rows(path: Path) -> Iterator[SourceRow | Problem]:
    """The rows of a .jsonl or .csv file, unreadable ones as Problems; UserError for any other file or none."""
    if not path.is_file():
        raise UserError(Problem("no such file", shown(path)))
    try:
        match path.suffix.lower():
            case ".jsonl":
                yield from open_jsonl(path).rows
            case ".csv":
                yield from open_csv(path).rows
            case _:
                hint = "save it as CSV, or as JSON lines"
                raise UserError(Problem("expected a .csv or .jsonl file", shown(path), hint))
    except OSError as error:
        raise UserError(unreadable(path, error)) from None
