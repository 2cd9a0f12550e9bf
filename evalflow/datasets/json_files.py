"""Readers for JSON and JSON Lines."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from evalflow.datasets.fields import FIELDS
from evalflow.datasets.halves import Halves, MendedStream
from evalflow.datasets.nan_literals import NanFilter, without_nan
from evalflow.datasets.proposal import USUAL
from evalflow.datasets.sources import MAX_RECORD, SourceRow, Table, Unreadable, parse_json, record, too_large, too_long
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import RepeatedKey, as_list, as_map, is_list, is_object, kind

BOM = b"\xef\xbb\xbf"
_LIST = "a file that is one JSON list is read with `format: json`"


def open_jsonl(path: Path, *, null_infinity: bool = False) -> Table:
    """Open the file as a table, without blank lines and a byte order mark. NaN is null, and Infinity if so wanted."""
    halves = Halves()
    return Table(_line_rows(path, halves, null_infinity), halves=halves)


def raw_objects(path: Path) -> Iterator[str]:
    """The raw text of every object in the file."""
    with path.open("rb") as file:
        for _, text in _objects(file):
            yield text.decode(errors="replace") + "\n"


def _line_rows(path: Path, halves: Halves, null_infinity: bool) -> Iterator[SourceRow | Problem]:
    name = shown(path)
    with path.open("rb") as file:
        for line, text in _objects(file):
            if len(text) > MAX_RECORD:
                yield too_long(f"{name}:{line}")
                return
            text = without_nan(text, infinity=null_infinity)
            value = parse_json(text, name, line, halves)
            if isinstance(value, Problem):
                is_list_begun = text.startswith(b"[") and (not value.hint or "EOF" in value.what)
                yield replace(value, hint=_LIST) if is_list_begun else value
            else:
                yield record(value, f"{name}:{line}", _LIST if is_list(value) else "", partial(_exact, text))


def held_rows(rows: Iterable[Mapping[str, object]]) -> Iterator[SourceRow]:
    """Rows in memory as those of a file; the place of each is its id or its number."""
    for number, row in enumerate(rows, 1):
        name = row.get("id")
        where = f"row {number}" if name is None else f"case {name}"
        yield SourceRow(where, dict(row), partial(_exact_copy, row))


def _exact_copy(row: Mapping[str, object]) -> dict[str, object]:
    return _exact(json.dumps(row).encode())


def _exact(text: bytes) -> dict[str, object]:
    return json.loads(Halves().json(text), parse_float=Decimal)


def _objects(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Each object's text with the number of its first line; stops after an object longer than MAX_RECORD.

    An object may span lines as pretty-printers write it: from a line that is `{` to a line that begins with `}`.
    """
    spread: list[bytes] = []
    start = length = number = 0
    while raw := file.readline(MAX_RECORD + 2):
        number += 1
        line = (raw.removeprefix(BOM) if number == 1 else raw).rstrip()
        if spread and line.startswith(b"{"):  # the previous object never ended: report it alone, and continue here
            yield start, b"\n".join(spread)
            spread = []
        if spread or line == b"{":
            start = start if spread else number
            length = length + len(line) if spread else len(line)
            spread.append(line)
            if line.startswith(b"}") or length > MAX_RECORD:
                yield start, b"\n".join(spread)
                spread = []
        elif line:
            yield number, line
    if spread:
        yield start, b"\n".join(spread)


# In the form with inputs and outputs, an output is an example of a good answer.
ALIASES = {"input": "question", "output": "reference"}
# Keys under which an object without a column of a case has its rows, beside `data`.
_ROWS = ("cases", "rows", "examples", "items", "records", "samples", "test_cases", "testCases")
_OF_ONE_CASE = {*FIELDS, *USUAL["question"], *USUAL["answer"]}
_IN_A_LIST = "put the rows in a list: [{...}, {...}]"
_OF_PANDAS = "write the frame with to_json(..., orient='records')"
# A broken file up to this size is parsed again in one piece, to find the line of the error.
LOCATE_UP_TO = 64 * 2**20
# The nesting limit of JSON Lines.
_MAX_DEPTH = 200
_WINDOW = 4096
# Any number longer than Python can read (4300 digits) contains an aligned block of this many digits.
_DIGITS = 1024
_BLOCK = 1 << 17
_LONGEST_WORD = len(b"Infinity")


@dataclass(frozen=True, slots=True)
class _Form:
    prefix: str  # ijson's prefix of the rows; empty: the whole file is one row
    example_outputs: bool | None = None


def open_json(path: Path, *, null_infinity: bool = False) -> Table:
    """Open the file as a table, parsed incrementally. NaN is null, and Infinity if so wanted."""
    import ijson  # pyright: ignore[reportMissingTypeStubs]

    halves = Halves()
    try:
        form = _crash_problem(path, null_infinity) or _form(path, null_infinity)
    except (ijson.JSONError, ArithmeticError) as error:
        form = _broken(path, error, null_infinity)
    if isinstance(form, Problem):
        return Table(iter([form]))
    return Table(_rows(path, form, halves, null_infinity), ALIASES if form.prefix == "data.item" else {}, halves=halves)


