"""A dataset's files and formats, and what their readers return: rows with their place in the file, and problems."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jiter import from_json
from pydantic import Field, SkipValidation

from evalflow import paths
from evalflow.calls.objects import fetch_files, is_address
from evalflow.config.schema import ENDINGS, DatasetConfig, Format
from evalflow.datasets.halves import Halves
from evalflow.datasets.nan_literals import without_nan
from evalflow.errors import Meant, Problem, UserError, did_you_mean, nearest
from evalflow.paths import shown
from evalflow.records import Case
from evalflow.values.jsonvalues import RepeatedKey, distinct, is_object, kind, overflows, refuse_constant

_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060"
MAX_RECORD = 32 * 1024**2  # maximum size of one record: characters in CSV and Excel, bytes in others


class HeldDataset(DatasetConfig):
    """A dataset whose rows, as in JSON Lines, are in memory and can be read any number of times; no file is read.

    Attributes:
        cases: The cases of these rows, if they have been read already.
    """

    rows: SkipValidation[Iterable[Mapping[str, object]]] = Field(exclude=True, repr=False)
    cases: SkipValidation[Iterable[Case] | None] = Field(default=None, exclude=True, repr=False)

    @classmethod
    def of(
        cls, config: DatasetConfig, rows: Iterable[Mapping[str, object]], cases: Iterable[Case] | None = None
    ) -> HeldDataset:
        """The dataset with rows in memory instead of those of its path."""
        return cls.model_construct(**dict(config), rows=rows, cases=cases)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One record and its place: `file:line`, `file[record]` or `file, row 7` of Excel.

    `exact` gives the record with its numbers as decimals, which have the digits that the file has, if that is known.
    """

    where: str
    data: Mapping[str, object]
    exact: Callable[[], Mapping[str, object]] | None = None


@dataclass(frozen=True, slots=True)
class Unreadable(Problem):
    """A fault after which the rest of the file cannot be read."""


@dataclass(frozen=True, slots=True)
class Table:
    """An opened file. `rows` are its records in order, with a Problem for each unreadable one.

    `aliases` map columns that this file format uses to their case fields. `cells` says whether values are untyped, as
    in CSV. `halves` counts the half characters that were replaced so far.
    """

    rows: Iterator[SourceRow | Problem]
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    cells: bool = False
    halves: Halves = field(default_factory=Halves)


NUMBERING = "Unnamed: 0"
"""The name of a first column without one, as pandas calls the row numbers that it writes."""


def trimmed(name: str) -> str:
    """A column's name without white space, byte order marks and other invisible characters around it."""
    return name.strip().strip(_INVISIBLE).strip()


def named(header: Sequence[str]) -> list[str]:
    """The trimmed names of a header's columns; of a first one without a name `NUMBERING`."""
    names = [trimmed(name) for name in header]
    return [name or (NUMBERING if at == 0 else "") for at, name in enumerate(names)]


