"""Replies that machines share, in a real PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pydantic import ValidationError

from evalflow.calls import shared_cache
from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry
from evalflow.calls.fence_key import FenceKey
from evalflow.calls.shared_cache import SharedCache
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.schema import CacheConfig
from evalflow.errors import UserError
from evalflow.records import Usage

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


@contextmanager
def machine(url: str, folder: Path, *, reading: bool = False) -> Iterator[SingleFlight]:
    """The calls of one machine, with a file of its own."""
    folder.mkdir()
    once = SingleFlight(Cache(folder / "cache.db", run_id=folder.name), SharedCache(url, reading=reading))
    once.open_shared()
    try:
        yield once
    finally:
        once.close()


async def said(once: SingleFlight, key: bytes = KEY) -> str:
    async def ask() -> tuple[str, Entry]:
        return "fresh", Entry(body=key, requests=2, usage=Usage(7, 3))

    def read(entry: Entry, free: bool) -> str:
        assert (entry.body, entry.requests, entry.usage, free) == (key, 2, Usage(7, 3), True)
        return "known"

    return await once(key, ask, read)


async def together(once: SingleFlight, keys: Sequence[bytes]) -> set[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(said(once, key)) for key in keys]
    return {task.result() for task in tasks}


def rows(url: str) -> int:
    with psycopg.connect(url) as database:
        return database.execute("SELECT count(*) FROM evalflow_replies").fetchall()[0][0]


async def test_what_one_machine_has_paid_for_another_need_not_ask(postgres_url: str, tmp_path: Path) -> None:
    with machine(postgres_url, tmp_path / "a") as once:
        assert await said(once) == "fresh"
    with machine(postgres_url, tmp_path / "b") as once:
        assert await said(once) == "known"
        assert await said(once, b"o" * 32) == "fresh"
    with machine(postgres_url, tmp_path / "c") as once:
        assert [await said(once), await said(once, b"o" * 32)] == ["known", "known"]


async def test_many_at_once_are_asked_and_stored_in_batches(postgres_url: str, tmp_path: Path) -> None:
    keys = [number.to_bytes(32, "big") for number in range(350)]
    with machine(postgres_url, tmp_path / "a") as once:
        assert await together(once, keys) == {"fresh"}
    assert rows(postgres_url) == 350
    with machine(postgres_url, tmp_path / "b") as once:
        assert await together(once, keys * 2) == {"known"}


async def test_one_that_only_reads_stores_nothing(postgres_url: str, tmp_path: Path) -> None:
    with machine(postgres_url, tmp_path / "a", reading=True) as once:
        assert await said(once) == "fresh"
    assert rows(postgres_url) == 0


async def test_a_database_that_fails_is_said_once_and_done_without(
    postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with machine(postgres_url, tmp_path / "a") as once, caplog.at_level(logging.WARNING):
        with psycopg.connect(postgres_url) as database:
            database.execute("DROP TABLE evalflow_replies")
        keys = [number.to_bytes(32, "big") for number in range(5)]
        assert await together(once, keys) == {"fresh"}
        assert await said(once, b"o" * 32) == "fresh"
        assert await said(once, b"o" * 32) == "known"  # by the file
    assert [record.message.partition("(")[0] for record in caplog.records] == ["the shared cache failed "]


async def test_a_database_that_says_nothing_is_not_waited_for_for_ever(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_cache, "PATIENCE_S", 0.3)
    with psycopg.connect(postgres_url) as held, machine(postgres_url, tmp_path / "a") as once:
        held.execute("LOCK TABLE evalflow_replies")
        assert await said(once) == "fresh"
        assert await said(once, b"o" * 32) == "fresh"
        held.rollback()
    assert [record.message for record in caplog.records] == [
        "the shared cache failed (no answer within 0.3 s); the run continues without it"
    ]


async def test_a_damaged_entry_is_asked_again(postgres_url: str, tmp_path: Path) -> None:
    with machine(postgres_url, tmp_path / "a") as once:
        assert await said(once) == "fresh"
    with psycopg.connect(postgres_url) as database:
        database.execute("UPDATE evalflow_replies SET body = set_byte(body, 0, 255 - get_byte(body, 0))")
    with machine(postgres_url, tmp_path / "b") as once:
        assert await said(once) == "fresh"


def test_one_that_cannot_be_opened_is_refused() -> None:
    with pytest.raises(UserError, match=r"cache\.url: the shared cache cannot be opened") as refused:
        SharedCache("postgresql://nobody@127.0.0.1:9/none").open()
    assert "PGPASSWORD" in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://me:s3cret@host/name", "mysql://host/name", "host"])
def test_the_address_is_one_of_postgresql_without_a_password(url: str) -> None:
    with pytest.raises(ValidationError, match="PGPASSWORD"):
        CacheConfig(url=url)
    assert CacheConfig(url="postgresql://me@host/name?sslmode=require").url


def fence_key(folder: Path, own: str) -> FenceKey:
    """The key of a machine that has made one already."""
    folder.mkdir()
    (folder / "cache.db.key").write_text(own * 64 + "\n", encoding="ascii")
    return FenceKey(folder / "cache.db", keeps=True)


def test_machines_use_and_keep_the_key_of_the_first(postgres_url: str, tmp_path: Path) -> None:
    first, second, reader = (fence_key(tmp_path / name, name) for name in "abc")
    for key, reading in ((first, False), (second, False), (reader, True)):
        shared = SharedCache(postgres_url, reading=reading, fence_key=key)
        shared.open()
        shared.close()
    assert {key().hex() for key in (first, second, reader)} == {"a" * 64}
    assert (tmp_path / "b" / "cache.db.key").read_text(encoding="ascii").strip() == "a" * 64
    assert FenceKey(tmp_path / "b" / "cache.db", keeps=False)() == first()


def test_a_machine_that_only_reads_gives_no_key(postgres_url: str, tmp_path: Path) -> None:
    reader, writer = fence_key(tmp_path / "a", "a"), fence_key(tmp_path / "b", "b")
    for key, reading in ((reader, True), (writer, False), (reader, True)):
        shared = SharedCache(postgres_url, reading=reading, fence_key=key)
        shared.open()
        shared.close()
    assert reader().hex() == writer().hex() == "b" * 64
