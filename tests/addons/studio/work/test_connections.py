"""With a list of connections, bots and judges are called there only, by the server and by the runs that it queues."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy import delete

from evalflow.addons.studio.store import definitions, people, server_tables
from evalflow.addons.studio.work import bots, cases, datasets, metrics, process, runs
from evalflow.addons.studio.work.metric_trial import preview_metric, try_metric, write_steps
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.transfer import export_files
from evalflow.addons.studio.work.worker import Worker
from evalflow.calls.connections import Connection
from evalflow.errors import EvalflowError, InfrastructureError, UserError
from evalflow.testing import Endpoint, Request
from tests.finishing import PATIENCE_S, finish
from tests.forked import FORKING
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.slow, ON_SQLITE]

GRADE: dict[str, Any] = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "scale": {"type": "likert", "min": 1, "max": 5},
}
BOT = {"kind": "openai", "model": "m", "connection": "own"}


@pytest.fixture
def port() -> Generator[int]:
    """A port of 127.0.0.1; fails a test that leaves a connection to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]
        assert select.select([listener], [], [], 0)[0] == []


def allowing(space: Workspace, address: str, *networks: str, key: str | None = None) -> Workspace:
    """The workspace with an account, and so with connections: one, called own."""
    one = Connection("own", address, key, networks)
    with space.database.writing() as connection:
        if not people.has_users(connection):
            values = {"full_name": "", "email": None, "is_owner": True, "is_disabled": False}
            definitions.add(connection, "user", {"name": "olga", **values})
        connection.execute(delete(server_tables.connections))
        definitions.add(connection, "connection", {**asdict(one), "description": ""})
    return space


def reply(request: Request) -> Any:
    if "write down the steps" in request.text:
        return {"steps": ["Look."]}
    return "Forty pounds." if request.schema is None else {"reason": "so", "score": 4}


def asking(space: Workspace, metric: dict[str, Any] = GRADE, **values: Any) -> RunRequest:
    """A run of a bot and one case; the judge is at the same connection."""
    bots.create_bot(space, "fees", BOT)
    metrics.create_metric(space, "fees", MetricDraft("good", metric))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"question": "What does it cost?"}])
    return RunRequest("fees", ["mine"], ["good"], **values)


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f000001", "0.0.0.0", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize(
    "bot", [BOT, {**BOT, "client": "sdk"}, {"kind": "http", "connection": "own", "url": "/ask"}], ids=str
)
async def test_a_bot_on_trial_reaches_nothing_else(space: Workspace, port: int, host: str, bot: dict[str, Any]) -> None:
    public = allowing(space, f"http://{host}:{port}", "public")
    with pytest.raises(InfrastructureError, match=r"outside of the connection's networks \(public\)") as caught:
        await bots.try_bot(public, "bot", bot, "Well?")
    assert "the owner of the server names the networks" in str(caught.value)


