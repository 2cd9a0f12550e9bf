"""A judge is taught by the labels of a review; a worker measures it, and only what helps can be saved."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evalflow.addons.studio.work import (
    bots,
    cases,
    connections,
    datasets,
    judges,
    metrics,
    review_results,
    reviews,
    teaching,
)
from evalflow.addons.studio.work.access import Role
from evalflow.addons.studio.work.connections import ConnectionDraft
from evalflow.addons.studio.work.metrics import MetricDraft, get_metric
from evalflow.addons.studio.work.review_desk import next_item, submit_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.calls.connections import Connections
from evalflow.testing import Endpoint, Request
from tests.addons.studio.work.test_reviews import add_people, person
from tests.cli.test_align import STYLES, examples_in, following, ignoring, style
from tests.finishing import carry_out, finish

pytestmark = pytest.mark.slow

BOT, METRIC = "letters", "kindness"
RUBRIC: dict[str, Any] = {
    "kind": "rubric",
    "version": 1,
    "description": "How friendly it is.",
    "needs": ["question", "answer"],
    "scale": {"type": "likert", "min": 1, "max": 5},
    "judge": "scripted",
}


def answers(count: int) -> list[dict[str, Any]]:
    styles = list(STYLES)
    return [
        {"id": f"c{i}", "question": f"When is it, {i}?", "answer": f"Said {styles[i * 7 % 3]}: at {i}."}
        for i in range(count)
    ]


def labelled(space: Workspace, url: str, count: int, people: dict[str, Role], *, is_live: bool = False) -> None:
    """Define bot, judge, metric and cases, run them, and have one person label all answers of a review.

    A live bot gives the answers, and its own model judges them.
    """
    judges.create_judge(space, "scripted", {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None})
    model = {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None}
    bots.create_bot(space, BOT, model if is_live else {"kind": "recorded"}, "")
    definition = {name: value for name, value in RUBRIC.items() if not is_live or name != "judge"}
    metrics.create_metric(space, BOT, MetricDraft(METRIC, definition))
    datasets.create_dataset(space, "cases", "")
    known = [{**row, "answer": None} if is_live else row for row in answers(count)]
    cases.add_cases(space, "cases", known)
    run = finish(space, RunRequest(BOT, ["cases"], [METRIC]))
    if people:
        add_people(space, people)
    name = "ann" if people else "local"
    me = person(space, name) if people else space
    made = ReviewRequest(name="r", run_id=run.run_id, metrics=[METRIC], size=count, people=[name], overlap=0)
    reviews.create_review(space, made)
    while (found := next_item(me, "r")) is not None:
        submit_item(me, "r", found.item, {METRIC: STYLES[style(str(found.answer))]})


def reviewed(space: Workspace, url: str, count: int = 66, *, is_live: bool = False) -> Workspace:
    """The workspace of an editor, with a closed review of all answers."""
    connections.create_connection(space, "here", ConnectionDraft(url, networks=["127.0.0.0/8"]))
    labelled(space, url, count, {"ann": "annotator", "eve": "editor"}, is_live=is_live)
    eve = person(space, "eve", "editor")
    [waiting] = teaching.teachings(eve, "r")
    assert "still labelling" in waiting.why_not
    with pytest.raises(TakenError, match="still labelling"):
        teaching.teach(eve, "r", METRIC)
    review_results.close_review(eve, "r", 1)
    return eve


def test_a_judge_that_learns_is_measured_by_a_worker_and_saved(space: Workspace) -> None:
    with Endpoint(following) as endpoint:
        eve, asked = reviewed(space, endpoint.url), endpoint.count
        [plan] = teaching.teachings(eve, "r")
        assert (plan.why_not, plan.learning, plan.held_out) == ("", 33, 33)
        assert (plan.questions, plan.calls, plan.version) == (1, 34, 2)
        assert {one.people for one in plan.examples} <= {"1", "3", "5"}
        assert endpoint.count == asked
        run = teaching.teach(eve, "r", METRIC)
        assert teaching.teach(eve, "r", METRIC).run_id == run.run_id
        [under_way] = teaching.teachings(eve, "r")
        assert under_way.run is not None
        assert (under_way.run.run_id, under_way.alignment) == (run.run_id, None)
        carry_out(space, run.run_id)
        assert endpoint.count == asked + 34
        [done] = teaching.teachings(eve, "r")
        assert done.alignment is not None
        assert (done.alignment.helps, done.alignment.scored, done.is_saved, done.not_saved) == (True, 33, False, "")
        other = {**RUBRIC, "scale": {"type": "likert", "min": 1, "max": 5, "anchors": {1: "rude"}}}
        metrics.update_metric(eve, BOT, MetricDraft(METRIC, other), 1)
        with pytest.raises(TakenError, match="scale of kindness has changed since the run"):
            teaching.save_taught(eve, "r", METRIC)
        metrics.update_metric(eve, BOT, MetricDraft(METRIC, RUBRIC), 2)
        teaching.save_taught(eve, "r", METRIC)
        saved = get_metric(eve, BOT, METRIC).definition
        assert (saved["version"], len(saved["examples"])) == (2, 4)
        [after] = teaching.teachings(eve, "r")
        assert after.is_saved
        again = finish(space, RunRequest(BOT, ["cases"], [METRIC]))
        assert len(examples_in(endpoint.requests[-1].text)) == 4
        assert again.state == "done"


def test_the_model_of_a_live_bot_is_taught_to_judge_without_asking_the_bot_again(space: Workspace) -> None:
    known = answers(66)

    def replies(request: Request) -> Any:
        if request.schema is not None:
            return following(request)
        [number] = re.findall(r"When is it, (\d+)", request.text)
        return known[int(number)]["answer"]

    with Endpoint(replies) as endpoint:
        eve = reviewed(space, endpoint.url, is_live=True)
        [plan] = teaching.teachings(eve, "r")
        assert (plan.why_not, plan.held_out) == ("", 33)
        asked = endpoint.count
        carry_out(space, teaching.teach(eve, "r", METRIC).run_id)
        assert all(request.schema is not None for request in endpoint.requests[asked:])
        teaching.save_taught(eve, "r", METRIC)
        assert get_metric(eve, BOT, METRIC).definition["version"] == 2


def test_a_judge_whose_address_has_no_connection_is_told_with_the_next_step(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint(following) as endpoint:
        eve = reviewed(space, endpoint.url)
        monkeypatch.setattr(type(eve), "allowed", Connections(()))
        [plan] = teaching.teachings(eve, "r")
    assert "no connection" in plan.why_not
    assert plan.next_step == "there is no connection yet; the server's owner adds them on the page Connections"


def test_a_judge_that_does_not_get_better_is_not_saved(space: Workspace) -> None:
    with Endpoint(ignoring) as endpoint:
        eve = reviewed(space, endpoint.url)
        carry_out(space, teaching.teach(eve, "r", METRIC).run_id)
        [done] = teaching.teachings(eve, "r")
        assert done.alignment is not None
        assert done.alignment.helps is None
        with pytest.raises(TakenError, match="do not say that the taught judge"):
            teaching.save_taught(eve, "r", METRIC)
        assert get_metric(eve, BOT, METRIC).definition["version"] == 1
