"""Turns of people: what they have the server compute is within budgets of each person and of the server."""

from __future__ import annotations

import functools
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from evalflow.addons.studio.work.access import Actor
from evalflow.errors import Problem, UserError

PERIOD_S = 300.0
"""Seconds over which the time of trials is added up."""
WAIT_S = 15.0
"""Seconds that a trial waits for its turn."""


class TooManyTrialsError(UserError):
    """A computation that is not begun, since its person or all people together have asked for too much just now."""


class TrialBudget:
    """Turns for trials. It is safe to use from several threads.

    Args:
        at_once, of_person: Trials under way, of all people and of one.
        waiting: Trials that wait for their turn; each holds a thread.
        seconds, seconds_of_person: Time of all trials of the last `PERIOD_S`, and of one person's.
    """

    def __init__(
        self,
        at_once: int = 4,
        of_person: int = 2,
        waiting: int = 12,
        seconds: float = 300.0,
        seconds_of_person: float = 100.0,
    ) -> None:
        self._at_once, self._of_person, self._waiting = at_once, of_person, waiting
        self._seconds, self._seconds_of_person = seconds, seconds_of_person
        self._changed = Condition()
        self._running, self._queue = Counter[str](), Counter[str]()
        self._spent = deque[tuple[float, str, float]]()

    @classmethod
    def of_waiting(cls) -> TrialBudget:
        """For trials that wait for a bot or a judge, which take time but compute little."""
        return cls(16, 4, seconds=math.inf, seconds_of_person=math.inf)

    @classmethod
    def of_work(cls) -> TrialBudget:
        """For what pages and programs need to do their work, such as an estimate: it may take any time, in turn."""
        return cls(seconds=math.inf, seconds_of_person=math.inf)

    @contextmanager
    def turn(self, person: str) -> Generator[None]:
        """Wait for a turn, and count how long it takes. Raises TooManyTrialsError."""
        with self._changed:
            self._expect_left(person)
            self._queue[person] += 1
            try:
                if not self._changed.wait_for(lambda: self._is_free(person), WAIT_S):
                    raise _too_many("the server computes for other people at the moment")
            finally:
                self._queue[person] -= 1
            self._running[person] += 1
        began = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                self._running[person] -= 1
                self._spent.append((time.monotonic(), person, time.monotonic() - began))
                self._changed.notify_all()

    def _is_free(self, person: str) -> bool:
        return self._running.total() < self._at_once and self._running[person] < self._of_person

    def _expect_left(self, person: str) -> None:
        while self._spent and self._spent[0][0] < time.monotonic() - PERIOD_S:
            self._spent.popleft()
        if sum(took for _, who, took in self._spent if who == person) > self._seconds_of_person:
            raise _too_many("what you try takes long, and has used up your share of the server")
        if sum(took for _, _, took in self._spent) > self._seconds:
            raise _too_many("what people try takes long, and has used up its share of the server")
        if self._queue[person] >= 2 * self._of_person or self._queue.total() >= self._waiting:
            raise _too_many("too many requests are waiting already")


class _TakesTurns(Protocol):
    @property
    def identify(self) -> Callable[[], Actor]: ...

    @property
    def computing(self) -> TrialBudget: ...


_IN_TURN = ContextVar("_IN_TURN", default=False)
S = TypeVar("S", bound=_TakesTurns)
P = ParamSpec("P")
R = TypeVar("R")


def takes_turn(work: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a function that computes for long: of each person with an account only a few run at once.

    It raises TooManyTrialsError if too many wait. What it calls takes no other turn. It blocks.
    """

    @functools.wraps(work)
    def in_turn(space: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        actor = space.identify()
        if actor.user is None or _IN_TURN.get():
            return work(space, *args, **kwargs)
        with space.computing.turn(actor.name):
            token = _IN_TURN.set(True)
            try:
                return work(space, *args, **kwargs)
            finally:
                _IN_TURN.reset(token)

    return in_turn


def _too_many(what: str) -> TooManyTrialsError:
    return TooManyTrialsError(Problem(what, hint="try again in a few minutes"))
