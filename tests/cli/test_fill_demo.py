"""Example answers out of a run: a new file beside the data, which is never touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, status
from tests.cli.conftest import Program

DATA = ("dataset=conversations", "dataset.conversations.path=c.jsonl", "metric=checks")
HELLO = [{"identifier": "string_matching", "params": {"keyword": "Hello"}}]


def case(number: int, **more: Any) -> dict[str, Any]:
    return {"id": str(number), "messages": [{"role": "user", "content": f"Case {number}?"}], "checks": HELLO, **more}


def target(url: str) -> tuple[str, ...]:
    model = ("target=vllm", "target.model=bot", f"target.base_url={url}", "target.attempts=1")
    return ("generate=true", *model, "max_error_rate=1", "--fill-demo")


def test_missing_example_answers_are_filled_in_beside_the_data(program: Program) -> None:
    def script(request: Request) -> Any:
        return status(400) if "Case 2" in request.text else f"Hello, {request.text}"

    rows = [case(0, tags=["A > B"], brand="Acme"), case(1, demo_output="My own."), case(2), case(3), case(4)]
    program.write("c.jsonl", *rows)
    before = (program.folder / "c.jsonl").read_bytes()
    with Endpoint(script, models=["bot"]) as endpoint:
        done = program(*DATA, "limit=4", *target(endpoint.url))
        assert done.returncode == 0, done.stderr
        assert "2 of 4 missing example answers of conversations are in c.demo.jsonl" in done.stdout
        again = program(*DATA, "limit=4", *target(endpoint.url))
        assert "c.demo-2.jsonl" in again.stdout
    assert (program.folder / "c.jsonl").read_bytes() == before
    filled = read(program.folder / "c.demo.jsonl")
    assert [row.get("demo_answer", {}).get("content") for row in filled] == [
        "Hello, Case 0?",
        "My own.",
        None,
        "Hello, Case 3?",
        None,
    ]
    assert (filled[0]["tags"], filled[0]["vars"], filled[0]["checks"]) == (["A > B"], {"brand": "Acme"}, HELLO)
    [command] = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("try ")]
    tried = program(*command.split()[3:-1], "metric=checks")
    assert tried.returncode == 0, tried.stderr
    assert [row["score"] for row in read(program.latest / "scores.jsonl")] == [1.0, 0.0, None, 1.0, None]


def test_metadata_of_recorded_answers_come_along_and_nothing_missing_is_nothing_written(program: Program) -> None:
    program.write("c.jsonl", case(0, answer="Hello.", metadata={"tool": "search"}))
    done = program(*DATA, "--fill-demo")
    assert done.returncode == 0, done.stderr
    [row] = read(program.folder / "c.demo.jsonl")
    assert row["demo_answer"] == {"role": "assistant", "content": "Hello.", "metadata": {"tool": "search"}}
    (program.folder / "c.demo.jsonl").replace(program.folder / "c.jsonl")
    assert "no case lacks one" in program(*DATA, "--fill-demo").stdout
    assert not (program.folder / "c.demo.jsonl").exists()


def test_example_answers_can_be_replaced(program: Program) -> None:
    program.write("c.jsonl", case(0, answer="Hello.", demo_output="Old."), case(1, demo_output="Older."))
    done = program(*DATA, "--replace-demo")
    assert done.returncode == 0, done.stderr
    assert "1 of 2 example answers of conversations are in c.demo.jsonl" in done.stdout
    filled = read(program.folder / "c.demo.jsonl")
    assert [row["demo_answer"]["content"] for row in filled] == ["Hello.", "Older."]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("generate=demo",), "this one scores the example answers"),
        (("dataset.conversations.generates=actual",), "no dataset of this run generates any"),
        (("dataset.conversations.path=*.jsonl",), "conversations has 2"),
        (("dataset.conversations.path=data/conversations.jsonl",), "is a sample that ships"),
        (("-m",), "does not go with -m"),
    ],
)
def test_what_cannot_be_filled_is_refused_before_the_run(program: Program, words: tuple[str, ...], said: str) -> None:
    program.write("c.jsonl", case(0, answer="Hello."))
    program.write("d.jsonl", case(1, answer="Hello."))
    done = program(*DATA, *words, "--fill-demo")
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert not (program.folder / "outputs").exists()
    assert not list(program.folder.glob("*.demo.jsonl"))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
