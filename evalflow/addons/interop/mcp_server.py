"""The verb `mcp`: evalflow for assistants, over the Model Context Protocol on standard input and output.

Each tool is a command of the same name, run in a process of its own, which ends with the call.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, ParamSpec

from pydantic import Field

from evalflow.errors import Problem, UserError
from evalflow.extras import packages_of
from evalflow.paths import new_run_id
from evalflow.version import __version__

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_GROUPS = "dataset|metric|judge|target|embedder|simulator|experiment"
_ALLOWED = re.compile(
    rf"(({_GROUPS})=[\w,\[\]-]*|(limit|sample|seed|generate|stop|case_timeout_s|max_error_rate)=[\w.]*"
    r"|(repeats|budget)\.\w+=[\w.]+|cache\.mode=\w+|(judge|target|embedder|simulator)\.(model|temperature|max_tokens)=.*"
    r"|gate=.*|metric\.\w+\.(threshold|gate|datasets)=.*|dataset\.\w+\.(tags|every_tag|ids)=.*)"
)
"""The overrides that are taken: names of the user's configuration, and numbers. An address, a key's variable, a file or
a program may only stand in the user's own files: an assistant that was misled must not send data or keys elsewhere."""
_INSTRUCTIONS = """\
evalflow evaluates LLM applications; an evaluation is declared in YAML. Overrides are those of its command line, such as
["dataset=rag", "metric=faithfulness"]. Begin with `list` and `check`, which cost nothing. A value without its interval
says little: report both, and `cannot tell` as it is."""
_GRACE_S = 20.0

_Arguments = ParamSpec("_Arguments")
Overrides = Annotated[list[str], Field(description='KEY=VALUE, such as ["dataset=rag", "metric=faithfulness"]')]
RunName = Annotated[str, Field(description="a run's folder, such as outputs/latest")]


def run_mcp(*, allow_run: bool) -> int:
    """Serve the tools until standard input ends."""
    with packages_of("mcp", "mcp"):
        server = tools(allow_run=allow_run)
    server.run("stdio")
    return 0


def tools(*, allow_run: bool) -> MCPServer:
    """The server with its tools; ModuleNotFoundError without the extra `mcp`."""
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    server = MCPServer("evalflow", version=__version__, instructions=_INSTRUCTIONS)
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for name, tool in READING.items():
        server.tool(name, annotations=reading)(_telling(tool))
    if allow_run:
        paying = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
        server.tool("run", annotations=paying)(_telling(run_within_budget))
    return server


def _telling(tool: Callable[_Arguments, Awaitable[object]]) -> Callable[_Arguments, Awaitable[object]]:
    """The tool, which shows the assistant its mistakes; the server logs other errors, and does not show them."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    async def shown(*args: _Arguments.args, **arguments: _Arguments.kwargs) -> object:
        try:
            return await tool(*args, **arguments)
        except (UserError, ValueError) as error:
            raise ToolError(str(error)) from None

    return shown


async def list_options(group: Literal["dataset", "metric", "judge", "target", "experiment", "certificates"]) -> object:
    """What can be chosen in a group of the configuration."""
    return await _answer("list", group, "--json")


async def show(name: str) -> object:
    """The YAML and the prompts of a metric, dataset, judge or target."""
    if not re.fullmatch(r"[\w/]+", name):
        raise UserError(Problem(f"{name!r} is not a name", "show", "see list"))
    return await _answer("show", name, "--json")


async def check(overrides: Overrides) -> object:
    """Everything short of the first request: cases, scores, requests, cost, and all mistakes at once."""
    return await _answer("check", *_checked(overrides), "--json")


async def runs() -> list[str]:
    """The folders of runs, the latest first."""
    manifests = sorted(Path("outputs").glob("*/*/run.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    return [str(file.parent) for file in manifests]


async def summary(run: RunName) -> str:
    """A run's gates and metrics with their intervals, as Markdown."""
    file = _folder(run) / "summary.md"
    if not file.is_file():
        raise UserError(Problem("it has no summary yet", run, "finish it: resume"))
    return file.read_text(encoding="utf-8")


