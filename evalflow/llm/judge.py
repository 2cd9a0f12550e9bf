"""A judge that is a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any, cast

from pydantic import BaseModel

from evalflow.calls.cache_store import Entry, short
from evalflow.calls.client import CallSession
from evalflow.calls.http import HttpRequest
from evalflow.calls.single_flight import UnreadableEntry
from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.errors import CallError, InfrastructureError, JudgeError, Problem, UserError, first_of
from evalflow.llm import logprobs, reply_hints
from evalflow.llm.chat import ChatClient, Completion, entry_of, identity, known_s
from evalflow.llm.contract import Contract, prepared
from evalflow.llm.logprobs import choices, normalised
from evalflow.llm.reader import InvalidReply
from evalflow.notes import note
from evalflow.records import NOTHING, Ask, Distribution, JudgeInfo, Reply, Spend, longest

DECISIVE = ("base_url", "model", "mode", "strict", "temperature", "max_tokens", "parameters", "reasks", "logprobs")
TOP_LOGPROBS = 20
SAMPLING_TEMPERATURE = 1.0  # for sampling if the judge's own is 0, as in G-Eval (Liu et al., 2023)


class OpenAIJudge:
    """Asks a model for typed replies, with re-asks for invalid ones; prepared contracts are stored in `contracts`."""

    def __init__(
        self,
        config: OpenAIJudgeConfig,
        name: str,
        session: CallSession | None = None,
        *,
        contracts: Path | None = None,
        client: ChatClient | None = None,
        role: str = "judge",
    ) -> None:
        if config.strict and config.mode not in {"json_schema", "tools"}:
            what = f"strict has no effect in mode {config.mode}"
            raise UserError(Problem(what, f"{role}.strict", f"use {role}.mode=json_schema, or tools"))
        self._config = config
        self._role = role
        self.info = JudgeInfo(
            name=name,
            nature=f"LLM {config.model}",
            identity=identity("openai", config, DECISIVE),
            calibrated=config.calibrated,
        )
        self._client = client or ChatClient(config, role, session)
        self._folder = contracts
        self._contracts: dict[type[BaseModel], Contract] = {}
        self._noted: set[int] = set()  # numbers of samples

    def opening(self, ask: Ask) -> tuple[HttpRequest, int]:
        """Return the first request for an ask, and how many such requests are sent at once."""
        if ask.samples == 1:
            return self._request(ask), 1
        if self._weighs(ask):
            return self._request(replace(ask, samples=1)), 1
        unweighed = replace(ask, logprobs=False)
        return (
            (self._request_for_all(unweighed), 1)
            if self._client.gives_several
            else (self._request(unweighed), ask.samples)
        )

    def remembered(self, ask: Ask) -> list[str]:
        """Return the cached replies to an ask, unchanged; nothing is sent."""
        raw: list[str] = []
        if ask.samples > 1 and not self._weighs(ask):
            ask = replace(ask, logprobs=False)
            raw += self._known(self._request_for_all(ask), ask, self._replies)
        request, times = self._request(ask), 1 if self._weighs(ask) else ask.samples
        for number in range(len(raw), times):
            raw += self._known(request, ask, self._remembered_alone, number)
        return raw

    def _remembered_alone(self, ask: Ask, key: bytes, entry: Entry, free: bool) -> Sequence[Reply]:
        return [self._remembered(ask, key, entry, free)]

    def _known(
        self, request: HttpRequest, ask: Ask, read: Callable[[Ask, bytes, Entry, bool], Sequence[Reply]], *number: int
    ) -> list[str]:
        key = self._client.key(request, ask.repeat, *number)
        entry = self._client.single_flight.known(key)
        with contextlib.suppress(UnreadableEntry):
            return [] if entry is None else [reply.raw for reply in read(ask, key, entry, True)]
        return []

    def ask(self, ask: Ask) -> CoroutineType[Any, Any, Reply]:
        if self._weighs(ask):
            return self._ask_weighed(ask)
        if ask.logprobs and self._config.logprobs and ask.items is None:
            self._note_unweighed(ask.samples, f"a call of a tool has none, by {self._role}.mode=tools")
        return self._ask_once(ask) if ask.samples == 1 else self._sampled(ask)

    async def _ask_weighed(self, ask: Ask) -> Reply:
        first = await self._ask_once(replace(ask, samples=1))
        read: Distribution = first.probabilities[0] if first.probabilities else {}
        if read.keys() >= choices(ask.reply_model).keys():
            return first
        if self._client.gives_logprobs:  # their refusal has already been noted
            self._note_unweighed(ask.samples)
        if ask.samples == 1:
            return first
        try:
            sampled = await self._sampled(ask)
            return (first.spend + sampled.spend).fill(sampled, reasks=first.reasks + sampled.reasks)
        except CallError as error:
            raise _charged([error], [first], str(error)) from None

    def _note_unweighed(self, samples: int, why: str = "they cannot be read from its replies") -> None:
        if samples in self._noted:
            return
        self._noted.add(samples)
        key = f"{self._role}.logprobs"
        what = f"{self.info.name}: {key} is true, but there are no token probabilities: {why}"
        if not self._config.logprobs:
            what = f"{self.info.name} gives no token probabilities ({key} is false)"
        if samples == 1:
            note(f"{what}; scores that would be weighted by them are not")
            return
        cost = f"such a score samples {samples} replies and pays for each"
        requests = f"in one request if the endpoint takes n={samples}, else in {samples}"
        more = f", after one for the probabilities, which {key}=false saves" if self._config.gives_logprobs else ""
        note(f"{what}; {cost}, {requests}{more}")

    async def close(self) -> None:
        await self._client.close()

    async def _sampled(self, ask: Ask) -> Reply:
        """Return several combined samples of a reply. Those missing from a request for all are drawn one by one."""
        if ask.logprobs and not self._config.logprobs:
            self._note_unweighed(ask.samples)
        ask = replace(ask, logprobs=False)
        together: Sequence[Reply | CallError] = ()
        if self._client.gives_several:
            together = await self._sampled_together(ask)
        singly = await _draw(range(len(together), ask.samples), partial(self._ask_once, ask))
        return _combined(ask.samples, [*together, *singly], listed=ask.items is not None)

    async def _sampled_together(self, ask: Ask) -> Sequence[Reply | CallError]:
        """Return the valid samples of a request for all, none if the endpoint refuses such requests; or the error."""
        request = self._request_for_all(ask)
        key = self._client.key(request, ask.repeat)

        async def ask_model() -> tuple[Sequence[Reply], Entry]:
            completion = await self._client.complete(request, key)
            entry = entry_of(completion, completion.spend)
            replies = self._replies(ask, key, entry, free=False)
            if not replies:
                raise JudgeError("schema", f"none of {ask.samples} replies is valid", completion.text, completion.spend)
            return replies, entry

        try:
            return await self._client.single_flight(key, ask_model, partial(self._replies, ask, key), self._client.cost)
        except CallError as error:
            if error.error_type != "bad_request":
                return [error]
            self._client.gives_one()
            return []

    def _replies(self, ask: Ask, key: bytes, entry: Entry, free: bool) -> Sequence[Reply]:
        """Return the valid replies in an entry of a request for several; the first has the cost of all."""
        replies: list[Reply] = []
        choices = self._client.choices(entry)
        if len(choices) < ask.samples:  # it ignores `n`
            self._client.gives_one()
        for completion in choices[: ask.samples]:
            with contextlib.suppress(InvalidReply):
                reply = self._reply(ask, key, entry, completion, free)
                replies.append(NOTHING.fill(reply) if replies else reply)
        return replies

    def _weighs(self, ask: Ask) -> bool:
        """Return whether token probabilities are wanted and available; those in lists are not read."""
        wanted = ask.logprobs and self._config.gives_logprobs and ask.items is None
        return wanted and self._client.gives_logprobs

    def _body(self, ask: Ask) -> dict[str, Any]:
        body = self._contract(ask.reply_model).request(ask.messages)
        # Samples at temperature 0 would all be equal.
        if ask.samples > 1 and self._config.temperature == 0:
            body["temperature"] = SAMPLING_TEMPERATURE
        return {**body, "logprobs": True, "top_logprobs": TOP_LOGPROBS} if ask.logprobs and self._weighs(ask) else body

    def _request(self, ask: Ask) -> HttpRequest:
        return self._client.request(self._body(ask), f"{ask.metric}.{ask.step}")

    def _request_for_all(self, ask: Ask) -> HttpRequest:
        return self._client.request({**self._body(ask), "n": ask.samples}, f"{ask.metric}.{ask.step}")

    def _ask_once(self, ask: Ask, number: int = 0) -> CoroutineType[Any, Any, Reply]:
        request = self._request(ask)
        key = self._client.key(request, ask.repeat, number)
        ask_model, recall = partial(self._ask_until_valid, ask, request, key), partial(self._remembered, ask, key)
        return self._client.single_flight(key, ask_model, recall, self._client.cost)

    async def _ask_until_valid(self, ask: Ask, request: HttpRequest, key: bytes) -> tuple[Reply, Entry]:
        spent = NOTHING
        body: dict[str, Any] | None = None
        while True:
            try:
                completion = await self._client.complete(request, key, spent.requests)
            except CallError as error:
                spent = spent + error.spend if error.spend else spent
                hint = reply_hints.refused(self._config.mode, self._role, str(error))
                what = f"{error}; {hint}" if hint else str(error)
                remedy = hint.remedy if hint else error.remedy
                raise JudgeError(error.error_type, what, error.raw, spent, remedy) from None
            except InfrastructureError as error:
                hint = reply_hints.refused(self._config.mode, self._role, str(error))
                raise (InfrastructureError(error.what, str(hint)) if hint else error) from None
            spent = spent + completion.spend if spent.requests else completion.spend
            if completion.refusal or completion.finish_reason == "content_filter":
                why = completion.refusal or "the endpoint's content filter withheld the reply"
                raise JudgeError(
                    "refused", f"the {self._role} refused: {why}", completion.refusal or completion.text, spent
                )
            entry = entry_of(completion, spent)
            try:
                return self._reply(ask, key, entry, completion, free=False), entry
            except InvalidReply as error:
                if spent.requests > self._config.reasks or completion.finish_reason == "length":
                    raise self._invalid(ask, error, completion, spent) from None
                contract = self._contract(ask.reply_model)
                body = contract.reask(body or self._body(ask), completion, error)
                request = self._client.request(body, request.kind)

    def _remembered(self, ask: Ask, key: bytes, entry: Entry, free: bool) -> Reply:
        """Return the reply in a cached entry, with its original cost unless it is free now."""
        try:
            return self._reply(ask, key, entry, self._client.recall(entry), free)
        except InvalidReply as error:
            raise UnreadableEntry(str(error)) from None

    def _reply(self, ask: Ask, key: bytes, entry: Entry, completion: Completion, free: bool) -> Reply:
        read = self._contract(ask.reply_model).parse(completion, ask.items)
        weighed: logprobs.Weighed | None = None
        if completion.tokens and self._weighs(ask):  # tool calls have no tokens, and those of lists are not read
            weighed = logprobs.weigh(read.parsed, read.json, completion.tokens)
        cost_usd = self._client.cost(entry)
        return Reply(
            parsed=read.parsed,
            raw=read.raw,
            mended=read.mended,
            probabilities=(weighed.chances,) if weighed else None,
            mass=weighed.mass if weighed else None,
            reasks=entry.requests - 1,
            requests=0 if free else entry.requests,
            usage=entry.usage,
            cost_usd=0.0 if free else cost_usd,
            saved_usd=cost_usd if free else 0.0,
            paid=() if free else (short(key),),
            latency_s=known_s(entry.latency_s),
            cached=free,
            identity=self.info.identity,
        )

    def _invalid(self, ask: Ask, error: InvalidReply, completion: Completion, spent: Spend) -> JudgeError:
        empty = not (completion.text or "").strip() and not completion.tool_calls
        cause = f" ({reply_hints.circumstances(completion)})"
        longer = reply_hints.more_tokens(self._role, completion, self._config.longest_reply)
        # A reply that was cut off would be cut off again: a re-ask would only cost more.
        if completion.finish_reason == "length":
            what = "the reply is empty, since it" if empty else f"the reply (step {ask.step})"
            listed, advice = reply_hints.listed_so_far(self._role, error.raw)
            limit = f"at the model's or {self._role}.max_tokens' limit"
            what = f"{what} was cut off{listed} {limit}{cause}; {advice or f'{longer} allows more'}"
            return JudgeError("truncated", what, error.raw, spent, None if advice else longer)
        times = f"{spent.requests} replies" if spent.requests > 1 else "1 reply"
        other = reply_hints.other_mode(self._config.mode, self._role, completion)
        hint, remedy = str(other), other.remedy
        if empty and completion.reasoning:
            hint, remedy = f"the model has only thought: {longer} leaves it more room, or {hint}", longer
        message = f"no valid reply in {times}; the last: {error}{cause if empty else ''}; {hint}"
        return JudgeError("schema", message, error.raw, spent, remedy)

    def _contract(self, reply_model: type[BaseModel]) -> Contract:
        if reply_model not in self._contracts:
            mode, strict, folder = self._config.mode, self._config.strict, self._folder
            kept = prepared(folder, reply_model, mode, strict) if folder else None
            self._contracts[reply_model] = Contract(reply_model, mode, strict, kept)
        return self._contracts[reply_model]


async def _draw(numbers: Iterable[int], ask_once: Callable[[int], Awaitable[Reply]]) -> list[Reply | CallError]:
    """Ask once for each number, concurrently."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_attempt(ask_once, number)) for number in numbers]
    except BaseExceptionGroup as failed:
        raise first_of(failed) from None
    return [task.result() for task in tasks]


