"""A limited process: what its function may not do, and what the caller learns when it does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow import limited
from evalflow.limited import LimitExceeded, Work, deadline, in_thread

FUNCTIONS = """
import os, threading, time

def pid(): return os.getpid()
def echo(value): return value
def environment(): return sorted(os.environ)
def endless():
    while True: pass
def asleep(): time.sleep(3600)
def niceness(): return os.nice(0)
def large_memory(): return len(bytearray(8 * 1024**3))
def large_reply(): return "x" * 20_000_000
def deep(): return [deep()]
def opened(path, mode): open(path, mode).close()
def written():
    os.write(1, b"not a frame")
    print("not a frame")
    return 1
def forked(): return os.fork()
def refuses(): raise ValueError("it is odd")
def breaks(): raise KeyError("x")
def killed(): os._exit(7)
def count(most):
    for number in range(most): yield {"number": number}
def count_and_refuse():
    yield 1
    raise ValueError("no more")
def count_for_ever():
    yield os.getpid()
    yield "x" * 100_000
    time.sleep(3600)
"""
POSIX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system lacks limits")


@pytest.fixture(scope="module", autouse=True)
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "strange_functions.py").write_text(FUNCTIONS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield


def call(name: str, seconds: float = 60, limits: dict[str, Any] | None = None, **payload: Any) -> Any:
    return Work(f"strange_functions:{name}", **(limits or {})).call(payload, seconds, "the work")


def exceeded(name: str, seconds: float = 60, **payload: Any) -> tuple[str, str]:
    with pytest.raises(LimitExceeded) as error:
        call(name, seconds, **payload)
    return error.value.limit, str(error.value)


@pytest.mark.parametrize("value", [None, 1.5, "ä\ud800", [1, {"a": [True]}], "x" * 100_000])
def test_values_come_back_as_they_are(value: Any) -> None:
    assert call("echo", value=value) == value


def test_a_process_is_used_again() -> None:
    first = call("pid")
    assert first != os.getpid()
    assert call("pid") == first


def test_a_process_that_was_killed_while_it_waited_is_replaced() -> None:
    """It was blamed on the next work, which was told that it needs too much memory."""
    first = call("pid")
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert call("pid") not in (first, os.getpid())


def test_a_process_of_a_large_program_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "stranger.py").write_text(FUNCTIONS, encoding="utf-8")
    program = """
from evalflow.limited import Work
held = b"x" * 300_000_000
work = Work("stranger:pid")
assert work.call({}, 60, "it") == work.call({}, 60, "it")
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_it_sees_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert set(call("environment")) <= {"LC_CTYPE", "SYSTEMROOT"}


@pytest.mark.parametrize("name", ["endless", "asleep"])
def test_what_takes_too_long_is_ended_and_replaced(name: str) -> None:
    assert exceeded(name, 0.2) == ("time", "the work takes more than 0.2 s")
    assert call("echo", value=1) == 1


@POSIX
def test_what_may_wait_may_still_compute_little() -> None:
    with pytest.raises(LimitExceeded, match=r"it takes more than 0\.1 s"):
        Work("strange_functions:endless", waits=True).call({}, 60, "it", computing=0.1)


def test_what_waits_takes_no_place_of_what_computes() -> None:
    waiting = Work("strange_functions:asleep", waits=True)
    threads = [threading.Thread(target=_abandoned, args=[waiting]) for _ in range(limited._PLACES)]
    for thread in threads:
        thread.start()
    assert Work("strange_functions:echo").call({"value": 1}, 60, "it") == 1
    for thread in threads:
        thread.join()


def _abandoned(work: Work) -> None:
    with pytest.raises(LimitExceeded):
        work.call({}, 2, "it")


@POSIX
def test_it_gives_way_to_others() -> None:
    assert Work("strange_functions:niceness", niceness=7).call({}, 60, "it") == min(19, os.nice(0) + 7)


@POSIX
def test_what_takes_too_much_memory_is_refused() -> None:
    assert exceeded("large_memory") == ("memory", "the work needs more than 1,024 MB of memory")


def test_a_reply_that_is_too_large_is_refused() -> None:
    assert exceeded("large_reply") == ("output", "the work gives more than 8,388,608 bytes")


def test_endless_recursion_is_refused() -> None:
    assert exceeded("deep") == ("depth", "the work is nested too deeply")


def test_a_process_that_ends_is_an_error() -> None:
    assert exceeded("killed") == ("crash", "the work ends its process with exit code 7")


@POSIX
@pytest.mark.parametrize("mode", ["r", "w"])
def test_it_opens_no_file(mode: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(RuntimeError, match="Too many open files"):
        call("opened", path=str(file), mode=mode)
    call("opened", path=str(file), mode="r", limits={"files": 8})


@POSIX
@pytest.mark.skipif(sys.platform == "win32" or os.getuid() == 0, reason="root may start any number of processes")
def test_it_starts_no_process() -> None:
    with pytest.raises(RuntimeError, match="BlockingIOError"):
        call("forked")


def test_what_it_prints_is_no_part_of_the_reply() -> None:
    assert call("written") == 1


def test_its_own_errors_are_told_from_bugs() -> None:
    with pytest.raises(ValueError, match=r"^it is odd$"):
        call("refuses")
    with pytest.raises(RuntimeError, match="strange_functions:breaks: KeyError: 'x'"):
        call("breaks")
    with pytest.raises(RuntimeError, match="does not start: ModuleNotFoundError"):
        Work("no_such_module:f").call({}, 1, "it")


def test_items_of_a_generator_come_one_by_one() -> None:
    items = Work("strange_functions:count").stream({"most": 20_000}, 60, "the work")
    assert [item["number"] for item in items] == list(range(20_000))
    items = Work("strange_functions:count_and_refuse").stream({}, 60, "the work")
    assert next(items) == 1
    with pytest.raises(ValueError, match=r"^no more$"):
        next(items)


def test_who_reads_no_further_leaves_no_process() -> None:
    items = Work("strange_functions:count_for_ever").stream({}, 60, "the work")
    pid = next(items)
    items.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_task_that_is_cancelled_ends_its_work() -> None:
    asyncio.run(_cancelled())


async def _cancelled() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            call("asleep", 3600)
        finally:
            ended.set()

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 60)
    assert await in_thread(lambda: call("echo", value=2)) == 2


def test_a_loop_may_watch_the_clock() -> None:
    deadline(60, "it")()
    with pytest.raises(LimitExceeded, match=r"^it takes more than 0 s$"):
        deadline(0, "it")()
