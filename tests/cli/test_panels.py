"""Panels and cascades from the command line to the report: each member's word, and nothing paid or counted twice."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, malformed, reply
from tests.cli.conftest import Program
from tests.cli.test_resume import Gate

ROWS = [{"id": f"c{i:02}", "question": f"Question {i}?", "answer": f"Answer {i}."} for i in range(12)]
PRICE = "{input_per_million: 1000, output_per_million: 1000}"


def number(request: Request) -> int:
    return next(i for i in range(len(ROWS)) if f"Answer {i}." in request.text)


def grade(request: Request) -> Any:
    """`one` says 4 of 5; `two` agrees but for every fourth answer, which it finds poor; `broken` replies nonsense."""
    grades = {"one": 4, "two": 2 if number(request) % 4 == 3 else 5, "three": 4}
    model = request.body["model"]
    return malformed() if model == "broken" else {"reason": f"{model} says", "score": grades[model]}


def sure(request: Request) -> Any:
    """`one` is the less sure the higher the answer's number; `two` always says 2."""
    if request.body["model"] == "two":
        return {"reason": "looked closely", "score": 2}
    chance = 0.99 if number(request) < 9 else 0.6
    return reply({"reason": "at a glance", "score": 4}, alternatives={"4": {"4": chance, "3": 1 - chance}})


def arguments(program: Program, url: str, judge: str = "panel", models: tuple[str, str] = ("one", "two")) -> list[str]:
    words = ["dataset=rag", f"dataset.rag.path={program.write('mine.jsonl', *ROWS)}", "dataset.rag.fields=null"]
    words += ["metric=coherence", f"judge={judge}"]
    for member, model in zip(("first", "second"), models, strict=True):
        own = f"judge.members.{member}"
        words += [f"{own}.model={model}", f"{own}.base_url={url}", f"{own}.api_key_env=null", f"{own}.price={PRICE}"]
    return words


def table(program: Program) -> pl.DataFrame:
    return pl.read_parquet(program.latest / "scores.parquet")


def panel_of(program: Program) -> dict[str, Any]:
    document = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    return next(detail for detail in document["details"] if "panel" in detail)


def test_a_panel_from_the_estimate_to_the_report(program: Program) -> None:
    with Endpoint(grade) as endpoint:
        words = arguments(program, endpoint.url)
        checked = program("check", *words, "--json")
        facts = json.loads(checked.stdout)
        assert (facts["estimate"]["requests"], facts["scores"], endpoint.count) == (24, 12, 0)
        assert facts["estimate"]["cost_usd_low"] > 0
        assert set(facts["prices"]) == {"first:one", "second:two"}
        done = program(*words, "gate={coherence: {mean: '>= 0.1', point: true}}")
        assert done.returncode == 0, done.stderr
        assert endpoint.count == 24
    scores = table(program)
    own = scores.filter(pl.col("member_of").is_null())
    assert own["judge"].unique().to_list() == ["panel"]
    assert own["score"].to_list() == [0.5 if i % 4 == 3 else 0.875 for i in range(12)]
    assert scores.filter(member_of="panel")["judge"].value_counts(sort=True, name="n")["n"].to_list() == [12, 12]
    manifest = program.manifest
    assert manifest["scores"] == {"scored": 12, "undefined": 0, "error": 0, "skipped": 0}
    assert manifest["requests"] == 24
    assert own["cost_usd"].sum() == pytest.approx(manifest["cost_usd"])
    summary = pl.read_parquet(program.latest / "summary.parquet")
    assert summary["judge"].to_list() == ["panel"]
    assert (summary["n"][0], summary["cost_usd"][0]) == (12, pytest.approx(manifest["cost_usd"]))
    assert len((program.latest / "results.csv").read_text(encoding="utf-8").splitlines()) == 13


def test_what_the_members_say_alone_stands_beside_it(program: Program) -> None:
    with Endpoint(grade) as endpoint:
        done = program(*arguments(program, endpoint.url))
    detail = panel_of(program)
    assert (detail["judge"], detail["n"]) == ("panel", 12)
    means = {one["judge"]: one["value"] for one in detail["panel"]["members"]}
    assert means == {"first:one": 0.75, "second:two": pytest.approx(0.8125)}
    assert [one["case_id"] for one in detail["panel"]["widest"][:3]] == ["c03", "c07", "c11"]
    assert detail["panel"]["alpha"]["value"] < 0.1
    told = " ".join(done.stdout.split())
    assert "first:one: mean 0.750 (0.590 to 0.839), 12 of 12 scored" in told
    assert "they agree poorly (Krippendorff's alpha" in told
    assert "largest differences: c03 (first:one 0.750, second:two 0.250)" in told
    page = (program.latest / "report.html").read_text(encoding="utf-8")
    assert "they agree poorly" in page
    assert '"member_of":"panel"' in page


