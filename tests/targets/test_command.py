"""A command as the target: a process of its own for each case."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalflow.calls import program
from evalflow.calls.budget import Budget
from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.schema import BudgetConfig
from evalflow.config.targets import CommandTargetConfig
from evalflow.errors import BudgetError, UserError
from evalflow.prompts import Prompts
from evalflow.records import Case, Message
from evalflow.targets.command import CommandConnector
from evalflow.targets.reply import Form
from evalflow.targets.service import ServiceTarget

pytestmark = pytest.mark.anyio
CASE = Case(dataset="d", index=0, id="c", messages=(Message("user", "Why; $(rm -rf /)?"),), reference="SECRET")
Build = Callable[..., ServiceTarget]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def make(source: str, *arguments: str, session: CallSession | None = None, **keys: Any) -> ServiceTarget:
        script = tmp_path / "bot.py"
        script.write_text(f"import json, os, sys, time\n{source}\n")
        argv = [sys.executable, str(script), *arguments]
        config = CommandTargetConfig.model_validate({"kind": "command", "argv": argv, **keys})
        session = session or CallSession()
        return ServiceTarget(
            CommandConnector(config, Prompts([]), session), config, "bot", {"d": Form("answer")}, session
        )

    return make


async def test_the_case_goes_in_and_the_reply_comes_out(build: Build) -> None:
    source = 'case = json.load(sys.stdin); print(json.dumps({"answer": case["question"], "metadata": case}))'
    answer = await build(source).answer(CASE, 0)
    assert (answer.status, answer.answer) == ("answered", "Why; $(rm -rf /)?")
    assert answer.metadata
    assert list(answer.metadata) == ["id", "question", "messages", "contexts", "metadata", "vars"]
    assert "SECRET" not in str(answer.metadata)
    assert (answer.requests, answer.cost_usd, answer.cached) == (1, None, False)


async def test_arguments_reach_it_as_they_are(build: Build) -> None:
    answer = await build("print(json.dumps(sys.argv[1]))", "$HOME; ls *").answer(CASE, 0)
    assert answer.answer == "$HOME; ls *"


async def test_a_program_may_read_the_case_from_its_environment(build: Build, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    source = 'print(json.dumps({"answer": os.getcwd(), "metadata": dict(os.environ)}))'
    env = {"INPUT": "{{ question }}", "TOPIC": "on {{ vars.topic }}", "LIST": "{{ vars.topics }}"}
    case = replace(CASE, vars={"topic": "a$b\n", "topics": ["a", "ü"]})
    target = build(source, env=env, cwd=str(tmp_path / "here"))
    answer = await target.answer(case, 0)
    assert answer.answer == str(tmp_path / "here")
    assert answer.metadata
    assert answer.metadata["INPUT"] == CASE.question
    assert "PATH" in answer.metadata
    assert (answer.metadata["TOPIC"], answer.metadata["LIST"]) == ("on a$b", '["a", "ü"]')
    failed = await target.answer(CASE, 0)
    assert (failed.status, failed.error_type) == ("error", "prompt")


def test_a_variable_or_a_folder_that_cannot_be_is_refused(build: Build) -> None:
    with pytest.raises(ValueError, match=r"env\.A=B"):
        build("pass", env={"A=B": "x"})
    with pytest.raises(UserError, match=r"target\.env\.INPUT"):
        build("pass", env={"INPUT": "{{ reference }}"})
    with pytest.raises(UserError, match="there is no folder"):
        build("pass", cwd="nowhere")


@pytest.mark.parametrize(
    ("source", "error_type", "what"),
    [
        ('sys.exit("no index")', "exit_code", "the command ended with exit code 1; stderr: no index"),
        ("sys.exit(3)", "exit_code", "the command ended with exit code 3, and said nothing on stderr"),
        ("1 / 0", "exit_code", "exit code 1; stderr: ZeroDivisionError: division by zero\n  Traceback (most"),
        ("os.kill(os.getpid(), 9)", "exit_code", "the command was killed by SIGKILL"),
        ('print("Hello")', "malformed", "the reply is not JSON: Hello"),
        ("pass", "malformed", "the reply is empty"),
        ('print("Hello", file=sys.stderr)', "malformed", "the reply is empty; stderr: Hello"),
        ('sys.stdout.buffer.write(b"\\"\\xff\\"")', "malformed", "the reply is not JSON"),
        ('print(json.dumps({"text": 1}))', "malformed", "the reply has no answer; it has text"),
    ],
)
async def test_what_goes_wrong_is_an_error_record(build: Build, source: str, error_type: str, what: str) -> None:
    answer = await build(source).answer(CASE, 0)
    assert (answer.status, answer.error_type, answer.answer) == ("error", error_type, None)
    assert what in (answer.error or "")


async def test_one_that_never_ends_is_killed_with_all_its_children(build: Build, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    source = f"""
child = os.fork()
if child: print("waiting for the index", file=sys.stderr, flush=True)
with open({str(pids)!r}, "a") as file: print(os.getpid(), file=file)
while True: time.sleep(60)
"""
    answer = await build(source, timeout_s=1).answer(CASE, 0)
    assert (answer.error_type, answer.error) == ("timeout", "no reply within 1 s; stderr: waiting for the index")
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    assert await _gone(started)


async def test_one_whose_child_holds_the_output_is_no_reply(build: Build, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    source = f"""
child = os.fork()
if child == 0:
    open({str(pids)!r}, "w").write(str(os.getpid()))
    time.sleep(60)
