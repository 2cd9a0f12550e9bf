"""A model that is given tools, against the scripted endpoint: its steps, limits and faults, and the cache."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession, RetryPolicy
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.targets import AgentTargetConfig
from evalflow.errors import UserError
from evalflow.llm.chat import ChatClient
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case, Message, Usage
from evalflow.targets.agent import AgentTarget
from evalflow.targets.reply import Form
from evalflow.testing import Endpoint, calls, reply, status
from evalflow.values.jsonvalues import as_list

pytestmark = pytest.mark.anyio
QUICK = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.02)
CASE = Case(dataset="d", index=0, id="c", messages=(Message("user", "Weather in Oslo?"),), reference="SECRET")
TOOLS = """
from pathlib import Path
import time

def weather(city):
    with Path("asked.txt").open("a") as file:
        file.write(city + "\\n")
    return {"city": city, "degrees": 3}

async def clock():
    return "noon"

def long():
    return "a" * 10_000_000

def broken():
    raise ValueError("no such town")

def slow():
    time.sleep(5)

def strange():
    return object()
"""
WEATHER = {"description": "The weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
OSLO = ("weather", {"city": "Oslo"})
DONE = reply("Three degrees.", as_text=True, usage=(20, 5))
Build = Callable[..., AgentTarget]


@pytest.fixture
async def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Build]:
    (tmp_path / "agent_tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("agent_tools", None)
    targets: list[AgentTarget] = []

    def make(base_url: str = "http://127.0.0.1:9/v1", session: CallSession | None = None, **keys: Any) -> AgentTarget:
        values = {
            "kind": "agent",
            "model": "m",
            "base_url": base_url,
            "api_key_env": None,
            "tools": {"weather": WEATHER},
            "module": "agent_tools",
            **keys,
        }
        config = AgentTargetConfig.model_validate(values)
        client = ChatClient(config, "target", session, policy=QUICK)
        targets.append(AgentTarget(config, "bot", Prompts([]), {"d": Form()}, session, client=client))
        return targets[-1]

    yield make
    for target in targets:
        await target.close()
    sys.modules.pop("agent_tools", None)


async def test_a_model_with_tools_is_an_agent(build: Build) -> None:
    async with Endpoint([calls(OSLO, text="One moment.", usage=(10, 2)), DONE]) as endpoint:
        target = build(endpoint.url, price={"input_per_million": 1, "output_per_million": 10})
        answer = await target.answer(CASE, 0)
    assert (answer.status, answer.answer, answer.requests) == ("answered", "Three degrees.", 2)
    assert (answer.usage, answer.cost_usd) == (Usage(30, 7), pytest.approx(1e-4))
    steps: Any = answer.actual
    asked, result, last = steps
    assert asked["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert (asked["content"], asked["usage"]) == ("One moment.", {"input_tokens": 10, "output_tokens": 2})
    assert (result["role"], json.loads(result["content"])) == ("tool", {"city": "Oslo", "degrees": 3})
    assert result["tool_call_id"] == asked["tool_calls"][0]["id"]
    assert (last["role"], last["content"]) == ("assistant", "Three degrees.")
    assert all(step["latency_s"] >= 0 for step in steps)
    first, second = (request.body for request in endpoint.requests)
    assert first["tools"][0]["function"] == {"name": "weather", **WEATHER}
    assert second["messages"][1:] == [
        {key: asked[key] for key in ("role", "content", "tool_calls")},
        {key: result[key] for key in ("role", "content", "tool_call_id")},
    ]
    assert "SECRET" not in json.dumps([first, second])


async def test_a_program_answers_a_call(build: Build, tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(
        "import json, sys; said = json.load(sys.stdin); print(said['arguments']['city'][::-1])"
    )
    tool = {**WEATHER, "argv": [sys.executable, "tool.py"]}
    async with Endpoint([calls(OSLO), DONE]) as endpoint:
        answer = await build(endpoint.url, tools={"weather": tool}, module=None).answer(CASE, 0)
    steps: Any = answer.actual
    assert steps[1]["content"].strip() == "olsO"


async def test_a_cached_step_costs_nothing_and_its_tools_are_not_called_again(build: Build, tmp_path: Path) -> None:
    asked = tmp_path / "asked.txt"
    async with Endpoint([calls(OSLO, OSLO), DONE]) as endpoint:
        first = await _cached(build, endpoint.url, tmp_path)
        again = await _cached(build, endpoint.url, tmp_path)
        assert len(endpoint.requests) == 2
    assert asked.read_text().split() == ["Oslo", "Oslo"]  # each of two equal calls in one step was made
    assert (first.requests, again.requests, again.cached, len(first.paid)) == (2, 0, True, 4)
    assert again.actual == first.actual
    assert (again.usage, again.latency_s) == (first.usage, first.latency_s)


async def test_an_interrupted_answer_goes_on_where_it_stopped(build: Build, tmp_path: Path) -> None:
    async with Endpoint([calls(OSLO), status(500), status(500), DONE]) as endpoint:
        failed = await _cached(build, endpoint.url, tmp_path)
        assert (failed.status, failed.error_type, len(as_list(failed.actual))) == ("error", "server", 2)
        assert failed.requests >= 1
        resumed = await _cached(build, endpoint.url, tmp_path)
    assert (resumed.answer, resumed.requests) == ("Three degrees.", 1)
    assert (tmp_path / "asked.txt").read_text().split() == ["Oslo"]


@pytest.mark.parametrize(
    ("limits", "steps", "message"),
    [
        ({"steps": 3}, 3, "no answer within 3 steps (target.limits.steps)"),
        ({"tokens": 25}, 3, "no answer within 36 tokens (target.limits.tokens)"),
        ({"usd": 2e-5}, 2, "US dollars (target.limits.usd)"),
        ({"seconds": 1e-9}, 1, "seconds (target.limits.seconds)"),
    ],
)
async def test_an_endless_loop_of_tools_ends_at_a_limit(build: Build, limits: Any, steps: int, message: str) -> None:
    async with Endpoint(lambda _: calls(OSLO, usage=(10, 2))) as endpoint:
        price = {"input_per_million": 1, "output_per_million": 1}
        answer = await build(endpoint.url, limits=limits, price=price).answer(CASE, 0)
        assert len(endpoint.requests) == steps
    assert (answer.status, answer.error_type, answer.answer) == ("error", "limit", None)
    assert answer.error is not None
    assert message in answer.error
    assert answer.usage == Usage(10 * steps, 2 * steps)
    played: Any = answer.actual
    assert [one["role"] for one in played][:1] == ["assistant"]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (("weather", "{"), "error: the arguments are not a JSON object"),
        (("weather", {"town": "Oslo"}), "error: TypeError: "),
        (("wether", {}), "error: there is no tool 'wether'; did you mean"),
        (("broken", {}), "error: ValueError: no such town"),
        (("slow", {}), "error: no result within 0.05 s"),
        (("strange", {}), "error: the tool returned a value that is not JSON"),
        (("fails", {}), "error: the command ended with exit code 3; stderr: no room"),
        (("clock", {}), "noon"),
        (("clock", ""), "noon"),
    ],
)
async def test_the_model_is_told_what_failed(build: Build, call: Any, result: str) -> None:
    fails = [sys.executable, "-c", "import sys; print('no room', file=sys.stderr); sys.exit(3)"]
    tools = {
        "weather": WEATHER,
        "broken": {},
        "slow": {"timeout_s": 0.05},
        "strange": {},
        "clock": {},
        "fails": {"argv": fails},
    }
    async with Endpoint([calls(call), reply("Sorry.", as_text=True)]) as endpoint:
        answer = await build(endpoint.url, tools=tools).answer(CASE, 0)
    assert (answer.status, answer.answer) == ("answered", "Sorry.")
    steps: Any = answer.actual
    assert steps[1]["content"].startswith(result)
    assert endpoint.requests[1].body["messages"][-1]["content"] == steps[1]["content"]


async def test_a_result_of_ten_megabytes_loses_its_middle(build: Build) -> None:
    async with Endpoint([calls(("long", {})), DONE]) as endpoint:
        answer = await build(endpoint.url, tools={"long": {}}, limits={"result_characters": 500}).answer(CASE, 0)
    steps: Any = answer.actual
    shown = steps[1]["content"]
    assert len(shown) < 600
    assert "[…9999500 characters…]" in shown


async def test_a_reply_without_words_and_calls_is_an_error(build: Build) -> None:
    async with Endpoint([reply("", as_text=True)]) as endpoint:
        answer = await build(endpoint.url).answer(CASE, 0)
    assert (answer.status, answer.error_type, answer.actual) == ("error", "empty", None)


async def test_a_limit_on_tokens_needs_an_endpoint_that_counts_them(build: Build) -> None:
    async with Endpoint([calls(OSLO, usage=None)]) as endpoint:
        answer = await build(endpoint.url, limits={"tokens": 100}).answer(CASE, 0)
    assert (answer.error_type, answer.usage) == ("usage", None)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"module": None}, r"nothing answers this tool"),
        ({"module": "no_such_tools"}, r"the module 'no_such_tools' cannot be imported"),
        ({"tools": {"nowhere": {}}}, r"the module 'agent_tools' has no callable 'nowhere'"),
        ({"tools": {"x": {"argv": ["no-such-program"]}}}, r"there is no program 'no-such-program'"),
        ({"limits": {"usd": 1}}, r"the price of m is unknown"),
        ({"tools": {}}, "at least 1 item"),
        ({"tools": {"a b": {}}}, "pattern"),
        ({"tools": {"a": {"parameters": {"type": "string"}}}}, "the arguments of a tool are an object"),
    ],
)
async def test_what_cannot_work_is_refused_before_the_run(build: Build, keys: Any, message: str) -> None:
    with pytest.raises((UserError, ValidationError), match=message):
        build(**keys)


async def test_a_dataset_that_generates_actual_is_refused(build: Build) -> None:
    config = AgentTargetConfig.model_validate(
        {"kind": "agent", "model": "m", "api_key_env": None, "tools": {"weather": WEATHER}, "module": "agent_tools"}
    )
    with pytest.raises(UserError, match="an agent's `actual` has its tool calls"):
        AgentTarget(config, "bot", Prompts([]), {"d": Form("actual")})


async def test_another_source_of_a_tool_is_another_identity(build: Build, tmp_path: Path) -> None:
    before = build().identity
    (tmp_path / "agent_tools.py").write_text(TOOLS + "\n# changed\n")
    with pytest.raises(UserError, match="agent_tools changed after this process imported it"):
        build()
    del sys.modules["agent_tools"]
    importlib.invalidate_caches()
    assert build().identity != before
    assert build(limits={"steps": 3}).identity != build().identity


async def _cached(build: Build, url: str, folder: Path) -> Answer:
    with contextlib.closing(
        CallSession(single_flight=SingleFlight(Cache(folder / "cache.db", run_id="run")))
    ) as session:
        return await build(url, session).answer(CASE, 0)
