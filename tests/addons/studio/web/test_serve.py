"""`serve` as a process: what it refuses, what it prints, and that it ends its worker."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI

from evalflow.addons.studio.web import serve as serving_module
from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.web.child import Child
from evalflow.addons.studio.web.serve import COLLECT_PAGES_AFTER, SWITCH_INTERVAL_S, answer, require_packages
from evalflow.cli import run_command
from evalflow.errors import UserError
from tests.addons.studio.web.conftest import Server
from tests.forked import Forked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]


def env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def serving(
    cwd: Path, *words: str, is_forked: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes] | Forked, Server]]:
    """The whole application, in a process of its own, on a free port; `is_forked`: with its modules loaded."""
    arguments = ["serve", "--port", "0", *words]
    output, written = os.pipe()
    with os.fdopen(output, encoding="utf-8") as told:
        if is_forked:
            process = Forked(arguments, cwd, written, env=env())
        else:
            process = subprocess.Popen(
                [sys.executable, "-m", "evalflow", *arguments], cwd=cwd, env=env(), stdout=written
            )
        os.close(written)
        try:
            line = told.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)(?:/\?token=(\S+) )?", line)
            assert found, line
            yield process, Server(Address("127.0.0.1", int(found[1])), found[2])
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org"])
def test_any_address_but_this_machines_is_refused(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["serve", "--host", host]) == 2
    said = capsys.readouterr().err
    assert "not an address of this machine alone" in said
    assert "hint: " in said
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run_command(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen on" in capsys.readouterr().err


def test_what_is_not_installed_is_named_with_what_installs_it() -> None:
    with pytest.raises(UserError, match=r"not installed: nothing_of_that_name\n.*python -m pip install .*'nicegui"):
        require_packages(("json", "nothing_of_that_name"))


def test_pages_are_freed_early_what_is_loaded_is_not_searched_and_threads_take_short_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[tuple[int, int, int], int, float]] = []

    class Answering:
        def run(self, sockets: list[socket.socket]) -> None:
            seen.append((gc.get_threshold(), gc.get_freeze_count(), sys.getswitchinterval()))

    monkeypatch.setattr(serving_module, "server", lambda *_, **__: Answering())
    before, switched_after_s = gc.get_threshold(), sys.getswitchinterval()
    with socket.socket() as sock:
        try:
            answer(FastAPI(), sock)
        finally:
            gc.set_threshold(*before)
            sys.setswitchinterval(switched_after_s)
    [(thresholds, frozen, switches_after_s)] = seen
    assert thresholds == COLLECT_PAGES_AFTER
    assert frozen > 100_000
    assert switches_after_s == SWITCH_INTERVAL_S


def test_it_runs_its_worker_starts_it_again_and_ends_it(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, server):
        assert server.ask("GET", "/healthz").json == {"status": "ok"}
        assert server.ask("GET", "/readyz").json == {"status": "ok", "faults": []}
        stranger = replace(server, token=None)
        for path in ("/", "/assets/theme.css", "/_nicegui_ws/socket.io/?EIO=4&transport=polling", "/api/v1/bots"):
            assert (server.ask("GET", path).status, stranger.ask("GET", path).status) == (200, 401), path
        (first,) = children(process.pid)
        os.kill(first, signal.SIGKILL)
        second = until(lambda: next((pid for pid in children(process.pid) if pid != first), None))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) in (0, 130)
        with pytest.raises(ProcessLookupError):
            os.kill(second, 0)


@pytest.mark.anyio
async def test_a_worker_that_cannot_be_started_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evalflow.addons.studio.web.child.AGAIN_S", (0.05,))
    python = sys.executable
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    async with Child(["worker", "--attached"]) as worker:
        while caplog.text.count("it is started again in") < 2:
            assert "it cannot be started" in worker.fault
            await asyncio.sleep(0.01)
        monkeypatch.setattr(sys, "executable", python)
        while worker.fault:
            await asyncio.sleep(0.01)
    assert "No such file or directory" in caplog.text


def children(pid: int) -> list[int]:
    """Processes that it started."""
    return [int(serve) for serve in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(look):
    """What is found at last; the limit is for a test that fails, and measures nothing."""
    import time

    for _ in range(600):
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")
