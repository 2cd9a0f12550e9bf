"""Trials: nobody computes so much that others wait, and strangers' patterns run away from the threads that answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evalflow.addons.studio.work import check_trial, trials
from evalflow.addons.studio.work.access import Actor, ForbiddenError, Role
from evalflow.addons.studio.work.check_trial import try_checks
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trials import TooManyTrialsError, TrialBudget, takes_turn
from evalflow.errors import UserError
from tests.postgres import ON_SQLITE

CHECK = {"identifier": "string_matching", "params": {"keyword": "a"}}
ROW = {"question": "Why?", "demo_answer": "a", "checks": [CHECK]}


def test_one_person_has_two_turns_and_a_few_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "WAIT_S", 60.0)
    budget, begun, goes_on = TrialBudget(), threading.Semaphore(0), threading.Event()
    most, under_way = 0, 0
    lock = threading.Lock()

    def attempt(person: str) -> bool:
        nonlocal most, under_way
        try:
            with budget.turn(person):
                with lock:
                    under_way += 1
                    most = max(most, under_way)
                begun.release()
                goes_on.wait(60)
                with lock:
                    under_way -= 1
                return True
        except TooManyTrialsError:
            begun.release()
            return False

    with ThreadPoolExecutor(50) as pool:
        of_ann = [pool.submit(attempt, "ann") for _ in range(45)]
        for _ in range(41):  # 2 have begun, 39 were refused, and 4 wait
            assert begun.acquire(timeout=60)
        of_ben = pool.submit(attempt, "ben")
        assert begun.acquire(timeout=60), "ben does not wait for ann"
        assert most == 3
        goes_on.set()
        assert of_ben.result()
        assert sum(one.result() for one in of_ann) == 6


@pytest.mark.parametrize(("own", "all_people"), [(0.0, 100.0), (100.0, 0.0)])
def test_time_is_a_budget_too(monkeypatch: pytest.MonkeyPatch, own: float, all_people: float) -> None:
    budget = TrialBudget(seconds=all_people, seconds_of_person=own)
    with budget.turn("ann"):
        pass
    with pytest.raises(TooManyTrialsError):
        with budget.turn("ann"):
            pass
    if own == 0:
        with budget.turn("ben"):
            pass
    monkeypatch.setattr(trials, "PERIOD_S", -1.0)
    with budget.turn("ann"):
        pass


def test_whoever_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "WAIT_S", 0.01)
    budget = TrialBudget(at_once=1)
    with budget.turn("ann"), pytest.raises(TooManyTrialsError, match="computes for other people"):
        with budget.turn("ben"):
            pass
    with budget.turn("ben"):
        pass


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("annotator", False), ("editor", True), ("admin", True)])
@ON_SQLITE
def test_whoever_reads_tries_nothing(space: Workspace, role: Role, may: bool) -> None:
    actor = Actor(1, role, roles={space.project_id: role})
    own = replace(space, identify=lambda: actor)
    if may:
        assert try_checks(own, {**ROW, "checks": []}) == []
    else:
        with pytest.raises(ForbiddenError):
            try_checks(own, ROW)


@ON_SQLITE
@pytest.mark.slow
def test_a_trial_that_takes_long_is_ended(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_trial, "LONGEST_S", 120.0)  # on a busy machine
    assert [one.state for one in try_checks(space, ROW)] == ["passed"]
    monkeypatch.setattr(check_trial, "LONGEST_S", 0.0)
    with pytest.raises(UserError, match="the trial takes more than 0 s"):
        try_checks(space, ROW)


@pytest.mark.parametrize(("user", "refused"), [(1, 2), (None, 0)])
def test_of_what_computes_for_long_only_two_run_at_once_for_a_person_with_an_account(
    user: int | None, refused: int
) -> None:
    space: Any = SimpleNamespace(identify=lambda: Actor(user, "edda"), computing=TrialBudget.of_work())
    begun, may_go = threading.Semaphore(0), threading.Event()

    @takes_turn
    def inner(_: Any) -> bool:
        begun.release()
        return may_go.wait(60)

    @takes_turn
    def outer(_: Any) -> bool:
        try:
            return inner(space)
        except TooManyTrialsError:
            return False

    def attempt() -> bool:
        try:
            return outer(space)
        except TooManyTrialsError:
            begun.release()
            return False

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(attempt) for _ in range(8)]
        for _ in range(4 if user else 8):  # two have begun and two are refused
            assert begun.acquire(timeout=60)
        may_go.set()
        assert [one.result() for one in asked].count(False) == refused


@pytest.mark.parametrize("is_program", [False, True])
@pytest.mark.anyio
@ON_SQLITE
async def test_a_person_and_their_programs_have_one_budget(space: Workspace, is_program: bool) -> None:
    actor = Actor(1, "edda", roles={space.project_id: "editor"}, is_program=is_program)
    spent = TrialBudget(seconds_of_person=0.0)
    with spent.turn("edda"):
        pass
    own = replace(space, identify=lambda: actor, trials=spent, asks=spent, computing=spent)

    async def nothing() -> None:
        return None

    for attempt in (lambda: try_checks(own, ROW), lambda: takes_turn(bool)(own)):
        with pytest.raises(TooManyTrialsError):
            attempt()
    with pytest.raises(TooManyTrialsError):
        await own.render(bool)
    with pytest.raises(TooManyTrialsError):
        await own.ask(nothing)
