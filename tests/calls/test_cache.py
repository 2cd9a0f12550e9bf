"""The cache over a real file: what is known by what, modes, several processes, and what can befall a file."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.calls.cache import Cache, Mode
from evalflow.calls.cache_store import Entry, Store, entry_of, key_of, values_of
from evalflow.records import Usage

MIB = 1024**2
KEY = key_of("http://a/v1", "/chat", b"{}", 0)
ENTRY = Entry(body=b'{"a": 1}', requests=2, usage=Usage(30, 4), latency_s=1.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "cache.db"


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("evalflow").addHandler(handler)
    yield messages
    logging.getLogger("evalflow").removeHandler(handler)


def keys(count: int, start: int = 0) -> list[bytes]:
    return [key_of("u", "/p", str(number).encode()) for number in range(start, start + count)]


def facts(entry: Entry | None) -> Any:
    return entry and (entry.body, entry.requests, entry.usage, entry.latency_s)


def stored(path: Path) -> int:
    store = Store(path, reading=True)
    try:
        return store.stats().entries
    finally:
        store.close()


def wait_until_stored(path: Path, count: int) -> None:
    until = time.monotonic() + 60
    while True:
        with suppress(sqlite3.OperationalError):  # there is no file, or no table in it yet
            if stored(path) >= count:
                return
        assert time.monotonic() < until
        time.sleep(0.01)


def test_every_part_of_a_call_is_part_of_its_key() -> None:
    calls = [
        ("http://a/v1", "/chat", b"{}", 0),
        ("http://b/v1", "/chat", b"{}", 0),
        ("http://a/v1", "/embeddings", b"{}", 0),
        ("http://a/v1", "/chat", b"{ }", 0),
        ("http://a/v1", "/chat", b"{}", 1),
        ("http://a/v1", "/chat", b"{}", 0, 1),
    ]
    assert len({key_of(*call) for call in calls}) == len(calls)
    assert key_of("http://a/v1", "/chat", b"{}", 0) == KEY


@given(
    st.builds(
        Entry,
        body=st.binary(max_size=200),
        requests=st.integers(1, 99),
        usage=st.none() | st.builds(Usage, st.integers(0, 2**40), st.integers(0, 2**40)),
        latency_s=st.floats(0, 1e6),
        run_id=st.text(max_size=40),
        made_at=st.floats(0, 1e10),
    )
)
def test_values_of_an_entry_make_it_again_and_changed_ones_do_not(entry: Entry) -> None:
    values = values_of(entry)
    assert entry_of(entry.made_at, values) == entry
    run_id, requests, *rest, body = values
    assert entry_of(entry.made_at, [run_id, requests, *rest, entry.body + b"x"]) is None
    assert entry_of(entry.made_at, [run_id, entry.requests + 1, *rest, body]) is None
    assert entry_of(entry.made_at, [run_id, "many", *rest, body]) is None


def test_what_was_put_is_there_at_once_and_later(path: Path) -> None:
    cache = Cache(path, run_id="r")
    assert cache.get(KEY) is None
    cache.put(KEY, ENTRY)
    assert facts(cache.get(KEY)) == facts(ENTRY)
    cache.close()
    assert facts(cache.get(KEY)) == facts(ENTRY)
    cache.close()
    other = Cache(path, run_id="s")
    found = other.get(KEY)
    assert facts(found) == facts(ENTRY)
    assert found is not None
    assert found.run_id == "r"
    assert abs(found.made_at - time.time()) < 60
    other.close()
    assert [file.name for file in path.parent.iterdir()] == ["cache.db"]


def test_an_entry_never_goes_missing_on_its_way_into_the_file(path: Path) -> None:
    cache = Cache(path)
    known = keys(300)
    for number, key in enumerate(known):
        cache.put(key, Entry(body=str(number).encode()))
        for earlier in range(0, number + 1, 29):
            found = cache.get(known[earlier])
            assert found is not None, (number, earlier)
            assert found.body == str(earlier).encode()
        time.sleep(0.001)
    cache.close()
    assert stored(path) == 300


def test_closing_in_the_moment_of_a_commit_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wake-up that is lost between the two threads would leave one waiting for the other for ever."""
    monkeypatch.setattr("evalflow.calls.cache.GATHER_S", 0.0005)

    def work() -> None:
        for number in range(200):
            cache = Cache(path)
            cache.put(KEY, ENTRY)
            time.sleep(0.0005 * (number % 7) / 3)
            cache.close()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive()


