"""Sweeps: one run per combination, each answer generated once, one report over all."""

from __future__ import annotations

import json
import re

import polars as pl

from evalflow.testing import Endpoint, Request, reply, status
from tests.cli.conftest import Program

ROWS = [{"id": f"c{i}", "question": f"Question {i}?", "reference": "yes"} for i in range(3)]


def bot_and_judges(request: Request) -> object:
    """Model `bot` answers; other models grade, and model `strict` gives less."""
    if request.model == "bot":
        return reply("yes")
    return {"reason": "so it seems", "score": 2 if request.model == "strict" else 4}


def arguments(path: str, url: str) -> list[str]:
    return [
        "dataset=rag",
        f"dataset.rag.path={path}",
        "dataset.rag.fields=null",
        "generate=true",
        "target=vllm",
        "target.model=bot",
        f"target.base_url={url}",
    ]


def test_a_sweep_over_judges_asks_the_target_once(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)
    with Endpoint(bot_and_judges) as endpoint:
        judges = ("judge=vllm", "judge.model=kind,strict", f"judge.base_url={endpoint.url}")
        done = program("-m", *arguments(path, endpoint.url), "metric=coherence", *judges)
        assert done.returncode == 0, done.stderr
        assert [request.model for request in endpoint.requests].count("bot") == 3
        assert endpoint.count == 3 + 2 * 3

    jobs = [path.name for path in sorted(program.latest.iterdir()) if path.is_dir()]
    assert jobs == ["0_judge.model=kind", "1_judge.model=strict"]
    assert program.manifest["jobs"] == jobs
    assert program.manifest["requests"] == 9
    for job in jobs:
        rows = [json.loads(line) for line in (program.latest / job / "answers.jsonl").read_text().splitlines()]
        assert sorted(row["case_id"] for row in rows) == ["c0", "c1", "c2"]
        assert {row["cached"] for row in rows} == {job != jobs[0]}

    summary = pl.read_parquet(program.latest / "summary.parquet").filter(pl.col("tag").is_null())
    assert summary["judge"].to_list() == ["vllm:kind", "vllm:strict"]
    assert summary["value"].to_list() == [0.75, 0.25]
    assert summary["run"].to_list() == jobs
    assert (program.latest / "report.html").stat().st_size > 10_000
    assert "vllm:kind and vllm:strict on 3 answers" in done.stdout


def test_a_judge_that_is_the_model_that_it_judges_is_named_so_everywhere(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)

    def bot_that_judges(request: Request) -> object:
        return {"reason": "so it seems", "score": 4} if request.schema else reply("yes")

    with Endpoint(bot_that_judges) as endpoint:
        judges = ("judge=vllm", "judge.model=bot,strict", f"judge.base_url={endpoint.url}")
        done = program("-m", *arguments(path, endpoint.url), "metric=coherence", *judges)
    assert done.returncode == 0, done.stderr
    said = "judge: vllm:bot (LLM bot), the model that it judges, and models tend to prefer their own answers, "
    assert "judges its own" in done.stdout
    assert done.stdout.count("calibrated") == 2
    page = (program.latest / "report.html").read_text()
    assert page.count("judges its own answers") == 1
    for name in ("summary.md", "report.html"):
        texts = [(program.latest / job / name).read_text() for job in program.manifest["jobs"]]
        assert [said in text.replace("\\", "") for text in texts] == [True, False]


def test_a_sweep_of_many_runs_prints_a_line_for_each_and_a_table(program: Program) -> None:
    cases = ({"question": f"{i}?", "answer": "a", "reference": "ab"[i % 2]} for i in range(12))
    path = program.write("mine.jsonl", *cases)
    seeds = ",".join(map(str, range(12)))
    words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=exact_match", "sample=8"]
    done = program("-m", *words, f"seed={seeds}")
    assert done.returncode == 0, done.stderr
    for run in range(12):
        assert re.search(rf"^{run}_seed={run}: exact_match 0\.\d{{3}}$", done.stdout, re.MULTILINE)
        assert re.search(
            rf"^ *{run}_seed={run} +0\.\d{{3}} +0\.\d{{3}} to [01]\.\d{{3}} +8 +\d+ % *$", done.stdout, re.MULTILINE
        )
    assert len(done.stdout.splitlines()) < 50
    changed = program("report", "outputs/latest/3_seed=3", "gate={exact_match: {mean: '<= 0.01'}}")
    assert "exit code: 0 → 1\n" in changed.stdout


