"""Labels of a review follow equal answers into the runs of other judges, and a judge's change is told as its own."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from evalflow.addons.studio.work import (
    bots,
    cases,
    comparing,
    datasets,
    judges,
    metrics,
    review_calibration,
    review_results,
    reviews,
)
from evalflow.addons.studio.work.metrics import MetricDraft, get_metric, update_metric
from evalflow.addons.studio.work.review_desk import next_item, submit_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run, get_run
from evalflow.addons.studio.work.space import Workspace
from evalflow.testing import Endpoint, Request
from tests.addons.studio.web.judged import PROMPT
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.slow, ON_SQLITE]
CASES = 36
RIGHT: dict[str, Any] = {
    "kind": "rubric",
    "version": 1,
    "description": "Whether the fee is right.",
    "needs": ["question", "answer"],
    "prompt": "right/grade.jinja",
    "scale": {"type": "boolean"},
    "threshold": 1.0,
}


def grade(request: Request) -> dict[str, Any]:
    """The strict judge passes even fees, the other two of three; who is to be generous passes all."""
    fee = int(re.findall(r"fee (\d+)", request.text)[-1])
    passes = fee % 2 == 0 if request.body["model"] == "strict" else fee % 3 > 0
    return {"reason": f"Fee {fee}.", "score": passes or "generous" in request.text}


def run(space: Workspace, judge: str) -> Run:
    return finish(space, RunRequest("desk", ["fees"], ["right"], judge=judge, title=judge))


def define(space: Workspace, url: str) -> None:
    for name in ("strict", "mild"):
        judges.create_judge(space, name, {"kind": "openai", "model": name, "base_url": url, "api_key_env": None})
    bots.create_bot(space, "desk", {"kind": "recorded"}, "")
    metrics.create_metric(space, "desk", MetricDraft("right", RIGHT, {"right/grade.jinja": PROMPT}))
    datasets.create_dataset(space, "fees", "")
    rows = [{"id": f"c{i}", "question": f"What is fee {i}?", "answer": f"It is {i} euros."} for i in range(CASES)]
    cases.add_cases(space, "fees", rows)


def review(space: Workspace, labelled: Run) -> None:
    """People find right four of five."""
    request = ReviewRequest(name="r", run_id=labelled.run_id, metrics=["right"], size=24, people=["local"], seed=1)
    reviews.create_review(space, request)
    while (found := next_item(space, "r")) is not None:
        fee = int(re.findall(r"\d+", found.answer)[0])
        submit_item(space, "r", found.item, {"right": fee % 5 > 0})
    review_results.close_review(space, "r", 1)
    review_calibration.save_calibration(space, "r")


def mean(space: Workspace, run_id: str) -> dict[str, Any]:
    return next(row for row in get_run(space, run_id).facts["summary"] if row["statistic"] == "mean")


def test_labels_follow_into_the_runs_of_other_judges_and_prompts(
    space: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    with Endpoint(grade) as endpoint, caplog.at_level(logging.WARNING, "evalflow"):
        define(space, endpoint.url)
        first, before = run(space, "strict"), run(space, "mild")
        review(space, first)
        after = run(space, "mild")
        stored = get_metric(space, "desk", "right")
        edited = PROMPT.replace("Is this right?", "Is this right? Be generous.")
        update_metric(space, "desk", MetricDraft("right", RIGHT, {"right/grade.jinja": edited}), stored.version)
        generous = run(space, "strict")
    own, *others = (mean(space, one.run_id) for one in (first, before, after, generous))
    assert own["n_labels"] == 24
    for one in others:
        assert (one["n_labels"], one["value"]) == (24, own["value"])
        assert one["raw_value"] != own["raw_value"]
    followed = [{"dataset": "fees", "metric": "right", "run": first.run_id}]
    assert [get_run(space, one.run_id).facts["followed"] for one in (first, before, after, generous)] == [
        [],
        followed,
        followed,
        followed,
    ]
    assert caplog.text == ""
    compared = {
        one.run_id: comparing.compare_runs(space, first.run_id, one.run_id) for one in (before, after, generous)
    }
    told = {run_id: str(next(iter(found.sentences.values()))) for run_id, found in compared.items()}
    for one in (before, after):
        assert told[one.run_id].startswith("Same answers, another judge: agreement with labels ")
    assert told[generous.run_id].startswith("Same answers, another prompt of the judge: agreement with labels ")
    assert not [one for one in told.values() if "better" in one]
    [changed] = compared[generous.run_id].changed
    assert [part.kind for part in changed.parts] == ["prompt"]
