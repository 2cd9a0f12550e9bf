"""Files of a run that were damaged, or vanished: it is said, what is lost is not done, and `resume` makes it again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.cli import run_command
from evalflow.engine.bookkeeping import SCHEMA
from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import judge_arguments

pytestmark = pytest.mark.slow

N = 6


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def latest() -> Path:
    return Path("outputs/latest").resolve()


def script(request: Request) -> Any:
    return reply("An answer.") if request.model == "bot" else {"reason": "so it seems", "score": 3}


def arguments(url: str) -> list[str]:
    rows = ({"id": f"c{i}", "question": f"Question {i}?"} for i in range(N))
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        "dataset=rag",
        "dataset.rag.path=mine.jsonl",
        "dataset.rag.fields=null",
        "metric=coherence",
        *judge_arguments(url),
        "generate=true",
        "target=vllm",
        "target.model=bot",
        f"target.base_url={url}",
        "cache.mode=off",
    ]


def scores() -> list[tuple[Any, ...]]:
    return pl.read_parquet(latest() / "scores.parquet").select("case_id", "status", "score").rows()


def change(name: str, number: int, how: Callable[[bytes], bytes]) -> None:
    path = latest() / name
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number] = how(lines[number])
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("scores.jsonl", lambda line: line[:40] + b"\n"),
        ("scores.jsonl", lambda line: line.replace(b'"score":0.5', b'"score":5.5')),
        ("scores.jsonl", lambda line: bytes(len(line) - 1) + b"\n"),
        ("answers.jsonl", lambda line: line[:40] + b"\n"),
        ("answers.jsonl", lambda line: line.replace(b'"case_id":"c', b'"case_id":["c')),
    ],
)
def test_what_stood_in_a_damaged_line_is_made_again(
    name: str, how: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    with Endpoint(script) as endpoint:
        assert run_command(arguments(endpoint.url)) == 0
        before = scores()
        change(name, 2, how)
        assert run_command(["report"]) == 0
        assert f"{latest() / name}: 1 damaged lines are ignored" in caplog.text
        assert len(scores()) == (N - 1 if name == "scores.jsonl" else N)
        count = endpoint.count
        assert run_command(["resume"]) == 0
        assert endpoint.count == count  # what was paid for is remembered for the run's own resume
    assert scores() == before
    assert len((latest() / "cases.jsonl").read_text().splitlines()) == N
    assert (latest() / "cases.jsonl").read_text().count("An answer.") == N


@pytest.mark.parametrize("gone", ["scores.jsonl", "answers.jsonl", "."])
def test_a_journal_that_vanishes_ends_the_run_and_says_so(gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    fate = iter([gone])

    def vanishing(request: Request) -> Any:
        if "Question 3?" in request.text and next(fate, None):
            path = latest() / gone
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return script(request)

    with Endpoint(vanishing) as endpoint:
        words = [*arguments(endpoint.url), "target.concurrency.max=1", "judge.concurrency.max=1"]
        assert run_command(words) == 5
        said = capsys.readouterr().err
        assert "is gone: it was moved or deleted while the run was going" in said
        assert "Traceback" not in said
        if gone != ".":
            assert json.loads((latest() / "run.json").read_text())["status"] == "failed"
            assert run_command(["resume"]) == 0
            assert len(scores()) == N


@pytest.mark.parametrize("content", ["[1]", "5", "{", json.dumps({"schema": SCHEMA, "run_id": "r"}), '{"jobs": 1}'])
@pytest.mark.parametrize("verb", ["report", "resume", "calibrate"])
def test_a_run_json_that_is_none_is_said(content: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path("outputs/runs/r")
    run.mkdir(parents=True)
    (run / "run.json").write_text(content)
    assert run_command([verb, str(run)]) == 2
    assert f"{run / 'run.json'}: run.json is damaged" in capsys.readouterr().err
