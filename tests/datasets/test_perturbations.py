"""Faults and harmless changes: what is changed, that nothing else is, and that it is the same every time."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.datasets.perturbations import ABOUT, CHANGES, perturbed
from evalflow.records import Case, Context, Message


def case(answer: str, name: str = "a", group: str | None = None, **changes: Any) -> Case:
    known: dict[str, Any] = {"messages": (Message("user", "How long?"),), "contexts": (Context("x"), Context("y"))}
    return Case(**{"dataset": "d", "index": 0, "id": name, "answer": answer, "group": group, **known, **changes})


OTHER = case("The fee is 7 euros, as Maria Lopez says.", "b", "other")


def changed(answer: str, change: str, **more: Any) -> str | None:
    found = perturbed([case(answer, group="own", **more), OTHER], [change])
    return next((one.case.answer for one in found if one.change == change and one.base.id == "a"), None)


@pytest.mark.parametrize(
    ("answer", "change", "expected"),
    [
        ("It opens at nine. It is free.", "omission", r"It opens at nine\.|It is free\."),
        ("It opens at nine.", "omission", None),
        ("It is free.", "negation", r"It is not free\."),
        ("You cannot renew it.", "negation", r"You can renew it\."),
        ("It doesn't renew.", "negation", r"It renew\."),
        ("There are no charges.", "negation", r"There are charges\."),
        ("Geschlossen.", "negation", None),
        ("It opens at nine. It is free.", "reorder", r"It is free\. It opens at nine\."),
        ("It takes two hours.", "number", r"It takes (three|four|five|six) hours\."),
        ("It costs 4.50 euros.", "number", r"It costs \d+\.\d\d euros\."),
        ("Founded in 1998.", "number", r"Founded in (19|20)\d\d\."),
        ("It has 1,200 seats.", "number", r"It has \d{1,2},\d{3} seats\."),
        ("At 14:00 sharp.", "number", None),
        ("ask for Anna Smith there.", "name", r"ask for Maria Lopez there\."),
        ("It is free.", "name", None),
        ("It is free.", "addition", r"It is free\. The fee is 7 euros, as Maria Lopez says\."),
        ("It is free.", "other_answer", r"The fee is 7 euros, as Maria Lopez says\."),
        ("It is free. You do not pay.", "paraphrase", r"It’s free\. You don’t pay\."),
        ("Yes.", "paraphrase", None),
        ("It is free.", "padding", r"Thank you .* It is free\. I hope .*"),
    ],
)
def test_a_change_changes_one_thing(answer: str, change: str, expected: str | None) -> None:
    found = changed(answer, change)
    assert (found is None) == (expected is None), found
    assert expected is None or re.fullmatch(expected, found or ""), found
    assert found != answer


def test_a_number_is_none_that_the_case_says() -> None:
    contexts = tuple(Context(f"{n} days") for n in (11, 12, 16, 17, 19, 28, 42))
    assert changed("It is 14 days.", "number", contexts=contexts) == "It is 140 days."
    assert changed("It is 14 days.", "number", contexts=(*contexts, Context("140 days"))) is None


def test_contexts_are_turned_and_the_answer_stays() -> None:
    found = perturbed([case("It is free."), OTHER], ["contexts"])
    turned = next(one.case for one in found if one.change == "contexts")
    assert [context.text for context in turned.contexts or ()] == ["y", "x"]
    assert turned.answer == "It is free."
    alike = case("It is free.", contexts=(Context("x"),))
    assert {one.change for one in perturbed([alike], ["contexts"])} == {None}


def test_other_answers_come_from_other_groups() -> None:
    near = case("The fee is 9 euros.", "c", "own")
    assert changed("It is free.", "other_answer") == OTHER.answer
    alone = perturbed([case("It is free.", group="own"), near], ["addition", "other_answer", "name"])
    assert {one.change for one in alone} == {None}


def test_what_is_made_of_a_case_stands_together() -> None:
    found = perturbed([case("It is free."), OTHER])
    assert {one.case.group for one in found} == {"a", "other"}
    assert {one.case.id.removeprefix(f"{one.base.id}~") for one in found if one.change} <= set(CHANGES)
    assert all(one.case.tags == (one.change or "as it is",) for one in found)
    assert set(ABOUT) == set(CHANGES)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=4), st.sampled_from(CHANGES))
def test_any_text_can_be_tried_and_changes_alike_each_time(texts: list[str], change: str) -> None:
    bases = [case(text, f"case {place}", str(place)) for place, text in enumerate(texts)]
    found = perturbed(bases, [change])
    assert found == perturbed(bases, [change])
    assert len({one.case.id for one in found}) == len(found)
    assert all(one.case != one.base for one in found if one.change)
