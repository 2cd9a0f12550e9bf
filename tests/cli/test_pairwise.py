"""Two answers in both orders, from the command line to the sentence that says whether the judge leans to a place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, reply, status
from tests.cli.conftest import Program, judge_arguments

BETTER, WORSE = "better", "worse"
PROGRESS = """\
# @package metric.progress
kind: pairwise
description: How often the answer is preferred to that of the run before.
needs: [question, answer, vars.baseline]
against: vars.baseline
criteria: The better answer is the better one.
"""


def rows(count: int) -> list[dict[str, str]]:
    """The answer is the better one of the first two cases, and the worse one of the others."""
    texts = [(BETTER, WORSE) if i < 2 else (WORSE, BETTER) for i in range(count)]
    return [
        {"id": f"c{i}", "question": f"Q{i}?", "answer": f"{answer} {i}", "reference": f"{other} {i}"}
        for i, (answer, other) in enumerate(texts)
    ]


def first_text(request: Request) -> str:
    return request.text.partition("<first id=")[2].partition("</first id=")[0]


def preferring(request: Request, *fooled: str) -> dict[str, str]:
    """A judge that tells the better one from the worse, and says `first` of the cases that fool it."""
    first = BETTER in first_text(request) or any(f"{case}?" in request.text for case in fooled)
    return {"reason": "It helps more.", "better": "first" if first else "second"}


def arguments(program: Program, url: str, count: int) -> tuple[str, ...]:
    path = program.write("mine.jsonl", *rows(count))
    data = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null")
    return (*data, "metric=preference", *judge_arguments(url))


def statistics(program: Program) -> dict[str, Any]:
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    return {row["statistic"]: row for row in summary["rows"] if row["tag"] is None}


def test_a_run_tells_the_win_rate_and_what_the_judge_leans_to(program: Program) -> None:
    fooled = [f"Q{i}" for i in range(4, 10)]
    with Endpoint(lambda request: preferring(request, *fooled)) as endpoint:
        command = arguments(program, endpoint.url, 10)
        checked = program("check", *command, "--json")
        assert json.loads(checked.stdout)["estimate"]["requests"] == 20
        assert not endpoint.requests
        done = program(*command, "gate={preference: {consistency: '>= 0.9'}}")
        assert len(endpoint.requests) == 20
    assert done.returncode == 1, done.stderr
    found = statistics(program)
    assert {name: found[name]["value"] for name in ("mean", "win_rate", "consistency", "first_preferred")} == {
        "mean": 0.5,
        "win_rate": 0.5,
        "consistency": 0.4,
        "first_preferred": 1.0,
    }
    assert (found["consistency"]["ci_method"], found["win_rate"]["n_scored"]) == ("wilson", 10)
    sentence = (
        "preference: of 10 pairs 2 won, 2 lost, 0 tied, and 6 decided by the order in which they were read. Where the "
        "verdict changes with the order, each case or group counted once, 6 lean to the answer read first and 0 to the "
        "answer read second (sign test, p = 0.031): the judge prefers the answer read first."
    )
    assert sentence in done.stdout
    for name in ("report.html", "summary.md"):
        assert "the judge prefers the answer read first" in (program.latest / name).read_text(encoding="utf-8"), name


def test_a_reply_that_cannot_be_read_is_an_error_and_resume_asks_for_that_case_alone(program: Program) -> None:
    broken = True

    def script(request: Request) -> Any:
        if broken and "Q1?" in request.text and WORSE in first_text(request):
            return reply("I would say the first one.")
        return preferring(request)

    with Endpoint(script) as endpoint:
        done = program(*arguments(program, endpoint.url, 3), "judge.reasks=0")
        assert done.returncode == 3, done.stderr
        assert statistics(program)["win_rate"]["value"] == pytest.approx(1 / 2)  # Q0 won, Q2 lost; Q1 is not a win
        lines = (program.latest / "scores.jsonl").read_text(encoding="utf-8").splitlines()
        (failed,) = [line for line in map(json.loads, lines) if line["status"] == "error"]
        assert (failed["case_id"], failed["score"]) == ("c1", None)
        assert json.loads(failed["steps"])[1]["raw"] == "I would say the first one."
        before = len(endpoint.requests)
        broken = False
        again = program("resume", "--retry-errors")
        assert again.returncode == 0, again.stderr
        assert len(endpoint.requests) == before + 1  # the order that was answered is remembered
    assert statistics(program)["win_rate"]["value"] == pytest.approx(2 / 3)


def test_the_embedded_judge_is_refused(program: Program) -> None:
    done = program("check", "dataset=rag", "metric=preference", "judge=embedded")
    assert done.returncode == 2
    assert "the embedded judge is not a language model and cannot answer a free prompt" in " ".join(done.stderr.split())


def test_two_runs_answers_are_held_against_each_other(program: Program) -> None:
    """The first run's bot is the worse one, and its answer to c1 failed; c2 asked something else there."""
    conf = program.folder / "conf" / "metric"
    conf.mkdir(parents=True)
    (conf / "progress.yaml").write_text(PROGRESS, encoding="utf-8")

    def script(request: Request) -> Any:
        if request.model == "old":
            return status(400) if "Q1?" in request.text else reply(WORSE)
        if request.model == "new":
            return reply(BETTER)
        return preferring(request) if "Preference" in (request.schema_name or "") else {"reason": "-", "score": 5}

    with Endpoint(script) as endpoint:
        asked = [{"id": f"c{i}", "question": f"Q{i}?"} for i in range(4)]
        before = program.write("before.jsonl", *asked[:2], {"id": "c2", "question": "Something else?"}, asked[3])
        common = (
            "dataset=rag",
            "dataset.rag.fields=null",
            "generate=true",
            "target=vllm",
            f"target.base_url={endpoint.url}",
            *judge_arguments(endpoint.url),
        )
        program(*common, f"dataset.rag.path={before}", "target.model=old", "metric=coherence")
        baseline = program.latest
        after = program.write("after.jsonl", *asked)
        command = (*common, f"dataset.rag.path={after}", "target.model=new", "metric=progress")
        refused = program("check", *command)
        assert refused.returncode == 2
        assert "progress compares with the baseline's answers" in " ".join(refused.stderr.split())
        assert "baseline=outputs/runs/..." in refused.stderr
        done = program(*command, "baseline=outputs/latest")
    assert done.returncode == 0, done.stderr
    assert program.manifest["config"]["baseline"] == str(baseline)
    lines = (program.latest / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    assert {line["case_id"]: (line["status"], line["score"]) for line in map(json.loads, lines)} == {
        "c0": ("scored", 1.0),
        "c1": ("skipped", None),
        "c2": ("skipped", None),
        "c3": ("scored", 1.0),
    }
    cases = map(json.loads, (program.latest / "cases.jsonl").read_text(encoding="utf-8").splitlines())
    assert [case.get("vars", {}).get("baseline") for case in cases] == [WORSE, None, None, WORSE]
