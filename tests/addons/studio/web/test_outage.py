"""The database goes away and comes back: requests are told to try again, and nothing has to be started again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.web.application import API, health_routes, rest_api, security_middleware
from evalflow.addons.studio.work.space import Workspace, open_workspace
from tests.addons.studio.web.conftest import TOKEN, Answer, Server, served
from tests.postgres import cluster

pytestmark = pytest.mark.slow


def application_of(workspace: Workspace) -> Callable[[Address], Starlette]:
    def make(address: Address) -> Starlette:
        routes = [*health_routes(workspace, None), Mount(API, rest_api())]
        return Starlette(routes=routes, middleware=security_middleware(workspace, address, TOKEN))

    return make


def requests(server: Server, key: str) -> Iterator[tuple[str, Answer]]:
    bot: dict[str, Any] = {"name": f"first_{key}", "config": {"kind": "recorded"}}
    marked = {"X_Requested_With": "test"}
    yield "readyz", server.ask("GET", "/readyz")
    yield "read", server.ask("GET", f"{API}/bots")
    yield "in a project", server.ask("GET", f"/p/default{API}/bots")
    yield "write", server.ask("POST", f"{API}/bots", bot, **marked)


def test_postgresql_is_stopped_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        cluster() as postgres,
        closing(open_workspace(postgres.url)) as workspace,
        served(application_of(workspace)) as server,
    ):
        assert {answer.status for _, answer in requests(server, "a")} == {200, 201}
        postgres.stop()
        for what, answer in requests(server, "b"):
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5"), what
            assert "the database does not answer" in answer.body.decode(), what
            assert "postgresql" not in answer.body.decode(), "strangers learn no address"
        assert server.ask("GET", "/healthz").status == 200
        postgres.start()
        assert [answer.status for _, answer in requests(server, "b")] == [200, 200, 200, 201]


def test_a_database_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evalflow.addons.studio.web.application.READY_S", 0.1)
    answers = Event()
    with closing(open_workspace()) as workspace, served(application_of(workspace)) as server:
        monkeypatch.setattr("evalflow.addons.studio.store.Database.check", lambda _: answers.wait(60))
        try:
            answer = server.ask("GET", "/readyz")
        finally:
            answers.set()
    assert answer.status == 503
    assert answer.json["faults"] == ["the database has not answered for 0.1 s"]