def test_a_new_file_may_be_opened_by_several_at_once(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.db"
        start = threading.Barrier(6)

        def opened(path: Path = path, start: threading.Barrier = start) -> None:
            start.wait()
            Store(path).close()

        with ThreadPoolExecutor(6) as pool:
            for task in [pool.submit(opened) for _ in range(6)]:
                task.result()


def test_nothing_is_made_before_the_first_call(path: Path) -> None:
    Cache(path).close()
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("mode", "own", "others"),
    [("on", True, True), ("refresh", True, False), ("off", True, False), ("read", True, True)],
)
def test_each_mode_reads_what_it_may(path: Path, mode: Mode, own: bool, others: bool) -> None:
    before = Cache(path, run_id="before")
    before.put(KEY, ENTRY)
    before.close()
    mine = keys(1)[0]
    cache = Cache(path, mode, run_id="now")
    cache.put(mine, ENTRY)
    assert (cache.get(KEY) is not None) == others
    assert (cache.get(mine) is not None) == own
    cache.close()
    resumed = Cache(path, mode, run_id="now")
    assert (resumed.get(mine) is not None) == own
    resumed.close()
    later = Cache(path, run_id="later")
    assert (later.get(mine) is not None) == (mode in {"on", "refresh"})
    later.close()


def test_refresh_replaces_what_is_there_and_off_leaves_it(path: Path) -> None:
    steps: list[tuple[Mode, bytes]] = [("on", b"first"), ("off", b"private"), ("refresh", b"fresh")]
    for mode, body in steps:
        cache = Cache(path, mode, run_id=mode)
        cache.put(KEY, Entry(body=body))
        cache.close()
    cache = Cache(path, run_id="x")
    found = cache.get(KEY)
    assert found is not None
    assert found.body == b"fresh"
    cache.close()
    cache = Cache(path, "off", run_id="off")
    found = cache.get(KEY)
    assert found is not None
    assert found.body == b"private"
    cache.close()


def test_a_run_that_only_reads_keeps_its_own_apart(path: Path) -> None:
    before = Cache(path, run_id="before")
    before.put(KEY, ENTRY)
    before.close()
    cache = Cache(path, "read", run_id="now")
    cache.put(KEY, Entry(body=b"mine"))
    cache.close()
    found = [Cache(path, "read", run_id=run).get(KEY) for run in ("now", "before")]
    assert [entry.body if entry else None for entry in found] == [b"mine", ENTRY.body]


def test_the_least_recently_used_go_when_it_is_full(path: Path) -> None:
    body = os.urandom(3000)
    cache = Cache(path, max_bytes=2 * MIB)
    for key in keys(300):
        cache.put(key, Entry(body=body))
    cache.close()
    with sqlite3.connect(path) as db:  # as if all of that had been long ago
        db.execute("UPDATE entries SET used_at = used_at - 10000 - rowid")
    db.close()
    cache = Cache(path, max_bytes=2 * MIB)
    kept = keys(20)
    assert all(cache.get(key) for key in kept)
    time.sleep(0.15)  # uses are noted together
    for key in keys(600, start=1000):
        cache.put(key, Entry(body=body))
        time.sleep(0.0005)
    cache.close()
    assert path.stat().st_size <= 2.5 * MIB
    cache = Cache(path)
    assert all(cache.get(key) for key in keys(50, start=1550))
    assert not any(cache.get(key) for key in keys(100, start=100))
    cache.close()


def test_an_entry_that_would_fill_it_is_not_kept(path: Path) -> None:
    cache = Cache(path, max_bytes=MIB)
    cache.put(KEY, Entry(body=bytes(MIB)))
    assert cache.get(KEY) is None
    cache.close()


