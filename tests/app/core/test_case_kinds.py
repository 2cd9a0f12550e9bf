"""A run that is checked by the kinds of its cases is said to be what it is if each case is checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core import inspect as inspecting
from evalflow.app.core.case_kinds import CaseKinds
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.errors import UserError
from evalflow.records import Case
from tests.app.conftest import Lab

PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a"}}]}
ODDITIES: list[dict[str, object]] = [
    {},
    {"question": None},
    {"question": "  "},
    {"question": "這本書借出多久？", "reference": "十四天。"},
    {"question": None, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    {"question": None, "messages": [PICTURE]},
    {"reference": None},
    {"reference": ["one", "two"]},
    {"answer": None},
    {"answer": "<think>Well.</think>So."},
    {"answer": None, "reference": None, "expected": "spam"},
    {"expected": ["a", "b"]},
    {"expected": {"deep": {"er": 1}}},
    {"vars": {"deep": {"er": None}}},
    {"vars": {"finish_reason": "length", "plan": "p"}},
    {"contexts": []},
    {"contexts": ["Fourteen days."]},
    {"group": "g"},
    {"labels": {"exact_match": 1}},
    {"labels": {"exact_match": "rubbish", "other": 1}},
    {"checks": [{"identifier": "contains", "params": {"value": "x"}}]},
    {"checks": [{"identifier": "rubbish"}]},
    {"scenario": "s", "question": None},
    {"vars": {"goal": "g"}},
    {"demo_answer": "D."},
]
METRICS = [["exact_match"], ["exact_match", "checks", "faithfulness"], ["plan_quality", "question_router"]]
LIVE: list[dict[str, object]] = [{"generate": True}, {"generate": "missing"}, {"generate": "demo"}, {"sample": 70}, {}]


def rows(*oddities: dict[str, object], times: int = 30) -> Iterator[dict[str, object]]:
    for number in range(times):
        for which, odd in enumerate(oddities):
            own = {"id": f"{which}-{number}", "question": f"Why {number}?", "answer": "So.", "reference": "So."}
            yield {key: value for key, value in {**own, **odd}.items() if value is not None}


def facts(found: Inspection) -> dict[str, Any]:
    about = ("cases", "labelled", "scenarios", "labels_apply", "cells", "declared", "remarks", "reading", "unread")
    return {"estimate": asdict(found.estimate), **{name: getattr(found, name) for name in about}}


def outcome(lab: Lab, *args: Any, **run: Any) -> object:
    try:
        return facts(inspect(lab.parts(*args, **run)))
    except UserError as error:
        return error.problems


@pytest.mark.parametrize("run", LIVE, ids=str)
@pytest.mark.parametrize("metrics", METRICS, ids=str)
def test_kinds_say_what_each_case_says(
    lab: Lab, llm: dict[str, Any], metrics: list[str], run: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = {"target": llm} if run.get("generate") in (True, "missing") else {}
    outcomes = list[list[object]]()
    for by_kind in (True, False):
        if not by_kind:
            monkeypatch.setattr(inspecting, "suffice", lambda _: False)
        outcomes.append([])
        for odd in ODDITIES:
            data = {"d": lab.data(*rows({}, odd)), "e": lab.data(*rows(odd, times=2), name="e.jsonl")}
            outcomes[-1].append(outcome(lab, data, metrics, **run, **live))
        usual = [odd for odd in ODDITIES if odd.keys().isdisjoint(("checks", "labels", "scenario"))]
        outcomes[-1].append(outcome(lab, {"d": lab.data(*rows(*usual))}, metrics, **run, **live))
    assert outcomes[0] == outcomes[1]
    assert metrics != ["exact_match"] or any(isinstance(one, dict) for one in outcomes[0])


def test_an_id_that_is_repeated_by_a_case_like_many_is_named(lab: Lab) -> None:
    many = [*rows({}, times=50)]
    (problem,) = lab.refusal({"d": lab.data(*many, many[45])}, ["exact_match"])
    assert problem.what.startswith("the id '0-45' is also that of ")


def test_known_cases_are_read_again_only_for_a_sample(lab: Lab) -> None:
    data = lab.data(*rows({}, {"reference": None}))
    kinds = CaseKinds()
    first = inspect(lab.parts({"d": data}, ["exact_match"]), kinds)
    Path(data["path"]).write_text("{}\n")
    again = inspect(lab.parts({"d": data}, ["exact_match"]), kinds)
    assert facts(again) == facts(first)
    with pytest.raises(UserError, match="empty"):
        inspect(lab.parts({"d": data}, ["exact_match"], sample=5), kinds)


def test_cases_of_too_many_kinds_are_not_kept(lab: Lab) -> None:
    data = lab.data(*({**row, "labels": {"exact_match": 1}} for row in rows({}, times=1002)))
    kinds = CaseKinds()
    assert inspect(lab.parts({"d": data}, ["exact_match"]), kinds).cells == 1002
    Path(data["path"]).write_text("{}\n")
    with pytest.raises(UserError, match="empty"):
        inspect(lab.parts({"d": data}, ["exact_match"]), kinds)


def test_no_more_kinds_are_remembered_than_cases() -> None:
    kinds = (Case(index=n, id=str(n), dataset="d", vars={f"part_{n}": n}) for n in range(1002))
    alike = [Case(index=n, id=str(n), dataset="d", vars={"part_0": n}) for n in range(1002, 1102)]
    assert [(int(case.id), times) for case, times in CaseKinds().of([*kinds, *alike], {})] == [
        (n, 1) for n in range(1102)
    ]
