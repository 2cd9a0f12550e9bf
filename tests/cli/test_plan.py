"""`plan`: cases, repeats and cost, from stated guesses and from pilot runs."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import scipy.stats

from evalflow.stats import simulation
from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the simulated runs, for tests that read no exact number."""
    monkeypatch.setattr(simulation, "RUNS", 40)


def planned(program: Program, *words: str) -> Any:
    done = program("plan", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_stated_guesses_give_the_published_numbers(program: Program) -> None:
    """Miller 2024: spread of the difference 1/9, noise 1/6 in each run."""
    guesses = ("--sd", str((1 / 18) ** 0.5), "--noise", str((1 / 6) ** 0.5))
    document = planned(program, "--detect", "0.03", "--cases", "200", *guesses)
    cases = {row["answers"]: row["cases"] for row in document["rows"] if row["goal"] == "detect"}
    assert (cases[1], cases[10]) == (3876, 1260)
    assert document["rows"][0]["least_cases"] == 969
    shown = {row["answers"]: row["detectable"] for row in document["rows"] if row["goal"] == "cases"}
    assert (shown[1], shown[10]) == (pytest.approx(0.1320679937, rel=0.03), pytest.approx(0.07529034044, rel=0.03))


def test_pass_or_fail_goes_by_flips_and_wilson(program: Program) -> None:
    [row] = planned(program, "--detect", "0.1", "--flips", "0.2")["rows"]
    assert (row["cases"], row["width"]) == (pytest.approx(167, rel=0.05), None)  # 154.6 by Connor's formula
    detect, width = planned(program, "--detect", "0.1", "--width", "0.2", "--rate", "0.8")["rows"]
    assert width["cases"] == 60
    assert width["width"] <= 0.2
    assert detect["detectable"] == pytest.approx(0.1, abs=2e-3)
    few = planned(program, "--cases", "3", "--rate", "0.8")["rows"][0]
    assert few["detectable"] is None
    related = planned(program, "--detect", "0.1", "--rate", "0.8", "--correlation", "0.5")["rows"][0]
    assert related["cases"] < detect["cases"]


def test_groups_need_more_cases(program: Program) -> None:
    words = ("--detect", "0.1", "--sd", "0.3")
    [alone] = planned(program, *words)["rows"]
    [grouped] = planned(program, *words, "--cluster-size", "5", "--icc", "0.25")["rows"]
    assert grouped["cases"] == pytest.approx(2 * alone["cases"], rel=0.06)


def test_labels_that_a_corrected_mean_needs(program: Program) -> None:
    words = ("--width", "0.1", "--rate", "0.8", "--judge-correlation")
    rows = planned(program, *words, "0.9")["labels"]
    assert [row["answers"] for row in rows] == [500, 2000, 10_000, None]
    needed = [row["labels"] for row in rows]
    assert needed == sorted(needed, reverse=True)
    assert {row["labels_alone"] for row in rows} == {245}
    assert needed[0] < 100
    [some] = planned(program, *words, "0.9", "--cases", "100")["labels"]
    assert (some["answers"], some["labels"]) == (100, None)
    [graded] = planned(program, "--width", "0.1", "--sd", "0.4", "--judge-correlation", "0", "--cases", "900")["labels"]
    assert graded["labels"] == graded["labels_alone"]
    done = program("plan", *words, "0.9", "--cases", "100")
    assert "labels for a corrected 95 % interval 0.1 wide" in done.stdout
    assert "more answers needed" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert planned(program, "--width", "0.1", "--rate", "0.8")["labels"] == []
    wrong = program("plan", "--cases", "100", "--rate", "0.8", "--judge-correlation", "0.9")
    assert "labels are planned for an interval" in wrong.stderr


def test_labels_of_both_runs_that_a_difference_needs(program: Program) -> None:
    words = ("--detect", "0.05", "--sd", "0.3", "--judge-correlation")
    rows = planned(program, *words, "0.7")["labels"]
    needed = [row["labels"] for row in rows]
    assert [(row["goal"], row["wanted"], row["answers"]) for row in rows[-1:]] == [("detect", 0.05, None)]
    assert needed[0] is None
    assert needed[1:] == sorted(needed[1:], reverse=True)
    assert {row["labels_alone"] for row in rows} == {568}
    [half] = planned(program, "--detect", "0.1", *words[2:], "0.7", "--cases", "2000")["labels"]
    assert half["labels"] < needed[1] / 3
    done = program("plan", *words, "0.7")
    assert "cases labelled in both runs, to detect a difference of 0.05" in done.stdout


def test_an_assurance_asks_for_more_cases_than_the_estimate(program: Program, few_runs: None) -> None:
    assert program("dataset=rag", "metric=[exact_match,relevance]").returncode == 0
    words = ("--width", "0.1", "--detect", "0.05")
    plain, sure = planned(program, *words), planned(program, *words, "--assurance", "0.8")
    assert (plain["assurance"], sure["assurance"]) == (None, 0.8)
    for before, row in zip(plain["rows"], sure["rows"], strict=True):
        assert row["cases_by_estimate"] == before["cases"] == before["cases_by_estimate"] < row["cases"]
    surer = planned(program, *words, "--assurance", "0.95", "--metric", "relevance")
    rows = [row for row in sure["rows"] if row["name"] == "relevance"]
    assert all(more["cases"] > row["cases"] for more, row in zip(surer["rows"], rows, strict=True))
    shown = program("plan", *words, "--assurance", "0.8", "--metric", "relevance")
    assert "by estimate" in shown.stdout
    assert "a chance of 0.8" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    for wrong, why in (("0.4", "--assurance is 0.4"), ("1", "--assurance is 1")):
        assert why in program("plan", *words, "--assurance", wrong).stderr
    assert "guesses do not say that" in program("plan", *words, "--rate", "0.8", "--assurance", "0.8").stderr


def test_what_makes_no_sense_is_said_all_at_once(program: Program) -> None:
    done = program("plan", "--detect", "-1", "--rate", "2", "--sd", "0.3", "--icc", "0.1")
    assert done.returncode == 2
    for text in ("--detect is -1", "--rate is 2", "--sd and --rate say the same", "groups have a size"):
        assert text in done.stderr
    assert "say what to plan for" in program("plan", "--sd", "0.3").stderr
    assert "no run here yet" in program("plan", "--detect", "0.1").stderr
    assert "no pass rate is 0.95 away" in program("plan", "--detect", "0.95", "--rate", "0.5").stderr


def test_the_latest_run_is_the_pilot_and_its_cost_is_unknown(program: Program, few_runs: None) -> None:
    assert program("dataset=rag", "metric=[faithfulness,relevance]").returncode == 0
    document = planned(program, "--detect", "0.05", "--metric", "relevance")
    [name] = document["assumptions"]
    assert name == "relevance"
    done = program("plan", "--detect", "0.05", "--width", "0.1")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "faithfulness: to detect a difference of 0.05" in done.stdout
    assert "relevance: to have a 95 % interval 0.1 wide" in done.stdout
    nothing = program("plan", "--detect", "0.05", "--metric", "nope")
    assert nothing.returncode == 2
    assert "nothing to learn of 'nope'" in nothing.stderr


def test_two_pilots_know_how_their_cases_are_related(program: Program, few_runs: None) -> None:
    runs: list[str] = []
    for name, right in (("a", {0, 1, 2}), ("b", {1, 2, 3, 4})):
        rows = [
            {"id": f"c{i}", "question": f"Q{i}?", "reference": "yes", "answer": "yes" if i in right else "no"}
            for i in range(10)
        ]
        path = program.write(f"{name}.jsonl", *rows)
        words = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=exact_match")
        assert program(*words).returncode == 0
        runs.append(str(program.latest))
    document = planned(program, "--detect", "0.2", "--from", *runs)
    assert "30.0% of the cases pass in one run and fail in the other" in document["assumptions"]["exact_match"][0]
    [row] = document["rows"]
    assert row["cases"] == planned(program, "--detect", "0.2", "--flips", "0.3")["rows"][0]["cases"]
    [sure] = planned(program, "--detect", "0.2", "--assurance", "0.8", "--from", *runs)["rows"]
    limit = scipy.stats.beta.ppf(0.8, 3.5, 7.5)  # 3 of 10 flips, Jeffreys
    assert (
        sure["cases"] == planned(program, "--detect", "0.2", "--flips", f"{limit}")["rows"][0]["cases"] > row["cases"]
    )
    assert sure["cases_by_estimate"] == row["cases"]


def test_a_pilot_with_repeats_and_prices_knows_noise_and_cost(program: Program, few_runs: None) -> None:
    path = program.write("mine.jsonl", *({"id": f"c{i}", "question": f"Q{i}?"} for i in range(6)))
    asked = itertools.count()

    def script(request: Request) -> object:
        if request.model == "bot":
            return reply("good" if next(asked) % 3 else "bad")
        return {"reason": "so it seems", "score": 5 if "good" in request.text.split("Q")[-1] else 1}

    price = "price={input_per_million: 1, output_per_million: 2}"
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
            f"target.{price}",
            "judge=vllm",
            "judge.model=grader",
            f"judge.base_url={endpoint.url}",
            f"judge.{price}",
            "repeats.target=2",
        )
    assert done.returncode == 0, done.stderr
    document = planned(program, "--width", "0.5")
    paid = program.manifest["cost_usd"] + program.manifest["saved_usd"]
    first = document["rows"][0]
    assert (first["answers"], first["judgements"]) == (1, 1)
    assert first["cost_usd"] == pytest.approx(paid / 12 * first["cases"])
    assert [row["answers"] for row in document["rows"]] == [1, 2, 3, 5, 10]
    assert first["least_cases"] <= first["cases"]
