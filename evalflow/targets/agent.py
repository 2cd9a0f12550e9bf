"""A target that is a model with tools: an agent under test, limited in steps, tokens, money and time; and its tools."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType

from pydantic_core import PydanticSerializationError, to_json

from evalflow.calls.cache_store import Entry, key_of, short
from evalflow.calls.callables import Threads, called, imported, seen
from evalflow.calls.client import CallSession
from evalflow.calls.http import HttpRequest
from evalflow.calls.program import NO_SHELL, run_program, stderr_in_words
from evalflow.config.targets import AgentLimits, AgentTargetConfig, ToolConfig
from evalflow.errors import CallError, Problem, TargetError, UserError, did_you_mean
from evalflow.llm.chat import ChatClient, ChatToolCall, Completion, canonical, entry_of
from evalflow.prompts import Prompts
from evalflow.records import FILTERED, NOTHING, Answer, Case, SentCall, Spend, ToolCall
from evalflow.targets.answer_step import AnswerStep
from evalflow.targets.command import contents
from evalflow.targets.openai import OpenAITarget, answer_text, no_answer, unusable
from evalflow.targets.recorded import blank, failed
from evalflow.targets.reply import Form
from evalflow.targets.service import digest, payload, version_of
from evalflow.values.jsonvalues import as_map
from evalflow.values.trajectories import shortened, tool_call

LIMIT = "limit"
"""The `error_type` of an answer that needed more than its limits."""
_SENT = ("role", "content", "tool_calls", "tool_call_id")


class AgentTarget(OpenAITarget):
    """Asks a model, answers its tool calls and asks again, until it answers in words.

    `actual` is what it did: its messages with tool calls, tokens, cost and time, and the results.
    """

    def __init__(
        self,
        config: AgentTargetConfig,
        name: str,
        prompts: Prompts,
        forms: Mapping[str, Form],
        session: CallSession | None = None,
        *,
        client: ChatClient | None = None,
    ) -> None:
        session = session or CallSession()
        problems = [
            Problem(
                "an agent's `actual` has its tool calls",
                f"dataset.{name}.generates",
                f"dataset.{name}.generates=answer",
            )
            for name, form in forms.items()
            if form.generates == "actual"
        ]
        if config.limits.usd is not None and config.price is None:
            hint = "target.price={input_per_million: 0.4, output_per_million: 1.6}, or limit tokens"
            problems.append(Problem(f"the price of {config.model} is unknown", "target.limits.usd", hint))
        if problems:
            raise UserError(problems)
        self._tools = Toolbox(config, session)
        super().__init__(config, name, prompts, forms, session, client=client)
        self.identity = digest([self.identity, self._tools.identity, config.limits.model_dump(mode="json")])
        self._limits = config.limits

    async def answer(self, case: Case, repeat: int) -> Answer:
        begun = blank(case, self.name, repeat)
        episode = _Episode(self._limits, self._step)
        try:
            completion = await self._play(case, repeat, episode)
            answer = self._read(completion)
        except UserError as error:
            return replace(begun, status="error", error_type="prompt", error=str(error))
        except CallError as error:
            if error.spend:
                episode.spend += error.spend
            done = replace(failed(begun, error), actual=episode.messages or None)
        else:
            about = {**answer.about, "finish_reason": completion.finish_reason}
            done = replace(begun, answer=answer.text, actual=episode.messages, **about)
        return episode.spend.fill(done) if episode.messages else done

    async def _play(self, case: Case, repeat: int, episode: _Episode) -> Completion:
        """The reply with the answer in words; TargetError if the limits are reached first."""
        sent = self.messages(case)
        for _ in range(self._limits.steps):
            completion = await self._reply(episode.after(sent), repeat)
            episode.add_step(completion)
            if not completion.tool_calls:
                return completion
            for call in completion.tool_calls:
                episode.expect_within_limits()
                result = await self._tools.answer(tool_call(sent_call(call)), case, repeat, episode.after(sent))
                episode.add_result(call, result)
        raise TargetError(LIMIT, _beyond(f"{self._limits.steps} steps", "steps"))

    async def _reply(self, messages: list[dict[str, object]], repeat: int) -> Completion:
        request = self._client.request({"messages": messages, "tools": self._tools.declared})
        key = self._client.key(request, repeat)
        paid = partial(self._paid_step, request, key)
        completion, cached = await self._client.single_flight(key, paid, self._remembered, self._client.cost)
        spend = replace(completion.spend, paid=(short(key),))
        return (spend.reused if cached else spend).fill(completion)

    async def _paid_step(self, request: HttpRequest, key: bytes) -> tuple[tuple[Completion, bool], Entry]:
        """The same from the endpoint. A reply without words or calls is paid for but not cached."""
        completion = await self._client.complete(request, key)
        if completion.finish_reason == FILTERED:
            raise unusable(completion, "refused", "the content filter withheld the answer")
        thoughts, text = self._step.apart(answer_text(completion), completion.reasoning)
        if not completion.tool_calls and not text:
            raise unusable(completion, "empty", no_answer(completion, thoughts, "no text and no tool call"))
        return (completion, False), entry_of(completion, completion.spend)


class _Episode:
    """The steps of one answer so far, and their usage."""

    def __init__(self, limits: AgentLimits, step: AnswerStep) -> None:
        self.messages: list[dict[str, object]] = []
        self.spend = NOTHING
        self._limits = limits
        self._step = step

    def after(self, sent: Sequence[dict[str, object]]) -> list[dict[str, object]]:
        return [*sent, *({key: message[key] for key in _SENT if key in message} for message in self.messages)]

    def add_step(self, completion: Completion) -> None:
        calls = [sent_call(call) for call in completion.tool_calls]
        usage = completion.usage
        thoughts, text = self._step.apart(answer_text(completion), completion.reasoning)
        self.messages.append(
            {
                "role": "assistant",
                "content": text or None,
                **({"thoughts": thoughts} if thoughts else {}),
                **({"tool_calls": calls} if calls else {}),
                "latency_s": completion.latency_s,
                "cost_usd": completion.full_cost_usd,
                "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage else None,
            }
        )
        self.spend += completion.spend

    def add_result(self, call: ChatToolCall, result: ToolResult) -> None:
        about = {"tool_call_id": call.id, "latency_s": result.spend.latency_s}
        self.messages.append({"role": "tool", "content": result.text, **about})
        self.spend += result.spend

    def expect_within_limits(self) -> None:
        """Raise TargetError if a limit is reached."""
        try:
            reached = self._limits.reached(self.spend)
        except ValueError as unknown:
            what = f"the endpoint does not say what a reply takes, for target.limits.{unknown}"
            raise TargetError("usage", what) from None
        if reached:
            limit, taken = reached
            raise TargetError(LIMIT, _beyond(taken, limit))


def sent_call(call: ChatToolCall) -> SentCall:
    """A call of a tool as chat completions write it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _beyond(taken: str, limit: str) -> str:
    return f"no answer within {taken} (target.limits.{limit}); its steps until then are in `actual`"


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
        """The tools as a chat request names them."""
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
