"""Runs over a worker under the monthly budget of their project."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from evalflow.addons.studio.store import tables
from evalflow.addons.studio.work import leases, process, runs, spending
from evalflow.addons.studio.work.leases import Need
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.addons.studio.work.worker import Worker
from evalflow.calls.budget import Amount
from evalflow.errors import UserError
from tests.addons.studio.work.test_worker import Bot, define, ended, until
from tests.forked import FORKING

pytestmark = pytest.mark.slow
CALLS = 12
"""Answers to six cases, and their grades."""


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Workspace]:
    monkeypatch.chdir(tmp_path)
    opened = open_workspace()
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def forked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "subprocess", FORKING)


@pytest.fixture
def bot() -> Generator[Bot]:
    made = Bot()
    with made.endpoint:
        yield made
        made.hold.set()


def limit(space: Workspace, **limits: Any) -> None:
    spending.set_budget(space, limits, spending.budget_left(space).version)


def test_a_run_stops_at_the_projects_budget_and_goes_on_when_there_is_more(
    space: Workspace, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease of 4 requests is too small and is renewed, with the 3 that are left; then the run ends."""
    monkeypatch.setattr(leases, "this_month", lambda: "2026-11")
    request = define(space, bot)
    limit(space, requests=7)
    run = runs.create_run(space, request)
    with space.database.writing() as connection:
        connection.execute(update(tables.runs).values(need=asdict(Need(Amount(4, 100_000, 1.0)))))
    worker = Worker(space)
    stopped = until(space, run, worker, ended)
    assert (stopped.state, stopped.exit_code, sent(bot)) == ("failed", 4, 7)
    assert "7 requests of 7 requests are spent" in stopped.message
    assert "1 December 2026 (UTC)" in stopped.message
    assert spending.budget_left(space).spent.requests == 7
    with pytest.raises(UserError, match=r"project 'default' for 2026-11 does not cover this: 7 requests of 7"):
        runs.create_run(space, request)

    again = runs.resume_run(space, run.run_id)
    assert until(space, again, worker, ended).exit_code == 4
    assert sent(bot) == 7

    limit(space, requests=8)
    assert until(space, runs.resume_run(space, run.run_id), worker, ended).exit_code == 4
    assert sent(bot) == 8

    monkeypatch.setattr(leases, "this_month", lambda: "2026-12")
    done = until(space, runs.resume_run(space, run.run_id), worker, ended)
    assert (done.state, done.progress.done, sent(bot)) == ("done", 6, CALLS)
    left = spending.budget_left(space)
    assert (left.spent.requests, left.leased, left.left["requests"]) == (4, Amount(), 4)
    assert spending.run_spending(space, run.run_id).spent.requests == CALLS


def test_what_a_killed_process_has_sent_is_spent(space: Workspace, bot: Bot) -> None:
    """So are calls that it was about to send."""
    request = define(space, bot)
    limit(space, requests=100, tokens=1_000_000)
    bot.free = 2
    bot.hold.clear()
    run = runs.create_run(space, request)
    worker = Worker(space)
    going = until(space, run, worker, lambda one: one.progress.done == 2)
    used = spending.run_spending(space, run.run_id).used
    assert used.requests >= sent(bot)
    leased = spending.run_spending(space, run.run_id).leased
    assert (leased["usd"], leased["requests"]) == (None, 2 * CALLS)
    assert spending.budget_left(space).left["requests"] == 100 - 2 * CALLS
    os.kill(pid_of(space, going), signal.SIGKILL)
    assert until(space, run, worker, ended).state == "interrupted"
    left = spending.budget_left(space)
    assert (left.spent, left.leased) == (used, Amount())
    bot.hold.set()
    done = until(space, runs.resume_run(space, run.run_id), worker, ended)
    assert done.state == "done"
    left = spending.budget_left(space)
    assert left.leased == Amount()
    assert sent(bot) <= left.spent.requests <= used.requests + CALLS


def sent(bot: Bot) -> int:
    """Calls, without requests that only look whether the endpoint is there."""
    return sum(request.method == "POST" for request in bot.endpoint.requests)


def pid_of(space: Workspace, run: Run) -> int:
    pid = runs.run_row(space, run.run_id).pid
    assert pid
    return pid
