"""A server is killed in mid-run: the next one, or another one, ends the run; nothing is lost or paid for twice.

Each for the server of one person and for a public one, whose sessions and rights are as before.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal

import pytest

from evalflow.addons.studio.web.application import API
from evalflow.addons.studio.web.security.sign_in import COOKIE
from evalflow.addons.studio.work import connections, people, projects
from evalflow.addons.studio.work.connections import ConnectionDraft
from evalflow.addons.studio.work.sessions import create_token
from evalflow.testing import Endpoint, Request
from tests.addons.studio.signing_in import session_key, signed_in
from tests.addons.studio.web.conftest import Answer, Api, Server, working_in
from tests.addons.studio.web.test_serve import children, serving, until
from tests.postgres import cluster, programs

pytestmark = pytest.mark.slow

CASES = 30
GRADE: dict[str, Any] = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "description": "How good.",
    "scale": {"type": "likert", "min": 1, "max": 5},
}
NAME = "evalflow.example"


class Bot:
    """A bot and its judge behind one endpoint; from the tenth request on they wait for `go`."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: Counter[str] = Counter()
        self.endpoint = Endpoint(self._reply)

    def _reply(self, request: Request) -> Any:
        self.asked[f"{request.schema is None} {request.text}"] += 1
        if self.asked.total() >= 10:
            self.go.wait(60)
        return "It is so." if request.schema is None else {"reason": "so", "score": 4}


@pytest.fixture(name="bot")
def _bot() -> Iterator[Bot]:
    bot = Bot()
    with bot.endpoint:
        yield bot
        bot.go.set()


