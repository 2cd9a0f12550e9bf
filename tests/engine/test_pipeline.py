"""The one pipeline: what it asks, in which order, how much of it at once, and how it ends."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import dataclass

import pytest

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.folder import RunFolder
from evalflow.engine.journal import JournalSink, cell_digest
from evalflow.engine.pipeline import Pipeline, RunPlan
from evalflow.engine.scoring import Pair
from evalflow.errors import BudgetError, InfrastructureError, JudgeError
from evalflow.records import Outcome, Usage

pytestmark = pytest.mark.anyio


def plan(target, *pairs, **keys):
    return RunPlan(run_id="r", target=target, pairs=tuple(pairs), **keys)


async def run(plan, cases, sink, tally=None):
    pipeline = Pipeline(plan, sink, tally or Tally())
    await pipeline.run(cases)
    return pipeline


async def test_every_cell_is_scored_once_and_under_its_own_name(kit):
    judge, sink, tally = kit.judge([kit.reply()]), kit.sink(), Tally()
    pairs = [Pair(kit.metric("plain"), None), Pair(kit.metric("judged"), judge)]
    await run(plan(kit.target(), *pairs, target_repeats=2, judge_repeats=3), kit.cases(4), sink, tally)
    cells = [(s.case_id, s.target_repeat, s.metric, s.judge, s.repeat) for s in sink.scores]
    plain = [(f"c{i}", t, "plain", None, 0) for i in range(4) for t in range(2)]
    judged = [(f"c{i}", t, "judged", "judge", r) for i in range(4) for t in range(2) for r in range(3)]
    assert sorted(cells, key=str) == sorted([*plain, *judged], key=str)
    assert (tally.done, tally.scores, tally.in_flight) == (32, {"scored": 32}, 0)


async def test_a_record_says_what_was_scored(kit):
    sink = kit.sink()
    judge = kit.judge([kit.reply(usage=Usage(7, 2), cost_usd=0.5, latency_s=1.5)])
    await run(plan(kit.target(), Pair(kit.metric("m"), judge)), kit.cases(1), sink)
    (score,) = sink.scores
    assert (score.run_id, score.dataset, score.index, score.group, score.tags) == ("r", "d", 0, "g0", ("t",))
    assert (score.target, score.metric_version, score.status, score.score) == ("fake", 3, "scored", 0.5)
    assert (score.input_tokens, score.output_tokens, score.cost_usd, score.latency_s) == (7, 2, 0.5, 1.5)
    assert score.finished_at.endswith("+00:00")


async def test_an_answer_is_written_before_its_scores_and_cases_are_taken_in_order(kit):
    sink, target = kit.sink(), kit.target()
    await run(plan(target, Pair(kit.metric(), None), Pair(kit.metric("n"), None), width=1), kit.cases(3), sink)
    assert [type(record).__name__ for record in sink.written] == ["Answer", "ScoreRecord", "ScoreRecord"] * 3
    assert [record.case_id for record in sink.written] == [f"c{i}" for i in range(3) for _ in range(3)]


async def test_a_slow_case_holds_up_no_other(kit):
    sink = kit.sink()
    target = kit.target(steps=lambda case: 50 if case.index == 0 else 0)
    await run(plan(target, Pair(kit.metric(), None), width=2), kit.cases(5), sink)
    assert [answer.case_id for answer in sink.answers] == ["c1", "c2", "c3", "c4", "c0"]


@pytest.mark.parametrize("width", [1, 3, 20])
async def test_no_more_cases_than_the_width_are_under_way_or_read(kit, width):
    sink, target, read = kit.sink(), kit.target(steps=lambda case: 1 + case.index % 3), 0

    def cases():
        nonlocal read
        for case in kit.cases(10):
            read += 1
            assert read - len(sink.scores) <= width
            yield case

    await run(plan(target, Pair(kit.metric(), None), width=width), cases(), sink)
    assert target.widest == min(width, 10)
    assert len(sink.scores) == 10


async def test_a_finished_cell_is_not_scored_and_a_finished_case_not_asked_about(kit):
    sink, target, judge = kit.sink(), kit.target(), kit.judge([kit.reply()])
    done = [("c0", 0, "plain", None, 0), ("c0", 0, "judged", "judge", 0), ("c1", 0, "plain", None, 0)]
    finished = frozenset(cell_digest("d", case, "fake", t, metric, by, r) for case, t, metric, by, r in done)
    pairs = [Pair(kit.metric("plain"), None), Pair(kit.metric("judged"), judge)]
    await run(plan(target, *pairs, finished=finished), kit.cases(3), sink)
    assert target.asked == [("c1", 0), ("c2", 0)]
    assert [(s.case_id, s.metric) for s in sink.scores] == [("c1", "judged"), ("c2", "plain"), ("c2", "judged")]


async def test_a_failed_answer_is_an_error_in_every_cell_and_no_end_of_the_run(kit):
    sink, tally = kit.sink(), Tally()

    def fault(case):
        return kit.answer(case, status="error", error_type="timeout", answer=None) if case.index == 1 else None

    await run(plan(kit.target(fault=fault), Pair(kit.metric(), None)), kit.cases(3), sink, tally)
    assert [(s.case_id, s.status, s.error_type) for s in sink.scores if s.status == "error"] == [
        ("c1", "error", "target: timeout")
    ]
    assert tally.scores == {"scored": 2, "error": 1}


@pytest.mark.parametrize("error", [InfrastructureError("gone"), BudgetError("spent")])
async def test_what_every_call_would_meet_ends_the_run_and_keeps_what_is_done(kit, error):
    sink = kit.sink()

    def fault(case):
        if case.index >= 2:
            raise error
        return None

    with pytest.raises(type(error)) as caught:
        await run(plan(kit.target(fault=fault), Pair(kit.metric(), None), width=1), kit.cases(9), sink)
    assert caught.value is error
    assert [s.case_id for s in sink.scores] == ["c0", "c1"]


async def test_an_error_out_of_a_judge_comes_out_of_all_task_groups(kit):
    judge = kit.judge([InfrastructureError("gone")])
    pairs = [Pair(kit.metric("a"), judge), Pair(kit.metric("b"), judge)]
    with pytest.raises(InfrastructureError, match="gone"):
        await run(plan(kit.target(), *pairs), kit.cases(5), kit.sink())


UNPLANNED = [ZeroDivisionError("no"), asyncio.CancelledError(), SystemExit(0), JudgeError("schema", "no reply")]


def failing(error, index=1):
    def fault(case):
        if case.index == index:
            raise error
        return None

    return fault


@pytest.mark.parametrize("error", UNPLANNED, ids=repr)
async def test_an_exception_out_of_a_target_is_an_error_of_its_cells_alone(kit, error):
    sink, tally = kit.sink(), Tally()
    target = kit.target(fault=failing(error))
    await run(
        plan(target, Pair(kit.metric("a"), None), Pair(kit.metric("b"), None), width=1), kit.cases(3), sink, tally
    )
    kind = "schema" if isinstance(error, JudgeError) else "exception"
    assert [(s.case_id, s.error_type) for s in sink.scores if s.status == "error"] == [("c1", f"target: {kind}")] * 2
    assert (sink.answers[1].status, sink.answers[1].error_type, tally.done) == ("error", kind, 6)
    assert str(error) in sink.answers[1].error
    assert asyncio.current_task().cancelling() == 0  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("error", UNPLANNED, ids=repr)
@pytest.mark.parametrize("metrics", [1, 2])
async def test_an_exception_out_of_a_judge_is_an_error_of_its_cell_and_keeps_what_was_paid(kit, error, metrics):
    paid = kit.reply(cost_usd=0.5)
    judges = [kit.judge([paid, error, paid], name=f"j{i}") for i in range(metrics)]
    sink, tally = kit.sink(), Tally()
    pairs = [Pair(kit.metric(f"m{i}", asks_of=2), judge) for i, judge in enumerate(judges)]
    await run(plan(kit.target(), *pairs, width=1), kit.cases(2), sink, tally)
    assert [(s.case_id, s.status, s.cost_usd) for s in sink.scores] == [
        *[("c0", "error", 0.5)] * metrics,
        *[("c1", "scored", 1.0)] * metrics,
    ]
    assert tally.done == 2 * metrics


async def test_an_error_of_the_endpoint_is_found_among_those_of_a_metrics_own_tasks(kit):
    class Asking(kit.metric):
        async def score(self, case, answer, judge, repeat):
            async with asyncio.TaskGroup() as asking:
                asking.create_task(judge.ask(kit.question()))

    asked = plan(kit.target(), Pair(Asking(), kit.judge([InfrastructureError("gone")])))
    with pytest.raises(InfrastructureError, match="gone"):
        await run(asked, kit.cases(1), kit.sink())


async def test_a_target_that_cancels_the_task_it_works_in_ends_only_its_own_cells(kit):
    class Selfish(kit.target):
        async def answer(self, case, repeat):
            if case.index == 1:
                asyncio.current_task().cancel()  # pyright: ignore[reportOptionalMemberAccess]
            await asyncio.sleep(0)
            return await super().answer(case, repeat)

    sink = kit.sink()
    await run(plan(Selfish(), Pair(kit.metric(), None), width=1), kit.cases(3), sink)
    assert [(s.case_id, s.status) for s in sink.scores] == [("c0", "scored"), ("c1", "error"), ("c2", "scored")]


async def test_a_target_that_makes_an_error_of_being_stopped_is_not_asked_again(kit):
    class Deaf(kit.target):
        async def answer(self, case, repeat):
            self.asked.append(case.id)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("not now") from None

    target, sink = Deaf(), kit.sink()
    work = asyncio.create_task(run(plan(target, Pair(kit.metric(), None), width=1), kit.cases(3), sink))
    while not target.asked:
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (target.asked, sink.written) == (["c0"], [])


@pytest.mark.parametrize(
    "said",
    [
        {"score": 1.5},
        {"score": float("nan")},
        {"score": None},
        {"score": 1.0, "value": float("inf")},
        {"score": 1.0, "value": object()},
        {"score": 1.0, "steps": ({"id": object()},)},
    ],
    ids=["above 1", "no number", "none", "endless value", "value of no JSON", "step of no JSON"],
)
async def test_what_no_file_can_hold_is_an_error_of_its_cell(kit, said, tmp_path):
    class Odd(kit.metric):
        async def score(self, case, answer, judge, repeat):
            return Outcome(status="scored", **(said if case.index == 1 else {"score": 0.5}))  # pyright: ignore

    tally = Tally()
    with closing(JournalSink(RunFolder(tmp_path), tally)) as journal:
        await run(plan(kit.target(), Pair(Odd(), None)), kit.cases(3), journal, tally)
    rows = [json.loads(line) for line in RunFolder(tmp_path).journal.read_text().splitlines()]
    assert {row["case_id"]: row.get("error_type") for row in rows} == {"c0": None, "c1": "unusable", "c2": None}
    assert tally.scores == {"scored": 2, "error": 1}


async def test_what_is_missing_is_told(kit):
    judge, sink = kit.judge([kit.reply()]), kit.sink()
    pairs = [Pair(kit.metric("a"), None), Pair(kit.metric("b"), judge)]
    wanted = plan(kit.target(), *pairs, judge_repeats=2, width=1)
    await run(wanted, kit.cases(2), sink)
    done = {
        cell_digest(s.dataset, s.case_id, s.target, s.target_repeat, s.metric, s.judge, s.repeat) for s in sink.scores
    }
    lacking = [(case.id, pair.metric.name, repeat) for case, _, pair, repeat in wanted.missing(kit.cases(3), done)]
    assert lacking == [("c2", "a", 0), ("c2", "b", 0), ("c2", "b", 1)]


async def test_stop_finishes_what_is_under_way_and_begins_nothing(kit):
    sink, tally = kit.sink(), Tally()
    target = kit.target(steps=lambda _: 5)
    pipeline = Pipeline(plan(target, Pair(kit.metric(), None), width=2), sink, tally)
    work = asyncio.create_task(pipeline.run(kit.cases(10)))
    while target.under_way < 2:
        await asyncio.sleep(0)
    pipeline.stop()
    await work
    assert target.asked == [("c0", 0), ("c1", 0)]
    assert [s.case_id for s in sink.scores] == ["c0", "c1"]
    assert tally.in_flight == 0


async def test_a_metric_that_binds_to_nothing_in_a_case_asks_for_no_answer(kit):
    target = kit.target()
    await run(plan(target, Pair(kit.metric(binds=0), None)), kit.cases(2), kit.sink())
    assert target.asked == []


async def test_no_cases_are_no_work(kit):
    sink = kit.sink()
    await run(plan(kit.target(), Pair(kit.metric(), None)), [], sink)
    assert sink.written == []


# --- checks that stop at the first that fails -----------------------------------------------------------------------


def checks(kit, *scores, judged=()):
    """A metric that binds to the checks a, b, c ... with these scores, an error where it is None."""

    def outcome(score):
        return Outcome(status="error", error_type="x") if score is None else Outcome(status="scored", score=score)

    @dataclass
    class Check(kit.metric):
        found: Outcome | None = None

        async def score(self, case, answer, judge, repeat):
            if judge:
                await judge.ask(kit.question(repeat))
            return self.found

    @dataclass
    class Checks(kit.metric):
        stops: bool = True

        def bind(self, case):
            return [
                Check(name, asks=name in judged, found=outcome(one))
                for name, one in zip("abcdef", scores, strict=False)
            ]

    return Checks("checks")


def found(sink):
    return [(score.metric, score.repeat, score.score if score.status == "scored" else score.status) for score in sink]


async def test_what_comes_after_a_failed_check_is_skipped_and_says_why(kit):
    sink, tally = kit.sink(), Tally()
    await run(plan(kit.target(), Pair(checks(kit, 1.0, None, 0.0, 1.0, 0.0), None)), kit.cases(1), sink, tally)
    assert found(sink.scores) == [
        ("a", 0, 1.0),
        ("b", 0, "error"),
        ("c", 0, 0.0),
        ("d", 0, "skipped"),
        ("e", 0, "skipped"),
    ]
    assert "an earlier check, c, failed" in sink.scores[-1].reason
    assert tally.scores == {"scored": 2, "error": 1, "skipped": 2}


async def test_a_failed_check_keeps_its_own_repeats_and_no_judge_is_asked_after_it(kit):
    sink, judge = kit.sink(), kit.judge([kit.reply()])
    pair = Pair(checks(kit, 0.0, 1.0, judged="ab"), judge)
    await run(plan(kit.target(), pair, judge_repeats=2), kit.cases(1), sink)
    assert found(sink.scores) == [("a", 0, 0.0), ("a", 1, 0.0), ("b", 0, "skipped"), ("b", 1, "skipped")]
    assert {score.judge for score in sink.scores} == {"judge"}
    assert len(judge.asked) == 2


@pytest.mark.parametrize(
    ("failed", "rest"),
    [("", [("b", 0, 0.0), ("c", 0, "skipped")]), ("a", [("b", 0, "skipped"), ("c", 0, "skipped")])],
)
async def test_a_run_that_goes_on_knows_what_failed_before(kit, failed, rest):
    sink = kit.sink()
    finished, failures = (
        frozenset(cell_digest("d", "c0", "fake", 0, one, None, 0) for one in of) for of in ("a", failed)
    )
    pair = Pair(checks(kit, 1.0, 0.0, 1.0), None)
    await run(plan(kit.target(), pair, finished=finished, failed=failures), kit.cases(1), sink)
    assert found(sink.scores) == rest