@pytest.mark.anyio
async def test_what_belongs_to_the_connection_is_called_with_its_key(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-of-the-connection")
    metric = {"kind": "g_eval", "criteria": "It names a price.", "needs": ["question", "answer"]}
    with Endpoint(reply, api_key="sk-of-the-connection") as endpoint:
        space = allowing(space, endpoint.url, "127.0.0.1/32", key="OWN_KEY")
        service = {
            "kind": "http",
            "connection": "own",
            "url": "/chat/completions",
            "answer": "$.choices[0].message.content",
        }
        for bot in (BOT, {**BOT, "client": "sdk"}, {**service, "body": {"messages": "{{ messages }}"}}):
            answer = await bots.try_bot(space, "bot", bot, "What does it cost?")
            assert (answer.answer, answer.error) == ("Forty pounds.", None)
        asking(space)
        assert (await write_steps(space, "fees", MetricDraft("price", metric))).steps[0] == "Look."
        own = {**metric, "judge": {"connection": "own", "kind": "openai", "model": "n"}}
        assert (await try_metric(space, "fees", MetricDraft("price", own), {"question": "q?"})).scores[0].score


def test_what_belongs_to_no_connection_is_not_saved(space: Workspace, port: int, tmp_path: Path) -> None:
    space = allowing(space, f"http://127.0.0.1:{port}/v1", "127.0.0.1/32", key="OWN_KEY")
    there = f"http://127.0.0.1:{port}/v1"
    service = {"kind": "http", "url": there}
    for bot, key in (
        ({**BOT, "connection": "other"}, "target.connection"),
        ({**BOT, "base_url": there}, "target.base_url"),
        ({"kind": "openai", "model": "m"}, "target.base_url"),
        ({"kind": "openai", "model": "m", "base_url": there, "api_key_env": "HOME"}, "target.api_key_env"),
        ({"kind": "openai", "model": "m", "base_url": there, "api_key_env": None}, "target.api_key_env"),
        ({**BOT, "system_prompt": "${oc.env:OWN_KEY}"}, "target"),
        ({**service, "url": f"http://127.0.0.1:{port}/other"}, "target.url"),
        ({**service, "url": f"{there}?key=${{oc.env:OWN_KEY}}"}, "target"),
        ({**service, "headers": {"x": "${oc.env:HOME}"}}, "target.headers"),
        ({**service, "body": {"x": [r"\${oc.env:HOME}"]}}, "target"),
        ({**service, "body": {"x": ["${oc.env:OWN_KEY}"]}}, "target"),
    ):
        with pytest.raises(UserError) as caught:
            bots.create_bot(space, "fees", bot)
        assert [problem.key for problem in caught.value.problems] == [key], bot
    request = asking(space)
    assert bots.get_bot(space, "fees").config == BOT
    with pytest.raises(UserError, match="there is no connection 'other'"):
        metrics.create_metric(space, "fees", MetricDraft("x", {**GRADE, "judge": {"connection": "other"}}))
    export_files(space, tmp_path / "out", "fees")
    assert f"base_url: {there}" in (tmp_path / "out/conf/target/fees.yaml").read_text(encoding="utf-8")
    for other in (
        {"judge": "openai", "judge_values": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}},
        {"judge": "panel", "judge_values": {"members": {"first": {"connection": "own"}, "second": {"model": "n"}}}},
        {"embedder": "openai"},
    ):
        with pytest.raises(UserError, match="belongs to no connection of this server"):
            runs.create_run(space, replace(request, **other))
    assert list(space.runs.glob("*")) == []


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"engine": {"kind": "ray", "address": "10.0.0.1:6379"}}, "engine can be set on a public server by its owner"),
        ({"engine": {"kind": "local"}}, "engine can be set on a public server by its owner"),
        ({"copy_to": "s3://bucket/runs"}, "a public server reaches its connections only"),
        ({"otel": {"endpoint": "http://127.0.0.1:1"}}, "belongs to no connection of this server"),
        ({"cache": {"url": "postgresql://127.0.0.1/x"}}, "of the cache only the mode can be chosen"),
    ],
)
def test_options_that_only_the_owner_sets_are_refused_at_every_door(
    space: Workspace, port: int, options: dict[str, Any], refused: str
) -> None:
    alone = asking(allowing(space, f"http://127.0.0.1:{port}/v1", "127.0.0.1/32", key="OWN_KEY"))
    request = replace(alone, options={**alone.options, **options})
    for door in (runs.create_run, runs.estimate_run):
        with pytest.raises(UserError, match=refused):
            door(space, request)
    assert list(space.runs.glob("*")) == []