def _combined(count: int, outcomes: Sequence[Reply | CallError], listed: bool) -> Reply:
    """Combine the samples into one reply. CallError if half of them or more failed.

    The reply is the first with the most frequent combination of values; probabilities are frequencies in valid replies.
    """
    replies = [sample for sample in outcomes if isinstance(sample, Reply)]
    failures = [sample for sample in outcomes if isinstance(sample, CallError)]
    if 2 * len(replies) <= count:
        what = f"{len(failures)} of {count} samples failed; the first: {failures[0]}"
        raise _charged(failures, replies, what)
    return _combine(replies, failures, listed)


def _charged(failures: Sequence[CallError], replies: Sequence[Reply], what: str) -> CallError:
    first = failures[0]
    return type(first)(first.error_type, what, first.raw, _together(replies, failures), first.remedy)


def _combine(replies: Sequence[Reply], failures: Sequence[CallError], listed: bool) -> Reply:
    parts = [_parts(reply.parsed, listed) for reply in replies]
    votes = [_vote(part) for part in parts]
    winner = Counter(votes).most_common(1)[0][0]
    return _together(replies, failures).fill(
        replies[votes.index(winner)],
        probabilities=_frequencies(parts),
        mended=tuple(dict.fromkeys(note for reply in replies for note in reply.mended)),
        reasks=sum(reply.reasks for reply in replies),
        samples=len(replies),
        failed=len(failures),
        mass=None,
    )


def _frequencies(replies: Sequence[Sequence[BaseModel]]) -> tuple[Distribution, ...] | None:
    items = list(zip(*replies, strict=True))
    names = choices(type(replies[0][0])) if items else {}
    if not names:
        return None
    return tuple({name: normalised(Counter(getattr(part, name) for part in item)) for name in names} for item in items)


def _parts(parsed: BaseModel, listed: bool) -> Sequence[BaseModel]:
    return cast("Any", parsed).results if listed else (parsed,)


def _vote(parts: Sequence[BaseModel]) -> str:
    return json.dumps([[getattr(part, name) for name in choices(type(part))] for part in parts])


def _together(replies: Sequence[Reply], failures: Sequence[CallError]) -> Spend:
    spends = [spend.spend for spend in (*replies, *failures) if spend.spend]
    return replace(sum(spends, NOTHING), latency_s=longest(spend.latency_s for spend in spends))


async def _attempt(ask_once: Callable[[int], Awaitable[Reply]], number: int) -> Reply | CallError:
    """Return a failure: raising it would make the task group cancel the other samples, which have been paid for."""
    try:
        return await ask_once(number)
    except CallError as error:
        return error
