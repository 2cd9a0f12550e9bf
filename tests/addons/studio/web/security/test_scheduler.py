"""The work of people who have used little goes first."""

from __future__ import annotations

import asyncio

import pytest

from evalflow.addons.studio.web.security import scheduler
from evalflow.addons.studio.web.security.scheduler import Scheduler, Slot

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
        self.release(person, after_s)
        await settle()

    def release(self, person: str, after_s: float = 0.1) -> None:
        self._clock.now += after_s
        self.held.pop(person).release()

    async def got(self, person: str) -> None:
        while person not in self.held:
            await asyncio.sleep(0.01)

    def due(self, person: str) -> float:
        return self._scheduler._accounts[person].due

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
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 60.0)
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


async def test_each_person_holds_two_slots_at_most(clock: Clock) -> None:
    people = People(clock, 3)
    people.ask("vera 1", "vera 2", "vera 3")
    await settle()
    assert people.order == ["vera 1", "vera 2"], "one is left for others"


async def test_a_person_gets_another_slot_only_while_nobody_waits_who_has_none(clock: Clock) -> None:
    people = People(clock, 2)
    await people.use("ann", 0.1)
    people.ask("vera 1", "ben 1")
    await settle()
    people.ask("vera 2", "ann 1")
    await settle()
    await people.end("ben", 5.0)
    assert people.order == ["vera 1", "ben 1", "ann 1"]
    await people.end("ann", 5.0)
    assert people.order[3:] == ["vera 2"]


async def test_work_is_counted_until_it_ends_also_without_its_slot(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People(clock)
    people.ask("cleo 1")
    await settle()
    people.ask("ann 1")
    await people.end("cleo")
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 0.0)
    people.ask("vera 1")
    await people.end("ann", 1.0)
    await asyncio.sleep(0.01)  # her slot ends
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 60.0)
    people.ask("ben 1")
    await settle()
    assert people.order == ["cleo 1", "ann 1", "vera 1", "ben 1"]
    people.ask("vera 2", "ann 2")
    await people.end("vera", 5.0)
    people.held["vera"] = people.held["ben"]
    await people.end("ben")
    assert people.order[4:] == ["ann 2"], "vera's work has taken five seconds"


async def test_what_is_asked_for_during_other_work_is_counted_from_the_end_of_that(clock: Clock) -> None:
    people = People(clock, 2)
    people.ask("vera 1", "ann 1")
    for _ in range(3):
        await settle()
        people.ask("ann")
        await people.end("ann", 1.0)
    people.ask("vera 2")
    await settle()
    await people.end("vera", 0.5)
    assert people.due("vera") == pytest.approx(3.5)


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


async def test_somebody_who_always_works_waits_for_whoever_works_although_a_slot_is_free(clock: Clock) -> None:
    people = People(clock, 6)
    await people.use("vera", 5.0)
    people.ask("vera 1")
    await settle()
    assert people.order == ["vera 1"], "nobody else works"
    people.ask("ben 1")
    await settle()
    await people.end("vera")
    people.ask("vera 2", "ann 1")
    await settle()
    assert people.order[1:] == ["ben 1", "ann 1"]
    await people.end("ben")
    assert people.order[3:] == []
    await people.end("ann")
    assert people.order[3:] == ["vera 2"]


async def test_somebody_who_has_used_much_gets_slots_again_although_others_always_work(clock: Clock) -> None:
    people = People(clock, 6)
    await people.use("vera", 5.0)
    people.ask("ann0", "vera")
    others = 1
    while "vera" not in people.held:
        people.ask(f"ann{others}")
        await settle()
        await people.end(f"ann{others - 1}", 0.5)
        others += 1
    assert 0.5 * others == pytest.approx(3.0, abs=1.0)


async def test_somebody_who_always_works_waits_also_for_work_without_its_slot_but_not_for_ever(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People(clock, 6)
    await people.use("vera", 5.0)
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 0.0)
    monkeypatch.setattr(scheduler, "LONGEST_WORK_S", 0.5)
    people.ask("ben 1")
    await asyncio.sleep(0.01)  # the slot ends
    people.ask("vera 1")
    await settle()
    assert people.order == ["ben 1"]
    await asyncio.wait_for(people.got("vera"), 10)
    people.release("vera")
    people.release("ben", 0.0)
    await people.use("vera", 5.0)
    people.ask("ann 1")
    await asyncio.sleep(0.01)
    people.ask("vera 2")
    await people.end("ann")
    assert people.order == ["ann 1", "vera 2"], "at once when the work ends"


