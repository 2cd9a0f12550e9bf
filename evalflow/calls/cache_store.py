"""The cache's file: one SQLite database in WAL mode, shared by several processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import struct
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from evalflow.paths import private_database
from evalflow.records import Usage

APPLICATION_ID = 0x65_76_66_63  # "evfc"
VERSION = 1
PAGE_BYTES = 8192  # fits three usual replies; SQLite's own 4096 fits one and leaves half of the file empty
BUSY_S = 10.0  # seconds to wait for another process that is writing
TOUCH_S = 3600.0  # seconds before an entry's last use is noted again: noting every use would make every hit a write
ROOM = 0.9  # fill level of the file after eviction

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    key BLOB NOT NULL, scope TEXT NOT NULL, run_id TEXT NOT NULL, made_at REAL NOT NULL, used_at REAL NOT NULL,
    requests INTEGER NOT NULL, input_tokens INTEGER, output_tokens INTEGER, latency_s REAL NOT NULL,
    checksum INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (key, scope)
)"""
_GET = """
SELECT used_at, made_at, run_id, requests, input_tokens, output_tokens, latency_s, checksum, body
FROM entries WHERE key = ? AND scope = ?"""
_GET_MANY = """
SELECT key, used_at, made_at, run_id, requests, input_tokens, output_tokens, latency_s, checksum, body
FROM entries WHERE scope = ? AND key IN ({})"""
_PUT = """
INSERT OR REPLACE INTO entries
    (key, scope, made_at, used_at, run_id, requests, input_tokens, output_tokens, latency_s, checksum, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_TOUCH = "UPDATE entries SET used_at = ? WHERE key = ? AND scope = ?"
_OLDEST = "DELETE FROM entries WHERE rowid IN (SELECT rowid FROM entries ORDER BY used_at LIMIT ?)"
COMPUTED = "computed"
"""The scope of values computed by a model in this process. They cost nothing, so they are evicted before any reply."""
_OLDEST_COMPUTED = f"""
DELETE FROM entries WHERE rowid IN (
    SELECT rowid FROM entries WHERE scope = '{COMPUTED}' ORDER BY used_at LIMIT ?)"""  # noqa: S608 - a constant
_MANY = 500  # variables of one statement; SQLite takes 32,766
_STATS = """
SELECT COALESCE(SUM(scope <> 'computed'), 0), COALESCE(SUM(LENGTH(body)), 0),
       COUNT(DISTINCT CASE WHEN scope <> 'computed' THEN run_id END), COALESCE(SUM(scope NOT IN ('', 'computed')), 0),
       COALESCE(SUM(scope = 'computed'), 0), MIN(made_at), MAX(made_at) FROM entries"""

_FACTS = struct.Struct("<Iqqd")  # requests, input and output tokens or -1, latency_s

Slot = tuple[bytes, str]  # key and scope


class Corrupt(Exception):
    """The file is not a database, or it is damaged. Its inode tells whether another process has replaced it since."""

    def __init__(self, message: str, inode: int) -> None:
        self.inode = inode
        super().__init__(message)


class Foreign(Exception):
    """The file is an intact database of another program."""


def as_corrupt(error: sqlite3.DatabaseError, inode: int) -> Exception:
    """Return `Corrupt` if the error means a damaged file, else the error itself."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return Corrupt(str(error), inode) if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else error


