"""Repeats of target and judge, from the command line to the summary, the terminal and the page."""

from __future__ import annotations

import itertools
import json

import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program

CASES = 6


def test_generator_and_judge_are_told_apart(program: Program) -> None:
    """Case 0 is answered right every time, case 1 never, the others now and then; the judge never wavers."""
    path = program.write("mine.jsonl", *({"id": f"c{i}", "question": f"Q{i}?"} for i in range(CASES)))
    asked = [itertools.count() for _ in range(CASES)]

    def script(request: Request) -> object:
        if request.model == "bot":
            case = next(i for i in range(CASES) if f"Q{i}?" in request.text)
            time = next(asked[case])
            return reply("good" if case == 0 or (case > 1 and time % 2) else "bad")
        return {"reason": "so it seems", "score": 5 if "good" in request.text.split("Q")[-1] else 1}

    with Endpoint(script) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=coherence",
            "generate=true",
            "target=vllm",
            "target.model=bot",
            f"target.base_url={endpoint.url}",
            "judge=vllm",
            "judge.model=grader",
            f"judge.base_url={endpoint.url}",
            "repeats={target: 4, judge: 2}",
        )
    assert done.returncode == 0, done.stderr
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    [detail] = [detail for detail in summary["details"] if "noise" in detail]
    noise = detail["noise"]
    assert (detail["n"], noise["answers_per_case"], noise["judgements_per_answer"]) == (6, 4, 2)
    assert noise["judge_noise"] == 0
    assert noise["generator_noise"] == pytest.approx(4 / 6 * 1 / 3)
    stability = noise["stability"]
    assert [stability[name] for name in ("stable_pass", "flaky", "stable_fail")] == [1, 4, 1]
    at_two = next(draw for draw in noise["draws"] if draw["k"] == 2)
    assert at_two["pass_at_k"]["value"] == pytest.approx((1 + 4 * 5 / 6) / 6)
    assert at_two["pass_all_k"]["value"] == pytest.approx((1 + 4 * 1 / 6) / 6)

    assert "coherence: 6 cases, 4 answers each, 2 judgements of each answer" in done.stdout
    assert "1 stable pass, 4 flaky, 1 stable fail" in done.stdout
    page = (program.latest / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="repeats">Repeats</h2>' in page
    assert "1 stable pass, 4 flaky, 1 stable fail" in page


def test_without_repeats_nothing_is_said_of_them(program: Program) -> None:
    done = program("dataset=jailbreak_guardrails", "metric=jailbreak_guardrails", "limit=5")
    assert done.returncode == 0, done.stderr
    assert "repeats" not in done.stdout
    assert 'id="repeats"' not in (program.latest / "report.html").read_text(encoding="utf-8")
