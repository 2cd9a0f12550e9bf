"""Reads Excel workbooks. A few kilobytes can claim any number of cells, for which calamine allocates memory."""

from __future__ import annotations

import datetime as dt
import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

Cell = str | float | bool | dt.date | dt.time | dt.timedelta
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_EXACT = 10**17
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_STRICT_RELATION = "{http://purl.oclc.org/ooxml/officeDocument/relationships}id"
_CELL = rb"<(?:\w+:)?c\b(?=[^>]*\sr=[\"']([A-Z]+\d+)[\"'])"
_ERROR = re.compile(_CELL + rb"(?=[^>]*\st=[\"']e[\"'])")
_UNCALCULATED = re.compile(
    _CELL + rb"(?![^>]*\st=[\"']str[\"'])[^>]*>\s*"  # the text of a formula may be empty
    rb"<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v></(?:\w+:)?v>)?\s*</"
)

_SAVE_AGAIN = "open it in Excel, and save it again"


class Refused(Exception):
    """The workbook cannot be read: what is wrong, and what to do."""


def lines(path: str, sheet: str | None, unpacked: int, longest: int) -> Iterator[Any]:
    """The names of the sheets if `sheet` is None, else the rows of a sheet; of the only one for "".

    A row is its number in Excel, the column that it begins at, its cells as text, and what is wrong with some of them.
    An error is the last line: `what` is wrong, and the `hint` what to do. Limits: the unpacked size of the workbook in
    bytes; the characters in a row.
    """
    from python_calamine import CalamineError

    try:
        yield from _lines(Path(path), sheet, unpacked, longest)
    except Refused as error:
        what, hint = error.args
        yield {"what": what, "hint": hint}
    except CalamineError as error:
        yield {"what": f"the workbook is damaged: {error}", "hint": _SAVE_AGAIN}
    except (MemoryError, RecursionError):
        raise
    except OSError as error:
        yield {"what": f"it cannot be read: {error.strerror}", "hint": "see that the file is there, and may be read"}
    except Exception:
        yield {"what": "the workbook is damaged", "hint": _SAVE_AGAIN}


def _lines(path: Path, wanted: str | None, unpacked: int, longest: int) -> Iterator[Any]:
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    parts = _parts(path, unpacked)
    with path.open("rb") as file:
        book = CalamineWorkbook.from_filelike(file)
    tables = [one for one in book.sheets_metadata if one.typ == SheetTypeEnum.WorkSheet and one.name in parts]
    known = [one.name for one in tables]
    if wanted and wanted not in known:
        raise Refused(f"there is no sheet {wanted!r}", f"it has: {', '.join(known)}")
    shown = [one.name for one in tables if one.visible == SheetVisibleEnum.Visible]
    filled = [wanted] if wanted else [name for name in shown if book.get_sheet_by_name(name).height]
    if not filled:
        hidden = "" if len(shown) == len(known) else "a hidden sheet is read if `sheet` names it"
        raise Refused("no sheet of the workbook has a row", hidden)
    if wanted is None:
        yield filled
        return
    if len(filled) > 1:
        raise Refused(
            f"the workbook has {len(filled)} sheets: {', '.join(filled)}",
            "name one of them: --sheet NAME of `new dataset`, or `sheet` in the dataset's YAML",
        )
    with zipfile.ZipFile(path) as archive:
        faults = _faults(archive.read(parts[filled[0]]))
    yield from _rows(book.get_sheet_by_name(filled[0]), faults, longest)


