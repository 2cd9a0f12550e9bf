"""Files that are written whole or not at all, in text that every reader can take."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path


@contextmanager
def completed(path: Path) -> Generator[Path]:
    """A path beside `path` to write a file to, which takes its place when the block ends, and is gone on an error.

    So whoever reads `path` meanwhile reads the old file, and neither a crash nor a full disk leaves half of one.
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
    """Open a file of UTF-8 text for writing that takes the place of `path`; see `completed`.

    Half of a surrogate pair, which JSON may spell and UTF-8 cannot hold, becomes a question mark.
    """
    with completed(path) as draft, draft.open("w", encoding="utf-8", errors="replace", newline=newline) as file:
        yield file


def write_atomically(path: Path, text: str) -> None:
    """Write a file of UTF-8 text; see `replacing`."""
    with replacing(path) as file:
        file.write(text)


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that a spreadsheet would run."""


def safe_text(text: str) -> str:
    """`text`, with an apostrophe in front if a spreadsheet would read it as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
