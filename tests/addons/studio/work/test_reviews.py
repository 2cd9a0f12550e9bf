"""Reviews: drawn, served to several people, labelled blind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalflow.addons.studio.store import reviews as stored
from evalflow.addons.studio.store import rows, server_tables
from evalflow.addons.studio.work import review_desk, review_guidelines, review_results, reviews
from evalflow.addons.studio.work.access import Actor, ForbiddenError, Role
from evalflow.addons.studio.work.review_desk import (
    CANNOT_TELL,
    decline_item,
    next_item,
    open_item,
    own_progress,
    save_draft,
    submit_item,
)
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace, open_workspace
from evalflow.errors import UserError
from tests.addons.studio.web.finished import Finished, finish_runs

PEOPLE = ("ann", "ben", "cem")


def add_people(space: Workspace, names: Mapping[str, Role]) -> None:
    moment = rows.now()
    with space.database.writing() as connection:
        for name, role in names.items():
            user = {"name": name, "full_name": "", "email": None, "version": 1}
            user |= {"is_owner": False, "is_disabled": False, "created_at": moment, "updated_at": moment}
            row = rows.add(connection, server_tables.users, user)
            member = {"project_id": space.project_id, "user_id": row, "role": role}
            connection.execute(server_tables.members.insert().values(**member))


def person(space: Workspace, name: str, role: Role = "annotator") -> Workspace:
    return replace(space, identify=lambda: Actor(1, name, roles={space.project_id: role}))


def bare_review(space: Workspace, wanted: list[int], people: tuple[str, ...] = PEOPLE) -> int:
    """A review whose items have no more than serving needs; returns its id."""
    metric = {"name": "m", "title": "m", "scale": {"type": "boolean"}, "description": "", "rubric": 1}
    draw = {"method": "random", "by": None, "population": 100, "seed": 0, "overlap": 0.2, "title": ""}
    values: dict[str, Any] = {
        "name": "r",
        "run": None,
        "run_id": "run",
        "state": "open",
        "metrics": [metric],
        "people": list(people),
        "draw": {
            **draw,
            "size": len(wanted),
            "doubled": wanted.count(2),
            "strata": {"all": [len(wanted), 100]},
            "groups": [0, 0],
        },
        "shown": {"contexts": True, "reference": True},
        "guidelines": {"m": ""},
        "created_by": "eve",
    }
    content = {"messages": [], "answer": "a", "contexts": [], "reference": None, "metrics": ["m"]}
    about = {"position": None, "dataset": "d", "target": "t", "target_repeat": 0, "answer_hash": "h", "group": ""}
    about |= {"stratum": "all", "pi": len(wanted) / 100, "content": content}
    with space.database.writing() as connection:
        review = reviews.REVIEWS.add(connection, space.project_id, values)
        items = [{**about, "case_id": f"c{i}", "wanted": number} for i, number in enumerate(wanted)]
        stored.add_items(connection, review, items)
    return review


def test_twenty_requests_at_once_never_lease_more_than_wanted(space: Workspace) -> None:
    names = tuple(f"p{i}" for i in range(20))
    bare_review(space, [1, 2, 1, 2, 1, 2, 1, 2], names)
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda name: next_item(person(space, name), "r"), names))
    served = Counter(one.item for one in found if one is not None)
    assert served == {i: 1 + i % 2 for i in range(8)}
    name, own = next((name, one.item) for name, one in zip(names, found, strict=True) if one is not None)
    with ThreadPoolExecutor(20) as pool:  # one person who asks often at once has one item
        again = list(pool.map(lambda _: next_item(person(space, name), "r"), range(20)))
    assert {one.item for one in again if one is not None} == {own}


def test_who_finds_the_same_answers_as_others_is_given_the_next_one(space: Workspace) -> None:
    review = bare_review(space, [1, 2])
    with space.database.reading() as connection:
        found = {name: stored.candidates(connection, review, name, 1000.0) for name in PEOPLE}
    assert list(found.values()) == [[0, 1]] * 3

    def take(name: str) -> int | None:
        with space.database.writing() as connection:
            return stored.take(connection, review, found[name], name, 1000.0, 900.0)

    assert [take(name) for name in (*PEOPLE, "ann")] == [0, 1, 1, 0]
    found["dan"] = [0, 1]
    assert take("dan") is None
    with space.database.reading() as connection:
        assert stored.candidates(connection, review, "dan", 1000.0) == []
        assert stored.candidates(connection, review, "dan", 2000.0) == [0, 1]


def test_a_lease_from_before_the_clock_was_set_back_has_expired(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_review(space, [1, 1])
    moment = 100_000.0
    monkeypatch.setattr(review_desk.time, "time", lambda: moment)
    ann, ben = person(space, "ann"), person(space, "ben")
    assert [one.item for name in (ann, ben) if (one := next_item(name, "r"))] == [0, 1]
    decline_item(ben, "r", 1, "")
    moment -= 3 * 3600
    other = next_item(ben, "r")
    assert other is not None
    assert other.item == 0, "nobody waits three hours for her"
    submit_item(ben, "r", 0, {"m": "no"}, seconds=7)


def test_an_expired_lease_is_served_again_and_an_absent_person_blocks_nothing(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_review(space, [1, 1])
    moment = 1000.0
    monkeypatch.setattr(review_desk.time, "time", lambda: moment)
    ann, ben = person(space, "ann"), person(space, "ben")
    first = next_item(ann, "r")
    assert first is not None
    save_draft(ann, "r", 0, {"values": {"m": True}}, 5)
    moment += review_desk.LEASE_S + 1
    own = next_item(ann, "r")
    assert own is not None
    assert (own.item, own.draft) == (0, {"values": {"m": True}})  # hers again first
    moment += review_desk.LEASE_S + 1
    other = next_item(ben, "r")
    assert other is not None
    assert other.item == 0
    with pytest.raises(TakenError, match="somebody else"):
        submit_item(ann, "r", 0, {"m": True})
    submit_item(ben, "r", 0, {"m": "no"}, seconds=7)
    second = next_item(ann, "r")
    assert second is not None
    assert second.item == 1
    assert next_item(ben, "r") is None


def test_what_is_declined_goes_to_another_and_what_is_submitted_can_be_corrected(space: Workspace) -> None:
    review = bare_review(space, [1])
    ann, ben = person(space, "ann"), person(space, "ben")
    next_item(ann, "r")
    decline_item(ann, "r", 0, "I know the author.")
    assert next_item(ann, "r") is None
    with pytest.raises(NotFoundError):
        open_item(ann, "r", 0)
    next_item(ben, "r")
    for wrong in ({}, {"m": "perhaps"}, {"m": True, "x": 1}):
        with pytest.raises(UserError, match=r"m|x"):
            submit_item(ben, "r", 0, wrong)
    submit_item(ben, "r", 0, {"m": CANNOT_TELL})
    submit_item(ben, "r", 0, {"m": True}, "Sure.", flagged=True, seconds=3)
    assert open_item(ben, "r", 0).draft == {"values": {"m": True}, "cannot_tell": [], "comment": "Sure."}
    with space.database.reading() as connection:
        labels = stored.label_rows(connection, review)
        assert stored.counts(connection, [review]) == {review: (1, 1)}
    assert [(one.by, one.value, one.missing) for one in labels] == [
        ("ann", None, "declined"),
        ("ben", True, None),
    ]
    assert own_progress(ben, "r").done == 1
    assert own_progress(ann, "r").declined == 1


def test_what_somebody_gave_up_comes_back_before_what_is_new(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_review(space, [1] * 6)
    moment = 1000.0
    monkeypatch.setattr(review_desk.time, "time", lambda: moment)
    ann, ben, cem = (person(space, name) for name in PEOPLE)

    def item(me: Workspace) -> int | None:
        found = next_item(me, "r")
        return found and found.item

    assert [item(ann), item(ben), item(cem)] == [0, 1, 2]
    submit_item(cem, "r", 2, {"m": True})
    decline_item(ann, "r", 0)
    assert own_progress(cem, "r").left == 4
    assert item(cem) == 0
    submit_item(cem, "r", 0, {"m": True})
    moment += review_desk.LEASE_S + 1  # ben has left
    assert own_progress(cem, "r").left == 4
    assert [item(cem), item(ann)] == [1, 3]
    decline_item(cem, "r", 1)
    decline_item(cem, "r", 2)  # what was submitted may be declined, too
    assert [own_progress(one, "r").left for one in (ann, ben, cem)] == [5, 4, 2]


def act(me: Workspace, step: str, item: int) -> str:
    """Do one step at the desk; returns it, or "lost" if others have the item meanwhile."""
    try:
        if step == "draft":
            save_draft(me, "r", item, {}, 1)
        elif step == "submit":
            submit_item(me, "r", item, {"m": True})
        else:
            decline_item(me, "r", item)
    except TakenError:
        return "lost"
    return step


Step = st.tuples(st.sampled_from(PEOPLE), st.sampled_from(["next", "draft", "submit", "decline", "wait"]))


@pytest.fixture(name="shared", scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        opened = open_workspace()
    yield opened
    opened.close()


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(wanted=st.lists(st.integers(1, 2), min_size=1, max_size=6), steps=st.lists(Step, max_size=25))
def test_no_order_of_events_breaks_the_rules(
    shared: Workspace, monkeypatch: pytest.MonkeyPatch, wanted: list[int], steps: list[tuple[str, str]]
) -> None:
    for review in reviews.REVIEWS.own(shared):
        reviews.delete_review(shared, review.name, review.version)
    review = bare_review(shared, wanted)
    moment, begun = 1000.0, dict[str, int]()
    settled, opened = set[tuple[str, int]](), set[tuple[str, int | None]]()
    monkeypatch.setattr(review_desk.time, "time", lambda: moment)
    for name, step in steps:
        me, item = person(shared, name), begun.get(name)
        if step == "wait":
            moment += review_desk.LEASE_S * 0.7
        elif step == "next":
            found = next_item(me, "r")
            if found is not None:
                assert (name, found.item) not in settled  # never the same item twice
                begun[name] = found.item
            else:
                begun.pop(name, None)
        elif item is not None and (did := act(me, step, item)) != "draft":
            begun.pop(name)
            if did != "lost":
                settled.add((name, item))
        with shared.database.reading() as connection:
            rows = stored.review_assignments(connection, review)
        held = [row for row in rows if row.state == "submitted" or row.is_reserved]
        taken = Counter(row.item for row in held)
        assert all(taken[i] <= number for i, number in enumerate(wanted))
        by_others = Counter(row.item for row in held if row.by != name)
        free = [i for i, number in enumerate(wanted) if (name, i) not in settled and by_others[i] < number]
        assert own_progress(me, "r").left == len(free)
        if step == "next":  # what they have begun, else the first that is free
            first = min([i for i in free if (name, i) in opened] or free, default=None)
            assert begun.get(name) == first
            opened.add((name, first))
    moment += review_desk.LEASE_S + 1
    for name in PEOPLE:  # whoever is left can finish all that is not labelled and that they have not declined
        me = person(shared, name)
        while (found := next_item(me, "r")) is not None:
            submit_item(me, "r", found.item, {"m": False})
    with shared.database.reading() as connection:
        held = stored.review_assignments(connection, review)
    states = Counter((row.item, row.state) for row in held)
    for i, number in enumerate(wanted):
        assert states[i, "submitted"] == min(number, len(PEOPLE) - states[i, "declined"])


@pytest.fixture(name="finished", scope="module")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Finished]]:
    folder = tmp_path_factory.mktemp("reviewed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        opened = open_workspace()
        made = finish_runs(opened)
        add_people(opened, {"ann": "annotator", "ben": "annotator", "eve": "editor", "vic": "viewer"})
        yield opened, made
        opened.close()


def test_a_review_of_a_run_is_drawn_and_read_blind(finished: tuple[Workspace, Finished]) -> None:
    space, runs = finished
    eve, ann = person(space, "eve", "editor"), person(space, "ann")
    offered = reviews.candidates(eve, runs.worse, ["exact"])
    assert [one.name for one in offered.people] == ["ann", "ben", "eve"]
    assert (offered.answers, offered.metrics[0].scale.kind) == (12, "boolean")
    assert 0.1 < reviews.expected_interval(eve, runs.worse, "exact", 10).half_width < 0.3
    request = ReviewRequest(
        name="Fees in March", run_id=runs.worse, metrics=["exact"], size=8, people=["ann", "ben"], seed=3
    )
    made = reviews.create_review(eve, request)
    assert (made.items, made.doubled, made.population, made.people) == (8, 8, 12, ["ann", "ben"])
    assert made.metrics[0].guidelines == "Whether the answer is the reference."
    found = next_item(ann, made.name)
    assert found is not None
    said = json.dumps(asdict(found)) + json.dumps([asdict(one) for one in reviews.list_reviews(ann)])
    assert "What is fee" in said
    assert all(word not in said for word in (runs.worse, "As it was", "fees", "recorded", "ben", '"score"', "judge"))
    with pytest.raises(ForbiddenError):
        reviews.get_review(ann, made.name)
    with pytest.raises(TakenError, match="among the people"):
        next_item(eve, made.name)
    with pytest.raises(NotFoundError):
        next_item(person(space, "cem"), made.name)
    with pytest.raises(ForbiddenError):
        next_item(person(space, "vic", "viewer"), made.name)
    for wrong in ({"people": ["vic"]}, {"metrics": ["none"]}, {"size": 0}, {"method": "groups"}, {"name": "a/b"}):
        with pytest.raises(UserError):
            reviews.create_review(eve, replace(request, **{"name": "other", **wrong}))
    revised = review_guidelines.revise_guidelines(eve, made.name, made.version, {"exact": "Read twice."})
    assert (revised.metrics[0].rubric, revised.metrics[0].guidelines) == (2, "Read twice.")
    moved = reviews.change_people(eve, made.name, revised.version, ["ben"])
    with pytest.raises(NotFoundError):
        next_item(ann, made.name)
    again = next_item(person(space, "ben"), made.name)
    assert again is not None
    assert again.item == found.item
    closed = review_results.close_review(eve, made.name, moved.version)
    ben = person(space, "ben")
    begun = next_item(ben, made.name)  # what was begun may still be submitted, and nothing more is given out
    assert begun is not None
    assert begun.item == again.item
    submit_item(ben, made.name, begun.item, {"exact": 1})
    assert next_item(ben, made.name) is None
    with pytest.raises(TakenError, match="closed"):
        submit_item(ben, made.name, begun.item, {"exact": 0})
    assert reviews.reopen_review(eve, made.name, closed.version).state == "open"


def test_who_is_removed_gives_back_what_they_have_begun_and_their_labels_stay(space: Workspace) -> None:
    review = bare_review(space, [1, 1])
    eve, ann, ben = person(space, "eve", "editor"), person(space, "ann"), person(space, "ben")
    add_people(space, {"ben": "annotator"})
    first = next_item(ann, "r")
    assert first is not None
    submit_item(ann, "r", first.item, {"m": True})
    begun = next_item(ann, "r")
    assert begun is not None
    assert next_item(ben, "r") is None
    changed = reviews.change_people(eve, "r", 1, ["ben"])  # ann has no account, and was among them all the same
    other = next_item(ben, "r")
    assert other is not None
    assert other.item == begun.item
    with pytest.raises(NotFoundError):
        submit_item(ann, "r", begun.item, {"m": True})
    shown = {one.name: (one.done, one.is_invited) for one in review_results.progress(eve, "r").people}
    assert shown == {"ann": (1, False), "ben": (0, True)}
    with pytest.raises(UserError, match="nobody"):
        reviews.change_people(eve, "r", changed.version, [])
    with space.database.reading() as connection:
        assert [one.by for one in stored.label_rows(connection, review)] == ["ann"]
