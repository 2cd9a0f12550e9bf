"""Branches: every value has one, and none is idle; found without trying all values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from evalflow.metrics.branches import Branch, Decided, branch_problems
from evalflow.metrics.returns import BoolType, LabelType, NumberType

LABEL = LabelType(type="label", labels=["good", "bad", "unsure"])
BOOL = BoolType(type="bool")
INT = NumberType(type="int", min=1, max=5)
FLOAT = NumberType(type="float", min=0, max=1)
BRANCHES = TypeAdapter(list[Branch])


def problems(declared: Decided, *conditions: dict[str, Any]) -> list[tuple[str, str]]:
    branches = BRANCHES.validate_python([{**condition, "score": 0} for condition in conditions])
    return [(problem.where, problem.what) for problem in branch_problems(branches, declared, "b")]


def idle(place: int) -> tuple[str, str]:
    return f"b[{place}]", "this branch is never taken: earlier branches take all its values"


def missing(values: str) -> tuple[str, str]:
    return "b", f"there is no branch for {values}"


@pytest.mark.parametrize(
    ("declared", "conditions", "found"),
    [
        (LABEL, [{"equals": "good"}, {}], []),
        (LABEL, [{"equals": "good"}, {"in": ["bad", "unsure"]}], []),
        (LABEL, [{"equals": "good"}], [missing("bad and unsure")]),
        (LABEL, [{}, {"equals": "good"}], [idle(1)]),
        (LABEL, [{"in": ["good", "bad"]}, {"equals": "bad"}, {}], [idle(1)]),
        (LABEL, [{"equals": "good"}, {"in": ["bad", "unsure"]}, {}], [idle(2)]),
        (LABEL, [{"equals": "god"}, {}], [("b[0].equals", "unknown label 'god'")]),
        (LABEL, [{"equals": True}, {}], [("b[0].equals", "True is not a label")]),
        (LABEL, [{"in": ["good", "bda"]}], [("b[0].in", "unknown label 'bda'")]),
        (LABEL, [{"min": 1}, {}], [("b[0]", "`min` and `max` are for numbers, but the value is a label")]),
        (BOOL, [{"equals": True}, {"equals": False}], []),
        (BOOL, [{"equals": False}], [missing("true")]),
        (BOOL, [{"equals": "yes"}, {}], [("b[0].equals", "'yes' is not true or false")]),
        (INT, [{"min": 4}, {"max": 3}], []),
        (INT, [{"min": 3.5}, {"max": 3.2}], []),
        (INT, [{"equals": 5}, {"in": [1, 2, 4]}], [missing("3")]),
        (INT, [{"min": 4}, {"max": 1}], [missing("numbers from 2 up to 3")]),
        (INT, [{"min": 2.2, "max": 2.8}, {}], [idle(0)]),
        (INT, [{"min": 6}, {}], [idle(0)]),
        (INT, [{"min": 1}, {"equals": 2}], [idle(1)]),
        (INT, [{"min": 4, "max": 2}, {}], [("b[0]", "no number is at least 4 and at most 2")]),
        (
            INT,
            [{"min": 4, "equals": 5}, {}],
            [("b[0]", "a branch has only one of `equals`, `in`, and `min` and `max`")],
        ),
        (FLOAT, [{"min": 0.5}, {"max": 0.5}], []),
        (FLOAT, [{"min": 0.5}, {"max": 0.4}], [missing("numbers above 0.4 below 0.5")]),
        (FLOAT, [{"min": 0.5, "max": 1}, {"max": 0.5}, {"equals": 0.5}], [idle(2)]),
        (FLOAT, [{"equals": 0.5}, {"min": 0.5}, {"max": 0.5}], []),
        (FLOAT, [{"max": 0.5}], [missing("numbers above 0.5 up to 1")]),
        (NumberType(type="float"), [{"min": 0}], [missing("numbers below 0")]),
        (NumberType(type="int"), [{"max": 0}, {"min": 2}], [missing("1")]),
        (NumberType(type="int", min=0), [{"max": 7}], [missing("numbers from 8")]),
    ],
)
def test_what_is_wrong_is_named(declared: Decided, conditions: list[Any], found: list[Any]) -> None:
    assert problems(declared, *conditions) == found


bounds = st.one_of(st.none(), st.integers(-1, 7), st.sampled_from([0.5, 2.5, 4.5]))
conditions = st.one_of(
    st.fixed_dictionaries({"equals": st.integers(0, 6)}),
    st.fixed_dictionaries({"in": st.lists(st.integers(0, 6), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"min": bounds, "max": bounds}),
    st.just({}),
)


@given(st.lists(conditions, min_size=1, max_size=5))
def test_for_whole_numbers_it_is_what_trying_each_would_find(given: list[dict[str, Any]]) -> None:
    branches = BRANCHES.validate_python(given)
    taken = [next((at for at, branch in enumerate(branches) if branch.fits(value)), None) for value in range(1, 6)]
    found = [problem for problem in branch_problems(branches, INT, "b") if "at least" not in problem.what]
    if len(found) == len(list(branch_problems(branches, INT, "b"))):
        assert {problem.where for problem in found if "never" in problem.what} == {
            f"b[{at}]" for at in range(len(branches)) if at not in taken
        }
        assert any("no branch" in problem.what for problem in found) == (None in taken)


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ({"score": 1.5}, "must be a number from 0 to 1, or undefined, not 1.5"),
        ({"score": True}, "must be a number from 0 to 1, or undefined, not True"),
        ({"score": "best"}, "must be a number from 0 to 1, or undefined, not 'best'"),
        ({"score": {"op": "value"}}, "must be a number from 0 to 1, or undefined"),
        ({"next": True}, "put it in quotes"),
        ({"in": []}, "at least 1 item"),
        ({"min": float("nan")}, "finite"),
    ],
)
def test_what_is_no_way(way: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Branch.model_validate(way)
