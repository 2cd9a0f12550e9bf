"""Answers of code: a change that nobody can see is never scored by an old answer."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, status
from tests.cli.conftest import Program, judge_arguments

pytestmark = pytest.mark.slow

BOT = """
import json, os, sys
from pathlib import Path

SALUTE = "Hello"

def ask(case):
    import greeting
    with open("asked.txt", "a") as file:
        file.write("x")
    note = Path("note.txt").read_text() if Path("note.txt").exists() else ""
    return f"{SALUTE}, {greeting.whom()}{note}"

if __name__ == "__main__":
    print(json.dumps(ask(json.load(sys.stdin))))
"""
HELPER = "import names\n\ndef whom():\n    return names.ONE\n"
COMMAND = ("target=command", f"target.argv=[{sys.executable},bot.py]")
PYTHON = ("target=python", "target.call=bot:ask")
NAMED = pytest.mark.parametrize("target", [PYTHON, COMMAND], ids=["python", "command"])


class Desk:
    """A bot of three files, and a run that scores its answer."""

    def __init__(self, program: Program) -> None:
        self.program, self.second = program, int(time.time()) - 1000
        self.write(bot=BOT, greeting=HELPER, names="ONE = 'Ann'\n")
        program.write("one.jsonl", {"id": "a", "question": "?", "reference": "Hello, Ann"})
        folder = program.folder / "conf" / "dataset"
        folder.mkdir(parents=True)
        (folder / "one.yaml").write_text("# @package dataset.one\npath: one.jsonl\n", encoding="utf-8")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            file = self.program.folder / f"{name}.py"
            file.write_text(text, encoding="utf-8")
            # Python takes a file of the same size and second for the compiled one, as no person writes it.
            self.second += 1
            os.utime(file, (self.second, self.second))

    def answer(self, *words: str) -> str:
        done = self.program("dataset=one", "metric=exact_match", "generate=true", *words)
        assert done.returncode == 0, done.stderr
        self.said = " ".join(done.stderr.split())
        [row] = json.loads(self.program("cases", "--json").stdout)["cases"]
        return row["answer"]

    @property
    def asked(self) -> int:
        return len((self.program.folder / "asked.txt").read_text(encoding="utf-8"))


@pytest.fixture
def desk(program: Program) -> Desk:
    return Desk(program)


@NAMED
def test_what_changed_is_asked_again(desk: Desk, target: tuple[str, ...]) -> None:
    assert desk.answer(*target) == "Hello, Ann"
    assert "in earlier runs are not reused: code can change without a trace" in desk.said
    desk.write(names="ONE = 'Bob'\n")
    assert desk.answer(*target) == "Hello, Bob"
    desk.write(greeting=HELPER.replace("names.ONE", "names.ONE + '!'"))
    assert desk.answer(*target) == "Hello, Bob!"
    Path(desk.program.folder, "note.txt").write_text(" - welcome", encoding="utf-8")
    assert desk.answer(*target) == "Hello, Bob! - welcome"
    desk.write(bot=BOT.replace('SALUTE = "Hello"', 'SALUTE = "Hi"'))
    assert desk.answer(*target) == "Hi, Bob! - welcome"
    assert desk.asked == 5


@NAMED
def test_runs_of_one_version_reuse_answers_and_say_so(desk: Desk, target: tuple[str, ...]) -> None:
    for _ in range(2):
        assert desk.answer(*target, "target.version=1") == "Hello, Ann"
    assert desk.asked == 1
    assert "in earlier runs of version 1 are reused; change target.version when they may differ" in desk.said
    desk.answer(*target, "target.version=2")
    assert desk.asked == 2


def test_files_that_can_be_seen_end_a_version_by_themselves(desk: Desk) -> None:
    desk.answer(*PYTHON, "target.version=1")
    desk.write(names="ONE = 'Bob'\n")
    assert desk.answer(*PYTHON, "target.version=1") == "Hello, Bob"


def test_the_runs_of_a_sweep_share_answers(desk: Desk) -> None:
    words = ("dataset=one", "metric=exact_match", "generate=true", *PYTHON, "seed=1,2,3")
    assert desk.program("-m", *words).returncode == 0
    assert desk.asked == 1


def test_check_says_that_a_program_is_asked_anew(desk: Desk) -> None:
    words = ("check", "dataset=one", "metric=exact_match", "generate=true")
    done = desk.program(*words, *PYTHON)
    assert "target.version=WORD" in " ".join(f"{done.stdout} {done.stderr}".split())
    assert "target.version" not in desk.program(*words, *PYTHON, "cache.mode=off").stdout
    assert "target.version" not in desk.program("check", "dataset=rag", "metric=exact_match").stdout


def test_a_resumed_run_says_what_it_keeps_and_refuses_code_that_changed(desk: Desk) -> None:
    failing = True

    def judge(_: Request) -> Any:
        return status(400) if failing else {"reason": "polite", "score": 4}

    with Endpoint(judge) as endpoint:
        words = ("dataset=one", "metric=coherence", "generate=true", *PYTHON, *judge_arguments(endpoint.url))
        assert desk.program(*words).returncode == 3
        failing = False
        desk.write(names="ONE = 'Bob'\n")
        refused = desk.program("resume", "--retry-errors")
        assert refused.returncode == 2
        assert "target python has changed since the run began" in refused.stderr
        desk.write(names="ONE = 'Ann'\n")
        done = desk.program("resume", "--retry-errors")
    assert done.returncode == 0, done.stderr
    assert "1 answer of bot:ask from before the run was resumed stand" in " ".join(done.stderr.split())
    assert desk.asked == 1
