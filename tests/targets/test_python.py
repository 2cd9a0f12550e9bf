"""A Python callable as the target."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalflow.calls.client import CallSession
from evalflow.config.targets import PythonTargetConfig
from evalflow.errors import InfrastructureError, UserError
from evalflow.records import Case, Context, Message
from evalflow.targets.command import PythonConnector
from evalflow.targets.reply import Form
from evalflow.targets.service import ServiceTarget

pytestmark = pytest.mark.anyio
SOURCE = """
import asyncio, dataclasses, threading

async def later(case):
    await asyncio.sleep(0)
    return case["question"] + "!"

def now(case):
    case["question"] = "changed"
    return {"answer": threading.current_thread().name, "contexts": ["c"], "actual": True, "metadata": {"case": case}}

def both(case):
    return later(case)

class Bot:
    def __call__(self, case):
        return "called"
    def method(self, case):
        return "bound"

bot = Bot()

def boom(case):
    raise ValueError("no index\\nat all")

async def async_boom(case):
    raise KeyError("index")

def leaves(case):
    raise SystemExit(3)

def stops(case):
    raise StopIteration

def thing(case):
    return object()

def nothing(case):
    pass

def endless(case):
    threading.Event().wait()

opened = threading.Event()

def waits(case):
    opened.wait()
    return "at last"

async def async_leaks(case):
    raise asyncio.CancelledError

async def async_leaves(case):
    raise SystemExit(0)

async def async_endless(case):
    await asyncio.Event().wait()

constant = 1

class Page:
    def __init__(self, text):
        self.page_content, self.metadata = text, {"source": "guide"}

def with_arrays(case):
    import numpy
    found = numpy.array([Page("one"), Page("two")], dtype=object)
    about = {"score": numpy.float32("nan"), "n": numpy.int64(3)}
    return {"answer": numpy.str_("yes"), "contexts": found, "metadata": about}

def with_an_object(case):
    return {"answer": "yes", "contexts": [Page("one"), case.keys]}