def is_busy(error: Exception) -> bool:
    """Return whether another process held the lock for too long."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def set_aside(path: Path, inode: int) -> Path | None:
    """Move a damaged file and its log files out of the way; None if another process has already moved it."""
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


@dataclass(slots=True, kw_only=True)  # not enforced, as in `CallCosts`
class Entry:
    """A stored reply: the last response's unchanged body, with the requests and tokens of all, re-asks included.

    Attributes:
        latency_s: Negative if unknown, as by batch.
    """

    body: bytes
    requests: int = 1
    usage: Usage | None = None
    latency_s: float = 0.0
    run_id: str = ""
    made_at: float = 0.0

    @property
    def checksum(self) -> int:
        return zlib.crc32(_facts(self), zlib.crc32(self.body))


def key_of(base_url: str, path: str, body: bytes, *repeats: int) -> bytes:
    """Return the cache key of a call: SHA-256 over everything that reaches the model, and the number of the repeat."""
    return hashlib.sha256(_place(base_url, path, *repeats) + body).digest()


def short(key: bytes) -> int:
    """A 64-bit signed digest of a key, for columns of journals."""
    return int.from_bytes(key[:8], "big", signed=True)


@lru_cache(maxsize=64)
def _place(*parts: str | int) -> bytes:
    return json.dumps(parts).encode() + b"\n"


def values_of(entry: Entry) -> tuple[object, ...]:
    """Return the columns of an entry from run_id to body, without its times."""
    tokens = (entry.usage.input_tokens, entry.usage.output_tokens) if entry.usage else (None, None)
    return (entry.run_id, entry.requests, *tokens, entry.latency_s, entry.checksum, entry.body)


def entry_of(made_at: float, values: Sequence[Any]) -> Entry | None:
    """The inverse of `values_of`; None if the values are not those that were stored."""
    run_id, requests, input_tokens, output_tokens, latency_s, checksum, body = values
    usage = None if input_tokens is None else Usage(input_tokens, output_tokens)
    entry = Entry(body=body, requests=requests, usage=usage, latency_s=latency_s, run_id=run_id, made_at=made_at)
    with contextlib.suppress(TypeError, struct.error):  # a damaged file may have another type in a column
        if entry.checksum == checksum:
            return entry
    return None


def _facts(entry: Entry) -> bytes:
    usage = entry.usage
    if usage is None:
        return _FACTS.pack(entry.requests, -1, -1, entry.latency_s)
    return _FACTS.pack(entry.requests, usage.input_tokens, usage.output_tokens, entry.latency_s)


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of a cache: bytes of the replies and of the file, runs that paid, and seconds since the epoch.

    `entries` are replies, `private` those of one run only, and `computed` what models in the process computed.
    """

    entries: int
    private: int
    computed: int
    body_bytes: int  # of both
    file_bytes: int
    runs: int
    oldest: float | None
    newest: float | None