@contextmanager
def _open(path: Path, null_infinity: bool = False, halves: Halves | None = None) -> Generator[IO[bytes]]:
    """The file without a byte order mark, with half characters mended and null for NaN."""
    with path.open("rb") as file:
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        mended = cast("IO[bytes]", MendedStream(file, halves or Halves()))
        has_nan = _mentions(path, (b"NaN", b"Infinity") if null_infinity else (b"NaN",))
        yield cast("IO[bytes]", NanFilter(mended, infinity=null_infinity)) if has_nan else mended


def _mentions(path: Path, words: Sequence[bytes]) -> bool:
    with path.open("rb") as file:
        before = b""
        while block := file.read(_BLOCK):
            window = before + block
            if any(word in window for word in words):
                return True
            before = block[-_LONGEST_WORD:]
    return False


def _form(path: Path, null_infinity: bool = False) -> _Form | Problem:
    """Detect the form of the file; reads no more than needed."""
    import ijson  # pyright: ignore[reportMissingTypeStubs]

    data = outputs = None
    keys: set[str] = set()
    lists: list[str] = []
    with _open(path, null_infinity) as file:
        events: Iterator[tuple[str, str, Any]] = ijson.parse(file)
        _, first, value = next(events)
        if first == "start_array":
            return _Form("item")
        if first != "start_map":
            return Unreadable(f"expected a list of objects, got {kind(value)}", shown(path))
        for prefix, event, value in events:
            if not prefix and event == "map_key":
                keys.add(value)
            elif event == "start_map" and prefix.removesuffix(".item") in _ROWS and prefix not in lists:
                lists.append(prefix)
            if prefix == "data" and not event.startswith("end"):
                data = event
            elif prefix == "config.example_outputs":
                outputs = value
            if data and outputs is not None:
                break
    file_name = shown(path)
    if data is None and outputs is None:
        return _Form(lists[0] if len(lists) == 1 and keys.isdisjoint(_OF_ONE_CASE) else "")
    if data != "start_array":
        what = "expected a list of objects, or an object with its rows in a list under `data`"
        return Unreadable(what, file_name, _IN_A_LIST)
    if outputs is not None and not isinstance(outputs, bool):
        return Unreadable(f"config.example_outputs: expected true or false, got {kind(outputs)}", file_name)
    return _Form("data.item", outputs)


def raw_items(path: Path) -> Iterator[str]:
    """Every row of a readable file, as a JSON line."""
    import ijson  # pyright: ignore[reportMissingTypeStubs]

    form = _form(path)
    with _open(path) as file:
        for item in ijson.items(file, "" if isinstance(form, Problem) else form.prefix):
            yield json.dumps(_floats(item), ensure_ascii=False) + "\n"


def streamed_items(path: Path, prefix: str, halves: Halves | None = None) -> Iterator[object]:
    """The items at an ijson prefix, one at a time, with null for NaN; UserError if the file is broken.

    Half characters are mended, and counted in `halves`.
    """
    import ijson  # pyright: ignore[reportMissingTypeStubs]

    with _streaming(path, halves) as file:
        yield from map(_floats, ijson.items(file, prefix))


def document_values(path: Path, below: str = "") -> dict[str, object]:
    """The values of a file that is one object, or of the object at a key in it, without lists, objects and nulls.

    A list or an object is None if it is empty, and else True. UserError if the file is broken.
    """
    import ijson  # pyright: ignore[reportMissingTypeStubs]

    values: dict[str, object] = {}
    open_key: str | None = None
    is_begun = False  # whether the value of the key is a list or an object, whose next event says if it is empty
    with _streaming(path) as file:
        events: Iterator[tuple[str, str, Any]] = ijson.parse(file)
        for place, event, value in events:
            if place == below and event == "map_key":
                values.setdefault(value, None)
                open_key, is_begun = value, False
            elif open_key is not None and event.startswith("start") and not is_begun:
                is_begun = True
            elif open_key is not None:
                values[open_key] = (None if event.startswith("end") else True) if is_begun else _floats(value)
                open_key = None
    return values


@contextmanager
def _streaming(path: Path, halves: Halves | None = None) -> Generator[IO[bytes]]:
    """Open the file; errors of the parser and of the disk become UserError."""
    import ijson  # pyright: ignore[reportMissingTypeStubs]

    try:
        if problem := _crash_problem(path, null_infinity=True):
            raise UserError(problem)
        with _open(path, null_infinity=True, halves=halves) as file:
            yield file
    except (ijson.JSONError, ArithmeticError, ValueError) as error:
        raise UserError(_broken(path, error, null_infinity=True)) from None
    except OSError as error:
        raise UserError(Problem(f"cannot be read: {error.strerror}", shown(path))) from None


