"""`calibrate` of panels and cascades: members' errors, weights, shared mistakes, and when to escalate."""

from __future__ import annotations

import json
import random
import re
import shlex
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

N = 150
ROWS = [{"id": f"c{i:03}", "question": f"Question {i}?", "answer": f"Answer {i}."} for i in range(N)]
TRUTH = [random.Random(i).random() < 0.6 for i in range(N)]
PRICE = "{input_per_million: 1000, output_per_million: 1000}"


def number(request: Request) -> int:
    return int(re.findall(r"Answer (\d+)\.", request.text)[-1])


def right(model: str, i: int) -> bool:
    """`good` errs in 5 % of the answers, `weak` in 35 %, and `copy` as `weak` but for every fifth answer."""
    rng = random.Random(f"{model} {i}")
    if model == "copy" and i % 5:
        return right("weak", i)
    return rng.random() > {"good": 0.05, "weak": 0.35, "weak2": 0.35, "weak3": 0.35, "copy": 0.35, "cheap": 0.25}[model]


def grade(request: Request) -> Any:
    i, model = number(request), request.body["model"]
    passes = TRUTH[i] == right(model, i)
    return {"reason": "so it seems", "score": 5 if passes else 1}


def doubt(request: Request) -> Any:
    """`cheap` errs where its probability is low, and `good` is asked there."""
    i, model = number(request), request.body["model"]
    if model == "good":
        return grade(request)
    sure = right("cheap", i) or i % 7 == 0
    score = "5" if TRUTH[i] == right("cheap", i) else "1"
    chance = (0.9 if sure else 0.55) + 0.0005 * (i % 100)
    return reply({"reason": "at a glance", "score": int(score)}, alternatives={score: {score: chance, "3": 1 - chance}})


def arguments(program: Program, url: str, members: dict[str, str], *more: str) -> list[str]:
    words = ["dataset=rag", f"dataset.rag.path={program.write('mine.jsonl', *ROWS)}", "dataset.rag.fields=null"]
    words += ["metric=coherence", "metric.coherence.threshold=0.5"]
    for member, model in members.items():
        own = f"judge.members.{member}"
        words += [f"{own}.model={model}", f"{own}.base_url={url}", f"{own}.api_key_env=null", f"{own}.price={PRICE}"]
    return [*words, *more]


def labels(program: Program, n: int, metric: str = "coherence") -> str:
    rows = [{"case_id": f"c{i:03}", "metric": metric, "value": 5 if TRUTH[i] else 1, "by": "ann"} for i in range(n)]
    return str(program.write("labels.jsonl", *rows))


def panel_of(program: Program, url: str, *models: str) -> list[str]:
    """The arguments of a panel of three."""
    judge = program.folder / "conf" / "judge" / "three.yaml"
    judge.parent.mkdir(parents=True, exist_ok=True)
    judge.write_text("defaults: [vllm@members.a, vllm@members.b, vllm@members.c]\nkind: panel\n", encoding="utf-8")
    return arguments(program, url, dict(zip("abc", models, strict=True)), "judge=three")


@pytest.fixture
def panel(program: Program) -> list[str]:
    """A panel of which two members make the same mistakes, and that has run; its arguments."""
    with Endpoint(grade) as endpoint:
        words = panel_of(program, endpoint.url, "good", "weak", "copy")
        done = program(*words)
    assert done.returncode == 0, done.stderr
    return words