def test_a_member_that_cannot_answer_is_an_error_and_no_zero(program: Program) -> None:
    with Endpoint(grade) as endpoint:
        words = [*arguments(program, endpoint.url, models=("one", "broken")), "judge.members.second.reasks=0"]
        assert program(*words).returncode == 3
        assert program.manifest["scores"]["error"] == 12
        assert table(program).filter(pl.col("member_of").is_null())["score"].null_count() == 12
        asked = endpoint.count
        done = program(*words, "judge.quorum=1")
        assert done.returncode == 0, done.stderr
        assert endpoint.count == asked + 12  # what the first has said is remembered
    assert program.manifest["scores"]["scored"] == 12
    states = {one["judge"]: (one["n_scored"], one["n_error"]) for one in panel_of(program)["panel"]["members"]}
    assert states == {"first:one": (12, 0), "second:broken": (0, 12)}


def test_a_panel_that_was_killed_asks_nobody_twice(program: Program) -> None:
    gate = Gate(free=9, answer=grade)
    with Endpoint(gate) as endpoint:
        one_by_one = [f"judge.members.{member}.concurrency.max=1" for member in ("first", "second")]
        words = [*arguments(program, endpoint.url), *one_by_one, "cache.mode=off"]
        process = program.begin(*words)
        assert gate.reached.wait(300)
        program.wait_for_replies(9)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        gate.open.set()
        hung = endpoint.count - 9
        assert hung <= 2
        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        assert endpoint.count <= 24 + hung
    assert program.manifest["scores"]["scored"] == 12
    assert program.manifest["requests"] == 24
    scores = table(program)
    assert scores.height == 36
    assert program.manifest["cost_usd"] == pytest.approx(24 * 0.59, rel=0.2)


def test_a_cascade_asks_the_second_only_where_the_first_is_not_sure(program: Program) -> None:
    with Endpoint(sure) as endpoint:
        words = [*arguments(program, endpoint.url, "cascade"), "judge.members.first.logprobs=true", "judge.order=null"]
        facts = json.loads(program("check", *words, "--json").stdout)["estimate"]
        assert facts["requests"] == 24
        assert facts["input_tokens_high"] > 2 * facts["input_tokens_low"]
        done = program(*words)
        assert done.returncode == 0, done.stderr
        assert endpoint.count == 15
    own = table(program).filter(pl.col("member_of").is_null())
    assert own["score"].to_list() == [0.75] * 9 + [0.25] * 3
    assert own["reason"][0] == "first:one decides, confident enough (p 0.99): at a glance"
    assert own["reason"][11] == "first:one was not confident enough (p 0.60); second:two decides: looked closely"
    told = " ".join(done.stdout.split())
    assert "escalated from first:one to second:two: 3 of 12 (25 %)" in told
    assert "9 scores were made without second:two, which saved about $" in told


def test_a_judge_that_is_never_sure_is_refused_before_anything_is_sent(program: Program) -> None:
    with Endpoint(sure) as endpoint:
        words = [*arguments(program, endpoint.url, "cascade"), "judge.samples=null"]
        refused = program("check", *words)
        assert refused.returncode == 2
        assert "coherence: second:two gives no probability of its verdicts" in refused.stderr
        assert "judge.samples=5; or judge.members.second.logprobs=true" in refused.stderr
        assert program("check", *words[:-1]).returncode == 0
        assert endpoint.count == 0


def test_what_makes_members_alike_is_told(program: Program) -> None:
    words = arguments(program, "http://127.0.0.1:9/v1", models=("openai/gpt-4.1", "gpt-4.1-mini"))
    notices = json.loads(program("check", *words, "--json").stdout)["notices"]
    assert any("all members of the panel panel are gpt models" in notice for notice in notices)
    live = ["generate=true", "target=openai", "target.model=gpt-4.1", "target.base_url=http://127.0.0.1:9/v1"]
    notices = json.loads(program("check", *words, *live, "target.api_key_env=null", "--json").stdout)["notices"]
    assert any("the judge first:openai/gpt-4.1 is the model that it judges" in notice for notice in notices)