"""
CASE = Case(dataset="d", index=0, id="c", messages=(Message("user", "Why?"),), reference="SECRET", answer="SECRET")
Build = Callable[..., ServiceTarget]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    (tmp_path / "my_bot.py").write_text(SOURCE)
    (tmp_path / "broken_bot.py").write_text("import no_such_package_anywhere")
    (tmp_path / "wrong_bot.py").write_text("\ndef ask(case:\n")
    (tmp_path / "ending_bot.py").write_text("raise SystemExit(7)")
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(call: str, **keys: Any) -> ServiceTarget:
        config = PythonTargetConfig.model_validate({"kind": "python", "call": call, **keys})
        session = CallSession()
        return ServiceTarget(PythonConnector(config, session), config, "bot", {"d": Form("answer")}, session)

    yield make
    sys.modules.pop("my_bot", None)


@pytest.mark.parametrize(
    ("call", "answer"), [("later", "Why?!"), ("both", "Why?!"), ("bot", "called"), ("bot.method", "bound")]
)
async def test_callables_of_all_kinds(build: Build, call: str, answer: str) -> None:
    assert (await build(f"my_bot:{call}").answer(CASE, 0)).answer == answer


async def test_a_plain_function_has_a_thread_and_cannot_change_the_case(build: Build) -> None:
    answer = await build("my_bot:now").answer(CASE, 0)
    assert answer.answer != threading.current_thread().name
    assert (answer.contexts, answer.actual, CASE.question) == ((Context("c"),), True, "Why?")
    assert answer.metadata
    assert "SECRET" not in str(answer.metadata)


@pytest.mark.parametrize(
    ("call", "error_type", "what"),
    [
        ("boom", "exception", "ValueError: no index at all (my_bot.py:24)"),
        ("async_boom", "exception", "KeyError: 'index' (my_bot.py:27)"),
        ("leaves", "exception", "SystemExit: 3 (my_bot.py:30)"),
        ("stops", "exception", "StopIteration (my_bot.py:33)"),
        ("async_leaks", "exception", "CancelledError (my_bot.py:51)"),
        ("async_leaves", "exception", "SystemExit: 0 (my_bot.py:54)"),
        ("thing", "malformed", "the callable returned a value that is not JSON"),
        ("with_an_object", "malformed", "not JSON: contexts[1]: expected text, a number, a list or a dictionary, got"),
        ("nothing", "malformed", "the reply is null, and has no answer"),
        ("endless", "timeout", "no reply within 0.05 s"),
        ("async_endless", "timeout", "no reply within 0.05 s"),
    ],
)
async def test_what_goes_wrong_is_an_error_record(build: Build, call: str, error_type: str, what: str) -> None:
    answer = await build(f"my_bot:{call}", timeout_s=0.05 if "endless" in call else 30).answer(CASE, 0)
    assert (answer.status, answer.error_type, answer.answer) == ("error", error_type, None)
    assert answer.requests == 1
    assert what in (answer.error or "")


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("no_such_bot:ask", "the module 'no_such_bot' cannot be imported: ModuleNotFoundError"),
        ("broken_bot:ask", "No module named 'no_such_package_anywhere'"),
        ("wrong_bot:ask", "cannot be imported: SyntaxError: '(' was never closed (wrong_bot.py:2)"),
        ("ending_bot:ask", "cannot be imported: SystemExit: 7 (ending_bot.py:1)"),
        ("my_bot:no_such", "the module 'my_bot' has no callable 'no_such'"),
        ("my_bot:constant", "the module 'my_bot' has no callable 'constant'"),
    ],
)
async def test_a_name_that_leads_nowhere_is_refused_before_the_run(build: Build, call: str, what: str) -> None:
    with pytest.raises(UserError) as failed:
        build(call)
    assert what in str(failed.value)
    assert failed.value.problems[0].where == "target.call"


async def test_the_identity_changes_with_the_source(build: Build, tmp_path: Path) -> None:
    first = build("my_bot:later").identity
    assert build("my_bot:later", timeout_s=5).identity == first
    assert build("my_bot:now").identity != first
    (tmp_path / "my_bot.py").write_text(SOURCE + "\n# changed\n")
    with pytest.raises(
        UserError, match=r"my_bot changed after this process imported it.*\n.*importlib\.reload\(my_bot\)"
    ):
        build("my_bot:later")
    importlib.reload(sys.modules["my_bot"])
    assert build("my_bot:later").identity != first


async def test_the_identity_changes_with_what_the_module_imports(build: Build, tmp_path: Path) -> None:
    (tmp_path / "my_bot.py").write_text("from helping import part as one, two\nimport json\n" + SOURCE)
    (tmp_path / "helping").mkdir()
    helpers = {name: tmp_path / "helping" / f"{name}.py" for name in ("__init__", "part", "two")}
    for file in helpers.values():
        file.write_text("import elsewhere\n")
    (tmp_path / "elsewhere.py").write_text("ONE = 1\n")
    first = build("my_bot:later").identity
    for file in (*helpers.values(), tmp_path / "elsewhere.py"):
        file.write_text(file.read_text() + "# changed\n")
        for name in [*sys.modules]:
            if name in ("my_bot", "elsewhere") or name.startswith("helping"):
                del sys.modules[name]
        before, first = first, build("my_bot:later").identity
        assert first != before, file
    for name in ("elsewhere", "helping", "helping.part", "helping.two"):
        sys.modules.pop(name, None)


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "evalflow.callable"}


async def test_a_call_that_is_given_up_keeps_its_place_until_its_thread_ends(build: Build) -> None:
    before, target = threads(), build("my_bot:waits", timeout_s=1, concurrency={"start": 2, "max": 2})
    late = [await target.answer(CASE, repeat) for repeat in range(2)]
    assert [answer.error_type for answer in late] == ["timeout", "timeout"]
    assert len(threads() - before) == 2
    third = asyncio.create_task(target.answer(CASE, 2))
    await asyncio.sleep(0)
    assert len(threads() - before) == 2
    sys.modules["my_bot"].opened.set()
    assert (await third).answer == "at last"


async def test_calls_that_never_end_take_no_more_than_their_places_and_end_the_run(build: Build) -> None:
    before, target = threads(), build("my_bot:endless", timeout_s=0.05, concurrency={"start": 2, "max": 2})
    assert [(await target.answer(CASE, repeat)).error_type for repeat in range(2)] == ["timeout", "timeout"]
    with pytest.raises(InfrastructureError, match="2 calls of my_bot:endless are still running"):
        await target.answer(CASE, 2)
    assert len(threads() - before) == 2


async def test_arrays_and_documents_are_read_as_in_data(build: Build) -> None:
    answer = await build("my_bot:with_arrays").answer(CASE, 0)
    assert (answer.status, answer.answer) == ("answered", "yes")
    assert answer.contexts == (Context("one", None, "guide"), Context("two", None, "guide"))
    assert answer.metadata == {"score": None, "n": 3}