async def test_work_counts_while_it_goes_on_without_its_slot(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 0.0)
    people = People(clock, 6)
    people.ask("vera 1", "ben 1")
    await asyncio.sleep(0.01)
    people.release("ben", 0.0)
    clock.now += 5.0
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 60.0)
    people.ask("ben 2")
    await settle()
    people.ask("vera 2")
    await settle()
    assert people.order == ["vera 1", "ben 1", "ben 2"]
    await people.end("ben")
    assert people.order[3:] == ["vera 2"]


async def test_work_that_waits_for_long_keeps_its_owner_from_nothing(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = People(clock, 6)
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 0.0)
    monkeypatch.setattr(scheduler, "LONGEST_WORK_S", 0.01)
    people.ask("vera judge")
    await settle()
    waiting = people.held.pop("vera")
    await asyncio.sleep(0.05)
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 60.0)
    clock.now += 60.0
    people.ask("ann 1", "ben 1", "cleo 1")  # who always work, a little each
    await settle()
    people.ask("vera 1")
    await settle()
    assert people.order == ["vera judge", "ann 1", "ben 1", "cleo 1", "vera 1"]
    due = people.due("vera")
    waiting.release()
    assert people.due("vera") == due, "nor when it ends"


async def test_two_who_have_used_about_the_same_work_at_once(clock: Clock) -> None:
    people = People(clock, 6)
    people.ask("vera 1", "ben 1")
    await settle()
    people.release("vera", 5.0)
    await people.end("ben", 0.0)
    people.ask("vera 2", "ben 2")
    await settle()
    assert people.order[2:] == ["vera 2", "ben 2"]


async def test_a_slot_ends_by_itself_and_with_whoever_waits_for_it(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("others", [["vera", "cleo", "ben"], ["cleo", "vera", "ben"]])
@pytest.mark.parametrize("longest_s", [60.0, 0.0])
async def test_accounts_of_those_who_have_used_more_wait_or_work_are_kept(
    others: list[str], longest_s: float, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MOST_ACCOUNTS", 1)
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", longest_s)
    people = People(clock)
    people.ask(f"{others[0]} 1")
    await asyncio.sleep(0.01)  # the slot may end, and the work goes on
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 60.0)
    people.ask(*(f"{name} 1" for name in others[1:]))  # each new account drops others
    await settle()
    for name in others[:2]:
        await people.end(name, 5.0 if name == "vera" else 0.1)
    people.ask("dan 1", "vera 2", "ann 1")
    await settle()
    for name in ("ben", "dan"):
        await people.end(name)
    assert people.order == [*(f"{name} 1" for name in others), "dan 1", "ann 1"], "vera has used five seconds"


async def test_work_that_other_work_has_begun_needs_its_own_slot_once_that_is_given_up(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 0.0)
    slots, seen = Scheduler(1), list[str]()

    async def inner() -> None:
        async with slots.slot("vera"):
            seen.append("inner")

    async with slots.slot("vera"):
        clock.now += 1.0
        await asyncio.sleep(0.01)  # its slot ends
        monkeypatch.setattr(scheduler, "LONGEST_SLOT_S", 60.0)
        other = await slots.acquire("ben")
        begun = asyncio.create_task(inner())
        await settle()
        clock.now += 1.0
        assert seen == []
        other.release()
        await begun
    assert seen == ["inner"]
    assert slots._accounts["vera"].due == pytest.approx(1.0), "what waits for another slot is not counted"


async def test_a_slot_that_is_given_to_somebody_who_leaves_goes_to_the_next(clock: Clock) -> None:
    people = People(clock)
    _, given, *_ = people.ask("vera 1", "ben 1", "cleo 1", "ann 1")
    await settle()
    people.release("vera")
    given.cancel()  # before ben knows that he has it
    await settle()
    assert people.order == ["vera 1", "cleo 1"]
    (leaving,) = people.ask("dan 1")
    people.ask("eve 1")
    await people.end("cleo")
    assert people.order[2:] == ["ann 1"]
    leaving.cancel()  # while it still waits
    people.release("ann")
    await settle()
    assert people.order[3:] == ["eve 1"]