async def compare(run_a: RunName, run_b: RunName, margin: float | None = None) -> object:
    """Hold run B against run A, case by case: better, worse, or cannot tell, and the cases that flipped."""
    more = () if margin is None else ("--margin", str(margin))
    return await _answer("compare", str(_folder(run_a)), str(_folder(run_b)), *more, "--json")


async def cases(
    run: RunName,
    failed: bool = False,
    metric: str | None = None,
    tag: str | None = None,
    case_id: str | None = None,
    cut_off: Annotated[bool, Field(description="only answers that were cut off at a limit of tokens")] = False,
    limit: Annotated[int, Field(ge=1, le=50)] = 5,
) -> object:
    """Cases with their answers, scores and reasons."""
    chosen = [f"--{name}={value}" for name, value in (("metric", metric), ("tag", tag), ("id", case_id)) if value]
    flags = [flag for flag, item in (("--failed", failed), ("--cut-off", cut_off)) if item]
    words = [*chosen, *flags, f"--limit={limit}", "--json"]
    return await _answer("cases", str(_folder(run)), *words)


async def plan(
    detect: float | None = None, width: float | None = None, rate: float | None = None, pilot: RunName | None = None
) -> object:
    """Cases, repeats and cost that a wanted precision needs: to detect a difference, or for an interval's width."""
    numbers = (("detect", detect), ("width", width), ("rate", rate))
    words = [f"--{name}={value}" for name, value in numbers if value is not None]
    return await _answer("plan", *words, *([] if pilot is None else ["--from", str(_folder(pilot))]), "--json")


async def run_within_budget(
    overrides: Overrides,
    budget_usd: Annotated[float | None, Field(ge=0, description="the most it may cost")] = None,
    budget_requests: Annotated[int | None, Field(ge=0, description="the most requests it may send")] = None,
) -> str:
    """Evaluate, within a budget that must be given. Costs money with a remote judge or target: ask first."""
    budget = {"usd": budget_usd, "requests": budget_requests}
    budgets = [f"budget.{unit}={value}" for unit, value in budget.items() if value is not None]
    if not budgets:
        raise UserError(Problem("no budget", "run", "give budget_usd or budget_requests"))
    own = [word for word in _checked(overrides) if not word.startswith("budget.")]
    run_id = new_run_id(own)
    code, _, err = await _ended("run", "--run-id", run_id, *own, *budgets)
    if code not in (0, 1, 3):
        raise ValueError(err.strip())
    folder = Path("outputs", "runs", run_id)
    return f"{folder}, exit code {code}\n\n{(folder / 'summary.md').read_text(encoding='utf-8')}"


READING: Mapping[str, Callable[..., Awaitable[object]]] = {
    "list": list_options,
    "show": show,
    "check": check,
    "runs": runs,
    "summary": summary,
    "compare": compare,
    "cases": cases,
    "plan": plan,
}
"""The tools that send nothing."""


async def _answer(*words: str) -> object:
    """The JSON that a command prints; ValueError with what it says, if it fails."""
    code, out, err = await _ended(*words)
    if code != 0:
        raise ValueError(err.strip() or f"exit code {code}")
    return json.loads(out)


async def _ended(*words: str) -> tuple[int, str, str]:
    """Run a command; if the call is cancelled, let it keep what is finished."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "evalflow", *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(process.wait(), _GRACE_S)
        except TimeoutError:
            process.kill()
        raise
    return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")


def _checked(overrides: Sequence[str]) -> Sequence[str]:
    problems = [
        Problem(f"{word.partition('=')[0]!r} is not taken here", "overrides", "write it into a file of ./conf yourself")
        for word in overrides
        if not _ALLOWED.fullmatch(word) or "${" in word
    ]
    if problems:
        raise UserError(problems)
    return overrides


def _folder(run: str) -> Path:
    """A run's folder below the working directory, and nothing else."""
    path = Path(run).resolve()
    if run.startswith("-") or not path.is_relative_to(Path.cwd().resolve()) or not (path / "run.json").is_file():
        raise UserError(Problem("this is not a folder of a run here", run, "see runs"))
    return path.relative_to(Path.cwd().resolve())
