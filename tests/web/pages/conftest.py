"""The pages in a process of their own, as NiceGUI needs it, and a browser that finds all that should not be."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from evalflow.app.core import process
from evalflow.app.worker import Worker
from evalflow.web.address import bind, loopback

from ...forked import FORKING, Forked
from ..conftest import Server, working_in
from ..served import serve_pages

ROOT = Path(__file__).parents[3]
KEY = "TRIAL_KEY"


@pytest.fixture(name="pages", scope="module")
def _pages(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    """With a worker where the module of the test has a WORKER; what is seen elsewhere needs no run."""
    folder = tmp_path_factory.mktemp("workspace")
    with paged(folder) as server, working(folder) if hasattr(request.module, "WORKER") else nullcontext():
        yield server


@contextmanager
def paged(folder: Path, serves: Callable[..., None] = serve_pages) -> Iterator[Server]:
    """The application in a process of its own, at work in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), KEY: "a-secret-key"}
    sock, address = bind(loopback("127.0.0.1", 0))
    with sock:
        server = Forked((sock, address), folder, sys.stderr.fileno(), env=environment, does=serves)
    try:
        yield Server(address)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


@contextmanager
def working(folder: Path) -> Iterator[None]:
    """A worker in a thread of this process, which forks the processes of its runs."""
    stop = threading.Event()
    with pytest.MonkeyPatch.context() as patch, working_in(folder) as space:
        patch.setenv(KEY, "a-secret-key")
        patch.setattr(process, "subprocess", FORKING)
        worker = Worker(space)
        thread = threading.Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            worker.leave()


@pytest.fixture(name="profile", scope="module")
def _profile(browser: Any, pages: Server) -> Iterator[Any]:
    """What a browser keeps from page to page: with the scripts in its cache, a page takes two thirds of the time."""
    context = browser.new_context()
    context.add_cookies([pages.cookie])
    context.set_default_timeout(60_000)
    yield context
    context.close()


@pytest.fixture(name="visit")
def _visit(profile: Any, pages: Server) -> Iterator[Callable[..., Any]]:
    """Opens pages. At the end nothing was asked of another host, and no script, style or policy failed."""
    troubles: list[str] = []

    def note(message: Any) -> None:
        if message.type in ("error", "warning") and not re.search(r"status of 4\d\d", message.text):
            troubles.append(message.text)

    def visit(path: str, width: int = 1280, colours: str = "light") -> Any:
        page = profile.new_page()
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=colours)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", note)
        page.on("request", lambda one: None if _is_ours(one.url, pages) else troubles.append(one.url))
        page.on("websocket", lambda one: None if _is_ours(one.url, pages) else troubles.append(one.url))
        page.goto(f"{pages.address.url}{path}")
        page.wait_for_function("window.did_handshake === true")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # it is drawn
        return page

    yield visit
    for page in profile.pages:
        page.close()
    assert troubles == []


def _is_ours(url: str, pages: Server) -> bool:
    return url.startswith("data:") or urlsplit(url).netloc == f"127.0.0.1:{pages.address.port}"
