"""The verb `mcp`: evalflow for assistants, over the Model Context Protocol on standard input and output.

Each tool runs the command of the same name in its own process, which ends with the call.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, ParamSpec

from pydantic import Field
from typing_extensions import TypedDict

from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, nearest
from evalflow.extras import packages_of
from evalflow.paths import new_run_id
from evalflow.records.manifest import Manifest
from evalflow.values.jsonvalues import as_list, as_map
from evalflow.version import __version__

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context, MCPServer

_CHOICE, _VALUE, _MODEL = r"=[\w,\[\]-]*", r"=[\w.]*", r"\.(model|temperature|max_tokens)=.*"
_ALLOWED: Mapping[str, str] = {
    "dataset": rf"{_CHOICE}|\.\w+\.(tags|every_tag|ids)=.*",
    "metric": rf"{_CHOICE}|\.\w+\.(threshold|gate|datasets)=.*",
    **dict.fromkeys(("judge", "target", "embedder", "simulator"), f"{_CHOICE}|{_MODEL}"),
    "experiment": _CHOICE,
    **dict.fromkeys(("limit", "sample", "seed", "generate", "stop", "case_timeout_s", "max_error_rate"), _VALUE),
    **dict.fromkeys(("repeats", "budget"), r"\.\w+=[\w.]+"),
    "cache": r"\.mode=\w+",
    "gate": "=.*",
}
"""The overrides that are taken, by their first key: names of the user's configuration, and numbers. An address, a key's
variable, a file or a program may only stand in the user's own files: an assistant that was misled must not send data or
keys elsewhere."""
_INSTRUCTIONS = """\
evalflow evaluates LLM applications; an evaluation is declared in YAML. Overrides are those of its command line, such as
["dataset=rag", "metric=faithfulness"]. Begin with `list` and `check`, which cost nothing. A value without its interval
says little: report both, and `cannot tell` as it is."""
_GRACE_S = 20.0
_LONGEST_LINE = 1 << 22
"""Bytes of a line that a command prints."""
_AT_ONCE = 4
"""How many calls of `run` work at a time, and how many of the other tools, each in a process; the others wait."""

_Arguments = ParamSpec("_Arguments")
_Override = Annotated[str, Field(max_length=10_000)]
Overrides = Annotated[
    list[_Override], Field(max_length=200, description='KEY=VALUE, such as ["dataset=rag", "metric=faithfulness"]')
]
RunName = Annotated[str, Field(description="a run's folder, such as outputs/latest")]
Offset = Annotated[int, Field(ge=0, description="how many to skip: `next_offset` of the previous page")]
Most = Annotated[int, Field(ge=1, le=200, description="the maximum number")]
_PROGRESS = re.compile(r"([\d,]+)/([\d,]+) scores .*")


class PartOfList(TypedDict):
    """A part of a list; `next_offset` is that of the next part, None at the end."""

    items: list[dict[str, object]]
    total: int
    next_offset: int | None


class EndedRun(TypedDict):
    """A run that has ended: 0 done, 1 a gate failed, 3 inconclusive; `summary` is Markdown."""

    run: str
    exit_code: int
    summary: str


def run_mcp(*, allow_run: bool) -> int:
    """Serve the tools until standard input ends."""
    with packages_of("mcp", "mcp"):
        server = tools(allow_run=allow_run)
    server.run("stdio")
    return 0


def tools(*, allow_run: bool) -> MCPServer:
    """The server with its tools; ModuleNotFoundError without the extra `mcp`."""
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.types import ToolAnnotations

    server = MCPServer("evalflow", version=__version__, instructions=_INSTRUCTIONS)
    places = asyncio.Semaphore(_AT_ONCE)
    for name, tool in FREE.items():
        # Comparing writes pages beside run B, the same ones each time.
        hints = ToolAnnotations(
            read_only_hint=name != "compare", destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        server.tool(name, annotations=hints)(_telling(tool, places))
    if allow_run:
        hints = ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
        )
        run_within_budget.__annotations__["context"] = Context  # from which the server knows what to pass
        of_runs = asyncio.Semaphore(_AT_ONCE)  # since a run may take hours
        server.tool("run", annotations=hints)(_telling(run_within_budget, of_runs))
    return server


def _telling(
    tool: Callable[_Arguments, Awaitable[object]], places: asyncio.Semaphore
) -> Callable[_Arguments, Awaitable[object]]:
    """Wrap a tool: it waits for a place, and the assistant sees its own mistakes; other errors are only logged."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    async def shown(*args: _Arguments.args, **arguments: _Arguments.kwargs) -> object:
        try:
            async with places:
                return await tool(*args, **arguments)
        except (UserError, ValueError) as error:
            raise ToolError(str(error)) from None

    return shown


