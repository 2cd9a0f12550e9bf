"""JSON lines: one object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from evalflow.datasets.rows import Row, Table, parse_json, record, shown
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
            value = parse_json(text, name, line)
            if isinstance(value, Problem):
                yield value if value.hint or not text.startswith(b"[") else _as_list(value.what, value.where)
            else:
                yield record(value, f"{name}:{line}", _LIST if isinstance(value, list) else "")


_LIST = "a file that is one JSON list is read with `format: json`"


def _as_list(what: str, where: str) -> Problem:
    return Problem(what, where, _LIST)


def _objects(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each object's text with the number of its first line.

    An object may be spread over lines as pretty-printers do: from a line that is `{` to one that begins with `}`.
    """
    spread: list[bytes] = []
    start = 0
    for number, raw in enumerate(lines, 1):
        line = (raw.removeprefix(BOM) if number == 1 else raw).rstrip()
        if spread and line.startswith(b"{"):  # the one before never ended: report it alone, and go on here
            yield start, b"\n".join(spread)
            spread = []
        if spread or line == b"{":
            start = start if spread else number
            spread.append(line)
            if line.startswith(b"}"):
                yield start, b"\n".join(spread)
                spread = []
        elif line:
            yield number, line
    if spread:
        yield start, b"\n".join(spread)
