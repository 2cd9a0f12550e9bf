"""The work of people who have used little goes first."""

from __future__ import annotations

import asyncio

import pytest

from evalflow.addons.studio.web.security import scheduler
from evalflow.addons.studio.web.security.scheduler import LONGEST_SLOT_S, Scheduler, Slot

pytestmark = pytest.mark.anyio


class Clock:
    """The monotonic clock of the scheduler, which a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class People:
    """People who ask for slots, and the order in which they get them."""

    def __init__(self, clock: Clock, slots: int = 1) -> None:
        self._clock, self._scheduler = clock, Scheduler(slots)
        self.order, self.held = list[str](), dict[str, Slot]()

    def ask(self, *names: str) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._ask(name)) for name in names]

    async def _ask(self, name: str) -> None:
        person = name.partition(" ")[0]
        self.held[person] = await self._scheduler.acquire(person)
        self.order.append(name)

    async def end(self, person: str, after_s: float = 0.1) -> None:
        self._clock.now += after_s
        self.held.pop(person).release()
        await settle()

    async def use(self, person: str, seconds: float) -> None:
        self.ask(person)
        await settle()
        await self.end(person, seconds)
        self.order.clear()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(scheduler, "time", clock)
    return clock


async def test_who_has_used_least_goes_first(clock: Clock) -> None:
    people = People(clock)
    people.ask("vera 1", "vera 2", "vera 3", "ben 1", "ann 1")
    await settle()
    assert people.order == ["vera 1"]
    for person in ("vera", "ben"):
        await people.end(person)
    people.ask("cleo 1")  # asks last of all
    await settle()
    for person in ("ann", "cleo", "vera"):
        await people.end(person)
    assert people.order == ["vera 1", "ben 1", "ann 1", "cleo 1", "vera 2", "vera 3"]


async def test_what_was_used_while_nobody_waited_costs_nobody_their_place(clock: Clock) -> None:
    people = People(clock)
    for _ in range(20):
        await people.use("vera", 0.1)
    people.ask("ben 1", "vera 1", "ann 1", "vera 2")
    await settle()
    for person in ("ben", "vera", "ann"):
        await people.end(person)
    assert people.order == ["ben 1", "vera 1", "ann 1", "vera 2"]


async def test_each_person_holds_one_slot(clock: Clock) -> None:
    people = People(clock, 2)
    people.ask("vera 1", "vera 2", "ben 1", "ann 1")
    await settle()
    assert people.order == ["vera 1", "ben 1"]


async def test_work_of_many_who_have_used_less_goes_before_that_of_one_who_asks_for_much(clock: Clock) -> None:
    people = People(clock)
    people.ask(*(f"vera {number}" for number in range(9)))
    await settle()
    await people.end("vera")  # her next is begun, since nobody else waits
    for name in ("ben", "ann", "cleo"):
        people.ask(name)
    await settle()
    for person in ("vera", "ben", "ann", "cleo", "vera"):
        await people.end(person)
    assert people.order == ["vera 0", "vera 1", "ben", "ann", "cleo", "vera 2", "vera 3"]


async def test_a_slot_ends_by_itself_and_with_whoever_waits_for_it(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LONGEST_SLOT_S > 0
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 0.0)
    people = People(clock)
    asked = people.ask("vera 1", "ben 1", "ann 1")
    await asyncio.sleep(0)
    asked[1].cancel()
    await asyncio.wait(asked)
    await asyncio.sleep(0.01)
    assert people.order == ["vera 1", "ann 1"]
    people.held["vera"].release()  # again, which does nothing
    people.ask("vera 2")
    await settle()
    assert people.order[-1] == "vera 2"


async def test_work_that_other_work_has_begun_uses_its_slot() -> None:
    slots, seen = Scheduler(1), list[str]()

    async def inner() -> None:
        async with slots.slot("vera"):
            seen.append("inner")

    async with slots.slot("vera"):
        await asyncio.create_task(inner())
        later = asyncio.create_task(asyncio.sleep(0))
    await later
    async with slots.slot("ben"):
        seen.append("ben")
    assert seen == ["inner", "ben"]


async def test_accounts_of_people_who_may_begin_anew_are_dropped(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "MOST_ACCOUNTS", 3)
    people = People(clock)
    for name in ("ann", "ben", "cleo"):
        await people.use(name, 0.1)
    clock.now += 100
    await people.use("vera", 0.1)
    assert len(people._scheduler._accounts) < 3
