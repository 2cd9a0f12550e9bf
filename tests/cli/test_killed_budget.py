"""A budget that holds though the run is killed again and again: what was in flight counts, and is told."""

from __future__ import annotations

import json

import pytest

from evalflow.testing import Endpoint
from tests.cli.conftest import Program, judge_arguments
from tests.cli.test_resume import Gate

LIMIT = 60
IN_FLIGHT = 8
TOKENS_A_CALL = 40  # of the scripted endpoint, about; what is reserved is far more


def begun(program: Program, url: str, budget: str) -> list[str]:
    rows = [{"id": f"c{number:03}", "question": f"Question {number}?", "answer": "Yes."} for number in range(200)]
    path = program.write("mine.jsonl", *rows)
    data = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=coherence"]
    flight = [f"judge.concurrency.start={IN_FLIGHT}", f"judge.concurrency.max={IN_FLIGHT}"]
    price = ["judge.price={input_per_million: 1000, output_per_million: 1000}", "judge.max_tokens=100"]
    return [*data, *judge_arguments(url), *flight, *price, budget]


def killed(program: Program, gate: Gate, words: list[str]) -> None:
    gate.reached.clear()
    gate.free = 7
    process = program.begin(*words)
    assert gate.reached.wait(300)
    process.kill()
    process.wait()


@pytest.mark.parametrize("budget", [f"budget.requests={LIMIT}", "budget.tokens=40000", "budget.usd=40"])
def test_three_kills_and_resumes_do_not_exceed_a_budget(program: Program, budget: str) -> None:
    gate = Gate(free=0)
    with Endpoint(gate) as endpoint:
        killed(program, gate, begun(program, endpoint.url, budget))
        for _ in range(2):
            killed(program, gate, ["resume"])
        noted = json.loads((program.latest / "budget.json").read_bytes())
        assert noted["used"]["requests"] >= endpoint.count
        gate.open.set()
        done = program("resume")
        sent = endpoint.count
    assert done.returncode == 4, done.stderr
    manifest, note = program.manifest, json.loads((program.latest / "budget.json").read_bytes())
    assert 0 < manifest["unaccounted_requests"] <= 3 * IN_FLIGHT
    assert "under way when the run was killed" in done.stderr
    assert manifest["requests"] <= sent <= note["used"]["requests"]
    unit, limit = budget.removeprefix("budget.").split("=")
    assert note["used"][unit] <= float(limit)
    assert sent > LIMIT - 3 * IN_FLIGHT or unit != "requests"


def test_what_was_in_flight_is_remembered_by_later_resumes(program: Program) -> None:
    gate = Gate(free=0)
    with Endpoint(gate) as endpoint:
        killed(program, gate, begun(program, endpoint.url, f"budget.requests={LIMIT}"))
        gate.open.set()
        assert program("resume").returncode == 4
        lost, sent = program.manifest["unaccounted_requests"], endpoint.count
        assert lost > 0
        assert program("resume").returncode == 4
        assert (program.manifest["unaccounted_requests"], endpoint.count) == (lost, sent)
        assert program("resume", f"budget.requests={LIMIT + 10}").returncode == 4
        assert (program.manifest["unaccounted_requests"], endpoint.count) == (lost, sent + 10)
        assert program("resume", "budget.requests=null").returncode == 0
    assert program.manifest["requests"] == 200


def test_a_damaged_note_is_told(program: Program) -> None:
    gate = Gate(free=0)
    with Endpoint(gate) as endpoint:
        killed(program, gate, begun(program, endpoint.url, f"budget.requests={LIMIT}"))
        note = program.latest / "budget.json"
        note.write_text("{", encoding="utf-8")
        refused = program("resume")
        assert refused.returncode == 2
        assert "this is not a record of a run's spending" in refused.stderr
        note.unlink()
        gate.open.set()
        assert program("resume").returncode == 4
