"""Reads the files of an import: only within its folder, only UTF-8 text, rows one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os.path import commonpath
from pathlib import Path

from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.located import Broken, located_json, located_yaml
from evalflow.datasets.csv_file import open_csv
from evalflow.datasets.halves import Halves
from evalflow.datasets.json_files import open_json, open_jsonl, streamed_items
from evalflow.datasets.parquet import open_parquet
from evalflow.datasets.rows import ReadingNotes, filled_rows
from evalflow.datasets.sources import MAX_RECORD, SourceRow, Table, Unreadable
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_map

LARGEST_FILE = 64 * 2**20  # maximum bytes of a file that is read whole
_PUT = "put it there, and import again"
_MEDIA = re.compile(
    r"\.(png|jpe?g|gif|webp|bmp|svgz|ico|tiff?|heic|avif|pdf|mp3|wav|ogg|flac|m4a|mp4|mov|webm|mkv)\Z", re.IGNORECASE
)
"""Endings of images, sounds, films and PDF. Their content may be ASCII; .svg is text, which a prompt may be about."""
_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x1f\x8b": "gzip", b"PK": "zip"}


def _open_json(path: Path) -> Table:
    """Open a .json file with a list of rows, or with JSON lines, as `datasets` writes them."""
    with path.open("rb") as file:
        first, second = file.readline(MAX_RECORD).strip(), file.readline(64).strip()
    is_lines = second.startswith(b"{") and first.endswith(b"}")
    return open_jsonl(path, null_infinity=True) if is_lines else open_json(path, null_infinity=True)


_open_lines = partial(open_jsonl, null_infinity=True)
READABLE: Mapping[str, Callable[[Path], Table]] = {
    ".jsonl": _open_lines,
    ".ndjson": _open_lines,
    ".json": _open_json,
    ".csv": open_csv,
    ".parquet": open_parquet,
}


class MissingFile(UserError, Untranslatable):
    """Raised if a named file is missing; if the rest is still useful, what names it is listed instead."""

    def __init__(self, reason: str, where: str) -> None:
        UserError.__init__(self, Problem(reason, where, _PUT))
        self.reason = reason
        self.hint = _PUT


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """The folder that an import may read."""

    root: Path

    @classmethod
    def of(cls, path: Path, root: Path | None = None) -> SourceFolder:
        """The folder of a file, or the one given."""
        folder = (root or path.parent).resolve()
        if not folder.is_dir():
            raise UserError(Problem("there is no such folder", str(root or path.parent)))
        return cls(folder)

    def find(self, name: str, base: Path, where: str) -> Path:
        """The file of a relative or absolute name; UserError if it is not there, or outside of the folder."""
        try:
            exists = self._resolved(name, base, where).exists()
        except OSError as error:
            what = f"it names {name[:60]}, which cannot be opened: {error.strerror}"
            raise UserError(Problem(what, where)) from None
        if not exists:
            raise MissingFile(f"it names {name}, which does not exist", where)
        path = self.inside(name, base, where)
        if not path.is_file():
            raise UserError(Problem(f"it names {name}, which is a folder", where, "name a file in it"))
        return path

    def inside(self, name: str, base: Path, where: str) -> Path:
        """The absolute path, with links resolved; UserError if it leaves the folder."""
        path = self._resolved(name, base, where)
        if not path.is_relative_to(self.root):
            hint = (
                f"if you trust it, allow the folder above: --root {shown(Path(commonpath((self.root, path.parent))))}"
            )
            raise UserError(Problem(f"it names {name}, which is outside of {shown(self.root)}", where, hint))
        return path

    def _resolved(self, name: str, base: Path, where: str) -> Path:
        try:
            return (base / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(Problem(f"it names {name!r}, which is not a path: {error}", where)) from None

    def matching(self, pattern: str, base: Path, where: str) -> list[Path]:
        """The files of a name or glob, sorted; UserError if there are none."""
        if not any(character in pattern for character in "*?["):
            return [self.find(pattern, base, where)]
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise UserError(Problem(f"the glob {pattern} leaves the folder", where, "name the files one by one"))
        files = sorted(path for path in base.glob(pattern) if path.is_file())
        if not files:
            raise MissingFile(f"it names {pattern}, which matches no file", where)
        return [self.find(str(path), base, where) for path in files]


def read_text(path: Path) -> str:
    """The text of a file without its byte order mark; UserError if it is missing, empty, too large or not UTF-8."""
    name = shown(path)
    with readable(path):
        size = path.stat().st_size
        if size > LARGEST_FILE:
            hint = "only JSON lines and CSV may be larger; split the file, or delete what you do not need"
            raise UserError(Problem(f"the file has {size:,} bytes; the maximum is {LARGEST_FILE:,}", name, hint))
        content = path.read_bytes()
    if not content.strip():
        raise UserError(Problem("the file is empty", name))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(Problem(_not_text(content), f"{name}:{line}", "save it as UTF-8")) from None
    if "\0" in text:
        raise UserError(Problem("the file has zero bytes, so it is not text", name, "save it as UTF-8"))
    return text


def text_of_file(path: Path) -> str:
    """The text of a file used as a single value; Untranslatable if it is not text."""
    if path.stat().st_size == 0:
        return ""
    if _MEDIA.search(path.name):
        hint = "leave it out, or describe it in words"
        raise Untranslatable(f"it names {path.name}, but evalflow only sends text", hint)
    try:
        return read_text(path)
    except UserError as error:
        what = error.problems[0].what.removeprefix("the file ")
        raise Untranslatable(f"it names the file {path.name}, which {what}", error.problems[0].hint) from None


def expect_text(path: Path) -> bytes:
    """The beginning of a file that is read row by row; UserError if it is empty or binary."""
    with readable(path), path.open("rb") as file:
        head = file.read(4096)
    if not head.strip():
        raise UserError(Problem("the file is empty", shown(path)))
    if head.startswith(tuple(_MARKS)):
        raise UserError(Problem(_not_text(head), shown(path), "save it as UTF-8"))
    return head


def _not_text(content: bytes) -> str:
    kind = next((kind for mark, kind in _MARKS.items() if content.startswith(mark)), None)
    return f"the file is {kind}, not UTF-8" if kind else "the file is not text in UTF-8"


@contextmanager
def readable(path: Path) -> Generator[None]:
    """Turn errors of the disk into UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error.strerror}", shown(path))) from None