class Store:
    """One connection, created or only read. Used by one thread at a time.

    Raises Corrupt, Foreign, OSError or sqlite3.OperationalError if it cannot be opened or created.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self.path = path
        if not reading:
            private_database(path)
        where = f"{path.absolute().as_uri()}?mode={'rw' if reading else 'rwc'}"
        self._db = sqlite3.connect(where, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            self.inode = path.stat().st_ino
            self._prepare(reading)
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise as_corrupt(error, self.inode) from None
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, reading: bool) -> None:
        self._db.execute("BEGIN")  # one view of all three: another process may be creating the tables
        owner, version = self._pragma("application_id"), self._pragma("user_version")
        tables = self._db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        self._db.execute("COMMIT")
        ours = (owner, version) == (APPLICATION_ID, VERSION)
        if (tables or owner) and not ours:
            what = "is a database of another program, or of another version of evalflow"
            raise Foreign(f"{self.path} {what}: name another file in cache.path")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if reading:
            self._db.execute("PRAGMA query_only = 1")
        elif not ours:
            self._create()

    def _create(self) -> None:
        """Create the tables; another process may be doing the same."""
        self._db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _patiently(self._db, "PRAGMA journal_mode = WAL")
        _patiently(self._db, "BEGIN IMMEDIATE")
        self._db.execute(_SCHEMA)
        self._db.execute("CREATE INDEX IF NOT EXISTS by_use ON entries (used_at)")
        of_computed = f"ON entries (used_at) WHERE scope = '{COMPUTED}'"
        self._db.execute(f"CREATE INDEX IF NOT EXISTS computed_by_use {of_computed}")
        self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._db.execute(f"PRAGMA user_version = {VERSION}")
        self._db.execute("COMMIT")

    def get(self, slot: Slot) -> tuple[Entry, bool] | None:
        """Return an entry and whether to note its use; None if it is not stored."""
        try:
            row = self._db.execute(_GET, slot).fetchone()
        except sqlite3.DatabaseError as error:
            raise as_corrupt(error, self.inode) from None
        return None if row is None else self._read(row)

    def get_many(self, keys: Sequence[bytes], scope: str) -> dict[bytes, tuple[Entry, bool]]:
        """Return the stored entries of these keys, each as in `get`, using few statements."""
        entries: dict[bytes, tuple[Entry, bool]] = {}
        try:
            for start in range(0, len(keys), _MANY):
                some = keys[start : start + _MANY]
                statement = _GET_MANY.format(", ".join("?" * len(some)))
                for key, *row in self._db.execute(statement, (scope, *some)):
                    entries[key] = self._read(row)
        except sqlite3.DatabaseError as error:
            raise as_corrupt(error, self.inode) from None
        return entries

    def _read(self, row: Sequence[Any]) -> tuple[Entry, bool]:
        used_at, made_at, *values = row
        entry = entry_of(made_at, values)
        if entry is None:
            raise Corrupt("an entry differs from what was stored", self.inode)
        return entry, time.time() - used_at > TOUCH_S

    def write(self, entries: Mapping[Slot, Entry], touched: Collection[Slot], max_bytes: int) -> None:
        """Store entries, note uses and evict the least recently used entries, in one transaction."""
        now = time.time()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(_TOUCH, [(now, *slot) for slot in touched])
                # A page that holds one reply may be half empty, hence the factor 2.
                self._make_room(max_bytes, 2 * sum(len(entry.body) for entry in entries.values()))
                rows = [(*slot, entry.made_at, now, *values_of(entry)) for slot, entry in entries.items()]
                self._db.executemany(_PUT, rows)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.DatabaseError as error:
            raise as_corrupt(error, self.inode) from None

    def shrink(self, max_bytes: int | None, before: float | None) -> int:
        """Remove entries made before a time and the least recently used beyond a size; free the disk space."""
        try:
            count = self._count()
            self._db.execute("BEGIN IMMEDIATE")
            if before is not None:
                self._db.execute("DELETE FROM entries WHERE made_at < ?", (before,))
            if max_bytes is not None:
                self._make_room(max_bytes, 0, room=1.0)
            self._db.execute("COMMIT")
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return count - self._count()
        except sqlite3.DatabaseError as error:
            raise as_corrupt(error, self.inode) from None

    def stats(self) -> Stats:
        entries, body_bytes, runs, private, computed, oldest, newest = self._db.execute(_STATS).fetchone()
        size = sum(file.stat().st_size for file in files_of(self.path)[:2] if file.exists())
        return Stats(entries, private, computed, body_bytes, size, runs, oldest, newest)

    def is_in_place(self) -> bool:
        """Return whether the path still leads to this file."""
        try:
            return self.path.stat().st_ino == self.inode
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self._db.close()

    def _make_room(self, max_bytes: int, incoming: int, room: float = ROOM) -> None:
        """Evict the least recently used entries until `incoming` bytes fit, with a margin so that eviction is rare."""
        used = self._used()
        if used + incoming <= max_bytes:
            return
        while used + incoming > max_bytes * room:
            count = self._count()
            if not count:
                return
            excess = (used + incoming - max_bytes * room) / used
            some = (max(1, min(count, round(count * excess))),)
            if not self._db.execute(_OLDEST_COMPUTED, some).rowcount:
                self._db.execute(_OLDEST, some)
            used = self._used()

    def _count(self) -> int:
        return self._db.execute("SELECT COUNT(*) FROM entries").fetchone()[0]

    def _used(self) -> int:
        return (self._pragma("page_count") - self._pragma("freelist_count")) * self._pragma("page_size")

    def _pragma(self, name: str) -> int:
        return self._db.execute(f"PRAGMA {name}").fetchone()[0]


def _patiently(db: sqlite3.Connection, statement: str) -> None:
    """Retry a statement that ignores SQLite's busy timeout and fails at once while another process runs it."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)
