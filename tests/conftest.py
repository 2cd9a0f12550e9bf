"""Every test runs without the developer's keys, defaults and proxies, and reaches nothing but loopback."""

from __future__ import annotations

import gc
import ipaddress
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from evalflow.__main__ import COLLECT_AFTER
from tests.memory import memory

pytest_plugins = ["tests.postgres"]

# No test fails for being slow on a busy machine. A test that suppresses another health check has to name this one too.
# The examples are the same in each session: what fails here fails everywhere. Raise their number to search for faults.
_SAME = {"derandomize": True, "database": None, "max_examples": 40}
settings.register_profile("evalflow", deadline=None, suppress_health_check=[HealthCheck.too_slow], **_SAME)
settings.load_profile("evalflow")

# Who has one of these runs the program, a worker, a browser or a server of databases.
_SLOW = {"program", "evaluated", "browser", "finished", "postgres"}
_LONGEST = "test_ray.py"
"""It keeps a worker busy longest, and mostly waits: it begins before all others."""
BROWSER_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
_BROWSERS = pytest.StashKey[tuple[Any, ExitStack]]()
_IN_BROWSER = pytest.StashKey[set[Path]]()
"""The files whose tests need a browser."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


# What is collected lives until the end: Python's search for reference cycles need not look at it again and again.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Have the folders of tests in memory if it has room; workers are given theirs."""
    if config.option.basetemp is None and (room := memory()):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(room))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)  # as the program has it
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, so that none is idle while a test waits for a browser or for time to pass."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow by its fixtures, begin with it, and leave out what asks a real judge unless `-m` names it."""
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        on_postgres = "postgresql" in (parameters.get("database_url"), parameters.get("empty_url"))
        if on_postgres or not _SLOW.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
    config.stash[_IN_BROWSER] = {item.path for item in items if "browser" in getattr(item, "fixturenames", ())}
    # Long files first, those with a browser, then slow ones: one that begins last would leave the other workers idle.
    marked = [{item.path for item in items if item.get_closest_marker(mark)} for mark in ("browser", "slow")]
    items.sort(key=lambda item: [item.path.name != _LONGEST, *(item.path not in paths for paths in marked)])
    if re.search(r"\blive\b", config.option.markexpr):
        return
    live = [item for item in items if item.get_closest_marker("live")]
    if live:
        config.hook.pytest_deselected(items=live)
        items[:] = [item for item in items if item not in live]


@pytest.fixture(autouse=True)
def clean_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("live"):
        return
    for name in list(os.environ):
        ours = name.startswith("EVALFLOW_") or name.endswith(("_API_KEY", "_BASE_URL"))
        if ours or name.lower() in _PROXIES:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def loopback_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that connects elsewhere, unless it asks a real judge. What a subprocess does is out of its sight."""
    if request.node.get_closest_marker("live"):
        return
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(self: socket.socket, address: Any) -> None:
        _refuse(self, address)
        return connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        _refuse(self, address)
        return connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_ex)


def _refuse(sock: socket.socket, address: Any) -> None:
    if sock.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
        pytest.fail(f"the test connects to {address[0]}:{address[1]}; tests reach loopback only")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture(name="browser", scope="module")
def _browser(pytestconfig: pytest.Config) -> Iterator[Any]:
    """A browser, the same for all modules that need one until a module comes that needs none."""
    if _BROWSERS not in pytestconfig.stash or not pytestconfig.stash[_BROWSERS][0].is_connected():
        stack = ExitStack()
        pytestconfig.add_cleanup(stack.close)
        pytestconfig.stash[_BROWSERS] = _begun(stack), stack
    browser, _ = pytestconfig.stash[_BROWSERS]
    yield browser
    for context in browser.contexts:
        context.close()


def _begun(stack: ExitStack) -> Any:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # The shell takes half of the time: it has none of the browser's own pages.
    known = map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))
    path = os.environ.get("CHROMIUM") or next(filter(None, known), None)
    if path is None:
        pytest.skip("no Chromium on this machine; install one, or name it in CHROMIUM")
    playwright = stack.enter_context(sync_api.sync_playwright())
    return stack.enter_context(playwright.chromium.launch(executable_path=path, headless=True, args=BROWSER_FLAGS))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the browser: Playwright keeps an event loop going, within which other tests could not start their own."""
    if _BROWSERS in item.config.stash and item.path not in item.config.stash[_IN_BROWSER]:
        item.config.stash[_BROWSERS][1].close()
        del item.config.stash[_BROWSERS]