WRITER = """
import sys, time
from pathlib import Path
from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry, key_of
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
cache = Cache(path, run_id=name)
for number in range(count):
    cache.put(key_of("u", "/p", f"{name} {number}".encode()), Entry(body=f"{name} {number}".encode() * 50))
    print(number, flush=True)
    time.sleep(0.0005)
if name == "paused":
    time.sleep(60)
cache.close()
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_write_at_the_same_time(path: Path) -> None:
    processes = [writer(path, name, 200) for name in ("a", "b", "c")]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    cache = Cache(path)
    for name in ("a", "b", "c"):
        for number in range(200):
            found = cache.get(key_of("u", "/p", f"{name} {number}".encode()))
            assert found is not None
            assert found.body == f"{name} {number}".encode() * 50
    cache.close()
    assert [file.name for file in path.parent.iterdir()] == ["cache.db"]


@pytest.mark.parametrize("count", [1, 60, 200])
def test_what_was_put_a_moment_before_a_kill_is_there(path: Path, count: int) -> None:
    process = writer(path, "paused", count)
    assert process.stdout is not None
    assert any(int(line) == count - 1 for line in process.stdout)
    wait_until_stored(path, count)
    process.kill()
    process.communicate()
    cache = Cache(path)
    assert all(cache.get(key_of("u", "/p", f"paused {number}".encode())) for number in range(count))
    cache.close()
    assert [file.name for file in path.parent.iterdir()] == ["cache.db"]


@pytest.mark.parametrize("count", [1, 40, 90])
def test_a_kill_takes_the_last_replies_at_most_and_leaves_a_sound_file(path: Path, count: int) -> None:
    """The process is killed while it puts more; what another process puts at the same time is all there."""
    beside = writer(path, "beside", 200)
    process = writer(path, "killed", 100_000)
    assert process.stdout is not None
    assert any(int(line) == count - 1 for line in process.stdout)
    process.kill()
    process.communicate()
    beside.communicate(timeout=60)
    assert beside.returncode == 0
    cache = Cache(path)
    found = [cache.get(key_of("u", "/p", f"killed {number}".encode())) is not None for number in range(count)]
    assert found == sorted(found, reverse=True)
    assert all(cache.get(key_of("u", "/p", f"beside {number}".encode())) for number in range(200))
    cache.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_open_caches_see_what_the_others_have_put(path: Path) -> None:
    first, second = Cache(path, run_id="first"), Cache(path, run_id="second")
    assert second.get(KEY) is None
    first.put(KEY, ENTRY)
    second.put(keys(1)[0], ENTRY)
    until = time.monotonic() + 10
    while not (second.get(KEY) and first.get(keys(1)[0])):
        assert time.monotonic() < until
        time.sleep(0.01)
    first.close()
    second.close()
    assert stored(path) == 2


def test_a_file_that_another_process_holds_is_waited_for(
    path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalflow.calls.cache_store.BUSY_S", 0.05)
    Store(path).close()
    cache = Cache(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        cache.put(KEY, ENTRY)
        time.sleep(0.4)
        assert facts(cache.get(KEY)) == facts(ENTRY)
        other.execute("COMMIT")
    cache.close()
    assert stored(path) == 1
    assert [text.split(" is ")[1] for text in warnings] == ["held by another process; this one waits"]


def test_a_run_that_ends_does_not_wait_for_another_process_for_ever(
    path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalflow.calls.cache_store.BUSY_S", 0.05)
    Store(path).close()
    cache = Cache(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        cache.put(KEY, ENTRY)
        cache.close()
    assert stored(path) == 0
    assert "cannot be written (database is locked)" in warnings[-1]


@pytest.mark.parametrize("harm", [b"", b"no database at all" * 500])
def test_a_file_that_is_no_database_is_set_aside_and_said(path: Path, harm: bytes, warnings: list[str]) -> None:
    path.parent.mkdir()
    path.write_bytes(harm)
    cache = Cache(path)
    assert cache.get(KEY) is None
    cache.put(KEY, ENTRY)
    assert facts(cache.get(KEY)) == facts(ENTRY)
    cache.close()
    assert stored(path) == 1
    aside = [file for file in path.parent.iterdir() if ".corrupt-" in file.name]
    assert len(aside) == len(warnings) == (1 if harm else 0)
    if aside:
        assert aside[0].read_bytes() == harm
        assert aside[0].name in warnings[0]


def fill(path: Path, count: int = 200) -> None:
    cache = Cache(path)
    for key in keys(count):
        cache.put(key, Entry(body=os.urandom(2000)))
    cache.close()


def test_damage_in_the_middle_is_found_when_it_is_met(path: Path, warnings: list[str]) -> None:
    fill(path)
    data = bytearray(path.read_bytes())
    data[8192:-4096] = os.urandom(len(data) - 12288)
    path.write_bytes(data)
    cache = Cache(path)
    assert not any(cache.get(key) for key in keys(200))
    cache.put(KEY, ENTRY)
    time.sleep(0.2)
    assert facts(cache.get(KEY)) == facts(ENTRY)
    cache.close()
    assert stored(path) == 1
    assert len(warnings) == 1
    assert "damaged" in warnings[0]
    assert len(list(path.parent.glob("cache.db.corrupt-*"))) == 1


def test_a_changed_byte_of_a_reply_is_no_reply(path: Path, warnings: list[str]) -> None:
    fill(path, 1)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET body = replace(hex(body), '0', '1')")
    db.close()
    cache = Cache(path)
    assert cache.get(keys(1)[0]) is None
    cache.close()
    assert "differs from what was stored" in warnings[0]


def test_somebody_elses_database_is_left_alone(path: Path, warnings: list[str]) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (a)")
    db.close()
    before = path.read_bytes()
    cache = Cache(path)
    assert cache.get(KEY) is None
    cache.put(KEY, ENTRY)
    cache.close()
    assert path.read_bytes() == before
    assert [text for text in warnings if "another program" in text and "name another file in cache.path" in text]


def test_a_file_that_is_removed_meanwhile_is_made_again(path: Path) -> None:
    cache = Cache(path)
    cache.put(KEY, ENTRY)
    wait_until_stored(path, 1)
    path.unlink()
    later = keys(1)[0]
    cache.put(later, ENTRY)
    time.sleep(0.2)
    assert cache.get(later) is not None
    cache.close()
    assert stored(path) == 1


FULL = """
import logging, resource, sys, time
from pathlib import Path
from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry, key_of
logging.basicConfig(format="%(message)s")
if sys.argv[2] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
cache = Cache(Path(sys.argv[1]))
body = bytes(3000)
found = 0
for number in range(400):
    key = key_of("u", "/p", str(number).encode())
    cache.get(key)
    cache.put(key, Entry(body=body))
    time.sleep(0.002)
