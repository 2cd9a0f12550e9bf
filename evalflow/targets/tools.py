"""The tools of an agent under test: functions and programs that answer its calls."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType

from pydantic_core import PydanticSerializationError, to_json

from evalflow.calls.cache_store import Entry, key_of, short
from evalflow.calls.callables import Threads, called, imported, seen
from evalflow.calls.client import CallSession
from evalflow.calls.program import NO_SHELL, run_program, stderr_in_words
from evalflow.config.targets import AgentTargetConfig, ToolConfig
from evalflow.errors import CallError, Problem, UserError, did_you_mean
from evalflow.llm.chat import canonical
from evalflow.records import Case, Spend, ToolCall
from evalflow.targets.command import contents
from evalflow.targets.service import digest, payload, version_of
from evalflow.values.jsonvalues import as_map
from evalflow.values.trajectories import shortened

_WHERE = "target.module"
_HINT = "name a module that Python finds from the working directory: target.module=tools; or give the tool `argv`"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered, as the model is shown it; or why it failed, as a text that begins with `error:`."""

    text: str
    spend: Spend


class Toolbox:
    """Calls tools. A result is cached by the whole conversation up to its call, so that a resumed run repeats none.

    Without a version of the tools no other run reuses it.
    """

    def __init__(self, config: AgentTargetConfig, session: CallSession) -> None:
        self._tools = config.tools
        self._most = config.limits.result_characters
        self._single_flight = session.single_flight
        most = config.concurrency.max
        self._places = asyncio.Semaphore(most)
        self._threads = Threads(config.module or "", most, max(tool.timeout_s for tool in config.tools.values()))
        self._functions = _functions(config)
        self.identity = digest(
            [
                config.model_dump(mode="json", include={"tools", "module"}),
                [list(contents(tool.argv)) for tool in config.tools.values() if tool.argv],
                [seen(module, function) for module, function in self._functions.values()],
                self._most,
                *version_of(config.version),
            ]
        )
        self._run_id = session.run_id if config.version is None else ""

    @property
    def declared(self) -> list[dict[str, object]]:
        return [
            {
                "type": "function",
                "function": {"name": name, "description": tool.description, "parameters": tool.parameters},
            }
            for name, tool in self._tools.items()
        ]

    async def answer(self, call: ToolCall, case: Case, repeat: int, before: object) -> ToolResult:
        """The result of a call after the conversation `before`. A failure of a tool is not raised: it is the result."""
        tool = self._tools.get(call.name)
        if tool is None:
            hint = did_you_mean(call.name, self._tools) or f"known: {', '.join(self._tools)}"
            return ToolResult(f"error: there is no tool {call.name!r}; {hint}", Spend())
        if isinstance(call.arguments, str):
            return ToolResult("error: the arguments are not a JSON object", Spend())
        place = {"dataset": case.dataset, "case": payload(case), "before": before, "name": call.name}
        name = f"{call.name} {self._run_id}"
        key = key_of(self.identity, name, canonical({**place, "arguments": call.arguments}), repeat)
        paid = partial(self._called, call.name, tool, call.arguments or {}, case, short(key))
        return await self._single_flight(key, paid, _recalled, lambda _: 0.0)

    async def _called(
        self, name: str, tool: ToolConfig, arguments: Mapping[str, object], case: Case, paid: int
    ) -> tuple[ToolResult, Entry]:
        begun = time.monotonic()
        try:
            async with self._places:
                if not tool.argv:
                    await self._threads.room()
                begun = time.monotonic()
                async with asyncio.timeout(tool.timeout_s):
                    output = await (self._program if tool.argv else self._function)(name, arguments, case)
        except TimeoutError:
            output = f"error: no result within {tool.timeout_s:g} s"
        except CallError as error:
            output = f"error: {error}"
        text, latency_s = shortened(output, self._most), time.monotonic() - begun
        entry = Entry(body=text.encode("utf-8", "replace"), requests=0, latency_s=latency_s)
        return ToolResult(text, Spend(latency_s=latency_s, paid=(paid,))), entry

    async def _program(self, name: str, arguments: Mapping[str, object], case: Case) -> str:
        argv, errors = self._tools[name].argv or [], bytearray()
        data = canonical({"name": name, "arguments": arguments, "case": payload(case)})
        try:
            return (await run_program(argv, data, errors)).decode("utf-8", "replace")
        except CallError as error:
            raise CallError(error.error_type, f"{error}{stderr_in_words(errors)}") from None

    async def _function(self, name: str, arguments: Mapping[str, object], case: Case) -> str:
        _, function = self._functions[name]
        output = await called(lambda: function(**as_map(arguments)), self._threads)
        try:
            return output if isinstance(output, str) else to_json(output).decode()
        except (PydanticSerializationError, ValueError) as error:
            return f"error: the tool returned a value that is not JSON: {error}"


def _functions(config: AgentTargetConfig) -> dict[str, tuple[ModuleType, Callable[..., object]]]:
    """The module and function of each tool without a program; UserError lists what is not there."""
    problems: list[Problem] = []
    functions: dict[str, tuple[ModuleType, Callable[..., object]]] = {}
    for name, tool in config.tools.items():
        if tool.argv and shutil.which(tool.argv[0]) is None:
            problems.append(Problem(f"there is no program {tool.argv[0]!r}", f"target.tools.{name}.argv", NO_SHELL))
        elif not tool.argv and config.module is None:
            problems.append(Problem("nothing answers this tool", f"target.tools.{name}", _HINT))
        elif not tool.argv:
            try:
                functions[name] = imported(f"{config.module}:{name}", _WHERE, _HINT)
            except UserError as error:
                problems += error.problems
    if problems:
        raise UserError(problems)
    return functions


def _recalled(entry: Entry, free: bool) -> ToolResult:  # noqa: ARG001 - a tool costs nothing
    return ToolResult(entry.body.decode(), Spend(latency_s=entry.latency_s))
