"""Files that are complete the moment they stand under their name."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path


@contextmanager
def replacing(path: Path, *, errors: str = "strict", newline: str | None = None) -> Generator[TextIOWrapper]:
    """Open a file for writing that takes the place of `path` once it is closed, and leaves no trace on an error.

    So whoever reads `path` meanwhile (the cases that are written may come from the very file) reads the old one.

    Args:
        path: The file to write.
        errors: What to do with what UTF-8 cannot hold, as in `open`.
        newline: As in `open`.
    """
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with unfinished.open("w", encoding="utf-8", errors=errors, newline=newline) as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
