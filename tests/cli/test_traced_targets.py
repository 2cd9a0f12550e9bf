"""Targets that return their trace: a trajectory metric and a judge of agents score from it, resumed and cached."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments
from tests.targets.test_service import said
from tests.traces.otlp import chat, request, span

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "hours", "gen_ai.tool.call.result": "9"}
TOKENS = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2, "llm.cost.total": 0.25}
RUN = ("metric=[trajectory_match,goal_accuracy]", "generate=true", "target.trace='$.telemetry'")


def telemetry(place: str) -> dict[str, Any]:
    """What an agent did to look up the opening hours of a place."""
    return request(
        span("agent", says={"gen_ai.operation.name": "invoke_agent"}),
        span("tool", "agent", 1, says=TOOL | {"gen_ai.tool.call.arguments": json.dumps({"place": place})}),
        span("model", "agent", 2, says=chat("When?", "At 9.", **TOKENS)),
    )


def agent(request: Request) -> Any:
    """Answers with a trace: in case 2 it looked at the wrong place, in case 3 the trace is broken."""
    number = request.body["id"]
    if number == "3":
        return said(answer="At 9.", telemetry={"spans": []})
    return said(telemetry=telemetry("pool" if number == "1" else "park"))


def judge(request: Request) -> Any:
    reached = 'call 1: hours({"place": "pool"})' in request.text and "result of call 1: 9" in request.text
    verdict = "reached" if reached else "not_reached"
    return {"goal": "g", "outcome": "o", "reason": "r", "verdict": verdict}


@pytest.fixture
def cases(program: Program) -> str:
    expected = [{"name": "hours", "arguments": {"place": "pool"}}]
    rows = [{"id": str(at), "question": "When does the pool open?", "expected": expected} for at in (1, 2, 3)]
    return f"dataset.agent.path={program.write('mine.jsonl', *rows)}"


def test_metrics_score_from_the_trace_of_a_service(program: Program, cases: str) -> None:
    with Endpoint(agent) as bot, Endpoint(judge) as scripted:
        words = (
            "dataset=agent",
            cases,
            *RUN,
            "target=http",
            f"target.url={bot.url}/chat/completions",
            *judge_arguments(scripted.url),
        )
        done = program(*words)
        assert done.returncode == 3, done.stderr  # the answer with a broken trace
        answers = {row["case_id"]: row for row in rows(program, "answers.jsonl")}
        assert answers["1"]["usage"].items() >= {"input_tokens": 7, "output_tokens": 2}.items()
        assert (answers["1"]["answer"], answers["1"]["cost_usd"]) == ("At 9.", 0.25)
        assert "trace: expected OTLP JSON with resourceSpans, got an object with spans" in answers["3"]["error"]
        wanted = {
            ("1", "trajectory_match"): 1,
            ("1", "goal_accuracy"): 1,
            ("2", "trajectory_match"): 0,
            ("2", "goal_accuracy"): 0,
            ("3", "trajectory_match"): None,
            ("3", "goal_accuracy"): None,
        }
        assert scores(program) == wanted
        asked = bot.count, scripted.count
        assert asked == (3, 2)
        assert program("resume", "--retry-errors").returncode == 3
        assert (bot.count, scripted.count) == (4, 2)  # the broken one only
        program(*words)  # from the cache, which has no broken replies
        assert (bot.count, scripted.count) == (5, 2)
        assert scores(program) == wanted
        again = {row["case_id"]: row for row in rows(program, "answers.jsonl")}
        assert (again["1"]["actual"], again["1"]["saved_usd"]) == (answers["1"]["actual"], 0.25)


def test_commands_and_callables_return_traces_too(program: Program, cases: str) -> None:
    source = f"def ask(case):\n    return {{'telemetry': {telemetry('pool')!r}}}\n"
    (program.folder / "my_bot.py").write_text(source)
    (program.folder / "bot.py").write_text("import json, my_bot\nprint(json.dumps(my_bot.ask(None)))\n")
    with Endpoint(judge) as scripted:
        for target in (
            ("target=python", "target.call=my_bot:ask"),
            ("target=command", "target.argv=[python3,bot.py]"),
        ):
            done = program("dataset=agent", cases, *RUN, *target, *judge_arguments(scripted.url))
            assert done.returncode == 0, done.stderr
            assert set(scores(program).values()) == {1}


def rows(program: Program, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (program.latest / name).read_text().splitlines()]


def scores(program: Program) -> dict[tuple[str, str], float | None]:
    return {(row["case_id"], row["metric"]): row["score"] for row in rows(program, "scores.jsonl")}