def read_document(path: Path) -> object:
    """The content of a YAML or JSON file, with lines; UserError if it is broken."""
    text = read_text(path)
    read = located_json if path.suffix.lower() == ".json" else located_yaml
    try:
        return read(text, shown(path))
    except Broken as error:
        raise UserError(error.problem) from None


def read_objects(
    path: Path, place: str, ledger: Ledger, broken: Callable[[Problem], None] | None = None
) -> Iterator[SourceRow]:
    """The objects of a list in a JSON file of any size, one at a time; `broken` as in `objects`.

    `place` leads to the list, such as `results.results`. Half characters of the whole file are listed in the ledger.
    """
    halves = Halves()
    items = enumerate(streamed_items(path, f"{place}.item", halves))
    yield from objects(((item, f"{shown(path)}:{place}[{number}]") for number, item in items), broken)
    ledger.leave_halves(halves.count, shown(path))


def objects(
    items: Iterable[tuple[object, str]], broken: Callable[[Problem], None] | None = None
) -> Iterator[SourceRow]:
    """The items that are objects, each with its place. Any other item goes to `broken`; without it, UserError."""
    for item, where in items:
        if isinstance(item, dict):
            yield SourceRow(where, dict(as_map(item)))
        elif broken is None:
            raise UserError(Problem("it is not an object", where))
        else:
            broken(Problem("it is not an object", where))


def leave_document_keys(path: Path, values: Mapping[str, object], read: Collection[str], ledger: Ledger) -> None:
    """Count the keys of a file with a single object: those that were read, and others with values."""
    for name, value in values.items():
        if name in read:
            ledger.take_column(name)
        elif value not in (None, "", [], {}):
            ledger.leave_column(name, shown(path), "it is about the whole file, not about a case")


def begins_with(path: Path, marks: bytes | tuple[bytes, ...]) -> bool:
    """Whether a file begins with a mark, after white space and a byte order mark; UserError if it is not text."""
    return expect_text(path).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(marks)


def read_rows(
    path: Path, ledger: Ledger, *, part: str = "cases", broken: Callable[[Problem], None] | None = None
) -> Iterator[SourceRow]:
    """The rows of a .jsonl, .json, .csv or .parquet file, one at a time; NaN and an empty cell are missing.

    Empty rows are left out, and listed in the ledger under `part`. A broken row goes to `broken`, by default as a
    UserError. A fault after which nothing can be read is always a UserError.
    """
    opener = READABLE.get(path.suffix.lower())
    if opener is None:
        raise UserError(Problem("unknown kind of file", shown(path), f"known endings: {', '.join(READABLE)}"))
    expect_text(path)
    is_table, empty = path.suffix.lower() == ".csv", True
    notes = ReadingNotes()
    try:
        with readable(path):
            for _, row in filled_rows(opener(path), notes):
                empty = False
                if isinstance(row, SourceRow):
                    data = {name: cell or None for name, cell in row.data.items()} if is_table else row.data
                    yield replace(row, data=data)
                elif broken is None or isinstance(row, Unreadable):
                    raise UserError(row)
                else:
                    broken(row)
    except UnicodeDecodeError:
        raise UserError(Problem("the file is not text in UTF-8", shown(path), "save it as UTF-8")) from None
    if empty:
        raise UserError(Problem("the file has no rows", shown(path)))
    ledger.leave_reading(notes, shown(path), part)
