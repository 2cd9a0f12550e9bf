"""Read NaN and Infinity, which Python's `json` writes although they are not valid JSON, as null."""

from __future__ import annotations

import re
from typing import IO

_NAN = re.compile(rb'"|NaN')
_NAN_OR_INFINITY = re.compile(rb'"|NaN|-?Infinity')
_STRING_END = re.compile(rb'\\.|"', re.DOTALL)
_LONGEST = len(b"-Infinity")


def without_nan(text: bytes, *, infinity: bool = True) -> bytes:
    """The text with null for each NaN outside of strings, and for Infinity and -Infinity; its lines stay the same."""
    if b"NaN" not in text and not (infinity and b"Infinity" in text):
        return text
    scanner = _Scanner(infinity)
    return scanner.take(text, last=True)


class NanFilter:
    """A file of JSON, read as `without_nan` does, block by block."""

    def __init__(self, file: IO[bytes], block: int = 1 << 16, *, infinity: bool = True) -> None:
        self._file = file
        self._block = block
        self._scanner = _Scanner(infinity)
        self._ready = b""
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; empty at the end only."""
        while not self._ended and (size < 0 or len(self._ready) < max(size, 1)):
            block = self._file.read(self._block)
            self._ended = not block
            self._ready += self._scanner.take(block, last=self._ended)
        block, self._ready = (self._ready, b"") if size < 0 else (self._ready[:size], self._ready[size:])
        return block


class _Scanner:
    """Replaces literals in a text that comes in blocks; what may continue in the next block is held back."""

    def __init__(self, infinity: bool) -> None:
        self._literals = _NAN_OR_INFINITY if infinity else _NAN
        self._held: bytes = b""
        self._in_string = False

    def take(self, block: bytes, *, last: bool) -> bytes:
        text: bytes = self._held + block
        self._held = b""
        parts: list[bytes] = []
        at = 0
        while at < len(text):
            if self._in_string:
                cut = self._string_end(text, at)
                cut = len(text) if last and self._in_string else cut
                parts.append(text[at:cut])
                if self._in_string:
                    self._held = text[cut:]
                    break
                at = cut
                continue
            match = self._literals.search(text, at)
            if match is None:
                cut = len(text) if last else max(at, len(text) - _LONGEST + 1)
                parts.append(text[at:cut])
                self._held = text[cut:]
                break
            parts.append(text[at : match.start()])
            self._in_string = match[0] == b'"'
            parts.append(match[0] if self._in_string else b"null")
            at = match.end()
        return b"".join(parts)

    def _string_end(self, text: bytes, at: int) -> int:
        """Return the end of the open string; if it is not in this block, where to cut: before an incomplete escape."""
        while (match := _STRING_END.search(text, at)) is not None:
            at = match.end()
            if match[0] == b'"':
                self._in_string = False
                return at
        return len(text) - (len(text) > at and text.endswith(b"\\"))
