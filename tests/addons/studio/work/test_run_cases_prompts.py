"""The prompts of a finished run are the very ones that its judge was sent, and nobody is asked for them again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, cases, datasets, metrics, runs
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_cases import score_prompts
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.scores import list_scores
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import UserError
from evalflow.testing import Endpoint, Request, numbered_results, status
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.slow, ON_SQLITE]

WARM: dict[str, Any] = {"kind": "g_eval", "criteria": "Warm?", "needs": ["question", "answer"], "samples": 2}


def reply(request: Request) -> Any:
    if request.schema is None:
        return f"answer to {request.text}"
    fields = request.schema["properties"]
    if "steps" in fields:
        return {"steps": ["Read.", "Grade."]}
    if "claims" in fields:
        return {"claims": ["one", "two"]}
    if "results" in fields:
        return numbered_results({"reason": "r", "verdict": verdict} for verdict in ("supported", "contradicted"))
    return status(400) if "broken" in request.text else {"reason": "because", "score": 7}


def sent(endpoint: Endpoint) -> list[list[tuple[str, str]]]:
    """The messages of every request so far."""
    bodies = [one.body for one in endpoint.requests]
    return [[(message["role"], message["content"]) for message in body["messages"]] for body in bodies]


def test_they_are_what_was_sent_and_the_replies_what_came(space: Workspace) -> None:
    with Endpoint(reply) as endpoint:
        bots.create_bot(space, "desk", {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None})
        metrics.create_metric(space, "desk", MetricDraft("warm", WARM))
        datasets.create_dataset(space, "mine")
        rows = [{"question": f"{word}?", "contexts": ["A fact."]} for word in ("plain", "broken")]
        cases.add_cases(space, "mine", rows)
        request = RunRequest("desk", ["mine"], ["warm", "faithfulness"], options={"max_error_rate": 1.0})
        run = finish(space, request)
        before = sent(endpoint)
        bots.update_bot(space, "desk", 1, config={"kind": "recorded"})
        found = {
            (score.question, score.metric): (score, score_prompts(space, run.run_id, score.id))
            for score in list_scores(space, run.run_id).items
        }
        assert len(endpoint.requests) == len(before)
    for _, calls in found.values():
        assert calls
        assert all(list(call.prompt.messages) in before for call in calls)
    _, [grade] = found["plain?", "warm"]
    assert (grade.prompt.step, grade.prompt.times, len(grade.replies)) == ("score", 1, 2)
    assert "Read." in grade.prompt.messages[0][1]
    assert json.loads(grade.replies[0]) == {"reason": "because", "score": 7}
    _, steps = found["plain?", "faithfulness"]
    assert [call.prompt.step for call in steps] == ["claims", "verdicts"]
    assert "two" in steps[1].prompt.messages[-1][1]
    failed, [asked] = found["broken?", "warm"]
    assert (failed.status, asked.replies) == ("error", [])
    what_is_gone(space, run, found["plain?", "warm"][0].id)


def what_is_gone(space: Workspace, run: Run, score: str) -> None:
    (space.root / ".evalflow" / "cache.db").unlink()
    [call] = score_prompts(space, run.run_id, score)
    assert call.replies == []
    template = run.folder / "snapshot" / "prompts" / "g_eval" / "score.jinja"
    template.write_text(template.read_text() + "\nAnd be brief.")
    with pytest.raises(UserError, match="the templates of warm have changed since the run"):
        score_prompts(space, run.run_id, score)
    with pytest.raises(NotFoundError):
        score_prompts(space, run.run_id, "99-0")


def test_a_score_that_no_judge_gave_has_none(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"question": "q?", "answer": "a", "reference": "a"}])
    run = finish(space, RunRequest("desk", ["mine"], ["exact_match"]))
    [score] = list_scores(space, run.run_id).items
    assert score_prompts(space, run.run_id, score.id) == []


def test_a_composite_has_scores_in_the_tables_and_its_prompts_with_its_parts(space: Workspace) -> None:
    with Endpoint(reply) as endpoint:
        bots.create_bot(space, "desk", {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None})
        metrics.create_metric(space, "desk", MetricDraft("warm", WARM))
        both = {"kind": "composite", "of": {"warm": 1, "exact_match": 2}}
        metrics.create_metric(space, "desk", MetricDraft("both", both))
        datasets.create_dataset(space, "mine")
        cases.add_cases(space, "mine", [{"question": "plain?", "reference": "answer to plain?"}])
        with pytest.raises(UserError, match="made of exact_match, which this run does not score"):
            runs.create_run(space, RunRequest("desk", ["mine"], ["warm", "both"]))
        run = finish(space, RunRequest("desk", ["mine"], ["warm", "exact_match", "both"]))
    scores = {score.metric: score for score in list_scores(space, run.run_id).items}
    warm, made = scores["warm"], scores["both"]
    assert warm.score is not None
    assert (made.status, made.judge) == ("scored", warm.judge)
    assert made.score == pytest.approx((warm.score + 2) / 3)
    assert score_prompts(space, run.run_id, made.id) == []
