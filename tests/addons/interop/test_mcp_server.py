"""The tools for assistants, called by the official client."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="NO MCP: its tools are not tried; pip install -e '.[mcp]'")

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from evalflow.addons.interop.mcp_server import FREE, tools
from tests.cli.conftest import Program

pytestmark = pytest.mark.anyio
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
