"""The tools for assistants, called by the official client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="NO MCP: its tools are not tried; pip install -e '.[mcp]'")

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from evalflow.addons.interop import mcp_server
from evalflow.addons.interop.mcp_server import FREE, tools
from tests.cli.conftest import Program

pytestmark = pytest.mark.anyio
_SAYS_AND_WAITS = "import sys, time; print('said', file=sys.stderr, flush=True); time.sleep(60)"
_BOT = """
import time
try:
    open("asked", "x").close()
except FileExistsError:
    time.sleep(60)
print("No.")
"""
"""It answers the first case, and none after it."""
RAG = ["dataset=rag", "metric=exact_match"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def call(name: str, *, allow_run: bool = False, **arguments: Any) -> tuple[bool, str]:
    """Whether the tool succeeded, and what it says."""
    async with Client(tools(allow_run=allow_run)) as client:
        result = await client.call_tool(name, arguments)
    return not result.is_error, "".join(getattr(part, "text", "") for part in result.content)


async def structured(name: str, *, allow_run: bool = False, **arguments: Any) -> Any:
    """What the tool returns, as data; its schema is checked by the client."""
    async with Client(tools(allow_run=allow_run)) as client:
        result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def test_only_reading_tools_are_offered_unless_runs_are_allowed() -> None:
    async with Client(tools(allow_run=False)) as client:
        listed = (await client.list_tools()).tools
    assert {tool.name for tool in listed} == set(FREE)
    writing = {tool.name for tool in listed if not (tool.annotations and tool.annotations.read_only_hint)}
    assert writing == {"compare"}, "it writes its pages into run B's folder"
    assert all(tool.output_schema for tool in listed)
    async with Client(tools(allow_run=True)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {*FREE, "run"}


@pytest.mark.slow
async def test_an_evaluation_is_checked_run_read_and_compared(folder: Path) -> None:
    assert (await structured("check", overrides=RAG))["scores"] == 60
    told: list[tuple[float, float | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async with Client(tools(allow_run=True)) as client:
        arguments = {"overrides": RAG, "budget_requests": 0}
        ended = (await client.call_tool("run", arguments, progress_callback=progressed)).structured_content
    assert ended is not None
    run = ended["run"]
    assert ended["exit_code"] == 0
    assert "| exact\\_match | 0.000 |" in ended["summary"]
    assert told[-1] == (60, 60)
    [listed] = (await structured("runs"))["items"]
    assert listed == {"run": run, "overrides": [*RAG, "budget.requests=0"], "state": "done", "exit_code": 0}
    assert len((await structured("cases", run=run, failed=True, limit=2))["cases"]) == 2
    other = (await structured("run", allow_run=True, overrides=[*RAG, "limit=10"], budget_usd=1))["run"]
    assert (await structured("compare", run_a=run, run_b=other))["rows"][0]["verdict"] == "cannot_tell"
    first = await structured("runs", limit=1)
    assert [first["total"], first["next_offset"], first["items"][0]["run"]] == [2, 1, other]
    assert [one["run"] for one in (await structured("runs", limit=1, offset=1))["items"]] == [run]
    assert "exact\\_match" in (await call("summary", run=other))[1]
    assert (await call("plan", width=0.1, rate=0.8))[0]


@pytest.mark.slow
async def test_a_cancelled_run_ends_and_keeps_what_is_finished(folder: Path) -> None:
    target = folder / "conf" / "target" / "slow.yaml"
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps({"kind": "command", "argv": [sys.executable, "-c", _BOT]}), encoding="utf-8")
    begun = asyncio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        if progress:
            begun.set()

    arguments = {"overrides": [*RAG, "target=slow", "generate=true", "limit=8"], "budget_requests": 100}
    async with Client(tools(allow_run=True)) as client:
        running = asyncio.create_task(client.call_tool("run", arguments, progress_callback=progressed))
        await asyncio.wait_for(begun.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for _ in range(600):
            [listed] = (await structured("runs"))["items"]
            if listed["state"] != "running":
                break
            await asyncio.sleep(0.1)
    assert (listed["state"], listed["exit_code"]) == ("interrupted", 130)
    done = await structured("cases", run=listed["run"], limit=50)
    assert 0 < len([one for one in done["cases"] if one["scores"]]) < 8


async def test_a_run_needs_a_budget(folder: Path) -> None:
    done, said = await call("run", allow_run=True, overrides=RAG)
    assert not done
    assert "give budget_usd or budget_requests" in said
    assert not (folder / "outputs").exists()


@pytest.mark.parametrize(
    "override",
    [
        "judge.base_url=http://127.0.0.1:9/v1",
        "judge.api_key_env=SECRET",
        "target.call=os:system",
        "target={kind: command, argv: [sh]}",
        "+metric.checks.commands={x: {argv: [sh]}}",
        "dataset.rag.path=/etc/passwd",
        "target=../../elsewhere/target",
        "baseline=../other/outputs/latest",
        "cache.path=/tmp/elsewhere",
        "metric.exact_match.threshold=${oc.env:SECRET}",
        "judge.model=${oc.env:SECRET}",
        "hydra.run.dir=/tmp/elsewhere",
        "--config-dir=/tmp",
        "-m",
        "limit=3\ntarget.call=os:system",
    ],
)
async def test_what_an_assistant_could_be_misled_into_is_refused(override: str, folder: Path) -> None:
    done, said = await call("check", overrides=[*RAG, override])
    assert not done, said
    assert "not allowed here" in said


async def test_a_misspelt_key_is_corrected_and_a_list_needs_no_group(folder: Path) -> None:
    done, said = await call("check", overrides=["datset=rag", "metric=exact_match"])
    assert not done
    assert "did you mean dataset=rag?" in said
    done, said = await call("check", overrides=["experimnt.name=x", "judg.base_url=http://127.0.0.1:9"])
    assert not done
    assert "did you mean" not in said, said
    done, said = await call("list", limit=200)
    assert done, said
    assert {one["group"] for one in json.loads(said)["items"]} >= {"dataset", "judge"}


async def test_runs_elsewhere_are_not_read(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "run.json").write_text("{}", encoding="utf-8")
    (folder / "outputs").mkdir()
    (folder / "outputs" / "link").symlink_to(other)
    for run in (str(other), "../other", "outputs/link", "--help"):
        done, said = await call("summary", run=run)
        assert not done
        assert "is not a run's folder below the working directory" in said


@pytest.mark.slow
async def test_it_speaks_over_standard_input_and_output(folder: Path) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "evalflow", "mcp"], cwd=folder)
    async with Client(stdio_client(parameters)) as client:
        listed = await client.list_tools()
        said = await client.call_tool("list", {"group": "metric"})
    assert len(listed.tools) == len(FREE)
    assert "faithfulness" in "".join(getattr(part, "text", "") for part in said.content)


@pytest.mark.slow
def test_what_is_no_request_is_passed_over(folder: Path) -> None:
    """The answers to what comes after it are as ever; nothing is answered before the client has introduced itself."""
    odd = [b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"jsonrpc": "1.0", "id": 9, "method": "ping"}']
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    requests = [("tools/list", {}), ("initialize", about), ("no/such", {}), ("tools/call", {"name": "nothing"})]
    asked = [{"jsonrpc": "2.0", "id": at, "method": name, "params": sent} for at, (name, sent) in enumerate(requests)]
    asked.insert(2, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    asked.append({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    lines = b"\n".join([*odd, *(json.dumps(one).encode() for one in asked), b""])
    with subprocess.Popen(
        [sys.executable, "-m", "evalflow", "mcp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(lines)
        process.stdin.flush()
        said = {one["id"]: one for one in (json.loads(process.stdout.readline()) for _ in requests)}
    assert [said[at]["error"]["code"] for at in (0, 2)] == [-32602, -32601]
    assert said[1]["result"]["serverInfo"]["name"] == "evalflow"
    assert said[3]["result"]["isError"]
    assert process.returncode == 0


async def test_only_so_many_tools_work_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy, most = 0, 0

    async def ended(*_: str) -> tuple[int, str, str]:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _turn in range(10):
            await asyncio.sleep(0)
        busy -= 1
        return 0, "[]", ""

    monkeypatch.setattr(mcp_server, "_ended", ended)
    async with Client(tools(allow_run=False)) as client, asyncio.TaskGroup() as calls:
        for _ in range(20):
            calls.create_task(client.call_tool("list", {"group": "metric"}))
    assert (busy, most) == (0, 4)


async def test_long_runs_leave_the_other_tools_their_places(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends = 0, asyncio.Event()

    async def ended(verb: str, *_: str, **_more: object) -> tuple[int, str, str]:
        nonlocal begun
        if verb == "run":
            begun += 1
            await ends.wait()
            return 2, "", "ended"
        return 0, "[]", ""

    monkeypatch.setattr(mcp_server, "_ended", ended)
    async with Client(tools(allow_run=True)) as client, asyncio.TaskGroup() as calls:
        for _ in range(5):
            calls.create_task(client.call_tool("run", {"overrides": [], "budget_requests": 1}))
        while begun < 4:
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            listed = await client.call_tool("list", {"group": "metric"})
        assert (begun, listed.is_error) == (4, False)
        ends.set()
    assert begun == 5


@pytest.mark.parametrize("overrides", [["gate=" + "x" * 20_000], ["limit=1"] * 201])
async def test_more_than_a_command_line_holds_is_refused(overrides: list[str]) -> None:
    done, said = await call("check", overrides=overrides)
    assert not done
    assert "at most" in said


@pytest.mark.slow
async def test_a_command_ends_when_what_it_says_cannot_be_passed_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[asyncio.subprocess.Process] = []
    begin = asyncio.create_subprocess_exec

    async def noted(*words: str, **settings: Any) -> asyncio.subprocess.Process:
        begun.append(await begin(sys.executable, "-c", _SAYS_AND_WAITS, **settings))
        return begun[0]

    async def fail(_: str) -> None:
        raise ConnectionError

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    with pytest.raises(ExceptionGroup):
        await mcp_server._ended("run", tell=fail)
    assert begun[0].returncode is not None


def test_without_the_package_the_command_that_installs_it_is_named(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    done = program("mcp")
    assert done.returncode == 2
    assert "python -m pip install 'mcp>=" in done.stderr


def test_the_page_names_every_tool() -> None:
    page = (Path(__file__).parents[3] / "docs" / "assistants.md").read_text(encoding="utf-8")
    for name in (*FREE, "run"):
        assert f"`{name}`" in page
    block = page.partition("```json\n")[2].partition("```")[0]
    assert json.loads(block)["mcpServers"]["evalflow"]["args"] == ["-m", "evalflow", "mcp"]
