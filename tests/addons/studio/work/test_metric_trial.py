"""A metric on one case, before anything is run with it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from evalflow import prompts
from evalflow.addons.studio.work import metric_trial
from evalflow.addons.studio.work.bots import create_bot
from evalflow.addons.studio.work.metric_trial import preview_metric, try_metric, write_steps
from evalflow.addons.studio.work.metrics import MetricDraft, create_metric, get_library
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import InfrastructureError, UserError
from evalflow.testing import Endpoint, Request, status
from tests.off_loop import keep_off_loops
from tests.postgres import ON_SQLITE

pytestmark = [ON_SQLITE, pytest.mark.slow, pytest.mark.anyio]
CASE = {"question": "What does it cost?", "answer": "Forty pounds.", "reference": "40 pounds"}
CRITERIA = {"kind": "g_eval", "criteria": "The answer names the price.", "needs": ["question", "answer"], "samples": 2}
STEPS = ["Look for a price.", "Grade by it."]


def judge(request: Request) -> dict[str, Any]:
    if "write down the steps" in request.text:
        return {"steps": STEPS}
    return {"reason": "It names a price.", "score": 10}


def bot(space: Workspace, url: str = "http://127.0.0.1:9/v1", **config: Any) -> None:
    values = {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None, "attempts": 1, **config}
    create_bot(space, "fees", values)


def draft(**values: Any) -> MetricDraft:
    return MetricDraft("price", {**CRITERIA, **values})


async def test_the_preview_is_what_is_sent(space: Workspace) -> None:
    with Endpoint(judge) as endpoint:
        bot(space, endpoint.url)
        told = preview_metric(space, "fees", draft(steps=STEPS), CASE)
        await try_metric(space, "fees", draft(steps=STEPS), CASE)
    assert endpoint.count == 1
    sent = endpoint.requests[0].body
    (prompt,) = told.prompts
    assert [{"role": role, "content": text} for role, text in prompt.messages] == sent["messages"]
    assert prompt.request == {key: value for key, value in sent.items() if key != "messages"}
    assert (prompt.step, prompt.times, told.judge) == ("score", 1, "target:m")
    assert sent["n"] == 2
    assert "Look for a price." in prompt.messages[0][1]


async def test_a_preview_needs_no_key_and_sends_nothing(space: Workspace) -> None:
    bot(space, api_key_env="NO_SUCH_KEY")
    told = preview_metric(space, "fees", draft(), CASE)
    assert "Forty pounds." in told.prompts[0].messages[-1][1]
    with pytest.raises(UserError, match="NO_SUCH_KEY is not set"):
        await try_metric(space, "fees", draft(), CASE)


async def test_a_preview_says_why_nothing_would_be_asked(space: Workspace) -> None:
    bot(space)
    told = preview_metric(space, "fees", draft(needs=["question", "answer", "contexts"]), CASE)
    assert (told.prompts, told.nothing) == ([], "the case has no contexts")
    keyword = MetricDraft(
        "word", {"kind": "check", "needs": ["answer"], "field": "answer", "checks": [{"op": "contains", "value": "40"}]}
    )
    assert preview_metric(space, "fees", keyword, CASE).nothing == "this metric asks no judge"


async def test_the_judge_writes_the_steps(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(judge) as endpoint:
        bot(space, endpoint.url)
        keep_off_loops(monkeypatch.setattr)
        written = await write_steps(space, "fees", draft(steps=["an old one"]))
    assert (list(written.steps), written.judge) == (STEPS, "target:m")
    assert endpoint.count == 1


async def test_steps_that_do_not_come_are_given_up(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_trial, "LONGEST_S", 0.05)
    held = threading.Event()

    def reply(_: Request) -> dict[str, Any]:
        held.wait(60)
        return {"steps": STEPS}

    with Endpoint(reply) as endpoint:
        bot(space, endpoint.url)
        with pytest.raises(UserError, match="the judge wrote no steps within"):
            await write_steps(space, "fees", draft())
        held.set()


async def test_one_case_is_scored_as_in_a_run(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with Endpoint(judge) as endpoint:
        bot(space, endpoint.url)
        keep_off_loops(monkeypatch.setattr)
        found = await try_metric(space, "fees", draft(), CASE)
    (score,) = found.scores
    assert (score.metric, score.status, score.score, score.value) == ("price", "scored", 1.0, 10)
    assert score.reason
    assert score.reason.startswith("It names a price.")
    assert endpoint.count == 2  # the steps once, and two samples in one request
    assert [(limit.metric, limit.judge, limit.value) for limit in found.thresholds] == [("price", "target:m", 0.5)]


async def test_the_bot_is_asked_where_the_case_has_no_answer(space: Workspace) -> None:
    def both(request: Request) -> Any:
        return "Forty." if request.text == "What does it cost?" else judge(request)

    with Endpoint(both) as endpoint:
        bot(space, endpoint.url)
        found = await try_metric(space, "fees", draft(strict=True), {"question": "What does it cost?"})
    assert found.answer.answer == "Forty."


async def test_a_composite_is_tried_by_a_run(space: Workspace) -> None:
    bot(space)
    both = MetricDraft("both", {"kind": "composite", "of": ["faithfulness", "price"]})
    with pytest.raises(UserError, match="made of the scores of faithfulness, price, which a run makes"):
        await try_metric(space, "fees", both, CASE)
    assert preview_metric(space, "fees", both, CASE).prompts == []


async def test_a_metric_has_a_judge_of_its_own(space: Workspace) -> None:
    own = {"kind": "openai", "model": "other", "api_key_env": None, "price": None}
    create_bot(space, "recorded_fees", {"kind": "recorded"})
    with Endpoint(judge) as endpoint:
        metric = draft(judge={**own, "base_url": endpoint.url})
        found = await try_metric(space, "recorded_fees", metric, CASE)
    assert found.scores[0].status == "scored"
    assert endpoint.requests[0].body["model"] == "other"


async def test_what_cannot_be_judged_is_said(space: Workspace) -> None:
    create_bot(space, "recorded_fees", {"kind": "recorded"})
    with pytest.raises(UserError, match="judge") as refused:
        await try_metric(space, "recorded_fees", draft(), CASE)
    assert refused.value.problems[0].key == "judge.model"
    with pytest.raises(UserError, match="are written by criteria"):
        await write_steps(space, "recorded_fees", MetricDraft("coherence", get_library(space, "coherence").definition))


async def test_a_judge_that_fails_is_told(space: Workspace) -> None:
    with Endpoint([status(400), status(400), status(400), status(400)]) as endpoint:
        bot(space, endpoint.url)
        with pytest.raises(UserError, match="wrote no steps"):
            await write_steps(space, "fees", draft())
        found = await try_metric(space, "fees", draft(steps=STEPS), CASE)
    assert (found.scores[0].status, found.scores[0].score) == ("error", None)
    with Endpoint([status(401)]) as endpoint:
        other = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        with pytest.raises(InfrastructureError):
            await write_steps(space, "fees", draft(judge=other))


async def test_a_judge_that_could_not_be_asked_is_refused_when_it_is_kept(space: Workspace) -> None:
    bot(space)
    wrong = {"kind": "openai", "base_url": "localhost", "reasks": -1}
    with pytest.raises(UserError) as refused:
        create_metric(space, "fees", draft(judge=wrong))
    assert [problem.key for problem in refused.value.problems] == [
        "metric.price.judge.base_url",
        "metric.price.judge.reasks",
    ]
    create_metric(space, "fees", draft(judge={"kind": "openai", "temperature": 0.5}))  # of the run's model


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than 3 s"),
        ("{{ answer.__class__.__mro__ }}", "cannot be rendered"),
        ("{{ answer * 100000 }}", "of at most"),
    ],
)
async def test_a_template_bomb_is_refused_before_anything_is_sent(
    space: Workspace, template: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "takes more" in what:
        monkeypatch.setattr(prompts, "SECONDS", 2)  # one more is given
    with Endpoint(judge) as endpoint:
        bot(space, endpoint.url)
        rubric = {"kind": "rubric", "needs": ["answer"], "prompt": "price/grade.jinja", "scale": {"type": "boolean"}}
        with pytest.raises(UserError, match=what):
            await try_metric(space, "fees", MetricDraft("price", rubric, {"price/grade.jinja": template}), CASE)
    assert endpoint.count == 0