async def list_options(
    group: Literal["dataset", "metric", "judge", "target", "experiment", "certificates"] | None = None,
    offset: Offset = 0,
    limit: Most = 50,
) -> PartOfList:
    """The names that can be chosen in a group of the configuration; in all groups if none is named."""
    options = [dict(as_map(one)) for one in as_list(await _answer("list", *([group] if group else []), "--json"))]
    return _page(options, offset, limit)


async def show(name: str) -> dict[str, object]:
    """The YAML and the prompts of a metric, dataset, judge or target."""
    if not re.fullmatch(r"[\w/]+", name):
        raise UserError(Problem(f"{name!r} is not a name", "show", "see list"))
    return await _object("show", name, "--json")


async def check(overrides: Overrides) -> dict[str, object]:
    """Validate without sending requests: cases, scores, requests, cost, and all mistakes at once."""
    return await _object("check", *_checked(overrides), "--json")


async def runs(offset: Offset = 0, limit: Most = 20) -> PartOfList:
    """The folders of runs, the latest first, with their overrides and how they ended."""
    manifests = sorted(Path("outputs").glob("*/*/run.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    shown = _page([{"run": str(file.parent)} for file in manifests], offset, limit)
    for item in shown["items"]:
        record = RunFolder(Path(str(item["run"]))).read()
        code = record.exit_code if isinstance(record, Manifest) else None
        item |= {"overrides": list(record.overrides), "state": record.status, "exit_code": code}
    return shown


async def summary(run: RunName) -> str:
    """A run's gates and metrics with their intervals, as Markdown."""
    file = _folder(run) / "summary.md"
    if not file.is_file():
        raise UserError(Problem("it has no summary yet", run, "finish it: resume"))
    return file.read_text(encoding="utf-8")


async def compare(run_a: RunName, run_b: RunName, margin: float | None = None) -> dict[str, object]:
    """Compare run B with run A, case by case: better, worse or unclear, and the cases that flipped."""
    more = () if margin is None else ("--margin", str(margin))
    return await _object("compare", str(_folder(run_a)), str(_folder(run_b)), *more, "--json")


async def cases(
    run: RunName,
    failed: bool = False,
    metric: str | None = None,
    tag: str | None = None,
    case_id: str | None = None,
    cut_off: Annotated[bool, Field(description="only answers that were cut off at a limit of tokens")] = False,
    limit: Annotated[int, Field(ge=1, le=50)] = 5,
) -> dict[str, object]:
    """Cases with their answers, scores and reasons."""
    chosen = [f"--{name}={value}" for name, value in (("metric", metric), ("tag", tag), ("id", case_id)) if value]
    flags = [flag for flag, item in (("--failed", failed), ("--cut-off", cut_off)) if item]
    arguments = [*chosen, *flags, f"--limit={limit}", "--json"]
    return await _object("cases", str(_folder(run)), *arguments)


async def plan(
    detect: float | None = None, width: float | None = None, rate: float | None = None, pilot: RunName | None = None
) -> dict[str, object]:
    """Cases, repeats and cost needed to detect a difference or to reach an interval's width."""
    numbers = (("detect", detect), ("width", width), ("rate", rate))
    arguments = [f"--{name}={value}" for name, value in numbers if value is not None]
    return await _object("plan", *arguments, *([] if pilot is None else ["--from", str(_folder(pilot))]), "--json")


async def run_within_budget(
    overrides: Overrides,
    budget_usd: Annotated[float | None, Field(ge=0, description="the maximum cost")] = None,
    budget_requests: Annotated[int | None, Field(ge=0, description="the maximum number of requests")] = None,
    context: Context | None = None,
) -> EndedRun:
    """Evaluate within a required budget. Costs money with a remote judge or target: ask the user first.

    It reports progress. If cancelled, it keeps what is finished.
    """
    budget = {"usd": budget_usd, "requests": budget_requests}
    budgets = [f"budget.{unit}={value}" for unit, value in budget.items() if value is not None]
    if not budgets:
        raise UserError(Problem("no budget", "run", "give budget_usd or budget_requests"))
    own = [word for word in _checked(overrides) if not word.startswith("budget.")]
    run_id = new_run_id(own)

    async def tell(line: str) -> None:
        if context is not None and (match := _PROGRESS.match(line)):
            done, total = (float(number.replace(",", "")) for number in match.groups())
            await context.report_progress(done, total, line.strip())

    code, _, err = await _ended("run", "--run-id", run_id, *own, *budgets, tell=tell)
    if code not in (0, 1, 3):
        raise ValueError(err.strip())
    folder = Path("outputs", "runs", run_id)
    return {
        "run": str(folder),
        "exit_code": code,
        "summary": (folder / "summary.md").read_text(encoding="utf-8"),
    }


def _page(items: Sequence[dict[str, object]], offset: int, limit: int) -> PartOfList:
    end = offset + limit
    return {"items": [*items[offset:end]], "total": len(items), "next_offset": end if end < len(items) else None}


FREE: Mapping[str, Callable[..., Awaitable[object]]] = {
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


async def _answer(*arguments: str) -> object:
    """The JSON that a command prints; ValueError with what it says, if it fails."""
    code, out, err = await _ended(*arguments)
    if code != 0:
        raise ValueError(err.strip() or f"exit code {code}")
    return json.loads(out)


async def _object(*arguments: str) -> dict[str, object]:
    """The JSON object that a command prints; errors as in `_answer`."""
    return dict(as_map(await _answer(*arguments)))


async def _ended(*arguments: str, tell: Callable[[str], Awaitable[None]] | None = None) -> tuple[int, str, str]:
    """Run a command, and `tell` each line of its stderr; if that is cancelled or fails, it keeps what is finished."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "evalflow", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        limit=_LONGEST_LINE,
    )
    try:
        async with asyncio.TaskGroup() as reading:
            out = reading.create_task(_read(process.stdout))
            err = reading.create_task(_read(process.stderr, tell))
        await process.wait()
    except BaseException:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(process.wait(), _GRACE_S)
        except TimeoutError:
            process.kill()
        raise
    return process.returncode or 0, out.result(), err.result()


async def _read(stream: asyncio.StreamReader | None, tell: Callable[[str], Awaitable[None]] | None = None) -> str:
    assert stream
    if tell is None:
        return (await stream.read()).decode(errors="replace")
    lines: list[str] = []
    while line := await stream.readline():
        lines.append(line.decode(errors="replace"))
        await tell(lines[-1])
    return "".join(lines)


def _checked(overrides: Sequence[str]) -> Sequence[str]:
    refused = [word for word in overrides if not _is_allowed(word)]
    if refused:
        raise UserError(map(_not_allowed, refused))
    return overrides


def _is_allowed(word: str) -> bool:
    root = _root(word)
    return "${" not in word and re.fullmatch(_ALLOWED.get(root, "(?!)"), word[len(root) :]) is not None


def _root(word: str) -> str:
    """The first key of an override."""
    return re.split("[.=]", word, maxsplit=1)[0]


def _not_allowed(word: str) -> Problem:
    root = _root(word)
    meant = nearest(root, _ALLOWED) + word[len(root) :]
    hint = f"did you mean {meant}?" if _is_allowed(meant) else "write it into a file of ./conf yourself"
    return Problem(f"{word.partition('=')[0]!r} is not allowed here", "overrides", hint)


def _folder(run: str) -> Path:
    """A run's folder; refuses anything not below the working directory."""
    path = Path(run).resolve()
    if run.startswith("-") or not path.is_relative_to(Path.cwd().resolve()) or not (path / "run.json").is_file():
        raise UserError(Problem("this is not a run's folder below the working directory", run, "see runs"))
    return path.relative_to(Path.cwd().resolve())