print('"done"')
"""
    answer = await build(source, timeout_s=1).answer(CASE, 0)
    assert answer.error_type == "timeout"
    assert await _gone([int(pids.read_text())])


async def test_a_run_that_is_stopped_leaves_no_process(build: Build, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    target = build(f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} ')\nwhile True: time.sleep(60)")
    asking = asyncio.create_task(target.answer(CASE, 0))
    while not (pids.exists() and pids.read_text().endswith(" ")):
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled()
    assert await _gone([int(pids.read_text())])


async def test_output_without_end_is_cut_off(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_OUTPUT", 100_000)
    answer = await build('while True: sys.stdout.write("x" * 1000)').answer(CASE, 0)
    assert (answer.error_type, answer.error) == ("too_large", "the command wrote more than 100,000 bytes")
    assert answer.requests == 1


async def test_output_faster_than_it_is_read_is_cut_off_too(build: Build) -> None:
    answer = await build('while True: sys.stdout.write("x" * 1_000_000)').answer(CASE, 0)
    assert answer.error_type == "too_large"


async def test_one_that_does_not_read_its_case_may_still_answer(build: Build) -> None:
    large = Case(dataset="d", index=0, id="c", messages=(Message("user", "x" * 1_000_000),))
    assert (await build("os.close(0); print('\"ready\"')").answer(large, 0)).answer == "ready"


async def test_only_so_many_run_at_the_same_time(build: Build, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    source = f"""
mark = {str(marks)!r} + "/" + str(os.getpid())
open(mark, "w").close()
time.sleep(0.05)
print(len(os.listdir({str(marks)!r})))
os.remove(mark)
"""
    target = build(source, concurrency={"start": 2, "max": 2})
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(target.answer(CASE, repeat)) for repeat in range(6)]
    counts = [int(task.result().answer or 0) for task in asked]
    assert max(counts) <= 2


async def test_replies_are_remembered_until_the_script_changes(build: Build, tmp_path: Path) -> None:
    def session() -> CallSession:
        return CallSession(single_flight=SingleFlight(Cache(tmp_path / "cache.db", run_id="r")))

    async def ask(source: str) -> tuple[str | None, bool]:
        shared = session()
        answer = await build(source, session=shared).answer(CASE, 0)
        shared.close()
        return answer.answer, answer.cached

    assert await ask("print('\"one\"')") == ("one", False)
    assert await ask("print('\"one\"')") == ("one", True)
    assert await ask("print('\"two\"')") == ("two", False)


async def test_its_calls_count_against_the_budget(build: Build) -> None:
    target = build("print(1)", session=CallSession(budget=Budget(BudgetConfig(requests=1))))
    await target.answer(CASE, 0)
    with pytest.raises(BudgetError):
        await target.answer(CASE, 1)


async def test_a_program_that_does_not_exist_is_refused_before_the_run() -> None:
    config = CommandTargetConfig(kind="command", argv=["no-such-program"])
    with pytest.raises(UserError, match="there is no program 'no-such-program'"):
        CommandConnector(config, Prompts([]), CallSession())
    with pytest.raises(ValueError, match="argv"):
        CommandTargetConfig.model_validate({"kind": "command", "argv": json.loads('"python bot.py"')})


async def _gone(pids: list[int]) -> bool:
    """Whether processes end within ten seconds, or are but waiting to be collected by whoever adopted them."""
    for _ in range(1000):
        if all(_ended(pid) for pid in pids):
            return True
        await asyncio.sleep(0.01)
    return False


def _ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"
