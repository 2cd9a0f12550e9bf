"""Workbooks as Excel writes them, and damaged ones."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Draw = Callable[[Any, Any], None]


def workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[Any]] | Draw], hidden: Sequence[str] = ()) -> Path:
    """Write a workbook: of each sheet its rows, or a function that writes it by XlsxWriter."""
    import xlsxwriter

    with xlsxwriter.Workbook(str(path), {"default_date_format": "yyyy-mm-dd"}) as book:
        for name, content in sheets.items():
            sheet = book.add_worksheet(name)
            if callable(content):
                content(book, sheet)
            else:
                for index, row in enumerate(content):
                    sheet.write_row(index, 0, row)
        for name in hidden:
            sheet = book.get_worksheet_by_name(name)
            assert sheet is not None
            sheet.hide()
    return path


def replace_part(path: Path, part: str, content: bytes) -> None:
    """Replace one part of a workbook, such as the XML of its first sheet."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, old in parts.items():
            archive.writestr(name, content if name == part else old)


FIRST_SHEET = "xl/worksheets/sheet1.xml"


def far_cells(path: Path) -> None:
    """A sheet of two cells at its ends, for which a table of all cells between would need half a terabyte."""
    workbook(path, {"Cases": [["question"], ["?"]]})
    namespace = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    cells = b'<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    sheet = b'<worksheet xmlns="%s"><sheetData>%s</sheetData></worksheet>' % (namespace, cells)
    replace_part(path, FIRST_SHEET, sheet)


def bomb(path: Path, size: int, *, claims: int | None = None) -> None:
    """A small workbook whose sheet unpacks to `size` bytes; `claims` is the size that its directory gives instead."""
    workbook(path, {"Cases": [["question"], ["?"]]})
    with zipfile.ZipFile(path) as archive:
        xml = archive.read(FIRST_SHEET)
    replace_part(path, FIRST_SHEET, xml.replace(b"<sheetData>", b"<sheetData>" + b" " * size))
    if claims is not None:
        data = bytearray(path.read_bytes())
        entry = data.index(FIRST_SHEET.encode(), data.index(b"PK\1\2")) - 46
        struct.pack_into("<L", data, entry + 24, claims)
        path.write_bytes(data)


def compound(*streams: str) -> bytes:
    """A compound file, in which Excel keeps .xls and workbooks with a password, with empty streams of these names."""
    end, free, fat = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<5H", 62, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<9L", 0, 1, 1, 0, 4096, end, 0, end, 0) + struct.pack("<109L", 0, *[free] * 108)
    table = struct.pack("<128L", fat, end, *[free] * 126)
    entries = io.BytesIO()
    for index, name in enumerate(("Root Entry", *streams)):
        text = name.encode("utf-16-le")
        kind = 5 if index == 0 else 2
        entries.write(text.ljust(64, b"\0") + struct.pack("<HBB3L", len(text) + 2, kind, 1, free, free, free))
        entries.write(bytes(36) + struct.pack("<LQ", end, 0))
    return header + table + entries.getvalue().ljust(512, b"\0")