def _parts(path: Path, unpacked: int) -> dict[str, str]:
    """The name of each sheet, and of its part in the archive."""
    with path.open("rb") as file:
        if file.read(len(_OLE)) == _OLE:
            if _ENCRYPTED in file.read():
                raise Refused("the workbook is protected by a password", "remove the password in Excel, and save it")
            raise Refused("this is an old Excel file (.xls)", "save it as .xlsx in Excel")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
            if size > unpacked:
                what = f"the workbook has {size >> 20:,} MB unpacked; at most {unpacked >> 20:,} MB can be read"
                raise Refused(what, "delete pictures and sheets that are not needed, or save it as CSV")
            return _sheet_parts(archive)
    except zipfile.BadZipFile:
        raise Refused("this is not an Excel workbook (.xlsx)", "save it as .xlsx in Excel, or as CSV") from None
    except (KeyError, ElementTree.ParseError, RuntimeError, NotImplementedError):
        raise Refused("this is not an Excel workbook (.xlsx), or it is damaged", "save it as .xlsx in Excel") from None


def _sheet_parts(archive: zipfile.ZipFile) -> dict[str, str]:
    (book,) = [part for kind, part in _related(archive, "").values() if kind.endswith("/officeDocument")][:1] or [""]
    related = _related(archive, book)
    sheets = [one for one in _read(archive, book).iter() if one.tag.endswith("}sheet")]
    ids = {one.attrib["name"]: one.get(_RELATION) or one.get(_STRICT_RELATION) or "" for one in sheets}
    return {name: related[key][1] for name, key in ids.items() if key in related}


def _related(archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """Kind and name of the parts that a part refers to, by its id of them."""
    folder, name = posixpath.split(part)
    relationships = _read(archive, posixpath.join(folder, "_rels", f"{name}.rels"))
    return {
        one.attrib["Id"]: (
            one.attrib["Type"],
            posixpath.normpath(posixpath.join("/", folder, one.attrib["Target"]))[1:],
        )
        for one in relationships
    }


def _read(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(part))  # noqa: S314 - in a process with limits


def _faults(xml: bytes) -> dict[int, list[str]]:
    """What is wrong with cells, by the row: calamine gives errors, and formulas without a result, as empty cells."""
    by_row: dict[int, list[str]] = {}
    signs = (rb"\st=[\"']e[\"']", rb"<(?:\w+:)?f\b")
    whats = ((_ERROR, "is an error in Excel, such as #N/A"), (_UNCALCULATED, "is a formula without a saved result"))
    for sign, (pattern, what) in zip(signs, whats, strict=True):
        for cell in pattern.findall(xml) if re.search(sign, xml) else ():  # most sheets have neither
            name: str = cell.decode()
            by_row.setdefault(int(name.lstrip(ascii_uppercase)), []).append(f"{name} {what}")
    return by_row


def _rows(sheet: CalamineSheet, faults: dict[int, list[str]], longest: int) -> Iterator[Any]:
    """The rows that are not empty. Of cells that are merged over several rows, each row has the value."""
    left = sheet.start[1] if sheet.start else 0
    begun: dict[int, list[tuple[int, int]]] = {}
    for (top, column), (bottom, _) in sheet.merged_cell_ranges or ():
        if bottom > top and 0 <= column - left < sheet.width:
            begun.setdefault(top, []).append((column - left, bottom))
    merged: dict[int, tuple[str, int]] = {}
    for index, values in enumerate(sheet.iter_rows()):
        cells = [_text(value) for value in values]
        if sum(map(len, cells)) > longest:
            raise Refused(f"row {index + 1} is longer than {longest:,} characters", "")
        is_empty = not any(map(str.strip, cells))
        merged = {column: one for column, one in merged.items() if one[1] >= index}
        for column, (value, _) in merged.items():
            cells[column] = value
        merged |= {column: (cells[column], bottom) for column, bottom in begun.get(index, ())}
        if not is_empty or index + 1 in faults:
            yield [index + 1, left, cells, faults.get(index + 1, [])]


def _text(value: Cell) -> str:
    """The value as Excel saves it in CSV, without its format: dates in ISO 8601, durations in seconds."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            is_whole = float(value).is_integer() and abs(value) < _EXACT
            return str(int(value)) if is_whole else format(value, ".15g")  # Excel's own precision
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return format(value.total_seconds(), ".15g")
        case _:
            return value
