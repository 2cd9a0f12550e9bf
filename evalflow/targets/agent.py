"""A target that is a model with tools: an agent under test, limited in steps, tokens, money and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from evalflow.calls.cache_store import Entry, short
from evalflow.calls.client import CallSession
from evalflow.calls.http import HttpRequest
from evalflow.config.targets import AgentLimits, AgentTargetConfig
from evalflow.errors import CallError, Problem, TargetError, UserError
from evalflow.llm.chat import ChatClient, ChatToolCall, Completion, entry_of
from evalflow.prompts import Prompts
from evalflow.records import FILTERED, NOTHING, Answer, Case, SentCall
from evalflow.targets.answer_step import AnswerStep
from evalflow.targets.openai import OpenAITarget, answer_text, no_answer, unusable
from evalflow.targets.recorded import blank, failed
from evalflow.targets.reply import Form
from evalflow.targets.service import digest
from evalflow.targets.tools import Toolbox, ToolResult
from evalflow.values.trajectories import tool_call

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
    return f"no answer within {taken} (target.limits.{limit}); what it did until then is in `actual`"
