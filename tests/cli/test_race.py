"""Two configurations on the same cases, turn by turn, until their difference is decided."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program
from tests.cli.test_looks import words

pytestmark = pytest.mark.slow


def bots(request: Request) -> Any:
    """`good` is right in 90 of a hundred questions, `near` in 85, `bad` in 60; `same` answers as `good` does."""
    number = int(request.text.rpartition("Question ")[2].partition("?")[0])
    share = {"good": 90, "same": 90, "near": 85, "bad": 60}[str(request.model)]
    return reply("yes" if number * 37 % 100 < share else "no")


def sides(url: str, models: str, *more: str) -> list[str]:
    bot = [f"target.model={models}", f"target.base_url={url}", "target.api_key_env=null", "cache.mode=off"]
    return ["generate=true", "target=openai", *bot, "target.concurrency.max=8", *more]


@pytest.mark.parametrize(("models", "verdict"), [("bad,good", "better"), ("good,bad", "worse")])
def test_a_race_stops_once_one_side_is_better(program: Program, models: str, verdict: str) -> None:
    with Endpoint(bots) as endpoint:
        done = program("race", *words(program), *sides(endpoint.url, models), "--json")
        assert done.returncode == 0, done.stderr
        count = endpoint.count
    found = json.loads(done.stdout)
    (row,) = found["rows"]
    assert row["verdict"] == verdict
    assert abs(row["difference"]) > 0.1
    assert row["method"].startswith("betting: after ")
    assert row["p_value"] <= 0.05
    assert count <= 500  # of 2,000
    assert found["saved"] == {
        "cases": 1000,
        "asked": count // 2,
        "requests": count,
        "requests_saved": 2000 - count,
    }
    assert (program.latest / "compare.html").is_file()
    runs = [json.loads((program.latest.parent / name / "run.json").read_text()) for name in found["runs"]]
    assert [run["target"]["name"] for run in runs] == [f"openai:{model}" for model in models.split(",")]
    assert all(run["stopped"] == "race" and run["asked"] == {"rag": count // 2} for run in runs)
    again = program("resume")
    assert again.returncode == 0, again.stderr
    assert f"it was decided after {count // 2} of 1,000 cases" in again.stderr
    compared = program("compare", *(str(program.latest.parent / name) for name in found["runs"]))
    assert "stopped by looks, which differences do not allow for" in " ".join(compared.stdout.split())


def test_equal_sides_are_told_apart_by_nothing_and_stop_by_a_margin_only(program: Program) -> None:
    with Endpoint(bots) as endpoint:
        given = [*words(program, 300), *sides(endpoint.url, "good,same")]
        within = program("race", *given, "--margin", "0.1")
        assert within.returncode == 0, within.stderr
        assert endpoint.count < 300
        assert "rag: the difference is at most 0.1, in either direction" in within.stdout
        assert "not worse by more than 0.1" in within.stdout
        assert "cases on each side were not asked, about" in within.stdout
        before = endpoint.count
        without = program("race", *given)
        assert without.returncode == 0, without.stderr
        assert endpoint.count - before == 600
    assert "cannot tell" in without.stdout
    assert "saved  nothing: all 300 cases were asked" in without.stdout
    assert program.manifest["stopped"] is None


def test_a_race_says_what_its_page_its_runs_and_their_comparison_say(program: Program) -> None:
    with Endpoint(bots) as endpoint:
        done = program("race", *words(program, 40), *sides(endpoint.url, "good,near"), "--json")
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    [row] = found["rows"]
    folders = [program.latest.parent / name for name in found["runs"]]
    page = html.unescape((program.latest / "compare.html").read_text(encoding="utf-8"))
    assert found["sentence"] in " ".join(page.split())
    for side, folder in zip("ab", folders, strict=True):
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["rows"]
        [mean] = [one for one in summary if one["statistic"] == "mean" and one["tag"] is None]
        assert row[f"value_{side}"] == pytest.approx(mean["value"])
    [compared] = [
        one
        for one in json.loads(program("compare", *map(str, folders), "--json").stdout)["rows"]
        if (one["metric"], one["statistic"], one["tag"]) == (row["metric"], "mean", None)
    ]
    same = ("value_a", "value_b", "difference", "n")
    assert [compared[name] for name in same] == pytest.approx([row[name] for name in same])
    assert (row["verdict"], compared["verdict"]) == ("cannot_tell", "cannot_tell")
    # Of a difference that may be looked at after each case less is known.
    assert row["ci_low"] <= compared["ci_low"] <= compared["ci_high"] <= row["ci_high"]


def test_experiments_race_by_their_names(program: Program) -> None:
    folder = program.folder / "conf/experiment"
    folder.mkdir(parents=True)
    (program.folder / "conf/metric").mkdir()
    for name in ("good", "bad"):
        text = f"# @package _global_\ntarget:\n  model: {name}\n"
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    with Endpoint(bots) as endpoint:
        shared = [word for word in sides(endpoint.url, "") if not word.startswith("target.model")]
        done = program("race", "bad", "good", *words(program, 200), *shared)
        assert done.returncode == 0, done.stderr
    assert "better" in done.stdout


@pytest.mark.parametrize(
    ("change", "what", "hint"),
    [
        ("target.model=good", "a race has two sides, and these are 1", "target.model=gpt-4.1,gpt-4.1-mini"),
        ("target.model=good,bad,same", "a race has two sides, and these are 3", "target.model=gpt-4.1,gpt-4.1-mini"),
        ("seed=1,2", "the sides differ in seed, so they would not be asked the same cases", "only the target"),
        (
            "metric=[exact_match,semantic_similarity]",
            "2 metrics are on both sides, and one decides",
            "--metric exact_match",
        ),
        ("stop=when_decided", "a race stops by its own looks", "leave stop out"),
    ],
)
def test_what_is_no_race_is_refused_before_anything_is_sent(
    program: Program, change: str, what: str, hint: str
) -> None:
    with Endpoint(bots) as endpoint:
        given = sides(endpoint.url, "good" if change.startswith("seed") else "good,bad")
        given = [word for word in [*words(program, 5), *given] if word.partition("=")[0] != change.partition("=")[0]]
        gate = ["gate={exact_match: {mean: '>= 0.5', looks: anytime}}"] if change.startswith("stop") else []
        done = program("race", *given, change, *gate)
        assert done.returncode == 2, done.stdout + done.stderr
        assert what in done.stderr
        assert hint in done.stderr
        assert endpoint.count == 0
    assert not list((program.folder / "outputs").rglob("run.json"))
    if change == "target.model=good":
        printed = done.stderr.partition("python -m evalflow ")[2].split()
        assert "OPENAI_API_KEY" in program(*printed).stderr
