"""Cases are dealt so that none is lost, none is dealt twice at a time, and a case that ends actors is found."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.cluster.shards import LOSSES, CaseWork, Shards
from evalflow.records import Case


def work(count: int) -> list[CaseWork]:
    return [CaseWork(i, Case(dataset="d", index=i, id=str(i), messages=())) for i in range(count)]


@given(
    count=st.integers(0, 60),
    size=st.integers(1, 9),
    actors=st.integers(1, 4),
    room=st.integers(1, 20),
    guilty=st.sets(st.integers(0, 59), max_size=3),
    accidents=st.integers(0, 6),
    seed=st.integers(0, 2**16),
)
def test_every_case_is_done_once_or_found_guilty(
    count: int, size: int, actors: int, room: int, guilty: set[int], accidents: int, seed: int
) -> None:
    chance = random.Random(seed)
    shards = Shards(work(count), size)
    names = [f"actor {i}" for i in range(actors)]
    hired, done, found, calm = actors, Counter[int](), set[int](), accidents == 0
    for _ in range(20_000):
        if shards.over:
            break
        name = chance.choice(names)
        dealt = shards.deal(name, room)
        holds = [one.number for one in shards.left(name)]
        assert len(holds) == len(set(holds))
        accident = accidents > 0 and chance.random() < 0.1
        if any(one.number in guilty for one in dealt) or (accident and holds):
            accidents -= accident
            culprit = shards.lost(name)
            found |= set() if culprit is None else {culprit.number}
            hired += 1
            names[names.index(name)] = f"actor {hired}"
        elif holds:
            number = chance.choice(holds)
            shards.done(name, number)
            done[number] += 1
    assert shards.over
    assert set(done) | found == set(range(count))
    assert found <= guilty or not calm
    assert max(done.values(), default=0) <= 1
    assert guilty & set(range(count)) <= found


def test_what_was_lost_three_times_is_tried_case_by_case() -> None:
    shards = Shards(work(4), 4)
    for loss in range(LOSSES):
        assert [one.number for one in shards.deal(f"actor {loss}", 8)] == [0, 1, 2, 3]
        assert shards.lost(f"actor {loss}") is None
    assert [one.number for one in shards.deal("actor 3", 8)] == [0]
    culprit = shards.lost("actor 3")
    assert culprit is not None
    assert culprit.number == 0
    assert [one.number for one in shards.deal("actor 4", 8)] == [1]


def test_fresh_cases_go_on_while_one_actor_takes_the_suspects() -> None:
    shards = Shards(work(40), 4)
    for actor in ("a", "b", "c"):
        shards.deal(actor, 4)
    shards.lost("a")
    assert shards.deal("b", 8) == []  # it ends what it has, to be alone with a suspect
    assert [one.number for one in shards.deal("c", 8)] == [12, 13, 14, 15]
    for one in shards.left("b"):
        shards.done("b", one.number)
    assert [one.number for one in shards.deal("b", 8)] == [0, 1, 2, 3]
    assert shards.deal("b", 8) == []


def test_nothing_is_dealt_after_a_stop() -> None:
    shards = Shards(work(20), 4)
    shards.deal("a", 4)
    shards.stop()
    assert shards.deal("b", 4) == []
    assert not shards.over
    for one in shards.left("a"):
        shards.done("a", one.number)
    assert shards.over