@dataclass(frozen=True)
class Proxied(Server):
    """A public server, asked as by its reverse proxy. The token is that of an editor's program."""

    @property
    def known(self) -> dict[str, str]:
        return {**super().known, "Host": NAME, "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}


class Form:
    """Servers of one folder and database: of one person, or public, with an owner, an editor and a viewer."""

    def __init__(self, kind: Literal["own", "public"], folder: Path, url: str | None, bot: Bot) -> None:
        self._folder = folder
        self._words = ["--database-url", url] if url else []
        self._token, self.sessions = "", dict[str, str]()
        if kind == "own":
            return
        self._words += ["--public", f"https://{NAME}", "--proxy", "127.0.0.1/32"]
        with working_in(folder, url) as space:
            connections.create_connection(space, "here", ConnectionDraft(bot.endpoint.url, networks=["127.0.0.0/8"]))
            people.add_user(space, "olga", is_owner=True)
            for name in ("editor", "viewer"):
                people.add_user(space, name)
                projects.set_role(space, name, name)
                self.sessions[name] = f"{COOKIE}={session_key(space, name)}"
            own, _ = signed_in(space, "editor")
            self._token = create_token(own, "its program", "editor", 1)[1]

    @contextmanager
    def serving(self) -> Generator[tuple[Any, Server]]:
        with serving(self._folder, *self._words, is_forked=True) as (process, server):
            yield process, Proxied(server.address, self._token) if self._token else server

    def expect_sessions(self, server: Server) -> None:
        """The sessions from before are valid, with the rights that they had."""
        for name, cookie in self.sessions.items():
            signed = replace(server, token=None)
            assert signed.ask("GET", "/runs", Cookie=cookie).status == 200, name
            changed = Api(signed)("POST", "/datasets", {"name": f"of_{name}"}, Cookie=cookie)
            assert changed.status == {"editor": 201, "viewer": 403}[name], changed.body


@pytest.fixture(name="form", params=["own", "public"])
def _form(request: pytest.FixtureRequest, tmp_path: Path, bot: Bot) -> Form:
    return Form(request.param, tmp_path, None, bot)


@pytest.fixture(name="shared", params=["own", "public"])
def _shared(request: pytest.FixtureRequest, tmp_path: Path, bot: Bot) -> Form:
    """The public one on PostgreSQL, if it is installed; the other on SQLite."""
    has_server = request.param == "public" and programs()
    return Form(request.param, tmp_path, request.getfixturevalue("postgres_url") if has_server else None, bot)


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> Any:
    answer = Api(server)(method, path, body, **headers)
    assert answer.status < 300, answer.body
    return answer.json


def define(server: Server, bot: Bot) -> dict[str, Any]:
    config = {"kind": "openai", "model": "m", "base_url": bot.endpoint.url, "api_key_env": None}
    config |= {"concurrency": {"start": 4, "max": 4}}
    ask(server, "POST", "/bots", {"name": "helper", "config": config})
    ask(server, "PUT", "/bots/helper/metrics", {"items": [{"name": "good", "definition": GRADE}]}, If_Match='""')
    ask(server, "POST", "/datasets", {"name": "mine"})
    items = [{"id": f"c{i}", "question": f"What is {i}?"} for i in range(CASES)]
    ask(server, "POST", "/datasets/mine/cases", {"items": items})
    return {"bot": "helper", "datasets": ["mine"], "metrics": ["good"], "options": {"cache": {"mode": "off"}}}


def gone(pid: int) -> bool:
    """Whether the process has ended, also where nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def finished(server: Server, run: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The run once it has ended, and its scores."""
    done = until(lambda: found if (found := ask(server, "GET", f"/runs/{run}"))["finished_at"] else None)
    return done, ask(server, "GET", f"/runs/{run}/scores?limit=500")["items"]


def test_a_killed_server_takes_its_worker_along_and_the_run_ends_with_the_next(form: Form, bot: Bot) -> None:
    with form.serving() as (process, server):
        run = ask(server, "POST", "/runs", define(server, bot))["run_id"]
        until(lambda: bot.asked.total() >= 10)
        (worker,) = children(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: gone(worker))
    with form.serving() as (_, server):
        bot.go.set()
        expect_all(bot, *finished(server, run))
        form.expect_sessions(server)


def test_another_server_on_the_same_database_ends_the_run_of_one_that_was_killed(shared: Form, bot: Bot) -> None:
    """The worker is killed first, so that it cannot end what it has begun."""
    with shared.serving() as (_, other), shared.serving() as (process, server):
        run = ask(server, "POST", "/runs", define(server, bot))["run_id"]
        until(lambda: bot.asked.total() >= 10)
        for pid in (*children(process.pid), process.pid):
            os.kill(pid, signal.SIGKILL)
        assert ask(other, "GET", f"/runs/{run}")["state"] == "running"
        bot.go.set()
        expect_all(bot, *finished(other, run))
        shared.expect_sessions(other)


class Busy(threading.Thread):
    """Does one thing after the other at a server, until it is killed; `kept` is what the server has acknowledged."""

    def __init__(self, act: Any) -> None:
        super().__init__(daemon=True)
        self._act = act
        self.kept: list[Any] = []

    def run(self) -> None:
        try:
            while (done := self._act(len(self.kept))) is not None:
                self.kept.append(done)
        except (OSError, HTTPException):
            pass


def test_no_label_and_no_case_that_was_acknowledged_is_lost(shared: Form, bot: Bot) -> None:
    bot.go.set()
    with shared.serving() as (process, server):
        run = ask(server, "POST", "/runs", define(server, bot))["run_id"]
        expect_all(bot, *finished(server, run))
        person = "editor" if shared.sessions else "local"
        body = {"name": "look", "run": run, "metrics": ["good"], "size": CASES, "people": [person]}
        ask(server, "POST", "/reviews", body)

        def label(_: int) -> Any:
            item = ask(server, "POST", "/reviews/look/next")["item"]
            if item is not None:
                sent = Api(server)("POST", f"/reviews/look/items/{item['item']}/submit", {"values": {"good": 3}})
                assert sent.status == 204, sent.body
            return item

        def upload(number: int) -> str:
            lines = "".join(f'{{"id": "u{number}-{i}", "question": "What?"}}\n' for i in range(40)).encode()
            path = "/datasets/mine/cases/upload?format=jsonl"
            ask(server, "POST", path, lines, Content_Type="application/octet-stream")
            return f"u{number}-"

        working = [Busy(label), Busy(upload)]
        for one in working:
            one.start()
        until(lambda: all(len(one.kept) > 2 for one in working))
        for pid in (process.pid, *children(process.pid)):
            os.kill(pid, signal.SIGKILL)
        for one in working:
            one.join()
    labelled, uploaded = (one.kept for one in working)
    with shared.serving() as (_, server):
        labels = Api(server)("GET", "/reviews/look/labels").body.splitlines()
        exported = Api(server)("GET", "/datasets/mine/export").body.decode()
        shared.expect_sessions(server)
    assert len(labels) - len(labelled) in (0, 1), "one may have been saved before its answer was sent"
    counts = [exported.count(f'"u{number}-') for number in range(len(uploaded) + 2)]
    assert counts[: len(uploaded)] == [40] * len(uploaded)
    assert counts[len(uploaded)] in (0, 40), "all of an upload, or nothing"
    assert counts[-1] == 0


def test_what_begins_at_one_server_is_seen_at_the_other(shared: Form, bot: Bot) -> None:
    """Both start at once with an empty database, where the form has not filled it."""
    with shared.serving() as (_, first), shared.serving() as (_, second):
        body = define(first, bot)
        made = [ask(one, "POST", "/runs", body, Idempotency_Key="once")["run_id"] for one in (first, second)]
        assert made[0] == made[1]
        until(lambda: bot.asked.total() >= 10)
        watched = {ask(one, "GET", f"/runs/{made[0]}")["state"] for one in (first, second)}
        assert watched == {"running"}
        bot.go.set()
        for one in (second, first):
            expect_all(bot, *finished(one, made[0]))
        shared.expect_sessions(second)


def test_postgresql_is_away_in_mid_run(tmp_path: Path, bot: Bot) -> None:
    def is_told(answer: Answer) -> bool:
        assert answer.status in (200, 503), answer.body
        return answer.status == 503

    with cluster() as postgres:
        form = Form("public", tmp_path, postgres.url, bot)
        cookie = form.sessions["viewer"]
        with form.serving() as (_, server):
            run = ask(server, "POST", "/runs", define(server, bot))["run_id"]
            until(lambda: bot.asked.total() >= 10)
            postgres.stop()
            for path in (f"{API}/runs/{run}", "/runs"):
                answer = server.ask("GET", path, Cookie=cookie)
                assert is_told(answer)
                assert answer.headers["Retry-After"] == "5"
            bot.go.set()
            until(lambda: bot.asked.total() == 2 * CASES)  # the run's process goes on
            postgres.start()
            until(lambda: not is_told(server.ask("GET", f"{API}/runs/{run}")))
            expect_all(bot, *finished(server, run))
            form.expect_sessions(server)


def expect_all(bot: Bot, done: dict[str, Any], scored: list[dict[str, Any]]) -> None:
    assert (done["state"], done["exit_code"], done["progress"]["done"]) == ("done", 0, CASES)
    assert sorted(one["case_id"] for one in scored) == sorted(f"c{i}" for i in range(CASES))
    assert set(bot.asked.values()) == {1}
    assert len(bot.asked) == 2 * CASES
