"""Unpaired surrogates in texts that were cut: replace them by the replacement character and count them.

JSON writes a character such as an emoji as two escapes; programs that cut texts by UTF-16 units leave one of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO

from evalflow.values.jsonvalues import mended

_HALF = re.compile("[\ud800-\udfff]")
_RAW = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]|\xed[\xa0-\xbf][\x80-\xbf]")
_ESCAPE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.", re.DOTALL)
_REPLACED = "\ufffd"
_LONGEST = 24  # bytes: two pairs of escapes


@dataclass(slots=True)
class Halves:
    """Mends texts, and counts the halves that became the replacement character."""

    count: int = 0

    def text(self, text: str) -> str:
        """Return the text with surrogate pairs joined and unpaired ones replaced."""
        if text.isascii() or not _HALF.search(text):
            return text
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        self.count += whole.count(_REPLACED) - text.count(_REPLACED)
        return whole

    def json(self, text: bytes) -> bytes:
        """Like `text`, for JSON with escapes, or with surrogates in UTF-8 as some programs write them."""
        if b"\xed" in text:
            text = _RAW.sub(lambda half: self.text(half[0].decode("utf-8", "surrogatepass")).encode(), text)
        whole = mended(text)
        if whole is not text:
            self.count += whole.count(rb"\ufffd") - text.count(rb"\ufffd")
        return whole


class MendedStream:
    """A file of JSON whose blocks are mended as they are read."""

    def __init__(self, file: IO[bytes], halves: Halves) -> None:
        self._file = file
        self._halves = halves
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """The next block, of about that size; empty at the end only."""
        while block := self._file.read(size):
            block = self._rest + block
            cut = _safe_cut(block)
            self._rest = block[cut:]
            if cut:
                return self._halves.json(block[:cut])
        rest, self._rest = self._rest, b""
        return self._halves.json(rest)


def _safe_cut(block: bytes) -> int:
    """Return where a block can be cut without splitting an escape or a character."""
    end = len(block)
    start = max(0, end - _LONGEST)
    if b"\\" in block[start:]:
        ends = [escape.start() for escape in _ESCAPE.finditer(block) if escape.end() > start]
        last = block.rfind(b"\\", start)
        return min([*ends, last]) if ends or last >= 0 else end
    while end > start and block[end - 1] >= 0x80:
        end -= 1
    return end if end > start else len(block)
