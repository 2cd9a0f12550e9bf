"""A run that was stopped goes on where it was, and ends as if it had not been stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, malformed, reply
from tests.cli.conftest import Program, judge_arguments

ROWS = [{"id": f"c{i:02}", "question": f"Question {i}?", "answer": f"Answer {i}."} for i in range(30)]


def grade(request: Request) -> Any:
    return {"reason": "so it seems", "score": 1 + int(request.text.count("1")) % 5}


class Gate:
    """A script that answers `free` requests and then holds all others until it is opened."""

    def __init__(self, free: int, answer: Callable[[Request], Any] = grade) -> None:
        self.free = free
        self.answer = answer
        self.open = threading.Event()
        self.reached = threading.Event()

    async def __call__(self, request: Request) -> Any:
        import asyncio

        self.free -= 1
        if self.free < 0:
            self.reached.set()
            while not self.open.is_set():
                await asyncio.sleep(0.01)
        return self.answer(request)


def arguments(program: Program, url: str) -> list[str]:
    path = program.write("mine.jsonl", *ROWS)
    return [
        "dataset=rag",
        f"dataset.rag.path={path}",
        "dataset.rag.fields=null",
        "metric=coherence",
        *judge_arguments(url),
        "judge.concurrency.max=2",
        "cache.mode=off",
    ]


def scores(program: Program) -> list[tuple[Any, ...]]:
    frame = pl.read_parquet(program.latest / "scores.parquet")
    return frame.select("case_id", "metric", "judge", "repeat", "status", "score", "reason").rows()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_what_is_finished_is_not_asked_again(program: Program, number: signal.Signals, code: int) -> None:
    gate = Gate(free=5)
    with Endpoint(gate) as endpoint:
        words = arguments(program, endpoint.url)
        process = program.begin(*words)
        assert gate.reached.wait(300)
        os.kill(process.pid, number)
        if number != signal.SIGKILL:
            gate.open.set()
        assert process.wait() == code
        gate.open.set()
        done_before = len((program.latest / "scores.jsonl").read_text(encoding="utf-8").splitlines())
        assert 0 < done_before < len(ROWS)
        asked_before = endpoint.count

        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        assert endpoint.count - asked_before <= len(ROWS) - done_before
        first = scores(program)
        assert [row[0] for row in first] == [row["id"] for row in ROWS]
        assert program.manifest["status"] == "done"
        assert program.manifest["scores"]["scored"] == len(ROWS)

        assert program(*words).returncode == 0
        assert scores(program) == first


def test_a_torn_line_is_cut_off_and_scored_again_from_what_was_paid_for(program: Program) -> None:
    with Endpoint(grade) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 0
        before = scores(program)
        journal = program.latest / "scores.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
        asked = endpoint.count
        done = program("resume")
        assert done.returncode == 0, done.stderr
        assert endpoint.count == asked
    assert scores(program) == before
    assert "cut off 40 bytes" in (program.latest / "evalflow.log").read_text(encoding="utf-8")


def test_errors_are_asked_again_only_when_told_to(program: Program) -> None:
    broken = {"now": True}

    def script(request: Request) -> Any:
        return malformed() if broken["now"] and "Question 3?" in request.text else grade(request)

    with Endpoint(script) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 3
        broken["now"] = False
        asked = endpoint.count
        again = program("resume")
        assert again.returncode == 3
        assert "nothing was left to do: all 30 scores are there" in again.stderr
        assert "1 of them are errors" in again.stderr
        assert endpoint.count == asked
        done = program("resume", "--retry-errors")
        assert done.returncode == 0, done.stderr
        assert endpoint.count == asked + 1
    assert [row[4] for row in scores(program)] == ["scored"] * len(ROWS)
    assert program.manifest["scores"]["error"] == 0


def test_generated_answers_are_not_asked_for_again(program: Program) -> None:
    path = program.write("bare.jsonl", *({"id": row["id"], "question": row["question"]} for row in ROWS))

    def script(request: Request) -> Any:
        return reply("An answer.") if request.model == "bot" else malformed()

    with Endpoint(script) as endpoint:
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=coherence",
            *judge_arguments(endpoint.url),
            "generate=true",
            "target=vllm",
            "target.model=bot",
            f"target.base_url={endpoint.url}",
            "cache.mode=off",
        )
        assert done.returncode == 3, done.stderr
        assert program("resume", "--retry-errors").returncode == 3
        assert [request.model for request in endpoint.requests].count("bot") == len(ROWS)


@pytest.mark.parametrize("change", ["data", "prompt"])
def test_a_run_whose_parts_have_changed_is_refused(program: Program, change: str) -> None:
    assert program("new", "metric", "tone").returncode == 0
    with Endpoint(grade) as endpoint:
        words = [word.replace("metric=coherence", "metric=tone") for word in arguments(program, endpoint.url)]
        assert program(*words).returncode == 0
        if change == "data":
            with (program.folder / "mine.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({"question": "new?", "answer": "new"}) + "\n")
        else:
            prompt = program.folder / "prompts" / "tone" / "grade.jinja"
            prompt.write_text(prompt.read_text(encoding="utf-8") + "\nBe strict.", encoding="utf-8")
        asked = endpoint.count
        done = program("resume")
        assert done.returncode == 2
        assert {"data": "dataset rag", "prompt": "metric tone"}[change] in done.stderr
        assert endpoint.count == asked
    assert program.manifest["status"] == "done"


def test_the_sql_files_of_a_metric_are_part_of_its_run(program: Program) -> None:
    script = program.folder / "shop.sql"
    script.write_text("CREATE TABLE t(a); INSERT INTO t VALUES (1);", encoding="utf-8")
    row = {"id": "c", "question": "How many?", "answer": "SELECT count(*) FROM t", "reference": "SELECT 1"}
    words = ["dataset=text_to_sql", f"dataset.text_to_sql.path={program.write('own.jsonl', row)}"]
    words += ["metric=sql_equivalence", "metric.sql_equivalence.needs=[answer,reference]"]
    words += ["metric.sql_equivalence.setup=shop.sql", "metric.sql_equivalence.setup_field=null"]
    done = program(*words)
    assert done.returncode == 0, done.stderr
    first = program.latest.resolve()
    assert program("resume").returncode == 0
    script.write_text("CREATE TABLE t(a);", encoding="utf-8")
    assert "metric sql_equivalence has changed since the run began" in program("resume").stderr
    assert program(*words).returncode == 0
    compared = program("compare", str(first), "outputs/latest")
    assert compared.returncode == 0
    assert "better" not in compared.stdout
    assert "the files or the code of metric sql_equivalence differ" in " ".join(compared.stdout.split())


def test_a_second_process_on_one_run_is_refused(program: Program) -> None:
    gate = Gate(free=3)
    with Endpoint(gate) as endpoint:
        process = program.begin(*arguments(program, endpoint.url))
        assert gate.reached.wait(300)
        second = program("resume")
        assert second.returncode == 2
        assert "another process" in second.stderr
        gate.open.set()
        assert process.wait() == 0
    assert program.manifest["scores"]["scored"] == len(ROWS)


def test_a_resumed_run_that_is_stopped_again_says_how_to_go_on(program: Program) -> None:
    gate = Gate(free=0)
    with Endpoint(gate) as endpoint:
        process = program.begin(*arguments(program, endpoint.url))
        assert gate.reached.wait(300)
        process.kill()
        process.wait()
        gate.reached.clear()
        with (program.folder / "said").open("wb") as file:
            resumed = program.begin("resume", output=file.fileno())
        assert gate.reached.wait(300)
        resumed.send_signal(signal.SIGINT)
        gate.open.set()
        assert resumed.wait() == 130
    said = (program.folder / "said").read_text(encoding="utf-8")
    assert re.search(r"^stopping: \d+ in progress; again to stop now$", said, re.MULTILINE)
    assert "interrupted" in said.splitlines()
    assert said.splitlines()[-1].startswith("go on  python -m evalflow resume outputs/runs/")
