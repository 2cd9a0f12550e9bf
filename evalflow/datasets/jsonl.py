"""JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from evalflow.datasets.rows import MAX_RECORD, Row, Table, parse_json, record, shown, too_long
from evalflow.errors import Problem

BOM = b"\xef\xbb\xbf"


def open_jsonl(path: Path) -> Table:
    """The file as a table. Blank lines and a byte order mark are passed over; NaN is refused."""
    return Table(_rows(path))


def raw_objects(path: Path) -> Iterator[str]:
    """The text of every object as it stands in the file."""
    with path.open("rb") as file:
        for _, text in _objects(file):
            yield text.decode(errors="replace") + "\n"


def _rows(path: Path) -> Iterator[Row | Problem]:
    name = shown(path)
    with path.open("rb") as file:
        for line, text in _objects(file):
            if len(text) > MAX_RECORD:
                yield too_long(f"{name}:{line}")
                return
            value = parse_json(text, name, line)
            if isinstance(value, Problem):
                yield value if value.hint or not text.startswith(b"[") else _as_list(value.what, value.where)
            else:
                yield record(value, f"{name}:{line}", _LIST if isinstance(value, list) else "")


_LIST = "a file that is one JSON list is read with `format: json`"


def _as_list(what: str, where: str) -> Problem:
    return Problem(what, where, _LIST)


def _objects(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Each object's text with the number of its first line; the last is longer than MAX_RECORD where one is.

    An object may be spread over lines as pretty-printers do: from a line that is `{` to one that begins with `}`.
    """
    spread: list[bytes] = []
    start = length = number = 0
    while raw := file.readline(MAX_RECORD + 2):
        number += 1
        line = (raw.removeprefix(BOM) if number == 1 else raw).rstrip()
        if spread and line.startswith(b"{"):  # the one before never ended: report it alone, and go on here
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
