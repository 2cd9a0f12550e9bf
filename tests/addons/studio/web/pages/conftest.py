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

from evalflow.addons.studio.web.address import bind, loopback
from evalflow.addons.studio.work import process
from evalflow.addons.studio.work.worker import Worker
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.served import serve_pages
from tests.forked import FORKING, Forked

ROOT = Path(__file__).parents[5]
KEY = "TRIAL_KEY"
BLANK = "/assets/icon.svg"
"""Where a tab waits for the next test: on the same server, so that it keeps its process with what it has compiled."""


@pytest.fixture(name="pages", scope="module")
def _pages(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    """With a worker where the module of the test has a WORKER; what is seen elsewhere needs no run."""
    folder = tmp_path_factory.mktemp("workspace")
    with paged(folder) as server, working(folder) if hasattr(request.module, "WORKER") else nullcontext():
        yield server


@contextmanager
def paged(folder: Path, *words: str, serves: Callable[..., None] = serve_pages) -> Iterator[Server]:
    """The application in a process of its own, at work in a folder; `serves` is given the words."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), KEY: "a-secret-key"}
    sock, address = bind(loopback("127.0.0.1", 0))
    with sock:
        server = Forked((sock, address, *words), folder, sys.stderr.fileno(), env=environment, does=serves)
    try:
        yield Server(address)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


@contextmanager
def working(folder: Path, url: str | None = None) -> Iterator[None]:
    """A worker in a thread of this process, which forks the processes of its runs."""
    stop = threading.Event()
    with pytest.MonkeyPatch.context() as patch, working_in(folder, url) as space:
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
def _visit(profile: Any, pages: Server, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Opens pages. At the end nothing was asked of another host, and no script, style or policy failed.

    The tab of the test before is used again, since a new one takes as long as its page. A module whose tests leave in a
    tab what cannot be taken away has OWN_TABS.
    """
    troubles: list[str] = []

    def note(message: Any) -> None:
        if message.type in ("error", "warning") and not re.search(r"status of 4\d\d", message.text):
            troubles.append(message.text)

    def note_url(one: Any) -> None:
        if not _is_ours(one.url, pages):
            troubles.append(one.url)

    heard: dict[str, Callable[[Any], None]] = {
        **{"pageerror": lambda error: troubles.append(str(error)), "console": note},
        **{"request": note_url, "websocket": note_url},
    }

    def visit(path: str, width: int = 1280, colours: str = "light") -> Any:
        page = next((tab for tab in profile.pages if urlsplit(tab.url).path == BLANK), None) or profile.new_page()
        page.set_viewport_size({"width": width, "height": 844})
        page.emulate_media(color_scheme=colours)
        for event, hear in heard.items():
            page.on(event, hear)
        page.goto(f"{pages.address.url}{path}")
        page.wait_for_function("window.did_handshake === true")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # it is drawn
        return page

    yield visit
    own_tabs = hasattr(request.module, "OWN_TABS")
    for number, page in enumerate(profile.pages):
        if (
            number > 0
            or own_tabs
            or not page.url.startswith(pages.address.url)
            or not _is_left(page, f"{pages.address.url}{BLANK}")
        ):
            page.close()
        else:
            for event, hear in heard.items():
                page.remove_listener(event, hear)
    assert troubles == []


def _is_left(page: Any, waits_at: str) -> bool:
    """Leave a page, whatever it asks; False if it goes elsewhere at this moment."""
    from playwright.sync_api import Error

    def accept(dialog: Any) -> None:
        dialog.accept()

    page.on("dialog", accept)
    try:
        page.goto(waits_at)
    except Error:
        return False
    finally:
        page.remove_listener("dialog", accept)
    return True


def _is_ours(url: str, pages: Server) -> bool:
    return url.startswith("data:") or urlsplit(url).netloc == f"127.0.0.1:{pages.address.port}"
