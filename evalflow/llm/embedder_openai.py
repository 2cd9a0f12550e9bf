"""The embedder that is a model behind an OpenAI-compatible endpoint: `POST /embeddings`, batched and remembered."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from evalflow.calls.entry import Entry, key_of
from evalflow.calls.once import Unreadable
from evalflow.calls.retry import RetryPolicy
from evalflow.calls.session import CallSession
from evalflow.calls.transport import Request, Transport
from evalflow.config.endpoints import OpenAIEmbedderConfig
from evalflow.errors import CallError
from evalflow.llm.batch import Batcher
from evalflow.llm.chat import canonical, identity
from evalflow.llm.completion import cost
from evalflow.llm.endpoint import connect
from evalflow.llm.vectors import Vector, read, shared
from evalflow.records import Embedded, Usage

PATH = "/embeddings"
BYTES_A_TOKEN = 4.0
DECISIVE = ("base_url", "model", "dimensions")


class _Had(NamedTuple):
    vector: Vector
    known: bool
    entry: Entry


class OpenAIEmbedder:
    """Embeds texts that were not embedded before, as many in one request as come together.

    Args:
        config: The model, and how to ask it.
        name: The column value.
        session: Shared by all clients of a run.
        transport, policy: For tests, and for other ways to the endpoint.

    Raises:
        UserError: The API key's variable is not set, or a budget in dollars meets an unknown price.
    """

    remote = True

    def __init__(
        self,
        config: OpenAIEmbedderConfig,
        name: str,
        session: CallSession | None = None,
        *,
        transport: Transport | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        session = session or CallSession()
        link = connect(config, "embedder", session, reply_tokens=0, transport=transport, policy=policy)
        self._config = config
        self._name = name
        self._gateway, self._limiter, self._place = link.gateway, link.limiter, link.place
        self._once = session.once
        fixed = {"model": config.model, "dimensions": config.dimensions}
        self._fixed = {key: value for key, value in fixed.items() if value is not None}
        self._batcher = Batcher(self._send, config.batch)

    @property
    def name(self) -> str:
        """The column value."""
        return self._name

    @property
    def nature(self) -> str:
        """What it is."""
        return f"embeddings of {self._config.model}"

    @property
    def identity(self) -> str:
        """A digest of all that decides its vectors."""
        return identity("openai-embeddings", self._config, DECISIVE)

    @property
    def calibrated(self) -> bool:
        """Whether a threshold on its similarities means anything."""
        return self._config.calibrated

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector for each text. See `Embedder`."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._attempt(text)) for text in texts]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        ended = [task.result() for task in tasks]
        had = [one for one in ended if isinstance(one, _Had)]
        paid = [one.entry for one in had if not one.known]
        requests, usage, cost_usd = sum(entry.requests for entry in paid), _total(paid), self._cost(paid)
        failed = next((one for one in ended if isinstance(one, CallError)), None)
        if failed is None and len({len(one.vector) for one in had}) > 1:
            failed = CallError("malformed", "the embedder gave vectors of different lengths")
        if failed is not None:
            failed.requests, failed.usage, failed.cost_usd = requests, usage, cost_usd
            raise failed
        return Embedded(
            vectors=[one.vector for one in had],
            requests=requests,
            usage=usage,
            cost_usd=cost_usd,
            saved_usd=self._cost([one.entry for one in had if one.known]),
            latency_s=max((one.entry.latency_s for one in had), default=0.0),
            cached=bool(had) and not paid,
        )

    async def close(self) -> None:
        """Release connections."""
        await self._batcher.close()
        await self._gateway.close()

    async def _attempt(self, text: str) -> _Had | CallError:
        """A failure is no exception here, since the task group would give up the other texts, which are paid."""
        try:
            return await self._one(text)
        except CallError as error:
            return error

    async def _one(self, text: str) -> _Had:
        if self._once is None:
            vector, entry = await self._batcher.put(text)
            return _Had(vector, known=False, entry=entry)
        key = key_of(self._place, PATH, canonical({**self._fixed, "input": text}))
        (vector, entry), known = await self._once(key, partial(self._paid, text), _remembered)
        return _Had(vector, known, entry)

    async def _paid(self, text: str) -> tuple[tuple[Vector, Entry], Entry]:
        vector, entry = await self._batcher.put(text)
        return (vector, entry), entry

    async def _send(self, texts: Sequence[str]) -> Sequence[tuple[Vector, Entry]]:
        """Embed a batch; gives for each text its vector, and what is to be remembered of it."""
        data = canonical({**self._fixed, "input": list(texts)})
        tokens = len(data) / BYTES_A_TOKEN
        request = Request("POST", PATH, data, self._config.timeout_s, "embed", tokens)
        sent = await self._gateway.send(request, partial(read, count=len(texts)))
        if sent.value.usage is not None:
            self._limiter.settle(sent.value.usage.input_tokens - tokens)
        return [
            (vector, Entry(body=vector.tobytes(), requests=requests, usage=usage, latency_s=round(sent.latency_s, 6)))
            for vector, requests, usage in shared(texts, sent.value)
        ]

    def _cost(self, entries: Sequence[Entry]) -> float | None:
        total = 0.0
        for entry in entries:
            dollars = cost(entry.usage, self._config.price)
            if dollars is None:
                return None
            total += dollars
        return total


def _remembered(entry: Entry) -> tuple[Vector, Entry]:
    """What was embedded before.

    Raises:
        Unreadable: It is no vector.
    """
    vector: Vector = array("f")
    try:
        vector.frombytes(entry.body)
    except ValueError as error:
        raise Unreadable(str(error)) from None
    if not vector:
        raise Unreadable("an empty vector")
    return vector, entry


def _total(entries: Sequence[Entry]) -> Usage | None:
    total = Usage()
    for entry in entries:
        if entry.usage is None:
            return None
        total += entry.usage
    return total