def test_a_panel_is_weighed_by_what_people_say(program: Program, panel: list[str]) -> None:
    done = program("calibrate", "--labels", labels(program, 100), "--json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["rows"]
    found = row["members"]
    assert (found["kind"], found["n"], found["classes"]) == ("panel", 100, ["fail", "pass"])
    assert found["members"] == {"a:good": "a", "b:weak": "b", "c:copy": "c"}
    passes = [i for i in range(100) if TRUTH[i]]
    hits = sum(right("weak", i) for i in passes)
    cell = found["confusion"]["b:weak"][1][1]
    assert (cell["n"], cell["value"], cell["method"]) == (len(passes), pytest.approx(hits / len(passes)), "wilson")
    weights = found["weights"]
    assert weights["a:good"] > 0.6
    assert sum(weights.values()) == pytest.approx(1)
    assert found["ways"]["weighted"]["value"] > found["ways"]["majority"]["value"] + 0.2
    assert found["weights_against_majority"]["ci_low"] > 0.1
    [pair] = [one for one in found["shared_errors"] if one["members"] == ["b:weak", "c:copy"]]
    assert pair["ci_low"] > 0.2
    others = [one for one in found["shared_errors"] if one is not pair]
    assert all(one["ci_low"] is None or one["ci_low"] < 0.02 for one in others)


def test_what_it_prints_runs_and_is_right_more_often(program: Program, panel: list[str]) -> None:
    told = program("calibrate", "--labels", labels(program, 100)).stdout
    lines = " ".join(told.split())
    assert "b:weak and c:copy make the same mistakes: they agree on" in lines
    assert "by majority 0.6" in lines
    assert "so they are better." in lines
    page = (program.latest / "calibration.html").read_text(encoding="utf-8")
    assert "The members of the panel" in page
    assert "Members and labels" in page
    override = shlex.split(lines.split("To vote by weights: ")[1])[:2]
    assert override[0] == "++judge.vote=weighted"
    with Endpoint(grade) as endpoint:
        urls = (re.sub(r"http.*", endpoint.url, word) for word in panel)
        done = program(*urls, *override)
    assert done.returncode == 0, done.stderr
    own = pl.read_parquet(program.latest / "scores.parquet").filter(pl.col("member_of").is_null())
    same = sum(passed == TRUTH[int(case[1:])] for case, passed in own.select("case_id", "passed").iter_rows())
    assert same > 0.9 * N


def test_members_of_one_skill_are_not_said_to_gain_by_weights(program: Program) -> None:
    with Endpoint(grade) as endpoint:
        assert program(*panel_of(program, endpoint.url, "weak", "weak2", "weak3")).returncode == 0
    told = " ".join(program("calibrate", "--labels", labels(program, 60)).stdout.split())
    assert re.search("so they are (not shown to be better|not better|worse)", told)
    assert "make the same mistakes" not in told
    assert "Keep the vote as it is." in told
    assert "To vote by weights" not in told
    weights = [
        {"case_id": f"c{i:03}", "metric": "coherence", "value": 5 if TRUTH[i] else 1, "by": "ann", "weight": 1 + i % 2}
        for i in range(60)
    ]
    name = program.write("weighted.jsonl", *weights)
    weighted = json.loads(program("calibrate", "--labels", name, "--json").stdout)["rows"][0]["members"]
    assert weighted["why"] == "the labels carry weights"
    few = json.loads(program("calibrate", "--labels", labels(program, 12), "--json").stdout)["rows"][0]["members"]
    assert few["why"].startswith("12 labelled answers that its members scored, and it takes 15")
    assert "confusion" not in few


def test_a_cascade_is_told_when_to_escalate(program: Program) -> None:
    with Endpoint(doubt) as endpoint:
        words = arguments(program, endpoint.url, {"first": "good", "second": "cheap"}, "judge=cascade")
        words += ["judge.members.second.logprobs=true", "judge.escalate_below=0.99", "+metric.coherence.name=Clarity"]
        done = program(*words)
        assert done.returncode == 0, done.stderr
    done = program("calibrate", "--labels", labels(program, 120, "Clarity"), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["rows"][0]["members"]
    points = found["points"]
    assert found["kind"] == "cascade"
    assert [one["escalate_below"] for one in points] == sorted(one["escalate_below"] for one in points)
    assert points[-1]["escalate_below"] == 0.99
    assert points[-1]["escalated"] == 1
    costs = [one["cost_usd"] for one in points]
    assert costs == sorted(costs)
    assert 0.5 < found["advised"] < 0.95
    [advised] = [one for one in points if one["escalate_below"] == found["advised"]]
    assert advised["escalated"] < 0.5
    assert found["against_current"]["ci_low"] > -0.12
    lines = " ".join(program("calibrate", "--labels", "labels.jsonl").stdout.split())
    assert f"To escalate less: judge.escalate_below={found['advised']:g}" in lines
    assert "Thresholds above 0.99 are not known" in lines
    page = (program.latest / "calibration.html").read_text(encoding="utf-8")
    assert "Cost against agreement" in page