cache.close()
found = sum(cache.get(key_of("u", "/p", str(n).encode())) is not None for n in range(400))
cache.close()
print("went on", found)
"""


def on_a_full_disk(path: Path, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), how], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("went on")
    assert int(done.stdout.split()[-1]) < 400
    assert done.stderr.count("cannot be written") == 1, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_a_file_that_may_not_grow_is_said_once(path: Path) -> None:
    on_a_full_disk(path, "limit")


@pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")
def test_a_full_disk_is_said_once(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    try:
        on_a_full_disk(tmp_path / "cache.db", "disk")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path, warnings: list[str]) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = Cache(tmp_path / "file" / "cache.db")
    assert cache.get(KEY) is None
    cache.put(KEY, ENTRY)
    cache.put(KEY, ENTRY)
    cache.close()
    assert sum("cannot be read" in text for text in warnings) == 1
    assert sum("cannot be written" in text for text in warnings) == 1


def keep(path: Path, mode: Mode = "on", run_id: str = "first", **results: bytes) -> None:
    with closing(Cache(path, mode, run_id=run_id)) as cache:
        cache.keep_computed({name.encode(): body for name, body in results.items()})


@pytest.mark.parametrize(
    ("mode", "reads", "keeps"),
    [("on", True, True), ("read", True, False), ("refresh", False, True), ("off", False, False)],
)
def test_what_was_computed_is_read_and_kept_by_mode(path: Path, mode: Mode, reads: bool, keeps: bool) -> None:
    keep(path, a=b"of before")
    with closing(Cache(path, mode, run_id="second")) as cache:
        assert cache.computed([b"a", b"b"]) == ({b"a": b"of before"} if reads else {})
        cache.keep_computed({b"b": b"new"})
        assert cache.computed([b"b"]) == ({b"b": b"new"} if keeps else {})
    with closing(Cache(path)) as cache:
        assert set(cache.computed([b"a", b"b"])) == ({b"a", b"b"} if keeps else {b"a"})


def test_more_keys_than_fit_a_statement_are_found(path: Path) -> None:
    keys = [b"%d" % number for number in range(1200)]
    with closing(Cache(path)) as cache:
        cache.keep_computed(dict.fromkeys(keys, b"one"))
    with closing(Cache(path)) as cache:
        assert set(cache.computed([*keys, b"none"])) == set(keys)


def test_what_was_computed_goes_before_any_reply(path: Path) -> None:
    limit = 4 * MIB
    with closing(Cache(path, max_bytes=limit)) as cache:
        cache.put(KEY, ENTRY)
    for turn in range(8):  # the reply is the least recently used of all
        with closing(Cache(path, max_bytes=limit)) as cache:
            cache.keep_computed({b"%d %d" % (turn, number): bytes(10_000) for number in range(100)})
    with closing(Cache(path, max_bytes=limit)) as cache:
        assert cache.get(KEY) is not None
        assert not cache.computed([b"0 0"])
        assert cache.computed([b"7 99"])
    assert path.stat().st_size <= 1.2 * limit


def test_a_damaged_result_is_computed_again(path: Path, warnings: list[str]) -> None:
    keep(path, a=b"vector")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE entries SET body = x'00'")
    with closing(Cache(path)) as cache:
        assert not cache.computed([b"a"])
        cache.keep_computed({b"a": b"vector"})
    with closing(Cache(path)) as cache:
        assert cache.computed([b"a"]) == {b"a": b"vector"}
    assert len(warnings) == 1


def test_statistics_tell_replies_and_what_was_computed_apart(path: Path) -> None:
    keep(path, a=b"vector", b=b"verdict")
    with closing(Cache(path, run_id="x")) as cache:
        cache.put(KEY, ENTRY)
    with closing(Store(path, reading=True)) as store:
        stats = store.stats()
    assert (stats.entries, stats.private, stats.computed, stats.runs) == (1, 0, 2, 1)