def without_nameless(cells: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The cells by their columns, without columns that have no name; row numbers are left out where they are blank."""
    return {name: cell for name, cell in cells if name and (name != NUMBERING or cell.strip())}


def too_long(where: str, hint: str = "") -> Unreadable:
    """The problem of a record longer than MAX_RECORD."""
    return Unreadable(f"the record is longer than {MAX_RECORD:,} characters", where, hint)


def record(
    value: object, where: str, hint: str = "", exact: Callable[[], Mapping[str, object]] | None = None
) -> SourceRow | Problem:
    """The row for a parsed value, or a Problem if it is not an object."""
    if is_object(value):
        return SourceRow(where, value, exact)
    return Problem(f"expected an object with one column per key, got {kind(value)}", where, hint)


_PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst")
_SHOWN = 24
_NEWLINE = b"\n"
_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?', re.DOTALL)
_REPEATED = "duplicate key"
_PLACE = re.compile(r"(?P<reason>.*) at line (?P<line>\d+) column (?P<column>\d+)\Z", re.DOTALL)


def parse_json(text: bytes, file: str, first_line: int = 1, halves: Halves | None = None) -> object | Problem:
    """Parse UTF-8 JSON that begins on `first_line` of a file, with half characters mended; an error is a Problem."""
    text = (halves or Halves()).json(text)
    try:
        value = _distinct_values(text)
    except RepeatedKey as error:
        return Problem(str(error), file if _NEWLINE in text else f"{file}:{first_line}")
    except ValueError as error:
        place = _PLACE.match(str(error))
        if place is None:
            return Problem(f"broken JSON: {error}", f"{file}:{first_line}")
        line = first_line + int(place["line"]) - 1
        spot = f"line {line}, column {place['column']}"
        return Problem(f"broken JSON at {spot}: {place['reason']}", f"{file}:{line}", _json_hint(text, place["reason"]))
    if not overflows(text, value):
        return value
    number = _overflow(text)
    where = f"{file}:{first_line + text.count(_NEWLINE, 0, number.start())}"
    return Problem(too_large(number[0].decode()), where)


def _distinct_values(text: bytes) -> object:
    """The value of a JSON text; ValueError if it is broken, RepeatedKey if a key has two values."""
    try:
        return from_json(text, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        if _REPEATED not in str(error):
            raise
    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None


def too_large(number: str) -> str:
    """The error message for a number that would overflow to infinity."""
    shown = number if len(number) <= _SHOWN else f"{number[:_SHOWN]}…"
    return f"the number {shown} is too large; numbers end at about 1.8e308"


def _overflow(text: bytes) -> re.Match[bytes]:
    """The first number in the JSON text that overflows; there must be one. Integers never overflow."""
    numbers = (token for token in _STRING_OR_NUMBER.finditer(text) if not token[0].startswith(b'"'))
    return next(n for n in numbers if re.search(rb"[.eE]", n[0]) and math.isinf(float(n[0])))


def _json_hint(text: bytes, reason: str) -> str:
    if without_nan(text) != text:
        return "JSON has no NaN or Infinity; write null for a missing number"
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the file is UTF-16; save it as UTF-8"
    if re.match(rb"[\s\[{]*'", text):
        return "these are dictionaries as Python prints them; write them with json.dumps"
    if reason.startswith("EOF"):
        return "it ends too early; was the file copied or written whole?"
    if reason == "trailing characters" and text.rstrip().endswith(b","):
        return "remove the comma at the end of the line"
    return ""


def files(config: DatasetConfig) -> list[Path]:
    """The dataset's files, absolute and sorted; UserError if no file matches, or the path is a folder.

    For rows in memory, return the file that they would be in.
    Those in object storage are copied here first, unless there is a copy that is up to date.
    """
    if isinstance(config, HeldDataset):
        return [Path(config.path)]
    if is_address(config.path):
        return list(fetch_files(config.path, "dataset.path"))
    if not config.path.strip():
        raise UserError(Problem("no file is named", "dataset.path", "name the file of cases, or a glob"))
    if re.match(r"https?://", config.path):
        what, hint = "data are not read from web addresses", "save the file here, and name it"
        raise UserError(Problem(what, config.path, hint))
    path = paths.resolve(str(paths.from_home(config.path)))
    if path.is_file():
        return [path]
    if path.is_dir():
        hint = f"name files in it: {config.path.rstrip('/')}/*.jsonl"
        raise UserError(Problem("expected a file or a glob, got a folder", shown(path), hint))
    if not _is_glob(path):
        if path.is_symlink() and not path.exists():
            raise UserError(Problem("this is a link to no file", shown(path)))
        if path.exists():
            raise UserError(Problem("expected a file or a glob, got a device, a pipe or a socket", shown(path)))
        raise UserError(_no_file("no such file", path))
    matches = sorted(file for file in Path(path.anchor).glob(str(path.relative_to(path.anchor))) if file.is_file())
    if not matches:
        raise UserError(_no_file("no file matches", path))
    return matches


def format_of(path: Path, config: DatasetConfig) -> Format:
    """The declared format, else that of the file extension; UserError if neither tells, or it has no sheets."""
    format = config.format or ENDINGS.get(path.suffix.lower())
    if format is None:
        ending = f"ending {path.suffix!r}" if path.suffix else "no ending"
        known = ", ".join(dict.fromkeys(ENDINGS.values()))
        hint = f"rename it, such as to {path.stem}.csv, or set `format` in the dataset's YAML to one of: {known}"
        if path.suffix.lower() in _PACKED:
            hint = "unpack it first"
        raise UserError(Problem(f"unknown format: the file has {ending}", shown(path), hint))
    if config.sheet and format != "xlsx":
        hint = "leave `sheet` out"
        raise UserError(Problem(f"only an Excel workbook has sheets; the file is read as {format}", shown(path), hint))
    return format


def digest(config: DatasetConfig) -> str:
    """A hexadecimal SHA-256 of the contents; for a single file, of the file itself."""
    sums = [_sha256(path) for path in files(config)]
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()


def text_bytes(config: DatasetConfig) -> float:
    """Size of the dataset's files in bytes; infinite if it is unknown: one is compressed, or the rows are in memory."""
    paths = files(config)
    if isinstance(config, HeldDataset) or any(format_of(path, config) in ("parquet", "xlsx") for path in paths):
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
    return Unreadable(f"the file cannot be read: {error.strerror or error}", shown(path))


def _is_glob(path: Path) -> bool:
    return any(c in str(path) for c in "*?[")


def _no_file(what: str, path: Path) -> Problem:
    folder = path.parent
    if not folder.is_dir():
        return Problem(what, shown(path), "" if _is_glob(folder) else f"the folder {shown(folder)} does not exist")
    names = [entry.name for entry in folder.iterdir() if entry.suffix.lower() in ENDINGS]
    if not names:
        return Problem(what, shown(path), f"no data file lies in {shown(folder)}")
    close = nearest(path.name, names)
    meant = Meant((shown(path),), (shown(folder / close),)) if close else None
    hint = did_you_mean(path.name, names) if close or len(names) <= 10 else ""
    return Problem(what, shown(path), hint, meant=meant)
