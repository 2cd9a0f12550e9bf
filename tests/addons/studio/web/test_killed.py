"""A server is killed in mid-run: the next one, or another one, ends the run; nothing is lost or paid for twice."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.conftest import Api, Server
from tests.addons.studio.web.test_serve import children, serving, until
from tests.postgres import programs

pytestmark = pytest.mark.slow

CASES = 30
GRADE: dict[str, Any] = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "description": "How good.",
    "scale": {"type": "likert", "min": 1, "max": 5},
}


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


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> Any:
    answer = Api(server)(method, path, body, **headers)
    assert answer.status < 300, answer.body
    return answer.json


def define(server: Server, bot: Bot) -> dict[str, Any]:
    config = {"kind": "openai", "model": "m", "base_url": bot.endpoint.url, "concurrency": {"start": 4, "max": 4}}
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


def test_a_killed_server_takes_its_worker_along_and_the_run_ends_with_the_next(tmp_path: Path, bot: Bot) -> None:
    with serving(tmp_path, is_forked=True) as (process, server):
        run = ask(server, "POST", "/runs", define(server, bot))["run_id"]
        until(lambda: bot.asked.total() >= 10)
        (worker,) = children(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: gone(worker))
    with serving(tmp_path, is_forked=True) as (_, server):
        bot.go.set()
        done = until(lambda: found if (found := ask(server, "GET", f"/runs/{run}"))["finished_at"] else None)
        scored = ask(server, "GET", f"/runs/{run}/scores?limit=500")["items"]
    expect_all(bot, done, scored)


def test_another_server_on_the_same_database_ends_the_run_of_one_that_was_killed(
    request: pytest.FixtureRequest, tmp_path: Path, bot: Bot
) -> None:
    """On PostgreSQL where there is one. The worker is killed first, so that it cannot end what it has begun."""
    words = ["--database-url", request.getfixturevalue("postgres_url")] if programs() else []
    with (
        serving(tmp_path, *words, is_forked=True) as (_, other),
        serving(tmp_path, *words, is_forked=True) as (process, server),
    ):
        run = ask(server, "POST", "/runs", define(server, bot))["run_id"]
        until(lambda: bot.asked.total() >= 10)
        for pid in (*children(process.pid), process.pid):
            os.kill(pid, signal.SIGKILL)
        assert ask(other, "GET", f"/runs/{run}")["state"] == "running"
        bot.go.set()
        done = until(lambda: found if (found := ask(other, "GET", f"/runs/{run}"))["finished_at"] else None)
        scored = ask(other, "GET", f"/runs/{run}/scores?limit=500")["items"]
    expect_all(bot, done, scored)


def expect_all(bot: Bot, done: dict[str, Any], scored: list[dict[str, Any]]) -> None:
    assert (done["state"], done["exit_code"], done["progress"]["done"]) == ("done", 0, CASES)
    assert sorted(one["case_id"] for one in scored) == sorted(f"c{i}" for i in range(CASES))
    assert set(bot.asked.values()) == {1}
    assert len(bot.asked) == 2 * CASES
