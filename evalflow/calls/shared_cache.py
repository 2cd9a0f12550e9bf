"""Replies that machines share: a table in PostgreSQL, read and written in batches from a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from evalflow.calls.cache_store import Entry, pack, unpack
from evalflow.errors import Problem, UserError
from evalflow.extras import install_command

if TYPE_CHECKING:
    from psycopg import Connection

log = logging.getLogger("evalflow")

GATHER_S = 0.005
"""How long questions gather before they are asked together: singly, a connection answers a twentieth as many."""
BATCH = 100
_KEY = "cache.url"
_PATIENCE_S = 10
_CREATE = """
CREATE TABLE IF NOT EXISTS evalflow_replies
(key bytea PRIMARY KEY, entry bytea NOT NULL, made_at timestamptz NOT NULL DEFAULT now())"""
_GET = "SELECT key, entry FROM evalflow_replies WHERE key = ANY(%s)"
_PUT = "INSERT INTO evalflow_replies (key, entry) VALUES (%s, %s) ON CONFLICT DO NOTHING"

Answered = asyncio.Future[Entry | None]


class SharedCache:
    """Replies by key; nothing is found or stored before it is opened, and after it has failed once, which is logged."""

    def __init__(self, url: str, *, reading: bool = False) -> None:
        self._url = url
        self._reading = reading
        self._database: Connection[Any] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._asked: dict[bytes, list[Answered]] = {}
        self._made: dict[bytes, Entry] = {}

    def open(self) -> None:
        """Connect; UserError if the database cannot be reached, or the table neither found nor created."""
        if self._thread is None:
            self._database, self._closing = _connected(self._url), False
            self._thread = threading.Thread(target=self._run, name="evalflow.shared_cache", daemon=True)
            self._thread.start()

    async def get(self, key: bytes) -> Entry | None:
        """The entry of a key, or None."""
        if self._database is None:
            return None
        answer: Answered = asyncio.get_running_loop().create_future()
        with self._lock:
            self._asked.setdefault(key, []).append(answer)
        self._wake.set()
        return await answer

    def put(self, key: bytes, entry: Entry) -> None:
        """Store an entry soon, unless this is only read. An entry that is there already stays."""
        if self._database is not None and not self._reading:
            with self._lock:
                self._made[key] = entry
            self._wake.set()

    def close(self) -> None:
        """Store what is left, and disconnect; it can be opened again."""
        if self._thread is not None:
            self._closing = True
            self._wake.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while self._asked or self._made or not self._closing:
            self._wake.wait()
            if not self._closing:
                time.sleep(GATHER_S)
            self._wake.clear()  # before looking: what comes later wakes the thread again
            with self._lock:
                asked, self._asked = self._asked, {}
                made, self._made = self._made, {}
            try:
                if self._database is not None:
                    self._work(self._database, asked, made)
            except Exception as error:  # whatever the driver raises: no run may end or wait for this
                self._stop(error)
            finally:
                _tell(asked, {})
        self._disconnect()

    def _work(
        self, database: Connection[Any], asked: Mapping[bytes, Sequence[Answered]], made: Mapping[bytes, Entry]
    ) -> None:
        waiting = iter(asked)
        while part := list(islice(waiting, BATCH)):
            rows = database.execute(_GET, (part,)).fetchall()
            found = {key: entry for _, record in rows for key, _, entry in unpack(record)}
            _tell({key: asked[key] for key in part}, found)
        if made:
            with database.cursor() as cursor:
                cursor.executemany(_PUT, [(key, pack(key, "", entry)) for key, entry in made.items()])

    def _stop(self, error: Exception) -> None:
        what = "the shared cache failed (%s); the run goes on without it"
        log.warning(what, " ".join(str(error).split()))
        self._disconnect()

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _tell(asked: Mapping[bytes, Sequence[Answered]], found: Mapping[bytes, Entry]) -> None:
    """Answer with what was found, or None; nothing where it has been answered, or nobody waits any more."""
    for key, answers in asked.items():
        for answer in answers:
            with suppress(RuntimeError):  # the event loop has ended
                answer.get_loop().call_soon_threadsafe(_settle, answer, found.get(key))


def _settle(answer: Answered, entry: Entry | None) -> None:
    if not answer.done():  # its caller may have been cancelled
        answer.set_result(entry)


def _connected(url: str) -> Connection[Any]:
    try:
        import psycopg
    except ModuleNotFoundError as error:
        what = f"this needs the package {error.name}, which is not installed"
        raise UserError(Problem(what, _KEY, install_command("postgres"))) from None
    try:
        database = psycopg.connect(url, autocommit=True, connect_timeout=_PATIENCE_S)
        try:
            database.execute("SET statement_timeout TO '10s'")
            database.execute("SET client_min_messages TO warning")  # not that the table is there already
            database.execute(_CREATE)
        except BaseException:
            database.close()
            raise
    except psycopg.Error as error:
        what = f"the shared cache cannot be opened: {' '.join(str(error).split())}"
        hint = "check the address; a password belongs into PGPASSWORD or ~/.pgpass"
        raise UserError(Problem(what, _KEY, hint)) from None
    return database
