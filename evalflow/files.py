"""Writes files completely or not at all, in text that every reader accepts."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path


@contextmanager
def completed(path: Path) -> Generator[Path]:
    """A path next to `path` to write to. It replaces `path` when the block ends, and is deleted on an error.

    So readers of `path` see the old file meanwhile, and neither a crash nor a full disk leaves half a file.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path, *, newline: str | None = None) -> Generator[TextIOWrapper]:
    """Open a UTF-8 text file for writing that replaces `path`; see `completed`.

    Half of a surrogate pair, which JSON allows and UTF-8 does not, becomes a question mark.
    """
    with completed(path) as draft, draft.open("w", encoding="utf-8", errors="replace", newline=newline) as file:
        yield file


def write_atomically(path: Path, text: str) -> None:
    """Write a file of UTF-8 text; see `replacing`."""
    with replacing(path) as file:
        file.write(text)


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a text that a spreadsheet would run as a formula."""


def safe_text(text: str) -> str:
    """`text`, with an apostrophe in front if a spreadsheet would read it as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