def test_no_text_of_a_run_reads_the_environment(space: Workspace, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a variable in options, judges and metrics is text."""
    monkeypatch.setenv("OWN_KEY", "sk-never-seen")
    read = "${oc.env:OWN_KEY}"
    space = allowing(space, f"http://127.0.0.1:{port}/v1", "127.0.0.1/32", key="OWN_KEY")
    request = asking(space, {"kind": "g_eval", "criteria": read, "description": read, "needs": ["question", "answer"]})
    run = runs.create_run(space, replace(request, title=read))
    written = "".join(file.read_text(encoding="utf-8") for file in (run.folder / "snapshot").rglob("*.yaml"))
    assert r"\${oc.env:OWN_KEY}" in written
    assert "sk-never-seen" not in written


def test_a_run_asks_its_connections(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-of-the-connection")
    with Endpoint(reply, api_key="sk-of-the-connection") as endpoint:
        space = allowing(space, endpoint.url, "127.0.0.1/32", key="OWN_KEY")
        own = {**GRADE, "judge": {"kind": "openai", "model": "n", "connection": "own"}}
        done = finish(space, asking(space, own, judge="openai", judge_values={"model": "j", "connection": "own"}))
    assert (done.state, done.progress.done) == ("done", 1)
    assert {request.body["model"] for request in endpoint.requests} == {"m", "n"}


def test_the_process_of_a_run_reaches_nothing_else(
    space: Workspace, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, outside = f"http://localhost:{port}", "outside of the connection's networks (public)"
    known = allowing(space, address, "public")
    request = asking(known)
    for name, client in (("by_http", "http"), ("by_sdk", "sdk")):
        bots.create_bot(known, name, {**BOT, "client": client})
        metrics.create_metric(known, name, MetricDraft("good", GRADE))
    for found in carried_out(known, replace(request, bot="by_http"), replace(request, bot="by_sdk")):
        assert (found.state, found.exit_code) == ("failed", 5), found.message
        assert outside in found.message

    run = runs.create_run(known, request)  # before the connection gets another address
    now, faults = allowing(space, f"{address}/v1", "127.0.0.0/8"), [InfrastructureError("the database is gone")]
    has_users = people.has_users

    def fail_first(connection: DatabaseConnection) -> bool:
        if faults:
            raise faults.pop()
        return has_users(connection)

    monkeypatch.setattr(people, "has_users", fail_first)
    (found,) = carried_out(now, run)
    assert faults == []
    assert (found.state, found.exit_code) == ("failed", 2), found.message
    assert "belongs to no connection of this server" in found.message


def carried_out(space: Workspace, *asked: RunRequest | Run) -> list[Run]:
    """Runs as a worker leaves them, each of a process of its own."""
    ids = [one.run_id if isinstance(one, Run) else runs.create_run(space, one).run_id for one in asked]
    worker, deadline = Worker(space, at_once=2), time.monotonic() + PATIENCE_S
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", FORKING)
        while any((found := runs.get_run(space, one)).state in ("queued", "running") for one in ids):
            assert time.monotonic() < deadline, found
            with suppress(InfrastructureError):
                if not worker.step():
                    time.sleep(0.05)
    return [runs.get_run(space, one) for one in ids]


def test_what_was_saved_without_a_list_is_not_even_shown(
    space: Workspace, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "hush")
    address = f"http://127.0.0.1:{port}"
    before = {"kind": "openai", "model": "${oc.env:OTHER_KEY}", "base_url": address, "api_key_env": "OWN_KEY"}
    bots.create_bot(space, "fees", before)
    metric, case = MetricDraft("good", GRADE), {"question": "q?", "answer": "a"}
    own = allowing(space, address, "127.0.0.1/32", key="OWN_KEY")
    with pytest.raises(UserError, match="OTHER_KEY cannot be read here"):
        preview_metric(own, "fees", metric, case)
    bots.update_bot(own, "fees", 1, config=BOT)
    assert preview_metric(own, "fees", metric, case).prompts  # needs no key


def test_without_a_list_a_connection_has_no_meaning(space: Workspace) -> None:
    with pytest.raises(EvalflowError, match="connection"):
        bots.create_bot(space, "fees", BOT)
