"""What is not in the database yet, in files of its own, so that a process that is killed loses nothing it has paid for.

Entries are committed to the database in groups, which is cheap; each is appended here first, in one write call, and so
is in the operating system's hands when the call that it came from is finished. Two files take turns: one gathers the
next group while the other's is being committed, and is emptied afterwards. A process that opens the cache takes over
the files whose owner is gone; a lock, which ends with its process, tells which they are.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from uuid import uuid4


class Tails:
    """The two files of one process. Not safe for threads: callers hold a lock.

    Args:
        database: The file that the entries are on their way to; these stand beside it.

    Raises:
        OSError: They cannot be made.
    """

    def __init__(self, database: Path) -> None:
        stem = f"{database.name}.{os.getpid()}-{uuid4().hex[:8]}"
        self._paths = [database.with_name(f"{stem}-{turn}.tail") for turn in (0, 1)]
        self._files = [_claimed(path) for path in self._paths]
        self._turn = 0

    def append(self, record: bytes) -> None:
        """Add a record.

        Raises:
            OSError: It is not there, or not whole.
        """
        written = os.write(self._files[self._turn], record)
        if written < len(record):
            raise OSError(f"only {written} of {len(record)} bytes were written")

    def turn(self) -> int:
        """Let the other file gather from now on.

        Returns:
            The turn whose records are to be committed now; for `clear`.
        """
        before, self._turn = self._turn, 1 - self._turn
        return before

    def clear(self, turn: int) -> None:
        """Empty a file whose records have been committed."""
        os.ftruncate(self._files[turn], 0)

    def close(self, *, keep: bool = False) -> None:
        """Let go of both files; they are removed unless they hold what could not be committed."""
        for path, file in zip(self._paths, self._files, strict=True):
            if not keep:
                path.unlink(missing_ok=True)
            os.close(file)


class Orphans:
    """Files of processes that are gone, held so that nobody else takes them over too.

    Args:
        database: The file that their entries were on their way to.
    """

    def __init__(self, database: Path) -> None:
        self._held: list[tuple[Path, int]] = []
        for path in sorted(database.parent.glob(f"{database.name}.*.tail")):
            file = _taken(path)
            if file is not None:
                self._held.append((path, file))

    def contents(self) -> list[bytes]:
        """What is in them."""
        return [path.read_bytes() for path, _ in self._held]

    def remove(self) -> None:
        """Delete them: their entries are committed."""
        for path, _ in self._held:
            path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Let go of them."""
        for _, file in self._held:
            os.close(file)
        self._held.clear()


def _claimed(path: Path) -> int:
    """A new file, locked. A lock can be lost to somebody who took the file for an orphan; then it is made again."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        if _lock(file) and path.exists() and os.fstat(file).st_ino == path.stat().st_ino:
            return file
        os.close(file)


def _taken(path: Path) -> int | None:
    """An existing file, locked; None where its owner lives."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return None
    if _lock(file):
        return file
    os.close(file)
    return None


def _lock(file: int) -> bool:
    """Take the lock of a file, or say that another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
