"""`make test-live`: whether a real judge scores the fixtures of the shipped metrics as people do."""

from __future__ import annotations

import json

import pytest

from evalflow.app.core.options import options
from evalflow.metrics.registry import calls_of
from tests.cli.conftest import Program, real_judge

CLOSE = 0.25
"""How far a score may be from people's; a judge need not agree to a decimal."""
ENOUGH = 0.75
"""The share of the cases of a metric in which it must be so close."""


def judged() -> list[str]:
    """The shipped metrics that ask a judge or an embedder, themselves or by their parts."""
    return [
        one.name
        for one in options(None, "metric")
        if one.values["kind"] in ("composite", "checks") or ((calls := calls_of(one.values)) and calls.high != 0)
    ]


@pytest.mark.live
@pytest.mark.parametrize("metric", judged())
def test_a_real_judge_scores_as_people_do(program: Program, metric: str) -> None:
    judge = real_judge()
    done = program("prove", metric, "--base", "none", "--by", f"{CLOSE}", "--json", *judge)
    assert done.returncode == 0, done.stderr
    people = json.loads(done.stdout)["people"]
    wrong = [f"{one['case_id']}: {one['judge']}, people {one['person']}: {one['why']}" for one in people["furthest"]]
    assert people["unscored"] == 0
    assert people["same"]["value"] >= ENOUGH, "\n".join([f"{metric}, within {CLOSE} of people:", *wrong])
