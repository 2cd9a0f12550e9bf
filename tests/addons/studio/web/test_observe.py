"""What a server tells about itself: a line for each request, without secrets, and figures for who may read them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from socketio import AsyncServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from evalflow.addons.studio.store import runs
from evalflow.addons.studio.verbs import JsonLines, log_json_lines
from evalflow.addons.studio.web.address import Address
from evalflow.addons.studio.web.application import API, rest_api, security_middleware
from evalflow.addons.studio.web.observe import RequestsTold, metrics_route, request_histogram, route_group
from evalflow.addons.studio.web.security.projects import InProject
from evalflow.addons.studio.work.access import Actor, nobody
from evalflow.addons.studio.work.server import server_figures
from evalflow.addons.studio.work.space import open_workspace
from tests.addons.studio.web.conftest import TOKEN, Server, served, working_in
from tests.addons.studio.web.test_serve import until


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    with working_in(tmp_path) as space:

        def make(address: Address) -> Starlette:
            registry, seconds = request_histogram()
            routes = [metrics_route(space, registry, []), Mount(API, rest_api())]
            guards = security_middleware(space, address, TOKEN)
            return Starlette(routes=routes, middleware=[Middleware(RequestsTold, seconds=seconds), *guards])

        with served(make) as server:
            yield server


def figures(server: Server) -> dict[str, float]:
    text = server.ask("GET", "/metrics").body.decode()
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {f"{sample.name}{sorted(sample.labels.values()) or ''}": sample.value for sample in found}


def written(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Lines of requests, which are written after their answers."""
    return [record for record in caplog.records if record.name == "evalflow.requests"]


def test_requests_are_logged_and_counted_without_what_is_secret(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "evalflow")
    answer = server.ask("GET", f"{API}/bots?cursor=secret-cursor")
    server.ask("GET", f"/?token={TOKEN}")
    server.ask("GET", "/any/path/that/nobody/has")
    records = until(lambda: found if len(found := written(caplog)) == 3 else None)
    lines = [JsonLines().format(record) for record in records]
    first, second, third = map(json.loads, lines)
    assert first["request"] == answer.headers["X-Request-ID"]
    assert first.pop("ms") > 0
    del first["time"], first["request"]
    about = {"level": "info", "event": "request", "method": "GET", "address": "127.0.0.1"}
    assert first == {**about, "route": f"{API}/bots", "status": answer.status}
    assert (second["status"], third["status"]) == (303, 404)
    assert TOKEN not in "".join(lines)
    assert "secret" not in "".join(lines)
    found = figures(server)
    assert found["evalflow_request_seconds_count['404', 'other']"] == 1
    assert found[f"evalflow_request_seconds_count['{answer.status}', 'api/bots']"] == 1


def test_metrics_are_for_the_owner(server: Server) -> None:
    stranger = Server(server.address, token=None)
    assert stranger.ask("GET", "/metrics").status == 401
    answer = server.ask("GET", "/metrics")
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    assert figures(server)["evalflow_database_up"] == 1


@pytest.mark.parametrize(
    ("networks", "actor", "status"),
    [
        (["127.0.0.0/8"], None, 200),
        (["10.0.0.0/8"], None, 401),
        ([], Actor(1, "viewer", roles={1: "admin"}), 403),
        ([], Actor(1, "owner", is_owner=True), 200),
    ],
)
def test_others_need_a_network(tmp_path: Path, networks: list[str], actor: Actor | None, status: int) -> None:
    with working_in(tmp_path) as space:
        registry, _ = request_histogram()
        asked = replace(space, identify=lambda: actor) if actor else replace(space, identify=nobody)
        route = metrics_route(space, registry, networks)
        app = Starlette(routes=[route], middleware=[Middleware(InProject, workspace=asked)])
        with served(lambda _: app) as server:
            assert server.ask("GET", "/metrics").status == status


def test_figures_are_of_all_runs(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run: dict[str, Any] = {"project_id": 1, "title": "", "bot": "b", "origin": "workspace", "composition": {}}
    run |= {"arguments": [], "folder": "", "state": "queued", "created_at": "2026-01-01T00:00:00.000+00:00"}
    done = {"counts": {"scored": 3, "error": 1}, "answers": {"error": 2}, "calls": 7, "cost_usd": 0.5}
    with closing(open_workspace(database_url)) as space:
        assert server_figures(space.database).runs == dict.fromkeys(
            ("queued", "running", "done", "failed", "cancelled", "interrupted"), 0
        )
        with space.database.writing() as connection:
            runs.create(connection, {**run, "run_id": "waits"})
            runs.create(connection, {**run, "run_id": "is at it"})
            assert runs.claim(connection, runs.queued(connection)[0].id, "worker", 1.0)
            runs.create(connection, {**run, "run_id": "is done", "state": "done", "progress": done})
            runs.create(connection, {**run, "run_id": "costs nobody knows", "state": "done", "progress": {"calls": 1}})
        found = server_figures(space.database)
    assert (found.runs["queued"], found.runs["running"], found.runs["done"]) == (1, 1, 2)
    assert found.oldest_s > 3600
    assert found.silence_s["worker"] > 3600
    assert found.scores == {"scored": 3, "undefined": 0, "skipped": 0, "error": 1}
    assert (found.failed_answers, found.calls, found.cost_usd) == (2, 8, 0.5)


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/", "bots"),
        ("/p/team", "bots"),
        ("/p/team/runs/r1", "runs"),
        ("/api/v1/runs/r1/scores", "api/runs"),
        ("/p/team/api/v1/bots", "api/bots"),
        ("/api/v1/../../x", "api/other"),
        ("/wp-login.php", "other"),
    ],
)
def test_routes_are_counted_in_groups(path: str, group: str) -> None:
    assert route_group(path) == group


def test_an_error_is_logged_without_its_message() -> None:
    try:
        raise ValueError("the text of a case")
    except ValueError as error:
        record = logging.LogRecord("nicegui", logging.ERROR, "", 0, error, (), (ValueError, error, error.__traceback__))
    line = json.loads(JsonLines().format(record))
    assert (line["event"], line["error"], line["level"]) == ("ValueError", "ValueError", "error")
    assert "test_an_error_is_logged" in line["at"][0]
    assert "text of a case" not in json.dumps(line)


def test_sockets_write_no_lines_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {name: logging.getLogger(name) for name in ("engineio.server", "socketio.server", "evalflow", "nicegui")}
    levels = {name: logger.level for name, logger in named.items()}
    sockets = [named["engineio.server"], named["socketio.server"]]
    monkeypatch.setattr(named["nicegui"], "propagate", named["nicegui"].propagate)
    for logger in sockets:
        monkeypatch.setattr(logger, "handlers", [])
        logger.setLevel(logging.NOTSET)
    try:
        log_json_lines()
        AsyncServer(async_mode="asgi")
        assert [logger.handlers for logger in sockets] == [[], []]
    finally:
        for name, logger in named.items():
            logger.setLevel(levels[name])