def test_a_budget_holds_over_all_runs_of_a_sweep(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)
    with Endpoint(bot_and_judges) as endpoint:
        judges = ("judge=vllm", "judge.model=kind,strict", f"judge.base_url={endpoint.url}")
        done = program("-m", *arguments(path, endpoint.url), "metric=coherence", *judges, "budget.requests=7")
        assert done.returncode == 4, done.stderr
        assert endpoint.count == 7
        second = str(program.latest / "1_judge.model=strict")
        assert program("resume", second, "budget.requests=8").returncode == 4
        assert endpoint.count == 8
        assert program("resume", second, "budget.requests=9").returncode == 0
        assert endpoint.count == 9


def test_a_sweep_over_targets_asks_each(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)
    with Endpoint(lambda request: reply("yes" if request.model == "a" else "no")) as endpoint:
        words = [word for word in arguments(path, endpoint.url) if not word.startswith("target.model")]
        done = program("-m", *words, "metric=exact_match", "target.model=a,b")
        assert done.returncode == 0, done.stderr
        assert endpoint.count == 6
    summary = pl.read_parquet(program.latest / "summary.parquet").filter(pl.col("tag").is_null())
    assert dict(zip(summary["target"], summary["value"], strict=True)) == {"vllm:a": 1.0, "vllm:b": 0.0}


def test_a_sweep_ends_with_the_worst_of_its_jobs(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)
    with Endpoint(lambda request: status(401) if request.model == "b" else reply("yes")) as endpoint:
        words = [word for word in arguments(path, endpoint.url) if not word.startswith("target.model")]
        done = program("-m", *words, "metric=exact_match,coherence", "target.model=a,b")
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_job_leaves_no_folder_and_the_others_run(program: Program) -> None:
    done = program("-m", "dataset=rag", "metric=exact_match,coherence", "limit=2")
    assert done.returncode == 2
    assert [path.name for path in program.latest.iterdir() if path.is_dir()] == ["0_metric=exact_match"]


def test_a_sweep_of_refused_jobs_leaves_nothing(program: Program) -> None:
    done = program("-m", "dataset=rag", "metric=coherence,bias", "limit=2")
    assert done.returncode == 2
    assert not list(program.folder.glob("outputs/sweeps/*"))


def test_one_bad_option_of_a_sweep_stops_it_before_it_starts(program: Program) -> None:
    done = program("-m", "dataset=rag", "metric=exact_match", "target=recorded,nope")
    assert done.returncode == 2
    assert "nope" in done.stderr


def test_a_sweep_that_a_file_declares_names_its_runs_and_says_whose_numbers_they_are(program: Program) -> None:
    """Only the recorded answers have labels, so the two numbers are not of one kind."""
    (program.folder / "conf" / "experiment").mkdir(parents=True)
    (program.folder / "conf" / "experiment" / "columns.yaml").write_text(
        "# @package _global_\n"
        "defaults: [{override /dataset: rag}, {override /metric: faithfulness}]\n"
        "hydra: {sweeper: {params: {dataset.rag.fields.answer: 'llm_answer,ideal_answer'}}}\n"
        "limit: 16\n",
        encoding="utf-8",
    )
    done = program("-m", "experiment=columns", COLUMNS="120")
    assert done.returncode == 0, done.stderr
    names = [f"{n}_dataset.rag.fields.answer={column}" for n, column in enumerate(("llm_answer", "ideal_answer"))]
    assert program.manifest["jobs"] == names
    table = done.stdout[done.stdout.index("faithfulness · judge") : done.stdout.index("leaderboard:")]
    assert "corrected by labels" not in table
    assert re.search(r"0_dataset.+ labels ", table)
    assert re.search(r"1_dataset.+ judge alone ", table)
    assert "by the judge alone: labels of 16 cases correct nothing" in " ".join(done.stdout.split())
    assert "judge alone</td>" in (program.latest / "report.html").read_text(encoding="utf-8")
