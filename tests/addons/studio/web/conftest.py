"""Servers on loopback for the tests of the application, and how they are asked."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="the extra `web` is not installed")

from starlette.applications import Starlette
from starlette.routing import Mount

from evalflow.addons.studio.web.address import Address, bind, loopback
from evalflow.addons.studio.web.application import API, rest_api, security_middleware
from evalflow.addons.studio.web.security.token import cookie_name
from evalflow.addons.studio.web.serve import server
from evalflow.addons.studio.work.space import Workspace, open_workspace
from tests.addons.studio.web.finished import Finished, finish_runs
from tests.addons.studio.web.served import TOKEN
from tests.off_loop import keep_off_loops


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    """A server, asked as no client library would: with any header, or without."""

    address: Address
    token: str | None = TOKEN

    @property
    def known(self) -> dict[str, str]:
        """The header of those who know the token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def cookie(self) -> Any:
        """What a browser has once it was shown the token."""
        return {"name": cookie_name(self.address.port), "value": self.token, "url": self.address.url}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Headers with `_` for `-`; JSON is sent as JSON, bytes as they are, and the token unless it is None."""
        sent = self.known | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            sent.setdefault("Content-Type", "application/json")
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=30)
        try:
            connection.request(method, path, body, sent)
            reply = connection.getresponse()
            return Answer(reply.status, reply.headers, reply.read())
        finally:
            connection.close()


@contextmanager
def served(make: Callable[[Address], Any]) -> Iterator[Server]:
    """A real server, in a thread, for the application that `make` gives for its address."""
    sock, address = bind(loopback("127.0.0.1", 0))
    answering = server(make(address), log_level="critical", timeout_graceful_shutdown=1)
    thread = threading.Thread(target=answering.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        yield Server(address)
    finally:
        answering.should_exit = True
        thread.join()
        sock.close()


@contextmanager
def working_in(folder: Path, url: str | None = None) -> Iterator[Workspace]:
    """A workspace in a folder, which is the working directory meanwhile; `url` of its database, if not its own file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with closing(open_workspace(url)) as workspace:
            yield workspace


@contextmanager
def api_served(folder: Path, url: str | None = None) -> Iterator[Server]:
    """The REST API behind its guards, without the pages, which NiceGUI keeps for a whole process."""

    def make(address: Address) -> Starlette:
        guards = security_middleware(workspace, address, TOKEN)
        return Starlette(routes=[Mount(API, rest_api())], middleware=guards)

    with pytest.MonkeyPatch.context() as patch, working_in(folder, url) as workspace, served(make) as server:
        keep_off_loops(patch.setattr)
        yield server


@pytest.fixture(name="finished", scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    with working_in(tmp_path_factory.mktemp("finished")) as workspace:
        return finish_runs(workspace)


@pytest.fixture(name="api", scope="module")
def _api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api_served(tmp_path_factory.mktemp("workspace")) as server:
        yield Api(server)


@dataclass(frozen=True)
class Api:
    """The REST API, asked as a program would."""

    server: Server

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.server.ask(method, f"{API}{path}", body, X_Requested_With="test", **headers)


Fits = Callable[[Any, str], None]


@pytest.fixture(name="fits")
def _fits() -> Fits:
    """Sees that a page, once it is loaded, fits both widths; a failure has the name.

    Each width in one of the colours: `test_contrast.py` shows that nothing but colours differs between these.
    """

    def fits(page: Any, name: str) -> None:
        for width, colours in ((390, "dark"), (1280, "light")):
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=colours)
            page.wait_for_function("it => document.documentElement.dataset.colours === it", arg=colours)
            assert page.evaluate("document.documentElement.scrollWidth") == width, name

    return fits
