"""Several judges of one cell in the pipeline: whom it asks, what it writes, and what it counts."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel

from evalflow.config.judges import CascadeConfig, EmbeddedJudgeConfig, PanelConfig
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.pipeline import Pipeline, RunPlan
from evalflow.engine.scoring import Pair
from evalflow.errors import InfrastructureError, JudgeError
from evalflow.llm.panel import Panel
from evalflow.records import Outcome, Usage

pytestmark = pytest.mark.anyio


class Verdict(BaseModel):
    verdict: Literal["good", "bad"]


def of(model, *judges, **keys):
    members = {judge.name: EmbeddedJudgeConfig(kind="embedded", name=judge.name) for judge in judges}
    return Panel(model.model_validate({"members": members, **keys}), "all", judges)


def panel(*judges, **keys):
    return of(PanelConfig, *judges, kind="panel", **keys)


def cascade(*judges, **keys):
    return of(CascadeConfig, *judges, kind="cascade", escalate_below=0.8, **keys)


def says(kit, verdict, chance=None, **took):
    probabilities = None if chance is None else ({"verdict": {verdict: chance}},)
    return kit.reply(parsed=Verdict(verdict=verdict), probabilities=probabilities, **took)


def judging(kit):
    """A metric whose score is 1 where the judge says `good`."""

    class Judging(kit.metric):
        async def score(self, case, answer, judge, repeat):
            try:
                said = (await judge.ask(kit.question(repeat))).parsed
            except JudgeError as error:
                return Outcome(status="error", error_type=error.error_type, error=str(error))
            return Outcome(status="scored", score=float(said.verdict == "good"), value=said.verdict)

    return Judging("m")


def members(kit, *replies):
    return [kit.judge([reply], name=f"j{place}", identity=f"j{place}") for place, reply in enumerate(replies)]


async def run(kit, judge, cases=1, **keys):
    sink, tally = kit.sink(), Tally()
    plan = RunPlan(run_id="r", target=kit.target(), pairs=(Pair(judging(kit), judge),), **keys)
    await Pipeline(plan, sink, tally).run(kit.cases(cases))
    return sink.scores, tally


async def test_a_panels_row_follows_those_of_its_members(kit):
    judges = members(kit, says(kit, "good"), says(kit, "bad"))
    scores, tally = await run(kit, panel(*judges), cases=3, judge_repeats=2)
    rows = [(s.judge, s.member_of, s.score) for s in scores if (s.case_id, s.repeat) == ("c1", 1)]
    assert rows == [("j0", "all", 1.0), ("j1", "all", 0.0), ("all", None, 0.5)]
    assert (len(scores), tally.done, tally.scores) == (18, 6, {"scored": 6})
    assert [len(judge.asked) for judge in judges] == [6, 6]


async def test_calls_are_counted_once_and_stand_in_the_members_bills(kit):
    took = {"usage": Usage(10, 2), "cost_usd": 0.5, "latency_s": 1.0}
    scores, tally = await run(kit, panel(*members(kit, says(kit, "good", **took), says(kit, "good", **took))))
    one, two, together = scores
    assert (tally.requests, tally.input_tokens, tally.cost) == (2, 20, 1.0)
    assert (one.bill.requests, two.bill.requests, together.bill.requests) == (1, 1, 0)
    assert (together.cost_usd, together.input_tokens, together.latency_s) == (1.0, 20, 1.0)


async def test_a_member_that_fails_leaves_no_score_unless_a_quorum_has_one(kit):
    judges = members(kit, says(kit, "good"), JudgeError("schema", "no valid reply"))
    scores, tally = await run(kit, panel(*judges))
    assert [(s.judge, s.status, s.score) for s in scores] == [
        ("j0", "scored", 1.0),
        ("j1", "error", None),
        ("all", "error", None),
    ]
    assert tally.errors == 1
    scores, tally = await run(kit, panel(*judges, quorum=1))
    assert (scores[-1].status, scores[-1].score, tally.errors) == ("scored", 1.0, 0)


async def test_a_member_whose_endpoint_is_gone_ends_the_run(kit):
    judges = members(kit, says(kit, "good"), InfrastructureError("gone"))
    with pytest.raises(InfrastructureError, match="gone"):
        await run(kit, panel(*judges))


async def test_a_cascade_asks_the_next_one_only_where_it_must(kit):
    cheap, dear = members(kit, says(kit, "good", 0.8), says(kit, "bad"))
    scores, _ = await run(kit, cascade(cheap, dear))
    assert [(s.judge, s.member_of, s.score) for s in scores] == [("j0", "all", 1.0), ("all", None, 1.0)]
    assert cheap.asked[0].logprobs
    assert not dear.asked
    cheap, dear = members(kit, says(kit, "good", 0.79), says(kit, "bad"))
    scores, _ = await run(kit, cascade(cheap, dear))
    assert [(s.judge, s.score) for s in scores] == [("j0", 1.0), ("j1", 0.0), ("all", 0.0)]
    assert not dear.asked[0].logprobs


@pytest.mark.parametrize("doubt", ["no probability", "an error"])
async def test_what_is_not_known_to_be_sure_is_escalated(kit, doubt):
    first = says(kit, "good") if doubt == "no probability" else JudgeError("schema", "no valid reply")
    scores, tally = await run(kit, cascade(*members(kit, first, says(kit, "bad"))))
    assert [s.judge for s in scores] == ["j0", "j1", "all"]
    assert (scores[-1].score, tally.scores) == (0.0, {"scored": 1})


async def test_replies_are_drawn_where_a_cascade_wants_some(kit):
    cheap, dear = members(kit, says(kit, "good", 0.5), says(kit, "bad"))
    await run(kit, cascade(cheap, dear, samples=5))
    assert (cheap.asked[0].samples, dear.asked[0].samples) == (5, 1)
