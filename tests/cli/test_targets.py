"""Targets that are programs of one's own, from the command line to the files."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time

import pytest

from evalflow.testing import Endpoint, Request, html, status
from tests.cli.conftest import Program

BASE = ("dataset=jailbreak_guardrails", "metric=jailbreak_guardrails", "generate=true")
KEY = "correct-horse-battery"


@pytest.mark.parametrize(
    ("overrides", "where", "what"),
    [
        (["target=http", "target.url=http://h/", "target.actual='$.a['"], "command line", "is not a JSONPath"),
        (["target=http", "target.url=ftp://h/"], "command line", "url: it must start with http:// or https://"),
        (
            ["target=http", "target.url=http://h/", "target.body='{{ reference }}'"],
            "command line: target.body",
            "refere",
        ),
        (["target=command", "target.argv=[no-such-program]"], "command line: target.argv", "there is no program"),
        (["target=python", "target.call=no_such:ask"], "command line: target.call", "cannot be imported"),
        (["target=python", "target.call=os.getpid"], "command line", "names no callable: package.module:callable"),
    ],
)
def test_what_cannot_work_is_refused_with_file_and_place(
    program: Program, overrides: list[str], where: str, what: str
) -> None:
    done = program("check", *BASE, *overrides)
    assert done.returncode == 2
    assert where in done.stderr
    assert what in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_of_a_service_are_records_and_its_key_is_kept_nowhere(program: Program) -> None:
    path = program.write("mine.jsonl", *({"question": f"Q{i}?", "expected_outcome": True} for i in range(3)))

    def service(request: Request) -> object:
        found = {"Q0?": html(), "Q1?": status(422, message=f"no {KEY}"), "Q2?": {"never": "JSON"}}
        return found[request.body["question"]]

    with Endpoint(service) as endpoint:
        done = program(
            *BASE,
            f"dataset.jailbreak_guardrails.path={path}",
            "target=http",
            f"target.url={endpoint.url}/chat/completions",
            "target.actual='$.verdict'",
            "target.headers={Authorization: 'Bearer ${oc.env:BOT_KEY}'}",
            BOT_KEY=KEY,
        )
    assert done.returncode == 3, done.stderr
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert program.manifest["scores"]["error"] == 3
    answers = (program.latest / "answers.jsonl").read_text()
    for what in ("not JSON (a web page?)", "HTTP 422", "nothing is at $.verdict in the reply"):
        assert what in answers
    files = [file for file in program.folder.rglob("*") if file.is_file() and file.suffix != ".lock"]
    assert [file.name for file in files if KEY.encode() in file.read_bytes()] == []
    assert KEY not in done.stdout + done.stderr


def test_an_interrupt_ends_commands_and_the_run_can_be_resumed(program: Program) -> None:
    path = program.write("mine.jsonl", *({"question": f"Q{i}?", "expected_outcome": True} for i in range(4)))
    gate = program.folder / "go"
    started = program.folder / "started"
    source = f"import os, time\nopen({str(started)!r}, 'w').close()\n"
    source += f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\nprint('true')\n"
    (program.folder / "slow.py").write_text(source)
    argv = f"target.argv=[{sys.executable},slow.py]"
    words = [*BASE, f"dataset.jailbreak_guardrails.path={path}", "target=command", argv]
    process = program.begin(*words)
    while not started.exists():
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)  # the cases under way are waited for
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    gate.touch()
    done = program("resume")
    assert done.returncode == 0, done.stderr
    assert program.manifest["scores"]["scored"] == 4


def test_a_callable_runs_and_is_resumed_by_its_own_command_line(program: Program) -> None:
    (program.folder / "my_bot.py").write_text("def guard(case):\n    return 'ignore' in case['question'].lower()\n")
    done = program(*BASE, "target=python", "target.call=my_bot:guard")
    assert done.returncode == 0, done.stderr
    assert program("resume").returncode == 0
    assert program("report").returncode == 0


def test_a_hanging_call_ends_neither_the_run_nor_the_targets_exit_handlers(program: Program) -> None:
    path = program.write("mine.jsonl", *({"question": f"Q{i}?", "expected_outcome": True} for i in range(3)))
    (program.folder / "my_bot.py").write_text(
        "import atexit, pathlib, threading\n"
        "atexit.register(pathlib.Path('closed').touch)\n"
        "def guard(case):\n"
        "    return case['question'] != 'Q1?' or threading.Event().wait()\n"
    )
    done = program.process(
        *BASE,
        f"dataset.jailbreak_guardrails.path={path}",
        "target=python",
        "target.call=my_bot:guard",
        "target.timeout_s=1",
    )
    assert done.returncode == 3, done.stderr
    assert program.manifest["scores"]["error"] == 1
    assert (program.folder / "closed").exists()


LEAKING = """
import asyncio
import os

async def leaks(case):
    if case["question"].endswith(("1", "2", "3")):
        raise asyncio.CancelledError
    return True

async def loses(case):
    if case["question"] == "Question 9":
        os.truncate("outputs/latest/scores.jsonl", 0)
    return True
"""


def asked(program: Program, call: str, *overrides: str) -> subprocess.CompletedProcess[str]:
    """A Python target asked about 40 cases."""
    (program.folder / "leaking_bot.py").write_text(LEAKING)
    path = program.write("mine.jsonl", *({"question": f"Question {i}", "expected_outcome": True} for i in range(40)))
    call = f"target.call=leaking_bot:{call}"
    return program(*BASE, f"dataset.jailbreak_guardrails.path={path}", "target=python", call, *overrides)


def test_a_cancellation_that_a_target_lets_out_is_an_error_of_its_case(program: Program) -> None:
    assert asked(program, "leaks").returncode == 3
    assert program.manifest["status"] == "done"
    assert (program.manifest["scores"]["scored"], program.manifest["scores"]["error"]) == (28, 12)
    assert "CancelledError (leaking_bot.py:7)" in (program.latest / "answers.jsonl").read_text()


def test_a_run_that_ends_without_all_its_scores_says_which_and_makes_them_when_resumed(program: Program) -> None:
    done = asked(program, "loses", "target.concurrency.max=1")
    assert (done.returncode, program.manifest["status"], program.manifest["exit_code"]) == (3, "failed", 3)
    assert "of 40 scores are missing at the end: jailbreak_guardrails/" in done.stderr
    hint = done.stderr.partition("hint: make them: python -m evalflow ")[2].splitlines()[0]
    assert program(*shlex.split(hint)).returncode == 0
    assert (program.manifest["status"], program.manifest["scores"]["scored"]) == ("done", 40)
