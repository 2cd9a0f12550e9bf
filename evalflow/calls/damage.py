"""What can be wrong with the cache's file, and moving a damaged one out of the way."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path


class Corrupt(Exception):
    """The file is no database, or a damaged one.

    Attributes:
        inode: The file that it was found in; another process may have put a new one in its place.
    """

    def __init__(self, message: str, inode: int) -> None:
        self.inode = inode
        super().__init__(message)


class Foreign(Exception):
    """The file is a sound database of somebody else's."""


def told(error: sqlite3.DatabaseError, inode: int) -> Exception:
    """The error as callers decide by it: `Corrupt` for a damaged file, else as it is."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return Corrupt(str(error), inode) if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else error


def is_busy(error: Exception) -> bool:
    """Whether another process held the file for too long."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def set_aside(path: Path, inode: int) -> Path | None:
    """Move a damaged file, and what belongs to it, out of the way.

    Args:
        path: The file.
        inode: The file that was found damaged.

    Returns:
        Where it is now, or None where another process has moved it already.

    Raises:
        OSError: It cannot be moved.
    """
    if not path.exists() or path.stat().st_ino != inode:
        return None
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    aside = path.with_name(f"{path.name}.corrupt-{moment}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{moment}-{number}")
    for file, to in zip(files_of(path), files_of(aside), strict=True):
        if file.exists():
            file.replace(to)
    return aside


def files_of(path: Path) -> tuple[Path, Path, Path]:
    """The database, its log and its shared memory."""
    return path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