def _rows(path: Path, form: _Form, halves: Halves, null_infinity: bool) -> Iterator[SourceRow | Problem]:
    import ijson  # pyright: ignore[reportMissingTypeStubs]

    name = shown(path)
    try:
        with _open(path, null_infinity, halves) as file:
            items: Iterator[object] = ijson.items(file, form.prefix, map_type=_Watched)
            for index, item in enumerate(items):
                where = f"{name}[{index}]" if form.prefix else name
                try:
                    value = _floats(item)
                except RepeatedKey as error:
                    yield Problem(str(error), where)
                    continue
                row = record(value, where, _in_lists(item), exact=partial(as_map, item))
                if not form.prefix and isinstance(row, SourceRow):
                    row = _several(row) or row
                yield _consistent(row, form.example_outputs) if isinstance(row, SourceRow) else row
    except (ijson.JSONError, ArithmeticError, ValueError) as error:
        yield _broken(path, error, null_infinity)


class _Watched(dict[str, object]):
    """An object that keeps the earlier values of keys that are set again."""

    __slots__ = ("earlier",)
    earlier: list[tuple[str, object]]

    def __setitem__(self, key: str, value: object) -> None:
        # Kept only: ijson fills lists and objects later, and its parser in C takes an exception for one of the file.
        if key in self:
            self.earlier = [*getattr(self, "earlier", ()), (key, self[key])]
        super().__setitem__(key, value)


def _in_lists(row: object) -> str:
    return f"name the columns in each row; of a pandas frame, {_OF_PANDAS}" if is_list(row) else ""


def _several(row: SourceRow) -> Problem | None:
    """Return the problem of a file that is one object with several rows: by column, by id or in several lists."""
    values: list[object] = list(row.data.values())
    held: list[object] = [next(iter(as_list(value)), value) for value in values]
    if len(values) < 2 or not all(map(is_object, held)):
        return None
    if all(as_map(value).keys() == as_map(held[0]).keys() for value in values):
        hint = f"{_IN_A_LIST}; of a pandas frame, {_OF_PANDAS}"
    elif row.data.keys().isdisjoint(_OF_ONE_CASE):
        hint = _IN_A_LIST
    else:
        return None
    return Problem("the file is one object of several rows or columns", row.where, hint)


def _consistent(row: SourceRow, example_outputs: bool | None) -> SourceRow | Problem:
    if example_outputs is not None and row.data.get("input") is None:
        return Problem("the row has no input", row.where)
    if example_outputs and row.data.get("output") is None:
        hint = "give every row an output, or set config.example_outputs to false"
        return Problem("the row has no output, but config.example_outputs is true", row.where, hint)
    return row


def _floats(value: object, depth: int = 0) -> object:
    """Convert decimals to floats (the parser's own mode refuses large integers).

    ValueError if a number or the nesting is beyond bounds; RepeatedKey if a key has two values.
    """
    if isinstance(value, Decimal):
        number = float(value)
        if math.isinf(number):
            raise ValueError(too_large(str(value)))
        return number
    if depth > _MAX_DEPTH:
        raise ValueError(f"lists and objects are nested more than {_MAX_DEPTH} deep")
    for key, earlier in getattr(value, "earlier", ()):
        if earlier != as_map(value)[key]:
            raise RepeatedKey(key)
    if is_object(value):
        return {key: _floats(item, depth + 1) for key, item in value.items()}
    if is_list(value):
        return [_floats(item, depth + 1) for item in value]
    return value


def _crash_problem(path: Path, null_infinity: bool) -> Problem | None:
    """Detect input that would crash the parser: an integer of thousands of digits, or thousands of open brackets.

    Blocks of the file are searched for signs of either. These are rare, but text may have them too, and then the strict
    parser decides.
    """
    with path.open("rb") as file:
        while window := file.read(_WINDOW):
            opened = window.count(b"[") + window.count(b"{") - window.count(b"]") - window.count(b"}")
            blocks = range(0, len(window) - _DIGITS + 1, _DIGITS)
            if opened > _MAX_DEPTH or any(window[at : at + _DIGITS].isdigit() for at in blocks):
                return _located(path, null_infinity)
    return None


def _located(path: Path, null_infinity: bool) -> Problem | None:
    """Return the file's error with its line; None without an error, or if the file is too large."""
    if path.stat().st_size > LOCATE_UP_TO:
        return None
    with _open(path, null_infinity) as file:
        value = parse_json(file.read(), shown(path))
    return Unreadable(value.what, value.where, value.hint) if isinstance(value, Problem) else None


def _broken(path: Path, error: Exception, null_infinity: bool) -> Problem:
    located = _located(path, null_infinity)
    if located:
        hint = "one object a line? set `format: jsonl`" if "trailing characters" in located.what else located.hint
        return Unreadable(located.what, located.where, hint)
    reason = error.args[0]
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return Unreadable(f"broken JSON: {text.splitlines()[0]}", shown(path))
