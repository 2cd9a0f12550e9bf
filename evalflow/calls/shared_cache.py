"""Share replies between machines in a PostgreSQL table, read and written in batches from its own thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from evalflow.calls.cache_store import Entry, entry_of, values_of
from evalflow.calls.fence_key import FenceKey
from evalflow.errors import Problem, UserError
from evalflow.extras import packages_of

if TYPE_CHECKING:
    from psycopg import Connection

log = logging.getLogger("evalflow")

GATHER_S = 0.005
"""How long lookups are collected into one query: single lookups have a twentieth of the throughput."""
BATCH = 100
_KEY = "cache.url"
_CONNECT_S = 10
PATIENCE_S = 30.0
"""How long a caller, and the end of a run, waits at most: the server's own limit does not help on a broken
connection."""
_CREATE = """
CREATE TABLE IF NOT EXISTS evalflow_replies (
    key bytea PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT now(), run_id text NOT NULL,
    requests bigint NOT NULL, input_tokens bigint, output_tokens bigint, latency_s float8 NOT NULL,
    checksum bigint NOT NULL, body bytea NOT NULL
)"""
_KEYS = "CREATE TABLE IF NOT EXISTS evalflow_keys (name text PRIMARY KEY, value bytea NOT NULL)"
_PUT_KEY = "INSERT INTO evalflow_keys VALUES ('fences', %s) ON CONFLICT DO NOTHING"
_GET_KEY = "SELECT value FROM evalflow_keys WHERE name = 'fences'"
_GET = """
SELECT key, extract(epoch FROM made_at)::float8,
       run_id, requests, input_tokens, output_tokens, latency_s, checksum, body
FROM evalflow_replies WHERE key = ANY(%s)"""
_PUT = """
INSERT INTO evalflow_replies
    (key, run_id, requests, input_tokens, output_tokens, latency_s, checksum, body)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"""

Answered = asyncio.Future[Entry | None]


class SharedCache:
    """Replies by key. Before it is opened, and after a failure or timeout (logged once), it does nothing."""

    def __init__(self, url: str, *, reading: bool = False, fence_key: FenceKey | None = None) -> None:
        """`fence_key`: shared by all machines, as set by the first one."""
        self._url = url
        self._reading = reading
        self._fence_key = fence_key
        self._works = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._asked: dict[bytes, list[Answered]] = {}
        self._made: dict[bytes, Entry] = {}

    def open(self) -> None:
        """Connect; UserError if the database cannot be reached, or the table can be neither found nor created."""
        if self._thread is None:
            database = _connected(self._url, None if self._reading else self._fence_key)
            self._share_key(database)
            self._works, self._closing = True, False
            self._thread = threading.Thread(
                target=self._run, args=(database,), name="evalflow.shared_cache", daemon=True
            )
            self._thread.start()

    def _share_key(self, database: Connection[Any]) -> None:
        row = database.execute(_GET_KEY).fetchone() if self._fence_key else None
        if self._fence_key and row:
            self._fence_key.adopt(bytes(row[0]))

    async def get(self, key: bytes) -> Entry | None:
        """Return the entry of a key, or None."""
        if not self._works:
            return None
        answer: Answered = asyncio.get_running_loop().create_future()
        with self._lock:
            self._asked.setdefault(key, []).append(answer)
        self._wake.set()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await answer
        except TimeoutError:
            self._stop(f"no answer within {PATIENCE_S:g} s")
            return None

    def put(self, key: bytes, entry: Entry) -> None:
        """Queue an entry to be stored, unless the cache is read-only. An existing entry stays."""
        if self._works and not self._reading:
            with self._lock:
                self._made[key] = entry
            self._wake.set()

    def close(self) -> None:
        """Store pending entries and disconnect."""
        if self._thread is not None:
            self._closing = True
            self._wake.set()
            self._thread.join(PATIENCE_S)  # a daemon, so that a pending query does not keep the process alive
            self._thread = None

    def _run(self, database: Connection[Any]) -> None:
        with closing(database):
            while self._asked or self._made or not self._closing:
                self._wake.wait()
                if not self._closing:
                    time.sleep(GATHER_S)
                self._wake.clear()  # before taking work: later work wakes the thread again
                with self._lock:
                    asked, self._asked = self._asked, {}
                    made, self._made = self._made, {}
                try:
                    if self._works:
                        self._work(database, asked, made)
                except Exception as error:  # any error of the driver: no run may end or wait because of it
                    self._stop(str(error))
                finally:
                    _tell(asked, {})

    def _work(
        self, database: Connection[Any], asked: Mapping[bytes, Sequence[Answered]], made: Mapping[bytes, Entry]
    ) -> None:
        waiting = iter(asked)
        while part := list(islice(waiting, BATCH)):
            rows = database.execute(_GET, (part,)).fetchall()
            entries = {key: entry for key, made_at, *values in rows if (entry := entry_of(made_at, values))}
            _tell({key: asked[key] for key in part}, entries)
        if made:
            with database.cursor() as cursor:
                cursor.executemany(_PUT, [(key, *values_of(entry)) for key, entry in made.items()])

    def _stop(self, why: str) -> None:
        with self._lock:
            worked, self._works = self._works, False
        if worked:
            log.warning("the shared cache failed (%s); the run continues without it", " ".join(why.split()))


def _tell(asked: Mapping[bytes, Sequence[Answered]], entries: Mapping[bytes, Entry]) -> None:
    """Deliver the entry or None, unless already delivered or nobody waits any more."""
    for key, answers in asked.items():
        for answer in answers:
            with suppress(RuntimeError):  # the event loop has ended
                answer.get_loop().call_soon_threadsafe(_settle, answer, entries.get(key))


def _settle(answer: Answered, entry: Entry | None) -> None:
    if not answer.done():  # its caller may have been cancelled
        answer.set_result(entry)


def _connected(url: str, fence_key: FenceKey | None) -> Connection[Any]:
    with packages_of("postgres", _KEY):
        import psycopg
    try:
        database = psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_S)
        try:
            database.execute("SET statement_timeout TO '10s'")
            database.execute("SET client_min_messages TO warning")  # unless the table already exists
            database.execute(_CREATE)
            database.execute(_KEYS)
            if fence_key:
                database.execute(_PUT_KEY, (fence_key(),))
        except BaseException:
            database.close()
            raise
    except psycopg.Error as error:
        what = f"the shared cache cannot be opened: {' '.join(str(error).split())}"
        hint = "check the address; a password belongs into PGPASSWORD or ~/.pgpass"
        raise UserError(Problem(what, _KEY, hint)) from None
    return database
